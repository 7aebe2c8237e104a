"""Plans of frames, and what Spark compiles for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.internals.handles import class_name, jvm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.internals.handles import JavaObject

_ROW_BY_ROW = ("Project", "Filter", "SubqueryAlias", "EventTimeWatermark", "CollectMetrics")
"""Steps that make no second row of one and mix no rows of several sources."""


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
