"""Where a guard stands in a plan: right behind a source or not, and what source that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.spark.internals.handles import class_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.spark.internals.handles import JavaObject


class StreamSource(NamedTuple):
    """A streaming source as it was asked for."""

    name: str
    options: dict[str, str]
    schema_json: str


def source_of(rows: DataFrame) -> tuple[StreamSource | None, bool]:
    """The one source of a stream, None where there are several or none; and whether the stream is nothing but it."""
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - what this package is for
    leaves = plan.collectLeaves()
    if leaves.size() != 1:
        return None, False
    leaf = leaves.apply(0)
    is_whole = bool(plan.children().isEmpty())
    kind, schema = class_name(leaf), str(leaf.schema().json())
    if kind == "StreamingRelationV2":
        return StreamSource(str(leaf.sourceName()), dict(leaf.extraOptions().asCaseSensitiveMap()), schema), is_whole
    if kind == "StreamingRelation":
        source = leaf.dataSource()
        return StreamSource(str(source.className()), _scala_map(source.options()), schema), is_whole
    return None, False


def plan_text(execution: JavaObject) -> str:
    """A query's plan as text; its sources must exist already."""
    return str(execution.logicalPlan().toString())


def _scala_map(options: JavaObject) -> dict[str, str]:
    found, entries = {}, options.iterator()
    while entries.hasNext():
        entry = entries.next()
        found[str(entry.productElement(0))] = str(entry.productElement(1))
    return found
