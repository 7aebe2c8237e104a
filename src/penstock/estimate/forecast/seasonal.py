"""Seasonal: as it went at this time of the day, at today's level."""

from __future__ import annotations

import math
from typing import ClassVar

from penstock.estimate.forecast.base import Forecaster

_NEW_PART = 0.5


class Seasonal(Forecaster):
    r"""The profile of a period, scaled to the level of the moment.

    .. math:: \hat w(t + h) = \min\Big(l_t \cdot \frac{s(t + h)}{s(t)},\ l_t + s(t + h) - s(t)\Big)

    with :math:`s` the mean load of each part of the period, each period counting for half of the one after it, and
    straight lines between the middles of the parts. :math:`l_t` is the last value. The smaller of ratio and difference
    is taken, because near zero a ratio can be anything. Nothing is said before one whole period was seen.

    Examples
    --------
    >>> daily = Seasonal(period_s=400.0, bin_s=100.0)
    >>> for day in range(2):
    ...     for part, value in enumerate((100.0, 300.0, 200.0, 100.0)):
    ...         daily.update(400.0 * day + 100.0 * part + 50.0, value)
    >>> daily.update(850.0, 110.0)
    >>> daily.predict(100.0)
    310.0
    """

    name: ClassVar[str] = "seasonal"

    def __init__(self, *, period_s: float = 86_400.0, bin_s: float = 300.0) -> None:
        self.period_s = period_s
        self.bin_s = bin_s
        count = max(1, round(period_s / bin_s))
        self._bins: list[float | None] = [None] * count
        self._current = (-1, 0.0, 0)
        self._known = 0
        self._last = (0.0, 0.0)
        self._began_s: float | None = None

    def update(self, time_s: float, value: float) -> None:
        """Learn a value; a part of the period counts when it is over."""
        if self._began_s is None:
            self._began_s = time_s
        place = int(time_s // self.bin_s)
        at, total, count = self._current
        if place != at:
            self._close()
            at, total, count = place, 0.0, 0
        self._current = (at, total + value, count + 1)
        self._last = (time_s, value)

    def predict(self, ahead_s: float) -> float | None:
        """Follow the profile from the last value on."""
        time_s, value = self._last
        if self._began_s is None or time_s - self._began_s < self.period_s or self._known < len(self._bins):
            return None
        here, there = self._profile(time_s), self._profile(time_s + ahead_s)
        moved = value + there - here
        return max(0.0, moved if here <= 0.0 else min(moved, value * there / here))

    def snapshot(self) -> tuple[object, ...]:
        """Profile, the part under way, and the last value."""
        return (tuple(self._bins), self._current, self._known, self._last, self._began_s)

    def restore(self, snapshot: tuple[object, ...]) -> None:
        """Go on from a snapshot."""
        bins, self._current, self._known, self._last, self._began_s = snapshot  # type: ignore[assignment]
        kept = list(bins)  # type: ignore[call-overload]
        if len(kept) != len(self._bins):
            raise ValueError(f"a profile of {len(kept)} parts is not one of {len(self._bins)}: it is learned anew")
        self._bins = kept

    def _close(self) -> None:
        at, total, count = self._current
        if not count:
            return
        place, mean = at % len(self._bins), total / count
        old = self._bins[place]
        self._known += old is None
        self._bins[place] = mean if old is None else old + _NEW_PART * (mean - old)

    def _profile(self, time_s: float) -> float:
        at = time_s / self.bin_s - 0.5
        left = math.floor(at)
        count = len(self._bins)
        first, second = self._bins[left % count], self._bins[(left + 1) % count]
        assert first is not None
        assert second is not None
        return first + (at - left) * (second - first)
