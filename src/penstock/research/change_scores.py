"""How well change detectors do on labelled series: F1 and delay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from penstock.estimate.change import ChangeDetector

MARGIN = 5


@dataclass(frozen=True, slots=True)
class Alarm:
    """When a detector spoke up, and when it says the change was."""

    raised: int
    changed: int


def alarms_of(detector: ChangeDetector, values: NDArray[np.float64]) -> list[Alarm]:
    """Feed a series, one value after the other; gaps take the value before them."""
    found = []
    last = 0.0
    for place, value in enumerate(values):
        last = last if math.isnan(value) else float(value)
        ago = detector.update(last)
        if ago is not None:
            found.append(Alarm(place, max(0, place - ago)))
    return found


def matched(truth: Sequence[int], found: Sequence[int], *, margin: int = MARGIN) -> list[tuple[int, int]]:
    """Pairs of a true change and one found within the margin, none used twice.

    Examples
    --------
    >>> matched([10, 12, 50], [11, 40, 53])
    [(10, 11), (50, 53)]
    """
    pairs, free = [], sorted(set(found))
    for change in sorted(set(truth)):
        near = [place for place in free if abs(place - change) <= margin]
        if near:
            closest = min(near, key=lambda place: abs(place - change))
            free.remove(closest)
            pairs.append((change, closest))
    return pairs


def change_point_f1(annotations: Mapping[str, Sequence[int]], found: Sequence[int], *, margin: int = MARGIN) -> float:
    r"""F1 of change points against several annotators.

    Precision counts the found points that any annotator has, recall is the mean over annotators, and the start of the
    series counts as a point of everyone: so silence has a score.

    .. math:: P = \frac{|TP(\cup_k T_k, X)|}{|X|}, \quad R = \frac{1}{K} \sum_k \frac{|TP(T_k, X)|}{|T_k|}

    Silence has :math:`P = 1`, so its score is :math:`2R / (1 + R)` with the mean of :math:`1 / |T_k|` for R: it says
    how many changes the annotators saw and nothing else, and differs from one set of series to another.

    Reference: van den Burg and Williams, "An evaluation of change point detection algorithms", 2020.

    Examples
    --------
    >>> change_point_f1({"a": [100], "b": []}, [])
    0.8571428571428571
    >>> change_point_f1({"a": [100], "b": []}, [103])
    1.0
    """
    own = sorted({0, *found})
    everyone = sorted({0}.union(*annotations.values()))
    precision = len(matched(everyone, own, margin=margin)) / len(own)
    shares = [len(matched([0, *points], own, margin=margin)) / len({0, *points}) for points in annotations.values()]
    recall = sum(shares) / len(shares)
    return 2.0 * precision * recall / (precision + recall)


@dataclass(frozen=True, slots=True)
class WindowScore:
    """Alarms against labelled windows."""

    hits: int
    missed: int
    false_alarms: int
    delays: tuple[float, ...]

    @property
    def f1(self) -> float | None:
        """F1; None where there was nothing to find and nothing was found."""
        total = 2 * self.hits + self.missed + self.false_alarms
        return 2 * self.hits / total if total else None


def window_score(times_s: Sequence[float], windows: Sequence[tuple[float, float]]) -> WindowScore:
    """Hold alarms against windows: the first alarm inside a window is a hit, further ones are nothing, others false.

    Examples
    --------
    >>> score = window_score([15.0, 17.0, 99.0], [(10.0, 20.0), (40.0, 50.0)])
    >>> score.hits, score.missed, score.false_alarms, score.delays, score.f1
    (1, 1, 1, (5.0,), 0.5)
    """
    delays = []
    for begin, end in windows:
        inside = [time for time in times_s if begin <= time <= end]
        if inside:
            delays.append(inside[0] - begin)
    outside = sum(1 for time in times_s if not any(begin <= time <= end for begin, end in windows))
    return WindowScore(len(delays), len(windows) - len(delays), outside, tuple(delays))
