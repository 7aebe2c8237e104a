"""Rows counted by the operators of a batch's own plan, and values that its tasks bring back from compiled code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from penstock.spark.internals.handles import context_of, jvm
from penstock.spark.internals.members import MEMBERS, Ability, probe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, SparkSession

    from penstock.spark.internals.handles import JavaObject

_SEED = 20_077
_OUTPUT_ROWS, _ROWS_METRIC = "number of output rows", "numOutputRows"
_ADAPTIVE = "AdaptiveSparkPlan"
_MOST_NODES = 1024
"""Of a larger plan no places are looked for, some tenths of a millisecond each."""
_MOST_FIELDS = 25
"""Of an operator's arguments that are written out: Spark's own default."""
_probed: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()
"""Looked for once a session: every member takes some hundred calls of Py4J."""


def counts_rows(spark: SparkSession) -> bool:
    """Whether this Spark has all that it takes to count rows without leaving its compiled loop."""
    if spark not in _probed:
        _probed[spark] = not probe(spark, tuple(member for member in MEMBERS if member.ability is Ability.COUNTS))
    return _probed[spark]


def new_collector(spark: SparkSession) -> JavaObject:
    """A list in the driver, which tasks add to when they are done."""
    return context_of(spark).collectionAccumulator()


def collecting(spark: SparkSession, collector: JavaObject, value: Column) -> Column:
    """A condition that is always true, and adds a value, which must not be null, to a list.

    Spark counts what a task has added when the task has succeeded, and no other. The list is an object that the
    compiled code gets by reference, as it gets its own metrics: nothing of it is in the text that is compiled.
    """
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - imported only where it is used

    packages = jvm(spark)
    expressions, types = packages.org.apache.spark.sql.catalyst.expressions, packages.org.apache.spark.sql.types
    to_scala, columns = packages.org.apache.spark.api.python.PythonUtils, packages.org.apache.spark.sql.classic
    added = columns.ExpressionUtils.expression(value._jc)  # noqa: SLF001 - what this package is for
    target = expressions.Literal(collector, types.ObjectType(collector.getClass()))
    # The one expression of Spark that calls methods for what they do; the call around it gives a value that the
    # optimiser cannot tell beforehand, or it would leave both out.
    adds = expressions.objects.InitializeJavaBean(target, to_scala.toScalaMap({"add": added}))
    nothing = to_scala.toSeq([])
    is_done = expressions.objects.Invoke(
        adds, "isRegistered", types.DataTypes.BooleanType, nothing, nothing, True, False, False
    )
    return ClassicColumn(columns.ExpressionUtils.column(is_done))


def next_number(spark: SparkSession) -> Column:
    """The next of a sequence of drawn numbers, for each row; every task has the same sequence, from its beginning.

    The generator is an object that the compiled code gets by reference: what it is seeded with is not in the text.
    """
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - imported only where it is used

    packages = jvm(spark)
    expressions, types = packages.org.apache.spark.sql.catalyst.expressions, packages.org.apache.spark.sql.types
    nothing = packages.org.apache.spark.api.python.PythonUtils.toSeq([])
    generator = packages.java.util.Random(_SEED)
    target = expressions.Literal(generator, types.ObjectType(generator.getClass()))
    drawn = expressions.objects.Invoke(
        target, "nextLong", types.DataTypes.LongType, nothing, nothing, True, False, False
    )
    return ClassicColumn(packages.org.apache.spark.sql.classic.ExpressionUtils.column(drawn))


def take_collected(collector: JavaObject) -> list[int]:
    """The whole numbers in a list, which is empty then; as text, since Py4J fetches one element at a time."""
    text = str(collector.value().toString()).strip("[]")
    if not text:
        return []
    # What a task adds between these two calls is lost: a sample does without it.
    collector.reset()
    return [int(each) for each in text.split(",")]


def stream_of(query_id: str, run_id: str) -> JavaObject | None:
    """What runs the batches of a query of this driver; None where it is not to be found."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used

    context = SparkContext._active_spark_context  # noqa: SLF001 - what this package is for
    if context is None:
        return None
    session = _classes(context._jvm).sessions.active()  # noqa: SLF001 - as above
    found = session.sharedState().activeStreamingQueries().get(_classes(context._jvm).ids.fromString(query_id))  # noqa: SLF001 - as above
    return None if found is None or str(found.runId().toString()) != run_id else found


