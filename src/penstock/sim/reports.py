"""What a live scaler would know of a simulated query: the reports of batches that have ended, and nothing newer.

The same sums as :class:`penstock.control.workload.QueryWorkload` and :class:`penstock.control.scaling_sample.Sample`
make of them, looked at once a second; a test holds the two together. Written out here because a replay of three days
takes a quarter of a million such looks for every policy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.control.limits import ARRIVAL_HALF_LIFE_S
from penstock.estimate.arrival import ArrivalRate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.scaling import ScalingSignal

_STALE_S = 120.0


class Reports:
    """Signals from reports.

    Examples
    --------
    A thousand rows a second, planned every 5 s, each batch 2 s long. Nothing is told of the first stretch, in whose
    first seconds there was no report yet:

    >>> from penstock.model.scaling import ScalingSignal
    >>> reports = Reports(goal_s=30.0)
    >>> first, second = (ScalingSignal(end_s, 2, 2, 1_000.0, 1_000.0, 0.4, 0.0, 0.1) for end_s in (15.0, 30.0))
    >>> reports.sample([(s, s + 2.0, 5_000.0, 0.0) for s in (0.0, 5.0, 10.0)], 0.0, first).demand_rows_per_s
    >>> seen = reports.sample([(s, s + 2.0, 5_000.0, 0.0) for s in (15.0, 20.0, 25.0)], 15.0, second)
    >>> seen.demand_rows_per_s, seen.processed_rows_per_s, round(seen.busy_share or 0.0, 2), seen.backlog_rows
    (1000.0, 1000.0, 0.4, 5000.0)
    """

    def __init__(self, goal_s: float) -> None:
        self._goal_s = goal_s
        self._arrivals = ArrivalRate(ARRIVAL_HALF_LIFE_S)
        self._planned_s: float | None = None
        self._batch_s = self._rows = self._lag_rows = self._cycle_s = 0.0
        self._processed: float | None = None
        self._busy: float | None = None

    def sample(self, batches: Sequence[Sequence[float]], began_s: float, exact: ScalingSignal) -> ScalingSignal:
        """The signal at the end of a stretch in which batches ended: start, end, rows and rows left waiting of each.

        What comes from elsewhere than reports is taken from the exact signal.
        """
        place, count = 0, len(batches)
        sums = [0.0] * 6
        looks, known, backlog = 0, 0, 0.0
        now_s = began_s + 1.0
        while now_s <= exact.time_s + 1e-9:
            while place < count and batches[place][1] <= now_s:
                self._report(*batches[place])
                place += 1
            looks += 1
            rate = self._arrivals.rate_rows_per_s
            if self._planned_s is not None and rate is not None and self._processed is not None:
                age_s = now_s - self._planned_s
                if age_s <= _STALE_S:
                    known += 1
                    backlog = self._lag_rows + rate * age_s
                    seen = (rate, self._processed, self._busy or 0.0, backlog, self._batch_s, self._rows)
                    sums = [total + value for total, value in zip(sums, seen, strict=True)]
            now_s += 1.0
        if not known or known < looks:
            return replace(
                exact, demand_rows_per_s=None, processed_rows_per_s=None, busy_share=None, backlog_rows=None,
                backlog_ratio=None, batch_s=None, batch_rows=None,
            )  # fmt: skip
        demand, processed, busy, waiting, batch_s, rows = (value / known for value in sums)
        ratio = waiting / (demand * self._goal_s) if demand > 0 else float(waiting > 0)
        return replace(
            exact, demand_rows_per_s=demand, processed_rows_per_s=processed, busy_share=busy, backlog_rows=backlog,
            backlog_ratio=ratio, batch_s=batch_s, batch_rows=rows, newest_rows_per_s=rate,
            age_s=exact.time_s - (self._planned_s or 0.0) + self._cycle_s / 2.0,
        )  # fmt: skip

    def _report(self, planned_s: float, ended_s: float, rows: float, lag_rows: float) -> None:
        self._arrivals.update(planned_s=planned_s, rows=rows, lag_rows=lag_rows)  # type: ignore[arg-type]
        if self._planned_s is not None and planned_s > self._planned_s:
            cycle_s = self._cycle_s = planned_s - self._planned_s
            self._processed = self._rows / cycle_s
            self._busy = min(1.0, self._batch_s / cycle_s)
        self._planned_s, self._batch_s = planned_s, ended_s - planned_s
        self._rows, self._lag_rows = rows, lag_rows
