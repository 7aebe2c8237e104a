"""What lives in the heaps of executors: a task on each of them collects all garbage and reads what is left.

Spark samples heaps at its heartbeats, full of garbage as they are then. The JVM's own beans tell more, but only inside
the executor, so a job of one small task each asks them there, by calls that Spark compiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.spark.internals.handles import backend_of, context_of, is_local, jvm

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, SparkSession

    from penstock.spark.internals.handles import JavaObject

_NANOSECONDS, _MILLISECONDS = 1e9, 1e3
_MOST_POOLS, _MOST_COLLECTORS = 12, 4
"""More pools of memory, and more collectors, than any JVM has; eight and two are usual."""
_POOL_FIGURES = 4
_MANAGEMENT = "java.lang.management"
_FACTORY = f"{_MANAGEMENT}.ManagementFactory"
_HEAP_TYPE = 0
"""Which of the two kinds of pools is part of the heap, by Java's own order."""
_ROW_CLASS = "org.apache.spark.sql.catalyst.InternalRow"


@dataclass(frozen=True, slots=True)
class LivingHeap:
    """The heap of one executor right after all its garbage was collected.

    ``at_s`` is the JVM's own clock, ``live_bytes`` what was left, ``old_before_bytes`` what the old generation held
    just before, ``old_kept_bytes`` what it held after the last full collection until then, ``taken_bytes`` the heap
    that the JVM had taken, and ``collected_s`` how long the collection took, by the JVM's own count. ``before`` and
    ``after`` it are how many collections there have ever been, and their time.
    """

    executor_id: str
    at_s: float
    live_bytes: int
    old_before_bytes: int
    collected_s: float
    old_kept_bytes: int = 0
    taken_bytes: int = 0
    before: Collected | None = None
    after: Collected | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """Collections since a JVM began: young ones, full ones, and the time that each kind took."""

    young: int
    full: int
    young_s: float
    full_s: float


def heap_question(spark: SparkSession) -> Any:  # noqa: ANN401 - a frame, of a class that is imported with Spark
    """What :func:`living_heaps` asks every executor that is given work now, planned already.

    Planning takes longer than a short batch does, and whoever waits for one to run wants to ask while it runs.
    """
    question = _one_row_each(spark).select(_executor_id(spark), _figures(spark))
    question._jdf.queryExecution().executedPlan()  # noqa: SLF001 - what this package is for
    return question


def living_heaps(question: Any) -> list[LivingHeap]:  # noqa: ANN401 - as above
    """Collect all garbage of every executor, and read what lives; of each that answered one.

    An executor whose slots are all taken for longer than Spark waits for a place is left out, and so is one that did
    not collect when it was asked to (``-XX:+DisableExplicitGC``, or code outside Java holds on to an array).
    """
    found = {}
    for executor_id, figures in question.collect():
        one = _living(str(executor_id), [0 if figure is None else int(figure) for figure in figures])
        if one is not None:
            found[one.executor_id] = one
    return list(found.values())


def _living(executor_id: str, figures: Sequence[int]) -> LivingHeap | None:
    """What one executor told; None where it did not collect.

    The collector that was asked is the one that has collected once more since: which it is depends on the JVM.
    """
    pools, rest = figures[: _POOL_FIGURES * _MOST_POOLS], figures[_POOL_FIGURES * _MOST_POOLS :]
    counts = 2 * _MOST_COLLECTORS
    before, (taken, begun_ns, live), after = rest[:counts], rest[counts:-counts], rest[-counts:]
    full = {number for number in range(_MOST_COLLECTORS) if after[2 * number] > before[2 * number]}
    if not full:
        return None
    old = _old(pools)
    then, now = _collected(before, full), _collected(after, full)
    return LivingHeap(
        executor_id,
        at_s=begun_ns / _NANOSECONDS,
        live_bytes=live,
        old_before_bytes=old[0],
        collected_s=now.full_s - then.full_s,
        old_kept_bytes=old[1],
        taken_bytes=taken,
        before=then,
        after=now,
    )


