"""How fast rows arrive, from what was read and how the lag changed."""

from __future__ import annotations

import math
from dataclasses import dataclass

_LEAST_RATIO, _LARGEST_RATIO = 0.5, 1.5
"""A rate that is half more or half less than what was believed is another load, and not the same one with some
scatter."""


@dataclass(frozen=True, slots=True)
class ArrivalState:
    """Snapshot of an :class:`ArrivalRate`."""

    rate_rows_per_s: float | None
    planned_s: float | None
    lag_rows: float | None
    recent_rows_per_s: float | None = None
    arrived_rows: float = 0.0


class ArrivalRate:
    r"""Arrival rate of a source that only tells its lag.

    Between the planning of two batches, at :math:`t_{n-1}` and :math:`t_n`, there arrived what was read and what the
    lag grew by,

    .. math:: a_n = \frac{q_n + b_n - b_{n-1}}{t_n - t_{n-1}},

    smoothed exponentially with a half-life in seconds, so that short and long batches weigh by the time they cover. A
    rate that is more than half as high again, or less than half, is not noise but another load: it is taken as it is.

    Reference: the input-rate estimate of Stream-Economics (lag change plus consumption).

    Examples
    --------
    >>> arrivals = ArrivalRate(half_life_s=10.0)
    >>> arrivals.update(planned_s=100.0, rows=0, lag_rows=500.0)
    >>> arrivals.update(planned_s=102.0, rows=400, lag_rows=2_100.0)
    >>> arrivals.rate_rows_per_s
    1000.0
    >>> arrivals.update(planned_s=104.0, rows=6_000, lag_rows=2_100.0)
    >>> arrivals.rate_rows_per_s, arrivals.arrived_rows
    (3000.0, 8000.0)
    """

    def __init__(self, half_life_s: float, state: ArrivalState | None = None) -> None:
        self._half_life_s = half_life_s
        self._state = state or ArrivalState(None, None, None)

    @property
    def rate_rows_per_s(self) -> float | None:
        """Smoothed rows per second, or None before two batches with a known lag."""
        return self._state.rate_rows_per_s

    @property
    def recent_rows_per_s(self) -> float | None:
        """Rows per second between the last two batches, as they were: what waits now arrived at that rate."""
        return self._state.recent_rows_per_s

    @property
    def arrived_rows(self) -> float:
        """Rows that arrived since the first batch, until the last one was planned."""
        return self._state.arrived_rows

    def update(self, *, planned_s: float, rows: int, lag_rows: float | None) -> None:
        """Learn from a batch planned at that time, which left that lag."""
        old = self._state
        rate, recent, arrived = old.rate_rows_per_s, old.recent_rows_per_s, 0.0
        if lag_rows is not None and old.lag_rows is not None and old.planned_s is not None:
            elapsed_s = planned_s - old.planned_s
            if elapsed_s > 0:
                arrived = max(0.0, rows + lag_rows - old.lag_rows)
                recent = arrived / elapsed_s
                rate = self._smoothed(rate, recent, elapsed_s)
        self._state = ArrivalState(rate, planned_s, lag_rows, recent, old.arrived_rows + arrived)

    def snapshot(self) -> ArrivalState:
        """The whole state, to build an equal estimator from."""
        return self._state

    def _smoothed(self, old: float | None, new: float, elapsed_s: float) -> float:
        if old is None or not _LEAST_RATIO * old <= new <= _LARGEST_RATIO * old:
            return new
        weight = 1.0 - math.exp(-math.log(2.0) * elapsed_s / self._half_life_s)
        return old + weight * (new - old)
