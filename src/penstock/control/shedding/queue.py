"""Shedding by the wait that a row would have, given the execution time of every row before it.

The shedder keeps ``C``, the moment at which the operator will be done with all that was let through. A row arriving at
``t`` would wait ``q = max(C - t, 0)``; if CHECK allows it, ``C = max(C, t) + w``.

The paper's line 18 (Listing III.2) has ``q = C - elapsed`` with ``C`` a plain sum of execution times. That credits the
operator with time it stood idle: after a quiet spell the estimate is far below zero and a burst passes unshed. Taking
the later of ``C`` and ``t`` forgets idle time.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.shedding.accuracy import KEPT, OFFERED, ROUNDING, count_row, must_keep
from penstock.control.shedding.base import Decision, Rows, Shedder, Snapshot, kept_share
from penstock.control.shedding.check import AVERAGE, WAIT_SUM, WAITS, WINDOW, Constraint, breaks_promise, count_wait
from penstock.errors import InvalidSettingError
from penstock.estimate.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.estimate.sketch_state import SyncReply

BUSY_UNTIL, QUEUE_STATE_SIZE = 2, 6


@compiled
def keeps_row(
    arrival: float,
    cost: float,
    threshold: float,
    constraint: int,
    minimum: float,
    state: NDArray[np.float64],
    window: NDArray[np.float64],
) -> bool:
    """Decide on one row of known or estimated cost, and take it into the queue if it stays."""
    busy_until = state[BUSY_UNTIL]
    wait = max(busy_until - arrival, 0.0)
    keep = must_keep(state, minimum) | (not breaks_promise(wait, threshold, constraint, state, window))
    count_wait(keep, wait, constraint, state, window)
    state[BUSY_UNTIL] = max(busy_until, arrival) + cost if keep else busy_until
    count_row(state, keep)
    return keep


@compiled
def keep_rows(
    arrivals: NDArray[np.float64],
    costs: NDArray[np.float64],
    threshold: float,
    constraint: int,
    minimum: float,
    state: NDArray[np.float64],
    window: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Decide on many rows, as :func:`keeps_row` does on one."""
    keep = np.empty(arrivals.size, np.bool_)
    if constraint == WINDOW:
        for index in range(arrivals.size):
            keep[index] = keeps_row(arrivals[index], costs[index], threshold, constraint, minimum, state, window)
        return keep
    # The state stays in registers: every row needs that of the row before, and would wait for it to come from memory.
    offered, kept, busy_until = state[OFFERED], state[KEPT], state[BUSY_UNTIL]
    wait_sum, waits = state[WAIT_SUM], state[WAITS]
    is_average = constraint == AVERAGE
    for index in range(arrivals.size):
        arrival = arrivals[index]
        wait = max(busy_until - arrival, 0.0)
        breaks = wait > threshold
        if is_average:
            breaks &= wait_sum + wait > threshold * (waits + 1.0)
        stays = (kept < minimum * (offered + 1.0) - ROUNDING) | (not breaks)
        keep[index] = stays
        busy_until = max(busy_until, arrival) + costs[index] if stays else busy_until
        wait_sum += wait if stays else 0.0
        waits += 1.0 if stays else 0.0
        kept += 1.0 if stays else 0.0
        offered += 1.0
    state[OFFERED], state[KEPT], state[BUSY_UNTIL] = offered, kept, busy_until
    state[WAIT_SUM], state[WAITS] = wait_sum, waits
    return keep


class QueueShedder(Shedder):
    """Drops the rows that would break a promise on queueing latency; how costs are known is left to subclasses.

    Parameters
    ----------
    threshold_s
        ``tau``: the wait that is promised.
    constraint
        Whether the promise is on the mean, on every row, or on the mean of the last ``window_rows`` rows.
    """

    def __init__(
        self,
        threshold_s: float,
        *,
        constraint: Constraint = Constraint.AVERAGE,
        window_rows: int = 1024,
        minimum_accuracy: float = 0.0,
    ) -> None:
        if not threshold_s >= 0:
            raise InvalidSettingError("threshold", threshold_s, "seconds, from zero up")
        if window_rows < 1:
            raise InvalidSettingError("window rows", window_rows, "at least one row")
        super().__init__(minimum_accuracy=minimum_accuracy, state_size=QUEUE_STATE_SIZE)
        self.threshold_s = threshold_s
        self.constraint = constraint
        self._window = np.zeros(window_rows if constraint is Constraint.WINDOW else 1)

    @abstractmethod
    def estimated_costs_s(self, rows: Rows) -> NDArray[np.float64]:
        """Give the execution time that each row is taken to need."""

    def decide(self, rows: Rows) -> Decision:
        """Keep rows as long as the promise holds."""
        keep = self._keep(rows, self.estimated_costs_s(rows))
        return Decision(keep=keep, probability=kept_share(keep), drawn=False)

    def _keep(self, rows: Rows, costs_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        return keep_rows(
            rows.arrival_s, costs_s, self.threshold_s, int(self.constraint),
            self.minimum_accuracy, self._state, self._window,
        )  # fmt: skip

    def correct(self, reply: SyncReply) -> None:
        """Move the moment at which the operator will be done by what it was off."""
        self._state[BUSY_UNTIL] += reply.late_s

    def snapshot(self) -> Snapshot:
        """Give state and window."""
        return {**super().snapshot(), "window": self._window.copy()}

    def restore(self, snapshot: Snapshot) -> None:
        """Decide on from a snapshot."""
        super().restore(snapshot)
        self._window = snapshot["window"].copy()
