"""Straw-Man: the queue shedder that takes every row for an average one, as shedders did before this paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from penstock.control.shedding.check import Constraint
from penstock.control.shedding.queue import QueueShedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.control.shedding.base import Rows


class StrawMan(QueueShedder):
    """Counts every row at the mean execution time; the true queue drifts away from the one it keeps in mind.

    Examples
    --------
    >>> from penstock.control.shedding.base import Rows
    >>> rows = Rows(keys=np.zeros(4, np.uint64), arrival_s=0.002 * np.arange(4), uniforms=np.zeros(4))
    >>> StrawMan(0.001, mean_cost_s=0.004).decide(rows).keep.tolist()
    [True, True, False, False]
    """

    name: ClassVar[str] = "straw_man"

    def __init__(
        self,
        threshold_s: float,
        *,
        mean_cost_s: float,
        constraint: Constraint = Constraint.AVERAGE,
        window_rows: int = 1024,
        minimum_accuracy: float = 0.0,
    ) -> None:
        super().__init__(threshold_s, constraint=constraint, window_rows=window_rows, minimum_accuracy=minimum_accuracy)
        self.mean_cost_s = mean_cost_s

    def estimated_costs_s(self, rows: Rows) -> NDArray[np.float64]:
        """Give the mean, for every row."""
        return np.full(rows.keys.size, self.mean_cost_s)
