"""How fast records arrive in the partitions of topics, from their end offsets alone."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Partition = tuple[str, int]
"""Topic and number of a partition."""


@dataclass(frozen=True, slots=True)
class OffsetLook:
    """End offsets at a moment."""

    time_s: float
    ends: Mapping[Partition, int]


class OffsetRate:
    r"""Arrival rate of every partition over a sliding window of looks at its end offset.

    With the newest look at :math:`t_n` and the oldest that is not older than the window at :math:`t_m`,

    .. math:: a = \frac{e(t_n) - e(t_m)}{t_n - t_m}.

    Nothing is consumed and nothing is smoothed: the rate is exact for the time between the two looks, and its error
    against the rate of *now* is what the rate changed within the window. A partition that was not there at the older
    look counts from zero, because that is where a new partition begins. An end offset that went back is a topic that
    was deleted and created anew: all looks before are of another topic and are forgotten.

    Reference: the input-rate estimate of Stream-Economics takes lag change plus consumption, which is the same sum
    where both come from offsets; :class:`penstock.estimate.arrival.ArrivalRate` is that one.

    Parameters
    ----------
    window_s
        How far back a look may lie.
    looks
        Looks of an earlier estimator, see :meth:`snapshot`.

    Examples
    --------
    >>> rate = OffsetRate(window_s=10.0)
    >>> rate.update(100.0, {("clicks", 0): 5_000, ("clicks", 1): 7_000})
    >>> rate.update(102.0, {("clicks", 0): 5_400, ("clicks", 1): 8_600})
    >>> rate.by_partition()
    {('clicks', 0): 200.0, ('clicks', 1): 800.0}
    >>> rate.by_topic()
    {'clicks': 1000.0}
    >>> rate.update(103.0, {("clicks", 0): 12, ("clicks", 1): 9})
    >>> rate.by_topic()
    {}
    """

    def __init__(self, window_s: float, looks: tuple[OffsetLook, ...] = ()) -> None:
        if not window_s > 0:
            raise ValueError(f"a window has a length above zero, not {window_s!r}")
        self._window_s = window_s
        self._looks = deque(looks)

    def update(self, time_s: float, ends: Mapping[Partition, int]) -> None:
        """Take in the end offsets of a moment; one that is not later than the last is passed over."""
        if self._looks and time_s <= self._looks[-1].time_s:
            return
        if self._looks and any(end < self._looks[-1].ends.get(place, 0) for place, end in ends.items()):
            self._looks.clear()
        self._looks.append(OffsetLook(time_s, dict(ends)))
        # One look at or beyond the window's beginning stays, so that the whole window is covered.
        while len(self._looks) > 2 and self._looks[1].time_s <= time_s - self._window_s:  # noqa: PLR2004 - two make a rate
            self._looks.popleft()

    def by_partition(self) -> dict[Partition, float]:
        """Records per second of every partition; empty before two looks."""
        if len(self._looks) < 2:  # noqa: PLR2004 - as above
            return {}
        oldest, newest = self._looks[0], self._looks[-1]
        elapsed_s = newest.time_s - oldest.time_s
        return {place: (end - oldest.ends.get(place, 0)) / elapsed_s for place, end in newest.ends.items()}

    def by_topic(self) -> dict[str, float]:
        """Records per second of every topic; empty before two looks."""
        totals: dict[str, float] = {}
        for (topic, _), rate in self.by_partition().items():
            totals[topic] = totals.get(topic, 0.0) + rate
        return totals

    def snapshot(self) -> tuple[OffsetLook, ...]:
        """All looks in the window, to build an equal estimator from."""
        return tuple(self._looks)
