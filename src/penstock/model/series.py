"""Points of the time series that Penstock keeps of every query."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.query import QueryName


class Metric(StrEnum):
    """Everything that is kept as a time series; the unit is part of the name."""

    BATCH_ROWS = "batch_rows"
    BATCH_DURATION_S = "batch_duration_s"
    BATCH_OVERHEAD_S = "batch_overhead_s"
    READ_COST_PER_ROW_S = "read_cost_per_row_s"
    COST_PER_ROW_S = "cost_per_row_s"
    LAG_ROWS = "lag_rows"
    ARRIVAL_ROWS_PER_S = "arrival_rows_per_s"
    PROCESSED_ROWS_PER_S = "processed_rows_per_s"
    READ_LIMIT_ROWS = "read_limit_rows"
    KEEP_RATIO = "keep_ratio"
    MEASURED_ACCURACY = "measured_accuracy"
    OLDEST_ROW_AGE_S = "oldest_row_age_s"
    STATE_ROWS = "state_rows"
    STATE_BYTES = "state_bytes"
    EXECUTORS_SERVING = "executors_serving"
    EXECUTOR_START_S = "executor_start_s"
    EXECUTOR_RELEASE_S = "executor_release_s"
    EXECUTOR_BUSY_FRACTION = "executor_busy_fraction"
    EXECUTOR_GC_FRACTION = "executor_gc_fraction"
    EXECUTOR_HEAP_PEAK_BYTES = "executor_heap_peak_bytes"
    EXECUTOR_HEAP_MAX_BYTES = "executor_heap_max_bytes"
    SIZING = "sizing"
    """What sizes are decided by; the subject names the figure with its unit."""


@dataclass(frozen=True, slots=True)
class SeriesBin:
    """What the points of one stretch of time come to; ``time_s`` is where it begins."""

    time_s: float
    count: int
    low: float
    mean: float
    high: float


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One value at one time. ``subject`` tells parts of a query apart: a phase, a source, an executor."""

    time_s: float
    query: QueryName
    metric: Metric
    value: float
    batch_id: int | None = None
    subject: str = ""
