"""What the benchmarks of sizes share: an engine of one executor, its query, waiting for batches, and counting rows."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.attach import Penstock

PATIENCE_S = 120.0
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.ui.enabled": "false",
    "spark.executor.processTreeMetrics.enabled": "true",
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeout": "1200s",
    # Spark keeps 300 MB of every heap to itself; without this an executor could not be three times too small here.
    "spark.testing.reservedMemory": str(32 * 1024 * 1024),
    "spark.network.maxRemoteBlockSizeFetchToMem": "16m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def keep_one_executor(spark: SparkSession) -> None:
    """A Standalone engine starts with all executors that it may have; the one that stays is to be alone."""
    from penstock.spark import internals  # noqa: PLC0415 - imports Spark

    internals.request_executors(spark, 1)
    await_result(lambda: bool(internals.live_executors(spark)), "executor")
    deadline_s = time.monotonic() + PATIENCE_S
    while len(there := internals.live_executors(spark)) > 1 and time.monotonic() < deadline_s:
        for one in sorted(there, key=lambda each: int(each.executor_id))[1:]:
            internals.release_executor(spark, one.executor_id)
        time.sleep(0.5)


def verdicts(pen: Penstock) -> dict[str, str]:
    """What each policy said last, by its name."""
    sizing = pen.loop.logic.sizing
    found = None if sizing is None else sizing.last_round
    return {} if found is None else {each.policy: each.reason for each in found.verdicts}


def await_result(found: Callable[[], Any], what: str | Callable[[], str], *, patience_s: float = PATIENCE_S) -> Any:  # noqa: ANN401 - whatever is waited for
    """Whatever a call gives as soon as it gives something.

    Raises
    ------
    ClusterError
        Where it gives nothing for too long.
    """
    deadline_s = time.monotonic() + patience_s
    while not (result := found()):
        if time.monotonic() > deadline_s:
            told = what if isinstance(what, str) else what()
            raise ClusterError(f"within {patience_s:.0f} s no {told}")
        time.sleep(0.3)
    return result


def await_batches(query: StreamingQuery, count: int, *, patience_s: float = PATIENCE_S) -> None:
    """Wait until a query has had so many more batches with rows."""
    last = max((report["batchId"] for report in reports(query)), default=-1)

    def are_done() -> bool:
        if query.exception() is not None:
            raise ClusterError(f"the query failed: {query.exception()}")
        return max((report["batchId"] for report in reports(query)), default=-1) >= last + count

    await_result(are_done, f"{count} batches after {last}", patience_s=patience_s)


def reports(query: StreamingQuery) -> list[dict[str, Any]]:
    """What Spark told of each batch with rows."""
    return [json.loads(report.json) for report in query.recentProgress if report.numInputRows]


def rows_counted(spark: SparkSession, checkpoint: Path, told: list[dict[str, Any]]) -> dict[str, int]:
    """Rows that batches read, rows in the state, and rows of the source up to the last batch."""
    state = spark.read.format("statestore").load(str(checkpoint))
    counted = state.selectExpr("sum(value.count) AS rows").collect()[0]["rows"]
    last = told[-1]["sources"][0]["endOffset"]
    tree = json.loads(last) if isinstance(last, str) else last
    return {
        "rows": sum(report["numInputRows"] for report in told),
        "counted_rows": int(counted),
        "offset_rows": int(tree["row"]),
    }
