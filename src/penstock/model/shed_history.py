"""When a query last dropped rows, and how thinly: what a result must know of rows of which it saw nothing.

A group whose kept rows all have a weight of one may still have lost rows, in a batch of which none of its rows was
kept. No row can tell. So every batch is told the moments at which a batch of its query last kept rows with a
probability below 1, 1/2, 1/4 and so on; a window compares them with its own beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

NEVER_S = -1e15
"""A moment before which no window began; as an array of numbers has no place for None."""

UNKNOWN_S = 1e15
"""A moment after which no window began: where it is not known whether rows were dropped."""

LEVELS = 11
"""Levels of half the probability each: the last is one in 1,024, where the default smallest keep ratio is."""


@dataclass(frozen=True, slots=True)
class ShedHistory:
    """Moments, in seconds since the epoch, at which a batch last kept rows with a probability below each level.

    Examples
    --------
    A batch kept 30 % at second 100, a later one 80 %:

    >>> history = ShedHistory().with_ratio(0.3, 100.0).with_ratio(0.8, 200.0)
    >>> history.moments_s[:3]
    (200.0, 100.0, -1000000000000000.0)
    >>> history.with_ratio(1.0, 300.0) == history
    True
    >>> [history.largest_weight(since_s) for since_s in (0.0, 150.0, 250.0)]
    [2.8284271247461903, 1.4142135623730951, 1.0]
    """

    moments_s: tuple[float, ...] = (NEVER_S,) * LEVELS

    def with_ratio(self, least_ratio: float, now_s: float) -> ShedHistory:
        """With a batch that kept rows with no less than a probability."""
        return ShedHistory(
            tuple(
                max(moment_s, now_s) if least_ratio < 2.0**-level else moment_s
                for level, moment_s in enumerate(self.moments_s)
            )
        )

    def merged(self, other: ShedHistory) -> ShedHistory:
        """What either of two knows.

        Examples
        --------
        >>> one, other = ShedHistory().with_ratio(0.3, 100.0), ShedHistory().with_ratio(0.8, 200.0)
        >>> one.merged(other) == one.with_ratio(0.8, 200.0) == other.merged(one)
        True
        """
        return ShedHistory(tuple(map(max, self.moments_s, other.moments_s)))

    def largest_weight(self, since_s: float) -> float:
        """The largest weight since a moment: the middle of its level, one where nothing was dropped."""
        levels = sum(moment_s >= since_s for moment_s in self.moments_s)
        return 1.0 if levels == 0 else 2.0 ** (levels - 0.5)


NOTHING_SHED = ShedHistory()
"""Of a query that never dropped anything."""

UNKNOWN = ShedHistory((UNKNOWN_S,) + (NEVER_S,) * (LEVELS - 1))
"""Of a frame outside a stream: rows may have been dropped before it was stored."""
