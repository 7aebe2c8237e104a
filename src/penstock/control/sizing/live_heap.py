"""The heap that an engine needs, by what was seen to live in it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from penstock.control.sizing.base import LEAST_LOOKS, OLD_PART

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.sizing import UsageSignal
    from penstock.settings import SizingSettings

_BROUGHT_OVER = 1.0 / 9.0
"""Room, as a part of what lives, for what a collection of the young generation brings over to the old one: the JVM
collects everything instead where it takes the old one for too full for that. Where 186 MB lived, 9 to 18 MB
were brought over on average and 60 MB at the most. Chosen on that one engine."""
_LEAST_LEFT = 0.5
"""Part of the time that collections may take which is left to full ones at the least."""


@dataclass(frozen=True, slots=True)
class HeapNeed:
    """A heap that is enough, before any margin, what lives in it, and why it is enough."""

    live_mb: float
    heap_mb: float
    reason: str


def living_need(looks: Sequence[UsageSignal], gc_fraction: float | None, settings: SizingSettings) -> HeapNeed | None:
    """The heap that keeps collections within their limit; None where what lives was not seen often enough.

    ``heap = (live + room) / OLD_PART``: what lives, with what tasks hold while they run, has to lie in the old
    generation. The room beside it decides how often everything is collected. It fills with what grows old, and each
    time it is full the JVM stands still for a full collection. ``aging * full_gc / (gc_limit - gc_fraction)`` keeps
    that within the time that other collections leave; and what one young collection brings over has to fit as well:
    ``room = live / 9 + aging * full_gc / (gc_limit - gc_fraction)``. A busy machine takes longer for a full collection,
    and is given more room for it.

    Examples
    --------
    >>> from penstock.model.sizing import UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> slow = [UsageSignal(15.0 * i, heap_live_mb=900.0, full_gc_s=1.5, aging_mb_per_s=20.0) for i in range(4)]
    >>> need = living_need(slow, 0.02, SizingSettings())
    >>> round(need.heap_mb), need.reason
    (2062, '900 MB live and collections need room for 475 MB')
    >>> living_need(slow[:1], 0.02, SizingSettings()) is None
    True
    """
    if len(looks) < LEAST_LOOKS or gc_fraction is None:
        return None
    live_mb = fmean(look.heap_live_mb or 0.0 for look in looks)
    full_gc_s = fmean(look.full_gc_s or 0.0 for look in looks)
    aging = [look.aging_mb_per_s for look in looks if look.aging_mb_per_s is not None]
    left = max(settings.gc_limit - gc_fraction, _LEAST_LEFT * settings.gc_limit)
    filled_mb = fmean(aging) * full_gc_s / left if aging else 0.0
    room_mb = _BROUGHT_OVER * live_mb + filled_mb
    reason = f"{live_mb:,.0f} MB live and collections need room for {room_mb:,.0f} MB"
    return HeapNeed(live_mb, (live_mb + room_mb) / OLD_PART, reason)
