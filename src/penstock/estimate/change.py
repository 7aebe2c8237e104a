"""Change: abrupt and gradual, in a series that should look like itself.

Detectors of :mod:`river` are kept behind one small interface, beside the thesis's fixed threshold and a test of the
likelihood ratio that also says *when* the change was.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from river.drift.adwin import ADWIN
from river.drift.page_hinkley import PageHinkley as RiverPageHinkley

if TYPE_CHECKING:
    from collections.abc import Sequence


class ChangeDetector(ABC):
    """Values in, alarms out."""

    name: ClassVar[str]

    @abstractmethod
    def update(self, value: float) -> int | None:
        """Learn a value. None, or how many values ago the change is taken to have been: 0 is this one."""

    @abstractmethod
    def reset(self) -> None:
        """Forget everything."""

    def snapshot(self) -> Any:  # noqa: ANN401 - every detector has a state of its own kind
        """Give all that is needed to go on from here."""
        return copy.deepcopy(self.__dict__)

    def restore(self, snapshot: Any) -> None:  # noqa: ANN401 - see snapshot
        """Go on from a snapshot."""
        self.__dict__.update(copy.deepcopy(snapshot))


class FixedThreshold(ChangeDetector):
    """An alarm for every value above a threshold: the thesis's change point, 0.08 on the model's residuals.

    Examples
    --------
    >>> detector = FixedThreshold(0.08)
    >>> [detector.update(value) for value in (0.02, 0.07, 0.09)]
    [None, None, 0]
    """

    name: ClassVar[str] = "threshold"

    def __init__(self, threshold: float = 0.08) -> None:
        self.threshold = threshold

    def update(self, value: float) -> int | None:
        """Compare."""
        return 0 if abs(value) > self.threshold else None

    def reset(self) -> None:
        """Nothing to forget."""


class PageHinkley(ChangeDetector):
    """Page-Hinkley test on the mean of a series, in both directions: sees abrupt changes soon, gradual ones later."""

    name: ClassVar[str] = "page_hinkley"

    def __init__(self, *, fewest: int = 30, delta: float = 0.005, threshold: float = 1.0) -> None:
        self._arguments = {"min_instances": fewest, "delta": delta, "threshold": threshold}
        self._river = RiverPageHinkley(**self._arguments)

    def update(self, value: float) -> int | None:
        """Learn a value."""
        self._river.update(value)
        return 0 if self._river.drift_detected else None

    def reset(self) -> None:
        """Forget everything."""
        self._river = RiverPageHinkley(**self._arguments)


class Adwin(ChangeDetector):
    """Adaptive windowing: cuts off the old part of a window whose halves differ; made for gradual change."""

    name: ClassVar[str] = "adwin"

    def __init__(self, *, delta: float = 0.002) -> None:
        self._delta = delta
        self._river = ADWIN(delta=delta)

    def update(self, value: float) -> int | None:
        """Learn a value; what is left of the window is as old as the change."""
        self._river.update(value)
        return int(self._river.width) - 1 if self._river.drift_detected else None

    def reset(self) -> None:
        """Forget everything."""
        self._river = ADWIN(delta=self._delta)


class LikelihoodRatio(ChangeDetector):
    r"""Is the window one level, or one with a step in it? Two-sided test at every possible place of the step.

    With :math:`k` values before and :math:`m` after the step, means :math:`\bar a, \bar b` and the standard deviation
    :math:`s` of the noise within both parts,

    .. math:: T = \max_k \frac{|\bar a - \bar b|}{s \sqrt{1/k + 1/m}} > \sqrt{2\,c\,\ln n}

    and the place of the maximum is when the change was. After an alarm the window starts there. The threshold rises
    with the window, as the number of places does. With ``is_gradual`` the window may have a slope of its own, and only
    what a straight line does not explain counts.

    Examples
    --------
    >>> detector = LikelihoodRatio(fewest=5)
    >>> values = [0.0, 0.1, -0.1, 0.05, 0.0, -0.05, 0.1, 0.0, 1.0, 1.1, 0.9, 1.0, 1.05]
    >>> alarms = [detector.update(value) for value in values]
    >>> [place - alarm for place, alarm in enumerate(alarms) if alarm is not None]
    [8]
    """

    name: ClassVar[str] = "likelihood"

    def __init__(self, *, fewest: int = 10, strictness: float = 3.0, memory: int = 400) -> None:
        self.fewest = fewest
        self.strictness = strictness
        self.memory = memory
        self._window: list[float] = []

    def update(self, value: float) -> int | None:
        """Learn a value and look for a step in the window."""
        self._window.append(value)
        if len(self._window) > self.memory:
            del self._window[0]
        count = len(self._window)
        if count < 2 * self.fewest:
            return None
        values = np.asarray(self._window)
        sums, squares = np.cumsum(values), np.cumsum(values * values)
        left = np.arange(self.fewest, count - self.fewest + 1)
        right = count - left
        total, total_square = sums[-1], squares[-1]
        left_sum = sums[left - 1]
        between = (left_sum / left - (total - left_sum) / right) ** 2 * left * right / count
        whole = total_square - total * total / count
        place = int(np.argmax(between))
        gain = float(between[place])
        noise = max((whole - gain) / max(count - 2, 1), 1e-12 * max(1.0, total_square))
        if gain / noise <= 2.0 * self.strictness * math.log(count):
            return None
        del self._window[: int(left[place])]
        return len(self._window) - 1

    def reset(self) -> None:
        """Forget everything."""
        self._window = []


class AnyOf(ChangeDetector):
    """The first alarm of several detectors counts, and starts all of them anew."""

    name: ClassVar[str] = "any"

    def __init__(self, detectors: Sequence[ChangeDetector]) -> None:
        self.detectors = tuple(detectors)

    def update(self, value: float) -> int | None:
        """Learn a value."""
        alarms = [alarm for alarm in [detector.update(value) for detector in self.detectors] if alarm is not None]
        if not alarms:
            return None
        self.reset()
        return max(alarms)

    def reset(self) -> None:
        """Forget everything."""
        for detector in self.detectors:
            detector.reset()

    def snapshot(self) -> Any:  # noqa: ANN401 - see ChangeDetector
        """States of all."""
        return tuple(detector.snapshot() for detector in self.detectors)

    def restore(self, snapshot: Any) -> None:  # noqa: ANN401 - see ChangeDetector
        """Go on from a snapshot."""
        for detector, state in zip(self.detectors, snapshot, strict=True):
            detector.restore(state)
