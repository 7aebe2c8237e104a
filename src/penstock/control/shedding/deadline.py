"""Deadline shedding: rows that would come out too late anyway go first, and spare the others the wait.

A row of age ``a`` that would wait ``q`` and run for ``w`` is useless when ``a + q + w > deadline``. Dropping it
shortens the queue for every row behind it; the rows that are kept are on time by the estimates at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from penstock.control.shedding.accuracy import count_row, must_keep
from penstock.control.shedding.base import Decision, Rows, kept_share
from penstock.control.shedding.las import LoadAware
from penstock.control.shedding.queue import BUSY_UNTIL
from penstock.estimate.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


@compiled
def keep_on_time(
    arrivals: NDArray[np.float64],
    costs: NDArray[np.float64],
    ages: NDArray[np.float64],
    deadline: float,
    minimum: float,
    state: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Keep the rows that can still be done in time, and those that must stay."""
    keep = np.empty(arrivals.size, np.bool_)
    for index in range(arrivals.size):
        begins = max(state[BUSY_UNTIL], arrivals[index])
        ends = begins + costs[index]
        keep[index] = ends - arrivals[index] + ages[index] <= deadline or must_keep(state, minimum)
        if keep[index]:
            state[BUSY_UNTIL] = ends
        count_row(state, keep[index])
    return keep


class Deadline(LoadAware):
    """Drops the rows that are, or would be, too late; costs are learned as in :class:`LoadAware`.

    Rows too old are dropped even before any cost is known.

    Examples
    --------
    >>> from penstock.estimate.hashing import draw_hashes
    >>> shedder = Deadline(1.0, hashes=draw_hashes(np.random.default_rng(3), 4))
    >>> rows = Rows(np.arange(3, dtype=np.uint64), np.zeros(3), np.zeros(3), age_s=np.array([0.2, 1.5, 0.9]))
    >>> shedder.decide(rows).keep.tolist()
    [True, False, True]
    """

    name: ClassVar[str] = "deadline"

    def __init__(
        self,
        deadline_s: float,
        *,
        hashes: NDArray[np.uint64],
        epsilon: float = 0.05,
        prior_rows: float = 1.0,
        minimum_accuracy: float = 0.0,
    ) -> None:
        super().__init__(
            deadline_s, hashes=hashes, epsilon=epsilon, prior_rows=prior_rows, minimum_accuracy=minimum_accuracy
        )

    def _keep(self, rows: Rows, costs_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        ages_s = rows.required("age_s", self.name)
        return keep_on_time(rows.arrival_s, costs_s, ages_s, self.threshold_s, self.minimum_accuracy, self._state)

    def _decide_untrained(self, rows: Rows) -> Decision:
        keep = self._keep(rows, np.zeros(rows.keys.size))
        return Decision(keep=keep, probability=kept_share(keep), drawn=False)
