"""Level: what was seen last goes on."""

from __future__ import annotations

from typing import ClassVar

from penstock.estimate.forecast.base import Forecaster


class Level(Forecaster):
    r"""Exponentially smoothed level, the forecast for every time to come.

    .. math:: l \leftarrow l + (1 - 2^{-\Delta/h})\,(w - l)

    Hard to beat where the load has no trend that lasts; a trend fitted through noise does worse.

    Examples
    --------
    >>> level = Level(half_life_s=60.0)
    >>> level.update(0.0, 100.0)
    >>> level.update(60.0, 200.0)
    >>> level.predict(300.0)
    150.0
    """

    name: ClassVar[str] = "level"

    def __init__(self, *, half_life_s: float = 30.0) -> None:
        self.half_life_s = half_life_s
        self._state: tuple[float, float] | None = None

    def update(self, time_s: float, value: float) -> None:
        """Learn a value."""
        if self._state is None:
            self._state = (time_s, value)
            return
        before_s, level = self._state
        weight = 1.0 - 0.5 ** ((time_s - before_s) / self.half_life_s)
        self._state = (time_s, level + weight * (value - level))

    def predict(self, ahead_s: float) -> float | None:  # noqa: ARG002 - a level is the same however far ahead
        """The level."""
        return None if self._state is None else self._state[1]

    def snapshot(self) -> tuple[float, float] | None:
        """Last time and level."""
        return self._state

    def restore(self, snapshot: tuple[float, float] | None) -> None:
        """Go on from a snapshot."""
        self._state = snapshot
