"""What a pipeline can process: rows per second on a backlog, in batches of the length that a goal allows."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.apps.measure import BatchRecord

WARM_UP_BATCHES, _TRIAL_BATCHES = 2, 3
_LARGEST_STEP = 4.0
_MOST_RUNS = 4


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
    most. With ``measured_batches`` the limit that was found is run for so many more (:func:`measure_at`).
    """
    limit_rows = first_rows
    found: tuple[BatchRecord, ...] = ()
    for _ in range(most_trials):
        found = tuple(run_batches(limit_rows, WARM_UP_BATCHES + _TRIAL_BATCHES))[WARM_UP_BATCHES:]
        length_s = statistics.median(batch.duration_s for batch in found)
        if abs(length_s / target_s - 1.0) < near:
            break
        limit_rows = max(1, round(limit_rows * min(target_s / length_s, _LARGEST_STEP)))
    if measured_batches is None:
        return Capacity(limit_rows, found)
    return measure_at(run_batches, limit_rows, target_s=target_s, near=2.0 * near, batches=measured_batches)


def measure_at(
    run_batches: Callable[[int, int], Sequence[BatchRecord]],
    limit_rows: int,
    *,
    target_s: float,
    near: float,
    batches: int,
) -> Capacity:
    """What is done in so many batches of about the wanted length, beginning with a limit that was found before.

    An engine that has become warm meanwhile, or a machine that is faster now, does them in less: the limit is corrected
    a few times.
    """
    for _ in range(_MOST_RUNS):
        capacity = Capacity(limit_rows, tuple(run_batches(limit_rows, WARM_UP_BATCHES + batches))[WARM_UP_BATCHES:])
        if abs(capacity.batch_s / target_s - 1.0) < near:
            break
        limit_rows = max(1, round(limit_rows * min(target_s / capacity.batch_s, _LARGEST_STEP)))
    return capacity
