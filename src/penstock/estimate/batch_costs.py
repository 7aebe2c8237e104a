"""What a batch is taken to cost: its overhead, and each row that is read and kept."""

from __future__ import annotations

from dataclasses import dataclass


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
