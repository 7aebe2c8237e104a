"""What a run on the load source achieved, from its progress reports and the arrival times that the source knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.spark.collector import parse_progress, parse_timestamp_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.load_rows import LoadTruth

_SAMPLES_PER_BATCH = 400


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One finished batch: which rows of the source it took, how many of them were kept, and when it was done."""

    batch_id: int
    first_offset: int
    end_offset: int
    kept_rows: int
    started_s: float
    duration_s: float

    @property
    def rows(self) -> int:
        """Rows taken from the source."""
        return self.end_offset - self.first_offset

    @property
    def finished_s(self) -> float:
        """When its results were out."""
        return self.started_s + self.duration_s


def batch_records(query: StreamingQuery) -> list[BatchRecord]:
    """Batches with rows of a query on the load source, oldest first."""
    reports = [parse_progress(progress.json) for progress in query.recentProgress]
    return [_record(report) for report in reports if report["numInputRows"] > 0]


def _record(report: dict[str, Any]) -> BatchRecord:
    source = report["sources"][0]
    start = source["startOffset"]
    kept = [metric["kept_rows"] for metric in (report.get("observedMetrics") or {}).values() if "kept_rows" in metric]
    first, end = (start["row"] if isinstance(start, dict) else 0), source["endOffset"]["row"]
    return BatchRecord(
        batch_id=int(report["batchId"]),
        first_offset=first,
        end_offset=end,
        kept_rows=int(kept[0]) if kept else end - first,
        started_s=parse_timestamp_s(report["timestamp"]),
        duration_s=report["durationMs"]["triggerExecution"] / 1000.0,
    )


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Median, 95th percentile and largest value, in seconds."""

    p50_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one run from its beginning to its end."""

    name: str
    seconds: float
    goal_s: float
    offered_rows: int
    read_rows: int
    processed_rows: int
    useful_rows: float
    lag_end_rows: int
    batch: Percentiles
    latency: Percentiles
    batches: tuple[BatchRecord, ...]
    latency_by_batch_s: tuple[tuple[float, float, float], ...]
    """Per batch: when it was done, and the median and largest latency of its rows."""

    @property
    def useful_rows_per_s(self) -> float:
        """Rows per second whose results came within the goal."""
        return self.useful_rows / self.seconds

    @property
    def accuracy(self) -> float:
        """Kept rows over rows read."""
        return self.processed_rows / self.read_rows if self.read_rows else 1.0

    def row(self) -> dict[str, float | str]:
        """The figures as one row of a table, units in the keys."""
        return {
            "run": self.name,
            "seconds": round(self.seconds, 1),
            "batches": len(self.batches),
            "offered_rows": self.offered_rows,
            "read_rows": self.read_rows,
            "processed_rows": self.processed_rows,
            "kept_fraction": round(self.accuracy, 4),
            "batch_p50_s": round(self.batch.p50_s, 3),
            "batch_p95_s": round(self.batch.p95_s, 3),
            "batch_max_s": round(self.batch.max_s, 3),
            "latency_p50_s": round(self.latency.p50_s, 3),
            "latency_p95_s": round(self.latency.p95_s, 3),
            "latency_max_s": round(self.latency.max_s, 3),
            "lag_end_rows": self.lag_end_rows,
            "useful_rows_per_s": round(self.useful_rows_per_s, 1),
        }


def measure(
    name: str, batches: Sequence[BatchRecord], truth: LoadTruth, *, goal_s: float, began_s: float, ended_s: float
) -> Measured:
    """Figures of a run that lasted from ``began_s`` to ``ended_s``.

    A row that was not processed by the end has no latency and counts in the lag only: the latencies of a run that fell
    behind are therefore too good, and its lag says so.
    """
    latencies, weights, useful, by_batch = [], [], 0.0, []
    for batch in batches:
        ages_s = batch.finished_s - truth.arrival_epoch_s(_sample(batch))
        latencies.append(ages_s)
        weights.append(np.full(len(ages_s), batch.kept_rows / len(ages_s)))
        useful += batch.kept_rows * float(np.mean(ages_s <= goal_s))
        by_batch.append((batch.finished_s, float(np.median(ages_s)), float(ages_s.max())))
    offered = truth.rows_by_epoch_s(ended_s)
    durations = np.array([batch.duration_s for batch in batches])
    return Measured(
        name=name,
        seconds=ended_s - began_s,
        goal_s=goal_s,
        offered_rows=offered,
        read_rows=sum(batch.rows for batch in batches),
        processed_rows=sum(batch.kept_rows for batch in batches),
        useful_rows=useful,
        lag_end_rows=max(0, offered - max((batch.end_offset for batch in batches), default=0)),
        batch=_percentiles(durations, np.ones(len(durations))),
        latency=_percentiles(np.concatenate(latencies or [np.zeros(0)]), np.concatenate(weights or [np.zeros(0)])),
        batches=tuple(batches),
        latency_by_batch_s=tuple(by_batch),
    )


def _sample(batch: BatchRecord) -> NDArray[np.int64]:
    count = min(_SAMPLES_PER_BATCH, batch.rows)
    return np.unique(np.linspace(batch.first_offset, batch.end_offset - 1, count).astype(np.int64))


def _percentiles(values: NDArray[np.float64], weights: NDArray[np.float64]) -> Percentiles:
    if len(values) == 0 or weights.sum() <= 0:
        return Percentiles(0.0, 0.0, 0.0)
    return Percentiles(
        weighted_quantile(values, weights, 0.5), weighted_quantile(values, weights, 0.95), float(values.max())
    )


def weighted_quantile(values: NDArray[np.float64], weights: NDArray[np.float64], share: float) -> float:
    """The smallest value at or below which that share of the weight lies.

    Examples
    --------
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 8.0, 1.0]), 0.5)
    1.0
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 8.0, 1.0]), 0.95)
    3.0
    """
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    index = int(np.searchsorted(cumulative, share * cumulative[-1]))
    return float(values[order][min(index, len(values) - 1)])
