"""Which read limit each kind of source understands.

A limit of a class that a source does not know kills the query, so the class is chosen by the source's own class, and a
source that is not in the table is observed and left alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model import LimitUnit, SourceSpec
from penstock.spark import internals
from penstock.spark.internals import Ability

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from penstock.spark.internals import JavaObject

_ROW_SOURCES = frozenset({"KafkaMicroBatchStream"})
_FILE_SOURCES = frozenset({"FileStreamSource"})
_PYTHON_SOURCES = frozenset(
    {"PythonMicroBatchStreamWithAdmissionControl", "PythonMicroBatchStreamWithTriggerAvailableNow"}
)
_WITHOUT_ADMISSION_CONTROL = {
    "RateStreamMicroBatchStream": "the rate source makes as many rows as its rowsPerSecond says and takes no limit",
    "RatePerMicroBatchStream": "the rate-micro-batch source makes a fixed number of rows a batch and takes no limit",
    "TextSocketMicroBatchStream": "the socket source keeps what it has received and takes no limit",
    "PythonMicroBatchStream": "this Python source has no admission control: give its reader latestOffset(start, limit)",
}
_PYTHON_KINDS = {
    "ReadMaxRows": (LimitUnit.ROWS, "max_rows"),
    "ReadMaxFiles": (LimitUnit.FILES, "max_files"),
    "ReadMaxBytes": (LimitUnit.BYTES, "max_bytes"),
}
_SIZE_OF = {"ReadMaxRows": "maxRows", "ReadMaxFiles": "maxFiles", "ReadMaxBytes": "maxBytes"}


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A source of a running query with the limit that it came with."""

    spec: SourceSpec
    java_source: JavaObject
    own_limit: JavaObject

    @property
    def is_file_source(self) -> bool:
        """Whether its offsets count batches of files rather than rows."""
        return internals.class_name(internals.unwrapped(self.java_source)) in _FILE_SOURCES


def describe_sources(execution: JavaObject, missing: Collection[Ability]) -> tuple[LiveSource, ...]:
    """All sources of a query, each with the unit of its limit or the reason why it has none."""
    found = []
    for index, source in enumerate(internals.sources_of(execution)):
        own_limit = internals.read_limit_of(execution, source)
        spec = _describe(index, source, own_limit, missing)
        if spec.is_limitable and internals.reads_all_in_one_batch(execution):
            spec = _left_alone(index, spec.description, "its trigger reads everything in one batch and must not be cut")
        found.append(LiveSource(spec, source, own_limit))
    return tuple(found)


def build_limit(spark: SparkSession, source: LiveSource, units: int) -> JavaObject:
    """A limit of the class that this source knows."""
    kind = internals.class_name(internals.unwrapped(source.java_source))
    if kind in _PYTHON_SOURCES:
        name, field = next((name, field) for name, (unit, field) in _PYTHON_KINDS.items() if unit is source.spec.unit)
        return internals.python_limit(spark, name, field, units)
    if source.spec.unit is LimitUnit.FILES:
        return internals.file_limit(spark, units)
    if source.spec.unit is LimitUnit.BYTES:
        return internals.byte_limit(spark, units)
    limit = internals.row_limit(spark, units)
    minimum = _minimum_of(source.own_limit)
    return limit if minimum is None else internals.with_minimum(spark, minimum, limit)


def _describe(index: int, source: JavaObject, own_limit: JavaObject, missing: Collection[Ability]) -> SourceSpec:
    inner = internals.unwrapped(source)
    kind = internals.class_name(inner)
    if kind in _PYTHON_SOURCES:
        return _describe_python(index, inner, own_limit, missing)
    description = str(inner.toString())
    if kind in _ROW_SOURCES:
        return SourceSpec(index, description, LimitUnit.ROWS, _maximum_of(own_limit, "ReadMaxRows"))
    if kind in _FILE_SOURCES:
        own_bytes = _maximum_of(own_limit, "ReadMaxBytes")
        if own_bytes is not None:
            return SourceSpec(index, description, LimitUnit.BYTES, own_bytes)
        return SourceSpec(index, description, LimitUnit.FILES, _maximum_of(own_limit, "ReadMaxFiles"))
    reason = _WITHOUT_ADMISSION_CONTROL.get(kind, f"{kind} is not a source whose read limits are known")
    return _left_alone(index, description, reason)


def _describe_python(index: int, inner: JavaObject, own_limit: JavaObject, missing: Collection[Ability]) -> SourceSpec:
    kind = internals.class_name(inner)
    if Ability.PYTHON_LIMIT in missing:
        return _left_alone(index, kind, "this Spark offers no limit for Python sources")
    if not internals.python_reader_takes_limits(inner):
        return _left_alone(index, kind, "its SimpleDataSourceStreamReader takes no limit: give it a streamReader")
    unit, own = _python_limit(own_limit)
    return SourceSpec(index, kind, unit, own)


def _left_alone(index: int, description: str, reason: str) -> SourceSpec:
    return SourceSpec(index, description, None, reason=reason)


def _python_limit(own_limit: JavaObject) -> tuple[LimitUnit, int | None]:
    """Unit and size of a Python source's own limit; one without takes rows, as its interface demands."""
    if internals.class_name(own_limit) != "PythonStreamingSourceReadLimit":
        return LimitUnit.ROWS, None
    content = json.loads(own_limit.json())
    kind = _PYTHON_KINDS.get(content.get("_type"))
    return (LimitUnit.ROWS, None) if kind is None else (kind[0], int(content[kind[1]]))


def _parts(limit: JavaObject) -> list[JavaObject]:
    return list(limit.getReadLimits()) if internals.class_name(limit) == "CompositeReadLimit" else [limit]


def _maximum_of(limit: JavaObject, kind: str) -> int | None:
    for part in _parts(limit):
        if internals.class_name(part) == kind:
            return int(getattr(part, _SIZE_OF[kind])())
    return None


def _minimum_of(limit: JavaObject) -> JavaObject | None:
    return next((part for part in _parts(limit) if internals.class_name(part) == "ReadMinRows"), None)
