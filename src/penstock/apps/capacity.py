"""What a pipeline can process: rows per second on a backlog, in batches of the length that a goal allows."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.apps.measure import BatchRecord

_WARM_UP_BATCHES, _TRIAL_BATCHES = 2, 3
_LARGEST_STEP = 4.0
_MOST_CORRECTIONS = 3


@dataclass(frozen=True, slots=True)
class Capacity:
    """The limit whose batches are about as long as wanted, and what was done with it."""

    limit_rows: int
    batches: tuple[BatchRecord, ...]

    @property
    def busy_s(self) -> float:
        """Seconds that the batches took."""
        return sum(batch.duration_s for batch in self.batches)

    @property
    def rows_per_s(self) -> float:
        """Rows over the time of their batches."""
        return sum(batch.rows for batch in self.batches) / self.busy_s

    @property
    def batch_s(self) -> float:
        """Mean length of a batch."""
        return self.busy_s / len(self.batches)


def find_capacity(
    run_batches: Callable[[int, int], Sequence[BatchRecord]],
    *,
    target_s: float,
    first_rows: int,
    most_trials: int = 6,
    near: float = 0.07,
    measured_batches: int | None = None,
) -> Capacity:
    """Try limits until batches take about as long as wanted.

    ``run_batches`` runs so many batches under a limit, on a backlog that does not end. Small batches are mostly
    overhead and run on code that is not compiled yet, so a trial corrects the one before it, by a factor of four at
    most. With ``measured_batches`` the limit that was found is run for so many more, and corrected as long as their
    length is off by twice as much as is near: an engine that has become warm meanwhile does them in less.
    """
    limit_rows = first_rows
    found: tuple[BatchRecord, ...] = ()
    for _ in range(most_trials):
        found = tuple(run_batches(limit_rows, _WARM_UP_BATCHES + _TRIAL_BATCHES))[_WARM_UP_BATCHES:]
        length_s = statistics.median(batch.duration_s for batch in found)
        if abs(length_s / target_s - 1.0) < near:
            break
        limit_rows = max(1, round(limit_rows * min(target_s / length_s, _LARGEST_STEP)))
    capacity = Capacity(limit_rows, found)
    for _ in range(0 if measured_batches is None else _MOST_CORRECTIONS):
        found = tuple(run_batches(limit_rows, _WARM_UP_BATCHES + (measured_batches or 0)))[_WARM_UP_BATCHES:]
        capacity = Capacity(limit_rows, found)
        if abs(capacity.batch_s / target_s - 1.0) < 2.0 * near:
            break
        limit_rows = max(1, round(limit_rows * min(target_s / capacity.batch_s, _LARGEST_STEP)))
    return capacity
