"""Two lines or one: a change detector that also says when the change was."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from penstock.estimate.change import ChangeDetector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

_PARAMETERS = 3


class TwoLines(ChangeDetector):
    r"""Tells whether the window is one straight line, or two with a change between them.

    With :math:`S_1` the squared residuals of one line through the window's :math:`n` values and :math:`S_2(k)` those of
    one line up to :math:`k` and another from there on,

    .. math:: n \ln \frac{S_1}{\min_k S_2(k)} > 3\,c \ln n

    is an alarm, and the smallest :math:`S_2` says when it was: the Bayesian information criterion for the three numbers
    that a second line and its place add, made ``strictness`` times dearer because values that follow each other are
    alike. A slope of its own is no change, so a series that grows all the time is silent; a step and a kink are
    changes. A drift that is small beside the noise is none to it: that is what ADWIN is for. After an alarm the window
    starts at the change.

    Examples
    --------
    >>> detector = TwoLines(fewest=5, strictness=3.0)
    >>> values = [0.0, 0.1, -0.1, 0.05, 0.0, -0.05, 0.1, 0.0, 1.0, 1.1, 0.9, 1.0, 1.05, 1.0, 0.95, 1.0]
    >>> alarms = [detector.update(value) for value in values]
    >>> [(place, place - alarm) for place, alarm in enumerate(alarms) if alarm is not None]
    [(12, 8)]
    """

    name: ClassVar[str] = "two_lines"

    def __init__(self, *, fewest: int = 10, strictness: float = 11.0, memory: int = 300) -> None:
        self.fewest = fewest
        self.strictness = strictness
        self.memory = memory
        self._window: list[float] = []

    def update(self, value: float) -> int | None:
        """Learn a value and look for a change in the window."""
        self._window.append(value)
        if len(self._window) > self.memory:
            del self._window[0]
        count = len(self._window)
        if count < 2 * self.fewest:
            return None
        sums = _running_sums(np.asarray(self._window))
        places = np.arange(self.fewest, count - self.fewest + 1)
        left = sums[:, places - 1]
        whole = sums[:, -1]
        two = _squared_residuals(left) + _squared_residuals(whole[:, None] - left)
        one = float(_squared_residuals(whole[:, None])[0])
        best = int(np.argmin(two))
        # A window of equal values has no residuals at all, and no change.
        smallest = max(float(two[best]), 1e-9)
        gain = count * math.log(max(one, 1e-9) / smallest)
        if gain <= _PARAMETERS * self.strictness * math.log(count):
            return None
        del self._window[: int(places[best])]
        return len(self._window) - 1

    def reset(self) -> None:
        """Forget everything."""
        self._window = []


def _running_sums(values: FloatArray) -> FloatArray:
    """Sums of 1, x, y, x², xy and y² up to each value."""
    x = np.arange(values.size, dtype=np.float64)
    return np.cumsum(np.stack([np.ones(values.size), x, values, x * x, x * values, values * values]), axis=1)


def _squared_residuals(sums: FloatArray) -> FloatArray:
    """Squared residuals of the least-squares line, from its sums."""
    count, x, y, xx, xy, yy = sums
    spread = np.maximum(xx - x * x / count, 1e-12)
    return np.asarray(np.maximum(yy - y * y / count - (xy - x * y / count) ** 2 / spread, 0.0))
