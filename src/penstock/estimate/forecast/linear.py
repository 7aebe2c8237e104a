"""Linear trend: the thesis's workload predictor."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from penstock.estimate.forecast.base import Forecaster

_FEWEST = 2
Points = tuple[tuple[float, float], ...]


class LinearTrend(Forecaster):
    r"""The least-squares line through the last minutes, drawn on.

    .. math:: \hat w(t + h) = \bar w + b\,(t + h - \bar t), \quad b = \frac{\sum (t_i - \bar t)(w_i - \bar w)}
              {\sum (t_i - \bar t)^2}

    "Supporting elasticity in Flink" looks 10 minutes back and one minute ahead. A forecast is never below zero.

    Examples
    --------
    >>> trend = LinearTrend(window_s=600.0)
    >>> for minute in range(5):
    ...     trend.update(60.0 * minute, 100.0 + 10.0 * minute)
    >>> trend.predict(60.0)
    150.0
    """

    name: ClassVar[str] = "linear"

    def __init__(self, *, window_s: float = 600.0) -> None:
        self.window_s = window_s
        self._points: deque[tuple[float, float]] = deque()
        self._sums = [0.0, 0.0, 0.0, 0.0]
        self._origin_s = 0.0
        self._age = 0

    def update(self, time_s: float, value: float) -> None:
        """Learn a value and forget those that left the window."""
        points = self._points
        if not points:
            self._origin_s = time_s
        points.append((time_s, value))
        self._add(time_s, value, 1.0)
        while points[0][0] <= time_s - self.window_s:
            self._add(*points.popleft(), -1.0)
        self._age += 1
        # Sums of differences gather rounding errors, and far from their origin they cancel: begin anew now and then.
        if self._age >= 2 * len(points):
            self._rebuild()

    def predict(self, ahead_s: float) -> float | None:
        """Draw the line on; with one value it is level."""
        count = len(self._points)
        if not count:
            return None
        time_sum, value_sum, product_sum, square_sum = self._sums
        last_s, last = self._points[-1]
        spread = square_sum - time_sum * time_sum / count
        if count < _FEWEST or spread <= 0.0:
            return last
        slope = (product_sum - time_sum * value_sum / count) / spread
        at = last_s - self._origin_s + ahead_s
        return max(0.0, value_sum / count + slope * (at - time_sum / count))

    def snapshot(self) -> tuple[Points, tuple[float, ...], float, int]:
        """Points and sums."""
        return tuple(self._points), tuple(self._sums), self._origin_s, self._age

    def restore(self, snapshot: tuple[Points, tuple[float, ...], float, int]) -> None:
        """Go on from a snapshot."""
        points, sums, self._origin_s, self._age = snapshot
        self._points, self._sums = deque(points), list(sums)

    def _add(self, time_s: float, value: float, sign: float) -> None:
        at = time_s - self._origin_s
        sums = self._sums
        sums[0] += sign * at
        sums[1] += sign * value
        sums[2] += sign * at * value
        sums[3] += sign * at * at

    def _rebuild(self) -> None:
        self._origin_s = self._points[0][0]
        self._sums = [0.0, 0.0, 0.0, 0.0]
        self._age = 0
        for time_s, value in self._points:
            self._add(time_s, value, 1.0)