def execution_of_batch(stream: JavaObject, batch_id: int) -> JavaObject | None:
    """The plan that a batch is run by, from the moment in which it is optimised; None where another batch is."""
    found = stream.lastExecution()
    return None if found is None or int(found.currentBatchId()) != batch_id else found


@dataclass(frozen=True, slots=True)
class CountedNode:
    """One operator of a plan that was run: its name, its arguments, the number of its count of rows, what it reads."""

    name: str
    text: str
    rows_id: int | None = None
    children: tuple[CountedNode, ...] = ()


def counted_plan(execution: JavaObject) -> CountedNode:
    """The plan that a batch was run by, in a few calls and however Spark changed it on the way."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used

    context = SparkContext._active_spark_context  # noqa: SLF001 - what this package is for
    assert context is not None
    classes = _classes(context._jvm)  # noqa: SLF001 - as above
    info = classes.plans.fromSparkPlan(execution.executedPlan())
    return _node(json.loads(str(classes.protocol.sparkEventToJsonString(classes.update(0, "", info))))["sparkPlanInfo"])


def places_of_filters(execution: JavaObject) -> dict[int, int]:
    """Where in a plan its filters are, by the number of their count of rows; none in a plan that Spark may yet change.

    A place is a number by which Spark finds the node again, and batches of one query have the same plan. Whoever knows
    the places reads counts in a dozen small calls: what :func:`counted_plan` fetches is so long that the two ends of a
    connection wait 40 ms for each other in the middle of it.
    """
    plan = execution.executedPlan()
    found: dict[int, int] = {}
    for place in range(_MOST_NODES):
        node = plan.apply(place)
        if node is None:
            return found
        name = str(node.nodeName())
        if name == _ADAPTIVE:
            break
        if name == "Filter":
            found[int(node.longMetric(_ROWS_METRIC).id())] = place
    return {}


def filters_at(execution: JavaObject, places: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Text and rows of the filters at some places of a plan that was run; not of places where something else is."""
    plan, found = execution.executedPlan(), {}
    for place in places:
        node = plan.apply(place)
        if node is not None and str(node.nodeName()) == "Filter":
            found[place] = str(node.simpleString(_MOST_FIELDS)), int(node.longMetric(_ROWS_METRIC).value())
    return found


def counted_rows(rows_id: int) -> int:
    """How many rows an operator gave, over all tasks that succeeded."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used

    context = SparkContext._active_spark_context  # noqa: SLF001 - what this package is for
    assert context is not None
    return int(_classes(context._jvm).accumulators.get(rows_id).get().value())  # noqa: SLF001 - as above


@dataclass(frozen=True, slots=True)
class _Classes:
    """Classes of Spark, found once: Py4J asks the JVM for every part of a name."""

    sessions: JavaObject
    ids: JavaObject
    plans: JavaObject
    update: JavaObject
    protocol: JavaObject
    accumulators: JavaObject


@lru_cache(maxsize=1)
def _classes(packages: JavaObject) -> _Classes:
    spark = packages.org.apache.spark
    return _Classes(
        sessions=spark.sql.classic.SparkSession,
        ids=packages.java.util.UUID,
        plans=spark.sql.execution.SparkPlanInfo,
        update=spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate,
        protocol=spark.util.JsonProtocol,
        accumulators=spark.util.AccumulatorContext,
    )


def _node(plan: Mapping[str, Any]) -> CountedNode:
    rows = [each["accumulatorId"] for each in plan["metrics"] if each["name"] == _OUTPUT_ROWS]
    children = tuple(_node(child) for child in plan["children"])
    return CountedNode(plan["nodeName"], plan["simpleString"], rows[0] if rows else None, children)
