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

_BROUGHT_OVER = 1.0 / 6.0
"""Room, as a part of what lives, for what one collection of the young generation brings over to the old one. The JVM
collects everything instead where it takes the old one for too full for that. An executor in which 186 MB lived did so
0.3 times a second with room for 58 MB and once a second with 34 MB; the latter took a fifth of the time on a busy
machine and a tenth on a quiet one."""
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
    time it is full the JVM stands still for a full collection: ``room = aging * full_gc / (gc_limit - gc_fraction)``
    keeps that within the time that other collections leave. It is never less than what one young collection brings.

    Examples
    --------
    >>> from penstock.model.sizing import UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> slow = [UsageSignal(15.0 * i, heap_live_mb=900.0, full_gc_s=1.5, aging_mb_per_s=20.0) for i in range(4)]
    >>> need = living_need(slow, 0.02, SizingSettings())
    >>> round(need.heap_mb), need.reason
    (1912, '900 MB live and collections need room for 375 MB')
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
    room_mb = max(_BROUGHT_OVER * live_mb, filled_mb)
    reason = f"{live_mb:,.0f} MB live and collections need room for {room_mb:,.0f} MB"
    return HeapNeed(live_mb, (live_mb + room_mb) / OLD_PART, reason)
