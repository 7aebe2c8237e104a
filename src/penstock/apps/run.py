"""Runs an application for a while, with or without Penstock, and says what its queries achieved."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.apps.ages import ages_of
from penstock.apps.catalog import Setting, topics_of
from penstock.apps.measure import weighted_quantile
from penstock.apps.streams import KafkaStream
from penstock.apps.waiting import raise_failure
from penstock.kafka.lag import offsets_of_progress
from penstock.spark.collector import guard_signal, observed_metrics, offset_distance, parse_progress, parse_timestamp_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.apps.catalog import App, AppQuery
    from penstock.apps.streams import Stream
    from penstock.kafka.client import KafkaClient
    from penstock.model import Goal
    from penstock.spark.attach import Penstock

_TICK_S = 1.0


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """What one query did in a run; times are None where no batch was finished.

    Latencies are of rows that were processed; what waits is in the lag.
    """

    query: str
    batches: int
    read_rows: int
    kept_fraction: float
    busy_rows_per_s: float
    batch_p50_s: float | None
    batch_p95_s: float | None
    batch_max_s: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    latency_max_s: float | None
    lag_end_rows: int | None
    lag_max_rows: int | None

    def to_dict(self) -> dict[str, object]:
        """As one row of a table, units in the keys."""
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class RunTick:
    """Where a run is: seconds, and rows and lag by query."""

    elapsed_s: float
    seconds: float
    rows: dict[str, int]
    lag_rows: dict[str, int | None]


def run_app(
    app: App,
    spark: SparkSession,
    streams: Sequence[Stream],
    *,
    pen: Penstock | None,
    goal: Goal,
    instances: int,
    seconds: float,
    checkpoints: Path,
    settle_s: float = 0.0,
    until_rows: int | None = None,
    client: KafkaClient | None = None,
    watch: Callable[[RunTick], None] = lambda _: None,
) -> list[QueryFigures]:
    """Start all queries of an application, each with its own checkpoint, stop them after so long, and measure.

    With ``until_rows`` the run ends early, as soon as every query has read so many rows. Batches that
    began and lags that were seen in the first ``settle_s`` seconds are left out of the figures.
    """
    partitions = min(client.partitions()[topic] for topic in topics_of(streams)) if client is not None else instances
    setting = Setting(spark, pen, goal, min(instances, partitions), partitions)
    parts = app.build(setting, streams)
    # Taken before the start: a first batch that began before its query's start returned is a batch of this run, too.
    measured_from_s = time.time() + settle_s
    running = [(part, _start(part, pen, goal, checkpoints)) for part in parts]
    began_s = time.monotonic()
    lags: dict[str, list[int]] = {part.name: [] for part in parts}
    try:
        while (elapsed_s := time.monotonic() - began_s) < seconds:
            time.sleep(min(_TICK_S, seconds - elapsed_s))
            rows = {part.name: _rows(query) for part, query in running}
            now = {part.name: _lag(part, query, client) for part, query in running}
            for name, lag in now.items():
                lags[name] += [] if lag is None or elapsed_s < settle_s else [lag]
            watch(RunTick(time.monotonic() - began_s, seconds, rows, now))
            for _, query in running:
                raise_failure(query)
            if until_rows is not None and min(rows.values()) >= until_rows:
                break
        return [figures_of(part.name, query, lags[part.name], measured_from_s) for part, query in running]
    finally:
        for _, query in running:
            query.stop()


def _start(part: AppQuery, pen: Penstock | None, goal: Goal, checkpoints: Path) -> StreamingQuery:
    writer = part.frame.writeStream.format("noop").queryName(part.name).outputMode(part.output_mode)
    writer = writer.option("checkpointLocation", str(checkpoints / part.name))
    return writer.start() if pen is None else pen.govern(writer, goal).start()


def _rows(query: StreamingQuery) -> int:
    return sum(report.numInputRows for report in query.recentProgress)


def _lag(part: AppQuery, query: StreamingQuery, client: KafkaClient | None) -> int | None:
    """Rows that wait now: by the broker where there is one, else by the embedded source's own clock."""
    last = query.lastProgress
    progress = parse_progress(last.json) if last is not None else {"sources": []}
    if client is None:
        return _embedded_lag(part, progress)
    read = offsets_of_progress(progress)
    ends = client.end_offsets(topics_of(part.streams))
    waiting = 0
    for stream in part.streams:
        assert isinstance(stream, KafkaStream)
        mine = stream.mine(ends[stream.topic])
        waiting += sum(max(0, end - read.get(stream.topic, {}).get(place, 0)) for place, end in mine.items())
    return waiting


def _embedded_lag(part: AppQuery, progress: dict[str, Any]) -> int | None:
    distances = [offset_distance(source["endOffset"], source["latestOffset"]) for source in progress["sources"]]
    if not distances or any(distance is None for distance in distances):
        return None
    places = max(getattr(stream, "share", (0, 1))[1] for stream in part.streams)
    return round(sum(distance for distance in distances if distance is not None) / places)


def figures_of(name: str, query: StreamingQuery, lags: list[int], from_s: float) -> QueryFigures:
    """What a query achieved in the batches that began after a moment; lags are those that were seen meanwhile."""
    reports = [parse_progress(report.json) for report in query.recentProgress]
    late = [report for report in reports if parse_timestamp_s(report["timestamp"]) >= from_s]
    full = [report for report in late if report["numInputRows"]]
    durations = np.array([report["durationMs"]["triggerExecution"] / 1000 for report in full])
    batch_s = [float(np.quantile(durations, share)) if len(durations) else None for share in (0.5, 0.95, 1.0)]
    samples = [ages_of(report, _finished_s(report)) for report in full]
    ages = np.concatenate([sample for sample, _ in samples] or [np.zeros(0)])
    weights = np.concatenate([weight for _, weight in samples] or [np.zeros(0)])
    latencies = [weighted_quantile(ages, weights, share) if len(ages) else None for share in (0.5, 0.95, 1.0)]
    guards = [guard for report in full if (guard := guard_signal(observed_metrics(report))) is not None]
    offered = sum(guard.offered_rows for guard in guards)
    return QueryFigures(
        query=name,
        batches=len(full),
        read_rows=sum(report["numInputRows"] for report in full),
        kept_fraction=sum(guard.kept_rows for guard in guards) / offered if offered else 1.0,
        busy_rows_per_s=_busy_rows_per_s(full),
        batch_p50_s=batch_s[0],
        batch_p95_s=batch_s[1],
        batch_max_s=batch_s[2],
        latency_p50_s=latencies[0],
        latency_p95_s=latencies[1],
        latency_max_s=latencies[2],
        lag_end_rows=lags[-1] if lags else None,
        lag_max_rows=max(lags) if lags else None,
    )


def _busy_rows_per_s(full: list[dict[str, Any]]) -> float:
    """Rows per second of batch time, over the last third of the batches: the first ones are small and cold."""
    later = full[len(full) * 2 // 3 :]
    busy_s: float = sum(report["durationMs"]["triggerExecution"] for report in later) / 1000
    rows: int = sum(report["numInputRows"] for report in later)
    return rows / busy_s if busy_s else 0.0


def _finished_s(report: dict[str, Any]) -> float:
    return parse_timestamp_s(report["timestamp"]) + float(report["durationMs"]["triggerExecution"]) / 1000