def _collected(figures: Sequence[int], full: Collection[int]) -> Collected:
    """Counts and times of all collectors, those of one kind together."""
    young = [number for number in range(_MOST_COLLECTORS) if number not in full]
    counts, times_ms = figures[::2], figures[1::2]
    return Collected(
        young=sum(counts[number] for number in young),
        full=sum(counts[number] for number in full),
        young_s=sum(times_ms[number] for number in young) / _MILLISECONDS,
        full_s=sum(times_ms[number] for number in full) / _MILLISECONDS,
    )


def has_running_tasks(spark: SparkSession) -> bool:
    """Whether any task runs now, by the scheduler's own count.

    What Spark's status store tells is a tenth of a second old at the least, and of short tasks often wrong: it writes
    no more than so often, and the last change may stay unwritten until the next one comes.
    """
    return int(context_of(spark).taskScheduler().rootPool().runningTasks()) > 0


def _old(pools: Sequence[int]) -> tuple[int, int]:
    """Use of the old generation, now and after it was last collected: the pool of the heap that may grow largest."""
    by_pool = [pools[begin : begin + _POOL_FIGURES] for begin in range(0, len(pools), _POOL_FIGURES)]
    of_heap = [(most, used, kept) for kind, most, used, kept in by_pool if kind == _HEAP_TYPE]
    _, used, kept = max(of_heap, default=(0, 0, 0))
    return used, kept


def _one_row_each(spark: SparkSession) -> Any:  # noqa: ANN401 - as above
    """A frame of one row for each executor, whose tasks would rather wait than run on another one."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 - Spark is imported only where it is used

    packages = jvm(spark)
    to_scala = packages.org.apache.spark.api.python.PythonUtils
    places = [[]] if is_local(spark) else [[place] for place in _places(spark)]
    empty = packages.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(0)
    rows = [packages.scala.Tuple2(empty, to_scala.toSeq(place)) for place in places]
    row_class = packages.java.lang.Class.forName(_ROW_CLASS)
    tag = getattr(getattr(packages.scala.reflect, "ClassTag$"), "MODULE$").apply(row_class)
    made = context_of(spark).makeRDD(to_scala.toSeq(rows), tag)
    schema = packages.org.apache.spark.sql.types.StructType()
    session = spark._jsparkSession  # noqa: SLF001 - what this package is for
    return DataFrame(session.internalCreateDataFrame(made, schema, False), spark)


def _places(spark: SparkSession) -> list[str]:
    """Executors as Spark writes them down where a task has a place that it prefers."""
    backend, found = backend_of(spark), context_of(spark).statusStore().executorList(True)
    summaries = [found.apply(index) for index in range(found.size())]
    return [
        f"executor_{str(one.hostPort()).rpartition(':')[0]}_{one.id()}"
        for one in summaries
        if one.id() != "driver" and backend.isExecutorActive(one.id())
    ]


def _executor_id(spark: SparkSession) -> Column:
    java = _Calls(spark)
    environment = java.static("org.apache.spark.SparkEnv", "get", "org.apache.spark.SparkEnv")
    text = java.call(environment, "executorId", java.object_type("java.lang.String"))
    spark_text = java.static("org.apache.spark.unsafe.types.UTF8String", "fromString", java.types.StringType, text)
    return java.column(spark_text)


def _figures(spark: SparkSession) -> Column:
    """Figures of each pool, one after another; then heap taken, begin and what lives, between counts and times twice.

    Counts and times are of each collector until then. An array is made from its first element to its last, and what it
    is made of is computed anew for every row.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is imported only where it is used

    java = _Calls(spark)
    memory = java.static(_FACTORY, "getMemoryMXBean", f"{_MANAGEMENT}.MemoryMXBean")
    heap = java.call(memory, "getHeapMemoryUsage", java.object_type(f"{_MANAGEMENT}.MemoryUsage"))
    used, taken = (java.column(java.call(heap, name, java.types.LongType)) for name in ("getUsed", "getCommitted"))
    clock = java.column(java.static("java.lang.System", "nanoTime", java.types.LongType))
    # The call gives nothing, and the text of nothing is "null": the condition is only there to come first.
    is_collected = fn.java_method(fn.lit("java.lang.System"), fn.lit("gc")) == fn.lit("null")
    pools = [figure for number in range(_MOST_POOLS) for figure in _pool(java, number)]
    until = [each for number in range(_MOST_COLLECTORS) for each in _collections(java, number)]
    return fn.array(*pools, *until, taken, clock, fn.when(is_collected, used), *until)


