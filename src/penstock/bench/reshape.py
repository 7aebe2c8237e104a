"""An engine whose heap is too small gets three times as much: while its query runs, and by a restart beside it.

The query keeps its state in RocksDB and counts rows and words by key; beside it a table is cached. With what Spark
needs for itself the table fills the heap, so that every few rows the JVM collects all of it: it thrashes. Rows are
counted in the state itself, at the end.

Both parts start with the same executor. In the first Penstock sees garbage collection, decides and reshapes; in the
second the query is stopped, the engine ended, started with the heap that the first part came to, and the query goes on
from its checkpoint.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.bench.sized_engine import (
    PATIENCE_S,
    SETTINGS,
    await_batches,
    await_result,
    keep_one_executor,
    rows_counted,
)
from penstock.bench.sized_engine import reports as reports_of
from penstock.bench.sized_engine import verdicts as verdicts_of
from penstock.cluster.engine import running_engine
from penstock.cluster.engine_spec import EngineSpec
from penstock.cluster.standalone import running_cluster
from penstock.cluster.standalone_config import StandaloneSpec
from penstock.errors import ClusterError
from penstock.model import ActionKind
from penstock.model.executors import ExecutorBounds
from penstock.model.sizing import EngineShape
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.cluster.engine_spec import Place

SMALL_HEAP_MB = 130
"""About 60 MB of it are Spark's own and 42 MB the table, of the 87 MB that the serial collector has for what lives."""
_CACHED_MB = 42
_WORDS = 300
"""Words of each row: each is an object, so that a row leaves some 50 kB of garbage."""
_CORES, _OVERHEAD = 2, "768m"
"""Memory beside the heap is enough for the JVM and two Python workers: only the heap is short."""
_BATCHES_BEFORE, _BATCHES_AROUND = 8, 8
_KEYS = 20_000
_ROWS_PER_S = 3_500
_TRIGGER = "2 seconds"
"""Batches of usually one second: a query that has no time to spare has ever longer ones whatever slows it down."""
_SIZING = {
    "sizing.mode": "apply",
    "sizing.window_s": 5.0,
    "sizing.step_limit": 3.0,
    # The comparison is of one change: all policies may decide, but nothing is made smaller meanwhile.
    "sizing.down_after_s": 3600.0,
}


@dataclass(frozen=True, slots=True)
class ReshapePart:
    """One way to a larger heap, and what the query felt of it.

    ``downtime_s`` is the longest time between the ends of two batches, less the usual one; ``usual_batch_s`` and
    ``usual_after_s`` are medians before and after the change, ``longest_batch_s`` is of those around it. ``rows`` are
    those that batches read, ``counted_rows`` those in the result at the end, ``offset_rows`` those of the source up to
    there. ``verdicts`` is what each policy said when the change was decided.
    """

    way: str
    heap_before_mb: int
    heap_after_mb: int
    policy: str
    reason: str
    took_s: float
    downtime_s: float
    usual_batch_s: float
    usual_after_s: float
    longest_batch_s: float
    rows: int
    counted_rows: int
    offset_rows: int
    runs: int
    failed_tasks: int
    gc_before: float | None
    gc_after: float | None
    verdicts: dict[str, str] = field(default_factory=dict)
    actions: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def is_exact(self) -> bool:
        """Whether every row was counted once."""
        return self.rows == self.counted_rows == self.offset_rows

    def to_dict(self) -> dict[str, Any]:
        """Give the part as plain data."""
        return asdict(self) | {"is_exact": self.is_exact}


def bench_reshape(*, parts: tuple[str, ...] = ("reshape", "restart"), say: Callable[[str], None]) -> list[ReshapePart]:
    """Run both parts, one after the other, on one small Standalone cluster."""
    found: list[ReshapePart] = []
    with tempfile.TemporaryDirectory(prefix="penstock-reshape-") as directory:
        spec = StandaloneSpec(Path(directory) / "spark", workers=2, cores=2, memory="2g")
        with running_cluster(spec, timeout_s=PATIENCE_S) as cluster:
            heap_mb = 3 * SMALL_HEAP_MB
            if "reshape" in parts:
                say("a larger heap while the query runs")
                found.append(_reshaped(cluster.place, Path(directory) / "live"))
                heap_mb = found[-1].heap_after_mb
            if "restart" in parts:
                say("the same by a restart")
                found.append(_restarted(cluster.place, Path(directory) / "again", heap_mb))
    return found


def _engine_spec(heap_mb: int) -> EngineSpec:
    return EngineSpec(
        "penstock-reshape", ExecutorBounds(1, 2, 1), cores=_CORES, memory=f"{heap_mb}m",
        memory_overhead=_OVERHEAD, driver_memory="600m", settings=SETTINGS,
    )  # fmt: skip


def _reshaped(place: Place, checkpoint: Path) -> ReshapePart:
    import penstock  # noqa: PLC0415 - a benchmark is a user of the package

    with running_engine(_engine_spec(SMALL_HEAP_MB), place) as engine:
        keep_one_executor(engine.spark)
        store = MemoryStore()
        query = _start(engine.spark, checkpoint)
        # The first batches are long for other reasons.
        await_batches(query, _BATCHES_BEFORE)
        with penstock.attach(engine.spark, settings=_SIZING, store=store) as pen:
            await_result(lambda: _newest(store, ActionKind.RESIZE), lambda: f"decision: {verdicts_of(pen)}")
            verdicts = verdicts_of(pen)
            done = await_result(lambda: _newest(store, ActionKind.RESIZE_DONE), "change of the heap")
            ended_s = done["time_s"]
            await_batches(query, _BATCHES_AROUND)
            # With the hold the store is closed.
            decided = store.actions(kinds=(ActionKind.RESIZE,))[0].to_dict()
            actions = [record.to_dict() for record in store.actions()]
            gc_after = _gc(store, after_s=ended_s)
        if not done["details"]["is_done"]:
            raise ClusterError(f"the heap was not changed: {done['reason']}")
        shape = EngineShape.from_dict(decided["details"]["shape"])
        result = _result(engine.spark, [query], checkpoint, began_s=decided["time_s"], ended_s=ended_s)
        query.stop()
        return ReshapePart(
            way=done["details"]["way"], heap_before_mb=SMALL_HEAP_MB, heap_after_mb=shape.heap_mb,
            policy=decided["details"]["policy"], reason=decided["reason"], took_s=float(done["value"]),
            gc_before=decided["details"]["figures"].get("gc_fraction"), gc_after=gc_after, verdicts=verdicts,
            actions=actions, **result,
        )  # fmt: skip


