"""What lives in the heaps of executors: a task on each of them collects all garbage and reads what is left.

Spark samples heaps at its heartbeats, full of garbage as they are then. The JVM's own beans tell more, but only inside
the executor, so a job of one small task each asks them there, by calls that Spark compiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.spark.internals.handles import backend_of, context_of, is_local, jvm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, SparkSession

    from penstock.spark.internals.handles import JavaObject

_NANOSECONDS = 1e9
_MOST_POOLS, _MOST_COLLECTORS = 12, 4
"""More pools of memory, and more collectors, than any JVM has; eight and two are usual."""
_MANAGEMENT = "java.lang.management"
_FACTORY = f"{_MANAGEMENT}.ManagementFactory"
_HEAP_TYPE = 0
"""Which of the two kinds of pools is part of the heap, by Java's own order."""
_ROW_CLASS = "org.apache.spark.sql.catalyst.InternalRow"


@dataclass(frozen=True, slots=True)
class LivingHeap:
    """The heap of one executor right after all its garbage was collected.

    ``at_s`` is the JVM's own clock, ``live_bytes`` what was left, ``old_before_bytes`` what the old generation held
    just before, and ``collected_s`` how long the collection took.
    """

    executor_id: str
    at_s: float
    live_bytes: int
    old_before_bytes: int
    collected_s: float


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
        *pools, before, begun_ns, live, ended_ns, after = figures
        if after <= before:
            continue
        found[str(executor_id)] = LivingHeap(
            str(executor_id),
            at_s=begun_ns / _NANOSECONDS,
            live_bytes=int(live),
            old_before_bytes=_used_of_old(pools),
            collected_s=(ended_ns - begun_ns) / _NANOSECONDS,
        )
    return list(found.values())


def has_running_tasks(spark: SparkSession) -> bool:
    """Whether any task runs now, by the scheduler's own count.

    What Spark's status store tells is a tenth of a second old at the least, and of short tasks often wrong: it writes
    no more than so often, and the last change may stay unwritten until the next one comes.
    """
    return int(context_of(spark).taskScheduler().rootPool().runningTasks()) > 0


def _used_of_old(pools: Sequence[int]) -> int:
    """Use of the old generation: of the pools of the heap the one that may grow largest."""
    kinds, largest, used = pools[::3], pools[1::3], pools[2::3]
    of_heap = [(most, use) for kind, most, use in zip(kinds, largest, used, strict=True) if kind == _HEAP_TYPE]
    return int(max(of_heap, default=(0, 0))[1])


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
    """Kind, largest size and use of each pool, one after another; then begin, what lives and end, between two counts.

    The counts are of collections until then. An array is made from its first element to its last, and what it is made
    of is computed anew for every row.
    """
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is imported only where it is used

    java = _Calls(spark)
    memory = java.static(_FACTORY, "getMemoryMXBean", f"{_MANAGEMENT}.MemoryMXBean")
    heap = java.call(memory, "getHeapMemoryUsage", java.object_type(f"{_MANAGEMENT}.MemoryUsage"))
    used = java.column(java.call(heap, "getUsed", java.types.LongType))
    clock = java.column(java.static("java.lang.System", "nanoTime", java.types.LongType))
    # The call gives nothing, and the text of nothing is "null": the condition is only there to come first.
    is_collected = fn.java_method(fn.lit("java.lang.System"), fn.lit("gc")) == fn.lit("null")
    pools = [figure for number in range(_MOST_POOLS) for figure in _pool(java, number)]
    count = sum((_collections(java, number) for number in range(_MOST_COLLECTORS)), fn.lit(0))
    return fn.array(*pools, count, clock, fn.when(is_collected, used), clock, count)


def _collections(java: _Calls, number: int) -> Column:
    """How often a collector has collected; 0 where there is none of that number."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is imported only where it is used

    collectors = java.static(_FACTORY, "getGarbageCollectorMXBeans", "java.util.List")
    kind = java.object_type(f"{_MANAGEMENT}.GarbageCollectorMXBean")
    count = java.call(
        java.call(collectors, "get", kind, java.whole_number(number)), "getCollectionCount", java.types.LongType
    )
    is_there = java.column(java.call(collectors, "size", java.types.IntegerType)) > number
    return fn.when(is_there, java.column(count)).otherwise(fn.lit(0))


def _pool(java: _Calls, number: int) -> list[Column]:
    """Kind, largest size and use of one pool of memory; -1 where there is none of that number, or no largest size."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is imported only where it is used

    pools = java.static(_FACTORY, "getMemoryPoolMXBeans", "java.util.List")
    pool = java.call(pools, "get", java.object_type(f"{_MANAGEMENT}.MemoryPoolMXBean"), java.whole_number(number))
    kind = java.call(pool, "getType", java.object_type(f"{_MANAGEMENT}.MemoryType"))
    usage = java.call(pool, "getUsage", java.object_type(f"{_MANAGEMENT}.MemoryUsage"))
    is_there = java.column(java.call(pools, "size", java.types.IntegerType)) > number
    figures = [
        java.call(kind, "ordinal", java.types.IntegerType),
        java.call(usage, "getMax", java.types.LongType),
        java.call(usage, "getUsed", java.types.LongType),
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
