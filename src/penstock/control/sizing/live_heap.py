"""The heap that an engine needs, by what was seen to live in it and by what its collections were seen to cost."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median, median_high
from typing import TYPE_CHECKING

from penstock.control.sizing.base import LEAST_LOOKS, OLD_PART

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.sizing import UsageSignal

_EXPECTED = 4.0
"""Times what a young collection brings over on average that a JVM wants free in the old generation before it dares one:
the average and three mean deviations (``-XX:PromotedPadding=3``). Tasks let nearly everything go at once or hold on to
it, so that about half of all collections bring over nothing, and the deviation is as large as the average."""
_AGAIN = 1.3
"""Full collections for each that is due where there is room for no young one: what tasks hold on to leaves so little
free that some follow each other at once. 1.27 and 1.32 were counted in two such heaps."""
_HELD_PART = 0.5
"""Part of what tasks hold on to that a collection brings over at the least: every second one finds them at work."""
_LEAST_ROOM = 1.0 / 9.0
"""Least room in the old generation, as a part of what lives, whatever was seen: with less, what lives comes to lie in
the young generation as soon as there is a little more of it, and collections follow each other."""
_HALVINGS = 40
"""Enough for a megabyte in any heap."""


@dataclass(frozen=True, slots=True)
class LiveHeap:
    """What an executor's heap was seen to hold and to cost.

    ``share(heap)`` is the part of the time that goes into collections. The young generation is a fixed part of the
    heap, so that there are ``gcs_per_s * taken / heap`` collections a second. Each brings
    ``brought = max(aging / gcs_per_s, (most - live) / 2)`` over to the old generation, where
    ``room = OLD_PART * heap - most`` is free after a full collection: that comes while tasks run. The JVM dares
    ``(room - 4 * brought) / brought`` young ones before the next full one, and none where that is below zero: then
    every collection is a full one, and some come twice. So
    ``share = gcs_per_s * (full * full_gc_s + (1 - full) * young_gc_s)`` with ``full = 1 / (1 + young ones)``.

    What joins the old generation between a few looks differs much, from 10 to 18 MB a second for one engine; what tasks
    hold on to, the most that lives less the least, was 18 to 20 MB each time, and keeps the heap from being too small.

    Parameters
    ----------
    live_mb, most_mb
        The least that lived, and the most but for a single exception.
    full_gc_s, young_gc_s
        How long a collection of everything takes, and one of the young generation.
    gcs_per_s, taken_mb
        Collections a second, and the heap that the JVM had taken for itself meanwhile.
    aging_mb_per_s
        What joined the old generation.

    Examples
    --------
    >>> heap = LiveHeap(178.0, 196.0, 0.085, 0.007, gcs_per_s=0.95, taken_mb=581.0, aging_mb_per_s=18.5)
    >>> [round(100 * heap.share(heap_mb), 1) for heap_mb in (581, 400, 350, 330)]
    [1.8, 5.7, 17.4, 18.5]
    >>> round(heap.heap_for(0.1))
    375
    """

    live_mb: float
    most_mb: float
    full_gc_s: float
    young_gc_s: float = 0.0
    gcs_per_s: float = 0.0
    taken_mb: float = 0.0
    aging_mb_per_s: float = 0.0

    def share(self, heap_mb: float) -> float:
        """Part of the time in collections with another heap; above one where it could do nothing else."""
        gcs_per_s = self.gcs_per_s * self.taken_mb / heap_mb
        if gcs_per_s <= 0:
            return 0.0
        brought_mb = max(self.aging_mb_per_s / gcs_per_s, _HELD_PART * (self.most_mb - self.live_mb))
        spare_mb = OLD_PART * heap_mb - self.most_mb - _EXPECTED * brought_mb
        if spare_mb <= 0:
            return gcs_per_s * _AGAIN * self.full_gc_s
        full = brought_mb / (brought_mb + spare_mb)
        return gcs_per_s * (full * self.full_gc_s + (1.0 - full) * min(self.young_gc_s, self.full_gc_s))

    def heap_for(self, limit: float) -> float:
        """The smallest heap that holds what lives and keeps collections within a part of the time."""
        low = max((1.0 + _LEAST_ROOM) * self.live_mb / OLD_PART, self.most_mb)
        if self.share(low) <= limit:
            return low
        high = 2.0 * low
        while self.share(high) > limit:
            low, high = high, 2.0 * high
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.share(middle) > limit else (low, middle)
        return high


def live_heap(looks: Sequence[UsageSignal]) -> LiveHeap | None:
    """What looks at what lives tell together; None where there were too few, or nobody knows how often it collects.

    Of the times of full collections the median counts: whatever else the machine does makes single ones much longer.
    And of what lived the upper median stands for the most: one look of four found a task that held on to 50 MB where
    the others found less than 20, and the heap was made half as large again as was needed.

    Examples
    --------
    >>> from penstock.model.sizing import UsageSignal
    >>> looks = [UsageSignal(0.0, heap_live_mb=900.0, full_gc_s=1.4), UsageSignal(15.0, heap_live_mb=940.0,
    ...     full_gc_s=1.6, young_gc_s=0.02, gcs_per_s=0.5, heap_taken_mb=4000.0, aging_mb_per_s=20.0)]
    >>> found = live_heap(looks)
    >>> found.live_mb, found.most_mb, found.full_gc_s, found.gcs_per_s
    (900.0, 940.0, 1.5, 0.5)
    >>> round(found.heap_for(0.1))
    2054
    >>> live_heap(looks[:1]) is None
    True
    """
    if len(looks) < LEAST_LOOKS or all(look.gcs_per_s is None for look in looks):
        return None
    lived = [look.heap_live_mb for look in looks if look.heap_live_mb is not None]
    return LiveHeap(
        live_mb=min(lived),
        most_mb=median_high(lived),
        full_gc_s=median(look.full_gc_s or 0.0 for look in looks),
        young_gc_s=_mean([look.young_gc_s for look in looks]),
        gcs_per_s=_mean([look.gcs_per_s for look in looks]),
        taken_mb=_mean([look.heap_taken_mb for look in looks]),
        aging_mb_per_s=_mean([look.aging_mb_per_s for look in looks]),
    )


def _mean(values: Sequence[float | None]) -> float:
    """Of those that are known; 0 where none is."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else 0.0
