"""Ramp: a rise that is too straight, or too steep, to be chance, drawn on."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

_FEWEST = 2


class Ramp:
    r"""The least that a load which has begun to rise will come to.

    For each :math:`k` of the newest values, from two up to those of ``window_s``, a line is drawn through them. With
    :math:`\sigma` the scatter of the load, or that around the line where it is more, the error of the line at the
    moment asked for is :math:`s_k = \sigma \sqrt{1/k + (t + h - \bar t)^2 / \sum (t_i - \bar t)^2}`, and the ramp is

    .. math:: \max_k\ \hat w_k(t + h) - z\,s_k

    The scatter is learned from second differences, which a straight rise does not have: what a value is beside the line
    through its neighbours, relative to that, is :math:`\sqrt{1 + a^2 + b^2}` of it, with :math:`a` and :math:`b` the
    parts of the way to them. It fades by half every ``half_life_s``; before anything is known it is all of the load.
    A jump is no scatter, so the mean of absolute differences is taken, :math:`\sqrt{2 / \pi}` of the deviation where
    they are normal: one in which the load doubles counts for one of hundreds.

    A mean of forecasts that is weighed by past errors needs several horizons to trust a trend after a calm night; a
    steep rise shows itself in two values. Where values scatter the error is as large as what the line adds, and nothing
    is said that others would not say.

    Reference: Gasser, Sroka and Jennen-Steinmetz, "Residual variance and residual pattern in nonlinear regression",
    Biometrika 1986.

    Examples
    --------
    >>> ramp = Ramp(window_s=120.0, deviations=1.64, half_life_s=1_800.0)
    >>> for step in range(40):
    ...     ramp.update(15.0 * step, 1_000.0 + 10.0 * (-1) ** step)
    >>> round(ramp.least(60.0)) < 1_000
    True
    >>> ramp.update(600.0, 1_600.0)
    >>> ramp.update(615.0, 2_200.0)
    >>> round(ramp.least(60.0)), round(ramp.scatter, 3)
    (4009, 0.047)
    """

    def __init__(self, *, window_s: float, deviations: float, half_life_s: float) -> None:
        self.window_s = window_s
        self.deviations = deviations
        self.half_life_s = half_life_s
        self._points: deque[tuple[float, float]] = deque()
        self._scatter = 1.0
        self._weight = 1.0

    @property
    def scatter(self) -> float:
        """Standard deviation of a value from the line that it is on, relative to it."""
        return self._scatter

    def update(self, time_s: float, value: float) -> None:
        """Learn a value and forget those that left the window; the same report again tells nothing."""
        points = self._points
        if points and time_s <= points[-1][0]:
            return
        points.append((time_s, value))
        if len(points) > _FEWEST:
            self._learn(points[-3], points[-2], points[-1])
        while len(points) > _FEWEST + 1 and points[0][0] <= time_s - self.window_s:
            points.popleft()

    def least(self, ahead_s: float) -> float:
        """What the load will come to at least, so many seconds after the last value; 0 while nothing can be said."""
        points = self._points
        if not points:
            return 0.0
        last_s, last = points[-1]
        known = (self._scatter * last) ** 2
        most = count = 0.0
        # Times count from the last value, and values as differences from it: sums of large numbers would cancel.
        t_sum = v_sum = tt = tv = vv = 0.0
        for time_s, value in reversed(points):
            t, v = time_s - last_s, value - last
            count += 1.0
            t_sum, v_sum = t_sum + t, v_sum + v
            tt, tv, vv = tt + t * t, tv + t * v, vv + v * v
            if count < _FEWEST:
                continue
            spread = tt - t_sum * t_sum / count
            shared = tv - t_sum * v_sum / count
            slope = shared / spread
            left = vv - v_sum * v_sum / count - slope * shared
            variance = max(known, left / max(count - 2.0, 1.0))
            away = ahead_s - t_sum / count
            error = math.sqrt(variance * (1.0 / count + away * away / spread))
            most = max(most, last + v_sum / count + slope * away - self.deviations * error)
        return most

    def _learn(self, first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> None:
        part = (middle[0] - first[0]) / (last[0] - first[0])
        between = (1.0 - part) * first[1] + part * last[1]
        beside = abs(middle[1] - between) / max(between, 1e-9)
        own = math.sqrt(1.0 + part * part + (1.0 - part) ** 2)
        seen = math.sqrt(math.pi / 2.0) * min(beside, 1.0) / own
        kept = 0.5 ** ((last[0] - middle[0]) / self.half_life_s)
        self._weight = kept * self._weight + 1.0
        self._scatter += (seen - self._scatter) / self._weight

    def snapshot(self) -> tuple[Any, ...]:
        """Values of the window, and the scatter."""
        return tuple(self._points), self._scatter, self._weight

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Go on from a snapshot."""
        points, self._scatter, self._weight = snapshot
        self._points = deque((time_s, value) for time_s, value in points)
