"""What a batch is taken to cost: its overhead, and each row that is read and kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class BatchCosts:
    """One reading of what batches cost: ``read_s`` is paid for every row, ``work_s`` for those that are kept too.

    Examples
    --------
    >>> costs = BatchCosts(0.2, read_s=1e-6, work_s=9e-6)
    >>> round(costs.predict_s(100_000, 50_000), 2), round(costs.kept_rows_within(0.75, 100_000))
    (0.75, 50000)
    """

    overhead_s: float
    read_s: float
    work_s: float

    @property
    def row_s(self) -> float:
        """Seconds for a row that is read and kept."""
        return self.read_s + self.work_s

    def predict_s(self, read_rows: float, kept_rows: float) -> float:
        """Expected duration of a batch."""
        return self.overhead_s + self.read_s * read_rows + self.work_s * kept_rows

    def kept_rows_within(self, duration_s: float, read_rows: float) -> float:
        """Rows that a batch can keep of those that it reads, if it is to take so long."""
        return max(0.0, duration_s - self.predict_s(read_rows, 0.0)) / self.work_s


@dataclass(frozen=True, slots=True, eq=False)
class CostBeliefs:
    """All readings of what batches cost that are not ruled out, a vector each, and how likely each one is.

    Examples
    --------
    >>> beliefs = CostBeliefs(*(np.array(each) for each in ((0.75, 0.25), (0.2, 0.6), (0.0, 1e-6), (9e-6, 4e-6))))
    >>> round(beliefs.mean().overhead_s, 2), round(beliefs.mean(np.array((0.0, 2.0))).overhead_s, 2)
    (0.3, 0.6)
    """

    weights: NDArray[np.float64]
    overheads_s: NDArray[np.float64]
    reads_s: NDArray[np.float64]
    works_s: NDArray[np.float64]

    def mean(self, factors: NDArray[np.float64] | float = 1.0) -> BatchCosts:
        """Costs on average, each reading counted so many times."""
        weights = self.weights * factors
        overhead_s, read_s, work_s = (
            float(np.vdot(weights, costs) / weights.sum()) for costs in (self.overheads_s, self.reads_s, self.works_s)
        )
        return BatchCosts(overhead_s, read_s, work_s)
