"""What one executor does in a second of busy time, for needs that cannot wait for a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from penstock.control.workload import Workload

_MIN_BUSY = 0.15
_NEW_RATE_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class ExecutorRate:
    """What one executor does in a second of busy time, measured on batches that began after the size had changed."""

    rows_per_s: float | None = None
    measured_from_s: float = float("-inf")
    executors: int | None = None
    valid_from_s: float = float("-inf")

    def after(self, workload: Workload, executors: int, now_s: float, *, warm_up_s: float) -> ExecutorRate:
        """The rate after an observation.

        Examples
        --------
        >>> from penstock.control.workload import Workload
        >>> load = Workload(processed_rows_per_s=600.0, busy_share=0.75, measured_from_s=95.0)
        >>> rate = ExecutorRate().after(load, 2, 100.0, warm_up_s=30.0)
        >>> rate.rows_per_s
        400.0
        >>> rate.after(load, 8, 101.0, warm_up_s=30.0).rows_per_s
        400.0
        """
        rate = self
        if executors != self.executors:
            # The first size served already when the first batch began; later ones must warm up.
            valid_from_s = float("-inf") if self.executors is None else now_s + warm_up_s
            rate = evolve(rate, executors=executors, valid_from_s=valid_from_s)
        measured_s, busy, done = workload.measured_from_s, workload.busy_share or 0.0, workload.processed_rows_per_s
        if measured_s is None or measured_s <= rate.measured_from_s or measured_s < rate.valid_from_s:
            return rate
        if not done or busy < _MIN_BUSY or executors < 1:
            return rate
        new, old = done / busy / executors, rate.rows_per_s
        smoothed = new if old is None else old + _NEW_RATE_WEIGHT * (new - old)
        return evolve(rate, rows_per_s=smoothed, measured_from_s=measured_s)
