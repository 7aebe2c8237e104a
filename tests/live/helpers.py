"""Rows, costs and patience for tests on a real session."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import functions as fn

from penstock.model import ActionKind, QueryName
from penstock.model.directive import Directive
from penstock.spark import internals
from penstock.spark.collector import parse_timestamp_s
from penstock.spark.directives import directive_properties
from penstock.spark.load import register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.model import Action
    from penstock.store import Store

T = TypeVar("T")
PATIENCE_S, _BUSY = 60.0, 3.0


@dataclass(frozen=True)
class Batch:
    """One finished batch that had rows."""

    batch_id: int
    run_id: str
    rows: int
    planned_s: float
    duration_s: float
    lag_rows: float | None


def load_rows(spark: SparkSession, profile: str, **options: str) -> DataFrame:
    """Rows that arrive along a profile."""
    register(spark)
    return spark.readStream.format("penstock.load").option("profile", profile).options(**options).load()


def costly(rows: DataFrame, hashes: int) -> DataFrame:
    """The same rows, each of which costs so many SHA-256 and none of which comes out."""
    digest = fn.sha2(fn.col("offset").cast("string"), 256)
    for _ in range(hashes - 1):
        digest = fn.sha2(digest, 256)
    return rows.withColumn("digest", digest).where(fn.col("digest") == "none is like this")


def wait_until(condition: Callable[[], T | None], what: str, *, within_s: float = PATIENCE_S) -> T:
    """Ask again and again until there is an answer that is true.

    ``within_s`` is for a machine with little else to do. One on which a dozen programs want two cores takes several
    times as long, and that is no fault of what is tested.
    """
    deadline_s = time.monotonic() + _BUSY * within_s
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline_s, f"within {within_s:g} s there was no {what}"
        time.sleep(0.05)


def compilations(spark: SparkSession) -> int:
    """Classes that Spark has compiled in this process so far."""
    metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics  # type: ignore[union-attr]
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def batches_of(query: StreamingQuery) -> list[Batch]:
    """The recent batches that had rows, oldest first."""
    return [_batch(report) for report in query.recentProgress if report.numInputRows]


def _batch(report: Any) -> Batch:
    lags = [
        _row_of(source.latestOffset) - _row_of(source.endOffset) for source in report.sources if source.latestOffset
    ]
    return Batch(
        batch_id=report.batchId,
        run_id=str(report.runId),
        rows=report.numInputRows,
        planned_s=parse_timestamp_s(report.timestamp),
        duration_s=report.durationMs["triggerExecution"] / 1000,
        lag_rows=sum(lags) if lags else None,
    )


def _row_of(offset: object) -> float:
    tree = json.loads(offset) if isinstance(offset, str) else offset
    return float(tree["row"]) if isinstance(tree, dict) and "row" in tree else 0.0


def wait_for_batches(query: StreamingQuery, count: int, *, within_s: float = PATIENCE_S) -> list[Batch]:
    """Wait for so many batches with rows; a query that dies meanwhile is an error at once."""

    def enough() -> list[Batch] | None:
        error = query.exception()
        assert error is None, f"the query died: {error}"
        found = batches_of(query)
        return found if len(found) >= count else None

    return wait_until(enough, f"batch number {count} of {query.name}", within_s=within_s)


def send(query: StreamingQuery, properties: Iterable[tuple[str, str]]) -> None:
    """Give properties to the tasks of the batches that are planned from now on."""
    execution = internals.execution_of(query)
    for name, value in properties:
        internals.send_to_tasks(execution, name, value)


def keep_by_property(query: StreamingQuery, keep_ratio: float) -> int:
    """Let batches keep a ratio without asking anybody; gives the first of which it is sure that they do."""
    last = query.lastProgress
    from_batch = (last.batchId if last is not None else 0) + 3
    send(query, directive_properties("", "", Directive(from_batch, keep_ratio)))
    return from_batch


def limits_in_force(query: StreamingQuery) -> list[str]:
    """What Spark itself says of the read limit of every source."""
    execution = internals.execution_of(query)
    return [str(internals.read_limit_of(execution, s).toString()) for s in internals.sources_of(execution)]


def limited_rows(query: StreamingQuery) -> list[int]:
    """The read limits in force of Python sources, in rows; empty for those that read all."""
    execution = internals.execution_of(query)
    limits = [internals.read_limit_of(execution, source) for source in internals.sources_of(execution)]
    contents = [json.loads(limit.json()) for limit in limits if hasattr(limit, "json")]
    return [int(content["max_rows"]) for content in contents if "max_rows" in content]


def actions_of(store: Store, name: str, *kinds: ActionKind) -> list[Action]:
    """What was decided about a query, oldest first."""
    return [record.action for record in store.actions(query=QueryName(name), kinds=kinds)]


def limit_values(store: Store, name: str) -> list[float]:
    """The read limits that were decided, oldest first."""
    return [a.value for a in actions_of(store, name, ActionKind.READ_LIMIT) if a.value is not None]


def show(figures: str) -> None:
    """Show measured figures to whoever runs the tests with ``-s``."""
    print(f"\n    {figures}", end="", flush=True)  # noqa: T201 - figures for whoever runs with -s
