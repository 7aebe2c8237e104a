"""Change: abrupt and gradual, in a series that should look like itself.

Detectors of :mod:`river` are kept behind one small interface, beside the thesis's fixed threshold. One that also says
*when* the change was is in :mod:`penstock.estimate.two_lines`.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

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


def _page_hinkley(fewest: int, delta: float, threshold: float) -> Any:  # noqa: ANN401 - river has no types
    from river.drift.page_hinkley import PageHinkley as Test  # noqa: PLC0415 - slow to import

    return Test(min_instances=fewest, delta=delta, threshold=threshold)


def _adwin(delta: float) -> Any:  # noqa: ANN401 - river has no types
    from river.drift.adwin import ADWIN  # noqa: PLC0415 - slow to import

    return ADWIN(delta=delta)


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
        self._fewest, self._delta, self._threshold = fewest, delta, threshold
        self.reset()

    def update(self, value: float) -> int | None:
        """Learn a value."""
        self._river.update(value)
        return 0 if self._river.drift_detected else None

    def reset(self) -> None:
        """Forget everything."""
        self._river = _page_hinkley(self._fewest, self._delta, self._threshold)


class Adwin(ChangeDetector):
    """Adaptive windowing: cuts off the old part of a window whose halves differ; made for gradual change."""

    name: ClassVar[str] = "adwin"

    def __init__(self, *, delta: float = 0.002) -> None:
        self._delta = delta
        self._river = _adwin(delta)

    def update(self, value: float) -> int | None:
        """Learn a value; what is left of the window is as old as the change."""
        self._river.update(value)
        return int(self._river.width) - 1 if self._river.drift_detected else None

    def reset(self) -> None:
        """Forget everything."""
        self._river = _adwin(self._delta)


class Referenced(ChangeDetector):
    """Any detector on values over their own scatter, as far as that is known by then: without look-ahead.

    Mean and deviation are those of the first ``count`` values since the start or the last alarm; the detector sees what
    follows, in deviations from that mean.

    Examples
    --------
    >>> detector = Referenced(FixedThreshold(3.0), count=4)
    >>> [detector.update(value) for value in (9.0, 11.0, 9.0, 11.0, 10.5, 14.0)]
    [None, None, None, None, None, 0]
    """

    name: ClassVar[str] = "referenced"

    def __init__(self, inner: ChangeDetector, *, count: int = 20) -> None:
        self.inner = inner
        self.count = count
        self._first: list[float] = []

    def update(self, value: float) -> int | None:
        """Learn a value."""
        if len(self._first) < self.count:
            self._first.append(value)
            return None
        mean = sum(self._first) / self.count
        variance = sum((each - mean) ** 2 for each in self._first) / self.count
        deviation = max(math.sqrt(variance), 1e-3 * abs(mean), 1e-9)
        alarm = self.inner.update((value - mean) / deviation)
        if alarm is not None:
            self.reset()
        return alarm

    def reset(self) -> None:
        """Forget everything."""
        self._first = []
        self.inner.reset()


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
