"""Plans of frames, and what Spark compiles for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.internals.handles import class_name, jvm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.spark.internals.handles import JavaObject

_ROW_BY_ROW = ("Project", "Filter", "SubqueryAlias", "EventTimeWatermark", "CollectMetrics")
"""Steps that make no second row of one and mix no rows of several sources."""


_ALL_FIELDS = 100_000


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Rows that are one source's own, each at most once: the source's format, and where its columns are by now."""

    format_name: str
    columns: Mapping[str, str]


def source_rows(rows: DataFrame) -> SourceRows | None:
    """The one streaming source whose rows these are; None behind joins, unions, explode and the like.

    A column is the source's own if it is the very attribute that the source gives, or that attribute under another
    name. One that is computed is not, whatever it is called.
    """
    node = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - what this package is for
    present = {attribute.exprId().id(): str(attribute.name()) for attribute in _items(node.output())}
    while class_name(node) != "StreamingRelationV2":
        if class_name(node) not in _ROW_BY_ROW:
            return None
        if class_name(node) == "Project":
            for expression in _items(node.projectList()):
                if class_name(expression) == "Alias" and class_name(expression.child()) == "AttributeReference":
                    renamed = present.get(expression.exprId().id())
                    if renamed is not None:
                        present.setdefault(expression.child().exprId().id(), renamed)
        node = node.children().apply(0)
    own = {str(attribute.name()): attribute.exprId().id() for attribute in _items(node.output())}
    return SourceRows(str(node.sourceName()), {name: present[each] for name, each in own.items() if each in present})


def compiled_classes(spark: SparkSession) -> int:
    """How many times the JVM of a session has compiled generated code so far."""
    metrics = jvm(spark).org.apache.spark.metrics.source.CodegenMetrics
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def _items(sequence: JavaObject) -> list[JavaObject]:
    return [sequence.apply(index) for index in range(sequence.size())]


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One operator of a plan: its name, its arguments as Spark writes them, its columns, and what it reads."""

    name: str
    text: str
    output: str = ""
    children: tuple[PlanNode, ...] = ()


def plan_of_execution(execution: JavaObject) -> PlanNode:
    """The plan of a query that has created its sources."""
    return _node(execution.logicalPlan())


def plan_of_writer(writer: DataStreamWriter) -> PlanNode | None:
    """The plan of a query before it starts; None where the writer does not tell."""
    frame = getattr(writer, "_df", None)
    if frame is None:
        return None
    return _node(frame._jdf.queryExecution().analyzed())  # noqa: SLF001 - as above


def _node(plan: JavaObject) -> PlanNode:
    children = plan.children()
    return PlanNode(
        str(plan.nodeName()),
        # A tilde in front says that it is a stream.
        str(plan.simpleString(_ALL_FIELDS)).lstrip("~"),
        str(plan.output().mkString(", ")),
        tuple(_node(children.apply(index)) for index in range(children.size())),
    )
