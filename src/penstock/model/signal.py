"""Observations: what a batch, its sources and the executors told.

Unknown is None from end to end: a controller must never take a missing lag for a lag of zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.query import QueryName


@dataclass(frozen=True, slots=True)
class SourceSignal:
    """What one source contributed to a batch, and what it still holds back."""

    index: int
    rows: int
    units: float | None
    lag_rows: float | None
    lag_units: float | None = None


def _total(lags: Iterable[float | None]) -> float | None:
    known = list(lags)
    return None if any(lag is None for lag in known) else float(sum(lag for lag in known if lag is not None))


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch that runs already: when it was planned, what it takes from each source, and what it leaves there."""

    batch_id: int
    planned_s: float
    sources: tuple[SourceSignal, ...]

    @property
    def rows(self) -> int:
        """Rows that it reads."""
        return sum(source.rows for source in self.sources)

    @property
    def lag_rows(self) -> float | None:
        """Rows left waiting over all sources; None as soon as one source does not tell."""
        return _total(source.lag_rows for source in self.sources)


@dataclass(frozen=True, slots=True)
class GuardSignal:
    """What the guards of a query let through in a batch.

    ``keep_ratio`` is what the batch kept to; ``kept_rows`` over ``offered_rows`` what came of it. ``work_ratio`` is the
    part of the work that was kept, where rows are known to differ in cost. ``late_rows`` were too old to be out in
    time; ``on_time_ratio`` is the part of the work of all others that was kept. ``answered`` says whether the batch got
    an answer when it asked what to keep, ``everything`` whether it was to keep every row. ``utilities`` are pairs of a
    utility and how many rows of a sample have about that.
    """

    offered_rows: int
    kept_rows: int
    keep_ratio: float
    oldest_arrival_s: float | None = None
    newest_arrival_s: float | None = None
    work_ratio: float | None = None
    late_rows: int = 0
    on_time_ratio: float | None = None
    answered: bool = True
    everything: bool = False
    utilities: tuple[tuple[float, float], ...] = ()

    @property
    def kept_ratio(self) -> float:
        """Accuracy as it was: kept rows over offered rows."""
        return self.kept_rows / self.offered_rows if self.offered_rows else 1.0

    @property
    def processed_ratio(self) -> float:
        """Share of the full work that was done: by learned costs where there are any, else by rows."""
        return self.kept_ratio if self.work_ratio is None else self.work_ratio


@dataclass(frozen=True, slots=True)
class BatchSignal:
    """One finished micro-batch of a query.

    ``started_s`` and ``finished_s`` are seconds since the epoch on the driver's clock; ``duration_s`` is what Spark
    reports as ``triggerExecution``, split by phase in ``phases_s``. ``partitions`` is the most tasks that one of its
    stages has work for, and ``output_rows`` what its sink wrote; None where a source, or the sink, does not tell.
    ``is_next_planned`` says whether the batch after it was planned when this was told, so that what is decided now
    holds for the one after that: nearly always, but a report may overtake a busy query's own thread.
    """

    query: QueryName
    batch_id: int
    started_s: float
    duration_s: float
    rows: int
    sources: tuple[SourceSignal, ...]
    phases_s: tuple[tuple[str, float], ...] = ()
    state_rows: int = 0
    state_bytes: int = 0
    guard: GuardSignal | None = None
    partitions: int | None = None
    output_rows: int | None = None
    is_next_planned: bool = True

    @property
    def work_rows(self) -> int:
        """Rows that were processed in full: those that the guards kept, or all; of mean cost where costs are known."""
        return self.rows if self.guard is None else round(self.rows * self.guard.processed_ratio)

    @property
    def finished_s(self) -> float:
        """When the batch's results were out."""
        return self.started_s + self.duration_s

    @property
    def lag_rows(self) -> float | None:
        """Rows waiting over all sources; None as soon as one source does not tell."""
        return _total(source.lag_rows for source in self.sources)

    @property
    def rows_per_s(self) -> float:
        """Rows processed per second of batch time."""
        return self.rows / self.duration_s if self.duration_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ExecutorSignal:
    """CPU, heap and garbage collection of one executor since the last look."""

    executor_id: str
    cores: int
    busy_fraction: float | None
    gc_fraction: float | None
    heap_peak_bytes: int | None
    heap_max_bytes: int | None