def _restarted(place: Place, checkpoint: Path, heap_mb: int) -> ReshapePart:
    with running_engine(_engine_spec(SMALL_HEAP_MB), place) as engine:
        keep_one_executor(engine.spark)
        first = _start(engine.spark, checkpoint)
        await_batches(first, _BATCHES_BEFORE)
        before = reports_of(first)
        began_s = time.time()
        first.stop()
    with running_engine(_engine_spec(heap_mb), place) as engine:
        keep_one_executor(engine.spark)
        second = _start(engine.spark, checkpoint)
        await_batches(second, 1)
        ended_s = time.time()
        await_batches(second, _BATCHES_AROUND)
        result = _result(engine.spark, [second], checkpoint, began_s=began_s, ended_s=ended_s, before=before)
        second.stop()
    return ReshapePart(
        way="restart", heap_before_mb=SMALL_HEAP_MB, heap_after_mb=heap_mb, policy="-", reason="",
        took_s=ended_s - began_s, gc_before=None, gc_after=None, **result,
    )  # fmt: skip


def _start(spark: SparkSession, checkpoint: Path) -> StreamingQuery:
    from pyspark.sql import functions as fn  # noqa: PLC0415 - the engine sets the interpreter first

    from penstock.spark.load import register  # noqa: PLC0415 - as above

    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    _cache_table(spark)
    profile = f"constant:rate={_ROWS_PER_S}"
    rows = spark.readStream.format("penstock.load").option("profile", profile).option("partitions", 2).load()
    words = fn.split(fn.repeat(fn.concat(fn.col("offset").cast("string"), fn.lit(" ")), _WORDS), " ")
    by_key = rows.groupBy((fn.col("offset") % _KEYS).alias("key"))
    counts = by_key.agg(fn.count("*").alias("count"), fn.sum(fn.size(words)).alias("words"))
    writer = counts.writeStream.format("noop").outputMode("update").queryName("counts")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime=_TRIGGER).start()


def _cache_table(spark: SparkSession) -> None:
    """Keep a table in the executors' heap, as an application does that looks rows up."""
    from pyspark import StorageLevel  # noqa: PLC0415 - the engine sets the interpreter first
    from pyspark.sql import functions as fn  # noqa: PLC0415 - as above

    # Two texts of 64 characters are 128 bytes a row.
    rows = spark.range(0, _CACHED_MB * 8 * 1024, 1, 4)
    texts = [fn.sha2((fn.col("id") + place).cast("string"), 256).alias(f"text_{place}") for place in (0, 1)]
    rows.select(*texts).persist(StorageLevel.MEMORY_ONLY).count()


def _newest(store: MemoryStore, kind: ActionKind) -> dict[str, Any] | None:
    found = store.actions(kinds=(kind,), last=1)
    return found[0].to_dict() if found else None


def _gc(store: MemoryStore, *, after_s: float) -> float | None:
    from penstock.model import APPLICATION, Metric  # noqa: PLC0415 - the only use

    points = store.points(APPLICATION, Metric.SIZING, since_s=after_s)
    values = [point.value for point in points if point.subject == "gc_fraction"]
    return values[-1] if values else None


def _result(
    spark: SparkSession,
    queries: list[StreamingQuery],
    checkpoint: Path,
    *,
    began_s: float,
    ended_s: float,
    before: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    from penstock.spark import internals  # noqa: PLC0415 - imports Spark
    from penstock.spark.collector import parse_timestamp_s  # noqa: PLC0415 - as above

    for query in queries:
        query.stop()
    reports = [*(before or []), *(report for query in queries for report in reports_of(query))]
    spans = []
    for report in reports:
        begin_s = parse_timestamp_s(report["timestamp"])
        spans.append((begin_s, begin_s + report["durationMs"]["triggerExecution"] / 1000.0))
    usual_batch_s = _median([end - begin for begin, end in spans[2:] if end < began_s])
    usual_after_s = _median([end - begin for begin, end in spans if begin > ended_s][1:])
    during = [
        (begin, end) for begin, end in spans if end >= began_s - usual_batch_s and begin <= ended_s + usual_batch_s
    ]
    ends = [(before, after) for (_, before), (_, after) in pairwise(spans)]
    gaps = [after - before for before, after in ends if after >= began_s and before <= ended_s]
    usual_gap_s = _median([after - before for before, after in ends[2:] if after < began_s])
    return {
        "downtime_s": max(0.0, max(gaps, default=0.0) - usual_gap_s),
        "usual_batch_s": usual_batch_s,
        "usual_after_s": usual_after_s,
        "longest_batch_s": max((end - begin for begin, end in during), default=0.0),
        **rows_counted(spark, checkpoint, reports),
        "runs": len({report["runId"] for report in reports}),
        "failed_tasks": internals.failed_tasks(spark),
    }


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0
