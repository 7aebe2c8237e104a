"""How long a batch takes by the rows that each executor gets: a line that is learned, bounded and unlearned."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

Point = tuple[float, float, float]
_FEWEST = 10
"""Samples from which on their scatter is known to a quarter: that of n has an error of one in sqrt(2 (n - 2))."""
_NORMAL = NormalDist()
_FAR = 8.0
"""Deviations beyond which a normal distribution has nothing left that a double could tell from nothing."""


class Line(NamedTuple):
    """Overhead of a batch, seconds that each row of an executor adds, and the relative scatter around that."""

    overhead_s: float
    row_s: float
    spread: float

    def batch_s(self, rows_per_executor: float) -> float:
        """Length of a batch."""
        return self.overhead_s + self.row_s * rows_per_executor


@dataclass(slots=True)
class _Sums:
    """Sums of a regression in which the past fades by half every ``half_life_s``."""

    half_life_s: float
    time_s: float = 0.0
    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0

    def add(self, time_s: float, x: float, y: float) -> None:
        kept = 0.5 ** (max(0.0, time_s - self.time_s) / self.half_life_s) if self.weight else 0.0
        self.time_s = time_s
        self.weight = kept * self.weight + 1.0
        self.x, self.y = kept * self.x + x, kept * self.y + y
        self.xx, self.xy, self.yy = kept * self.xx + x * x, kept * self.xy + x * y, kept * self.yy + y * y


class PerformanceLine:
    r"""The time of a batch as overhead and work, from samples of rows per executor :math:`x` and seconds :math:`y`.

    .. math:: y = o + c\,x

    by least squares, the past fading by half every ``half_life_s``. The overhead is believed as far as the samples show
    it: it is between nothing and the mean batch, and of what its standard error :math:`s_o` leaves of that range the
    lowest part is taken that :math:`z` deviations stand for,

    .. math:: o = Q_{\Phi(-z)}\big[N(\hat o, s_o^2)\ \text{within}\ [0, \bar y]\big], \qquad c = (\bar y - o) / \bar x.

    Where all samples are alike nothing tells overhead from work: the range is all that is known, :math:`o` is next to
    nothing, and the line is the measured rate, rows over busy time. Without the range, scatter would now and then make
    all of such a batch its overhead, and an executor do any number of rows. A cost that rises is believed at once:
    :math:`c` is that of the newest samples (``recent_s``) where it is higher. :meth:`forget_before` unlearns.

    Where a polynomial of load and executors predicts the queue, this predicts the batch; what a batch may take follows
    from goal and trigger, so nothing has to be learned anew for another goal.

    Examples
    --------
    >>> line = PerformanceLine()
    >>> for step in range(60):
    ...     rows = 2_000.0 + 20.0 * step
    ...     line.add(15.0 * step, rows, 0.5 + 0.001 * rows)
    >>> found = line.fit()
    >>> round(found.overhead_s, 2), round(found.row_s, 5)
    (0.5, 0.001)
    >>> alike = PerformanceLine()
    >>> alike.add(0.0, 2_000.0, 2.5)
    >>> alike.fit()
    Line(overhead_s=0.0, row_s=0.00125, spread=0.0)
    """

    def __init__(self, *, half_life_s: float = 1_800.0, recent_s: float = 30.0, deviations: float = 1.64) -> None:
        self.half_life_s = half_life_s
        self.recent_s = recent_s
        self.deviations = deviations
        self._points: deque[Point] = deque()
        self._sums = _Sums(half_life_s)
        self._recent = _Sums(recent_s)

    def __len__(self) -> int:
        return len(self._points)

    def add(self, time_s: float, rows_per_executor: float, batch_s: float) -> None:
        """Learn a sample."""
        self._points.append((time_s, rows_per_executor, batch_s))
        # What has faded to a thousandth is not worth keeping.
        while self._points[0][0] < time_s - 10.0 * self.half_life_s:
            self._points.popleft()
        self._sums.add(time_s, rows_per_executor, batch_s)
        self._recent.add(time_s, rows_per_executor, batch_s)

    def fit(self) -> Line | None:
        """The line as it is believed now; None before a sample with rows."""
        sums = self._sums
        if sums.weight <= 0 or sums.x <= 0:
            return None
        mean_x, mean_y = sums.x / sums.weight, sums.y / sums.weight
        overhead_s, spread = self._overhead(mean_x, mean_y)
        row_s = max(mean_y - overhead_s, 0.0) / mean_x
        recent = self._recent
        if recent.x > 0:
            row_s = max(row_s, (recent.y - overhead_s * recent.weight) / recent.x)
        return Line(overhead_s, row_s, spread)

    def forget_before(self, time_s: float) -> None:
        """Unlearn samples that describe something that has changed."""
        kept = [point for point in self._points if point[0] >= time_s]
        self._points.clear()
        self._sums, self._recent = _Sums(self.half_life_s), _Sums(self.recent_s)
        for point in kept:
            self.add(*point)

    def snapshot(self) -> tuple[Point, ...]:
        """All samples that count."""
        return tuple(self._points)

    def restore(self, snapshot: tuple[Point, ...]) -> None:
        """Go on from a snapshot."""
        self._points = deque(snapshot)
        self.forget_before(-math.inf)

    def _overhead(self, mean_x: float, mean_y: float) -> tuple[float, float]:
        sums = self._sums
        scatter_x = sums.xx - sums.weight * mean_x * mean_x
        if sums.weight < _FEWEST or scatter_x <= 1e-9 * sums.xx:
            return 0.0, 0.0
        scatter_xy = sums.xy - sums.weight * mean_x * mean_y
        slope = scatter_xy / scatter_x
        left = max(0.0, sums.yy - sums.weight * mean_y * mean_y - slope * scatter_xy)
        variance = left / max(sums.weight - 2.0, 1.0)
        error = math.sqrt(variance * (1.0 / sums.weight + mean_x * mean_x / scatter_x))
        spread = math.sqrt(variance) / mean_y if mean_y > 0 else 0.0
        return lowest_within(mean_y - slope * mean_x, error, most=mean_y, deviations=self.deviations), spread


def lowest_within(guess: float, error: float, *, most: float, deviations: float) -> float:
    """The lowest that a guess with a normal error may be, where it is known to be between 0 and a bound.

    Examples
    --------
    Known well, known to be beyond the bound, and not known at all:

    >>> [round(lowest_within(*pair, most=5.0, deviations=1.64), 2) for pair in ((2.0, 0.1), (9.0, 0.5), (9.0, 50.0))]
    [1.84, 4.82, 0.25]
    """
    if error <= 0.0:
        return min(max(0.0, guess), most)
    low, high = -guess / error, (most - guess) / error
    if low > _FAR:
        return 0.0
    if high < -_FAR:
        return most
    below = _NORMAL.cdf(low)
    part = below + _NORMAL.cdf(-deviations) * (_NORMAL.cdf(high) - below)
    return min(max(0.0, guess + error * _NORMAL.inv_cdf(part)), most) if part > 0.0 else most
