"""What a run on the load source achieved, from its progress reports and the arrival times that the source knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.spark.collector import guard_reports, observed_metrics, parse_progress, parse_timestamp_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.load_rows import LoadTruth

_SAMPLES_PER_BATCH = 400
_IN_CONTROL = 0.05
"""A batch is in control when no more than this part of its kept rows is out too late: the goal is that of 95 %."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One finished batch: which rows of the source it took, how many of them were kept, and when it was done."""

    batch_id: int
    first_offset: int
    end_offset: int
    kept_rows: int
    started_s: float
    duration_s: float
    late_rows: int = 0
    kept_late_rows: int = 0
    """Rows that were too old when the batch was planned, which are the first of its rows; they may have gone first."""

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
    guards = guard_reports(observed_metrics(report))
    guard = guards[0] if guards else {}
    first, end = (start["row"] if isinstance(start, dict) else 0), source["endOffset"]["row"]
    return BatchRecord(
        batch_id=int(report["batchId"]),
        first_offset=first,
        end_offset=end,
        kept_rows=int(guard.get("kept_rows", end - first)),
        started_s=parse_timestamp_s(report["timestamp"]),
        duration_s=report["durationMs"]["triggerExecution"] / 1000.0,
        late_rows=int(guard.get("late_rows") or 0),
        kept_late_rows=int(guard.get("kept_late_rows") or 0),
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
    late_by_batch: tuple[float, ...] = ()
    """Per batch: the part of its kept rows that was out later than the goal."""

    @property
    def batches_to_control(self) -> int:
        """Batches from the beginning until the first of which 95 % of the kept rows were out in time."""
        return next(
            (number for number, late in enumerate(self.late_by_batch) if late <= _IN_CONTROL), len(self.batches)
        )

    @property
    def batches_out_of_control(self) -> int:
        """Batches of which more than 5 % of the kept rows were out too late."""
        return sum(late > _IN_CONTROL for late in self.late_by_batch)

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
            "batches_to_control": self.batches_to_control,
            "batches_out_of_control": self.batches_out_of_control,
        }


def measure(
    name: str, batches: Sequence[BatchRecord], truth: LoadTruth, *, goal_s: float, began_s: float, ended_s: float
) -> Measured:
    """Figures of a run from ``began_s`` to ``ended_s``; rows that arrived before count for nothing.

    A row that was not processed by the end has no latency and counts in the lag only: the latencies of a run that fell
    behind are therefore too good, and its lag says so.
    """
    earlier = truth.rows_by_epoch_s(began_s) if began_s * 1000 > truth.epoch_ms else 0
    counted = [part for batch in batches if (part := _from_offset(batch, earlier)) is not None]
    latencies, weights, useful, by_batch, late_by_batch = [], [], 0.0, [], []
    for batch in counted:
        offsets = _sample(batch)
        ages_s = batch.finished_s - truth.arrival_epoch_s(offsets)
        kept = _kept_per_sample(batch, offsets)
        latencies.append(ages_s)
        weights.append(kept)
        in_time = float(kept[ages_s <= goal_s].sum())
        useful += in_time
        kept_rows = float(kept.sum())
        late_by_batch.append(1.0 - in_time / kept_rows if kept_rows > 0 else 0.0)
        by_batch.append((batch.finished_s, float(np.median(ages_s)), float(ages_s.max())))
    offered = truth.rows_by_epoch_s(ended_s) - earlier
    durations = np.array([batch.duration_s for batch in counted])
    return Measured(
        name=name,
        seconds=ended_s - began_s,
        goal_s=goal_s,
        offered_rows=offered,
        read_rows=sum(batch.rows for batch in counted),
        processed_rows=sum(batch.kept_rows for batch in counted),
        useful_rows=useful,
        lag_end_rows=max(0, offered + earlier - max((batch.end_offset for batch in batches), default=0)),
        batch=_percentiles(durations, np.ones(len(durations))),
        latency=_percentiles(np.concatenate(latencies or [np.zeros(0)]), np.concatenate(weights or [np.zeros(0)])),
        batches=tuple(counted),
        latency_by_batch_s=tuple(by_batch),
        late_by_batch=tuple(late_by_batch),
    )


def _from_offset(batch: BatchRecord, first_offset: int) -> BatchRecord | None:
    """The part of a batch from an offset on, with its part of the kept rows; None where there is no such part."""
    if batch.end_offset <= first_offset:
        return None
    cut = max(0, first_offset - batch.first_offset)
    if not cut:
        return batch
    late = max(0, batch.late_rows - cut)
    kept_late = round(batch.kept_late_rows * late / batch.late_rows) if batch.late_rows else 0
    in_time = batch.rows - batch.late_rows
    kept_in_time = (batch.kept_rows - batch.kept_late_rows) * min(in_time, batch.rows - cut) / max(in_time, 1)
    return replace(
        batch, first_offset=first_offset, kept_rows=round(kept_in_time) + kept_late, late_rows=late,
        kept_late_rows=kept_late,
    )  # fmt: skip


def _sample(batch: BatchRecord) -> NDArray[np.int64]:
    count = min(_SAMPLES_PER_BATCH, batch.rows)
    return np.unique(np.linspace(batch.first_offset, batch.end_offset - 1, count).astype(np.int64))


def _kept_per_sample(batch: BatchRecord, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Kept rows that each sampled offset stands for; the late ones are the first, because rows are in order."""
    late = offsets < batch.first_offset + batch.late_rows
    kept = np.zeros(len(offsets))
    for chosen, rows in ((late, batch.kept_late_rows), (~late, batch.kept_rows - batch.kept_late_rows)):
        if chosen.any():
            kept[chosen] = rows / chosen.sum()
    return kept


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