def _collections(java: _Calls, number: int) -> list[Column]:
    """How often a collector has collected, and for how many milliseconds; 0 where there is none of that number."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is imported only where it is used

    collectors = java.static(_FACTORY, "getGarbageCollectorMXBeans", "java.util.List")
    kind = java.object_type(f"{_MANAGEMENT}.GarbageCollectorMXBean")
    collector = java.call(collectors, "get", kind, java.whole_number(number))
    is_there = java.column(java.call(collectors, "size", java.types.IntegerType)) > number
    told = [java.call(collector, name, java.types.LongType) for name in ("getCollectionCount", "getCollectionTime")]
    return [fn.when(is_there, java.column(each)).otherwise(fn.lit(0).cast("long")) for each in told]


def _pool(java: _Calls, number: int) -> list[Column]:
    """Kind, largest size, use, and use after the last collection of one pool of memory.

    -1 where there is none of that number, or no largest size, and nothing where it is never collected.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is imported only where it is used

    pools = java.static(_FACTORY, "getMemoryPoolMXBeans", "java.util.List")
    pool = java.call(pools, "get", java.object_type(f"{_MANAGEMENT}.MemoryPoolMXBean"), java.whole_number(number))
    kind = java.call(pool, "getType", java.object_type(f"{_MANAGEMENT}.MemoryType"))
    usage, kept = (
        java.call(pool, name, java.object_type(f"{_MANAGEMENT}.MemoryUsage"))
        for name in ("getUsage", "getCollectionUsage")
    )
    is_there = java.column(java.call(pools, "size", java.types.IntegerType)) > number
    figures = [
        java.call(kind, "ordinal", java.types.IntegerType),
        java.call(usage, "getMax", java.types.LongType),
        java.call(usage, "getUsed", java.types.LongType),
        java.call(kept, "getUsed", java.types.LongType),
    ]
    return [fn.when(is_there, java.column(each).cast("long")).otherwise(fn.lit(-1)) for each in figures]


class _Calls:
    """Expressions that call methods of Java where a task runs, every time anew."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = jvm(spark)
        self._expressions = self._java.org.apache.spark.sql.catalyst.expressions
        self._to_scala = self._java.org.apache.spark.api.python.PythonUtils
        self.types = self._java.org.apache.spark.sql.types.DataTypes

    def object_type(self, class_name: str) -> JavaObject:
        """What Spark calls the type of objects of a class."""
        return self._java.org.apache.spark.sql.types.ObjectType(self._java.java.lang.Class.forName(class_name))

    def whole_number(self, number: int) -> JavaObject:
        """A number that is given to a call."""
        return self._expressions.Literal(number, self.types.IntegerType)

    def static(self, class_name: str, method: str, gives: str | JavaObject, *arguments: JavaObject) -> JavaObject:
        """A call of a method of a class."""
        gives = self.object_type(gives) if isinstance(gives, str) else gives
        of = self._java.java.lang.Class.forName(class_name)
        none = getattr(getattr(self._java.scala, "None$"), "MODULE$")
        # The last of the flags says that it gives something else every time: or the driver would call it beforehand.
        return self._expressions.objects.StaticInvoke(
            of, gives, method, *self._given(arguments), True, True, False, none
        )

    def call(self, target: JavaObject, method: str, gives: JavaObject, *arguments: JavaObject) -> JavaObject:
        """A call of a method of what another call gives."""
        return self._expressions.objects.Invoke(target, method, gives, *self._given(arguments), True, True, False)

    def column(self, expression: JavaObject) -> Column:
        """An expression as Python knows it."""
        from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - imported only where it is used

        return ClassicColumn(self._java.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    def _given(self, arguments: Sequence[JavaObject]) -> tuple[JavaObject, JavaObject]:
        return self._to_scala.toSeq(list(arguments)), self._to_scala.toSeq([each.dataType() for each in arguments])
