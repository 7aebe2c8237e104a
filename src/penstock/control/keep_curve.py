r"""What a guard with a utility keeps when so much is requested, and what to request for a wanted part.

Such a guard keeps a row of utility :math:`u` with probability :math:`\min(1, \max(f, r u))`, where :math:`r` is
requested and :math:`f` is the floor. Of all rows it keeps

.. math:: k(r) = E\,[\min(1, \max(f, r u))],

which is less than :math:`r`, and bends: with utilities spread evenly over 0 to 1 half of the rows stay at
:math:`r = 1`, and 77 % at :math:`r = 2.2`. So what is requested may exceed one. The distribution of :math:`u` is
learned from what the guard reports of a sample of its rows, also while everything is kept: it is known when rows must
first go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_BINS = 16
_BINS_PER_OCTAVE = 2.0
"""Two bins an octave tell utilities apart by less than a third; sixteen reach from one to a 256th, and the last one has
all that is less."""
_MEMORY_ROWS = 1000.0
"""Sampled rows that the distribution rests on: a part of a thousand is known to 0.016, the noise of a batch's time is
more; older rows fade."""
_LARGEST_REQUEST = 2.0 ** (_BINS / _BINS_PER_OCTAVE)
"""At this request rows of every bin but the last are kept for sure: more changes nothing."""
_HALVINGS = 40
"""A million-millionth of the range: the request that is found gives back the part that was asked for, to all digits
shown."""


@dataclass(frozen=True, slots=True)
class KeepCurve:
    """Distribution of the utility of rows: for each bin how many were seen and the sum of their utilities.

    Bins are half octaves down from one, the last one has all that is smaller. Without any rows, as for a guard without
    a utility, what is requested is what is kept.

    Examples
    --------
    >>> curve = KeepCurve().learned([((place + 0.5) / 20, 10.0) for place in range(20)])
    >>> round(curve.kept(1.0, 0.0), 2), round(curve.kept(2.2, 0.0), 2)
    (0.5, 0.78)
    >>> round(curve.requested_for(0.78, 0.0), 1), round(KeepCurve().requested_for(0.78, 0.0), 2)
    (2.2, 0.78)

    Rows that are worth nothing stay at the floor, whatever is requested:

    >>> half = KeepCurve().learned([(0.0, 50.0), (1.0, 50.0)])
    >>> half.kept(1.0, 0.1), half.requested_for(0.4, 0.1), half.requested_for(0.9, 0.1)
    (0.55, 0.7, 256.0)
    """

    rows: tuple[float, ...] = ()
    sums: tuple[float, ...] = ()

    def learned(self, bins: list[tuple[float, float]] | tuple[tuple[float, float], ...]) -> KeepCurve:
        """The curve with more rows in it: pairs of a utility and how many rows have about that."""
        if not bins:
            return self
        rows, sums = list(self.rows or [0.0] * _BINS), list(self.sums or [0.0] * _BINS)
        for utility, count in bins:
            place = _BINS - 1 if utility <= 0 else int(min(_BINS - 1, max(0.0, -_BINS_PER_OCTAVE * math.log2(utility))))
            rows[place] += count
            sums[place] += count * max(0.0, utility)
        fade = min(1.0, _MEMORY_ROWS / max(1.0, sum(rows)))
        return KeepCurve(tuple(fade * each for each in rows), tuple(fade * each for each in sums))

    def kept(self, requested: float, keep_floor: float) -> float:
        """Part of the rows that is kept."""
        total = sum(self.rows)
        if total <= 0:
            return min(1.0, max(keep_floor, requested))
        kept = sum(
            rows * min(1.0, max(keep_floor, requested * worth / rows))
            for rows, worth in zip(self.rows, self.sums, strict=True)
            if rows > 0
        )
        return float(kept / total)

    def requested_for(self, ratio: float, keep_floor: float) -> float:
        """The smallest request that keeps a part of the rows, or the largest that changes anything."""
        if sum(self.rows) <= 0:
            return ratio
        low, high = 0.0, _LARGEST_REQUEST
        if self.kept(high, keep_floor) < ratio:
            return float(high)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.kept(middle, keep_floor) >= ratio else (middle, high)
        return float(round(high, 9))
