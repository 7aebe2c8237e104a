"""P5: less heap, in one step that needs no remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, ClassVar

from penstock.control.sizing.base import (
    CONFIRM_WINDOWS,
    OLD_PART,
    SizingContext,
    below,
    decided,
    silent,
    windows_to_watch,
)
from penstock.control.sizing.live_heap import live_heap
from penstock.model.sizing import Resource, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping


class HeapDown:
    """P5, heap down: what lives in the heap, or what the JVM has committed and used, leaves room.

    Where nobody knows what lives, ``heap = max(peak(committed), peak(used)) * (1 + margin)`` over the windows watched.
    What is committed is what the JVM took for live objects, bookkeeping and collections that are rare enough for it; a
    heap of that size changes nothing of what it does. So one step is enough and none has to be taken back. Where the
    committed heap is not told, the resident part of the JVM without its native memory stands for it.

    What a JVM commits it commits by rules of its own, such as a part of the host's memory to begin with. So what lives
    is looked at before a step down (:mod:`penstock.control.sizing.live_heap`), and the heap goes to where collections
    take a dead band less than ``gc_limit`` of the time, where it is less. That may be below the peak of the use, most
    of which is garbage. P1 goes by the same law, and begins a dead band above the limit. Without looks, ``low``, the
    least that was in use at any sample, stands for what lives. A collection frees ``used - low``, and with a part of
    that there are as many more collections; as P1 does, it goes by the time that two windows on end have in common:
    ``heap = (low + (used - low) * gc_fraction / gc_limit) / OLD_PART * (1 + margin)``.

    Sage (LinkedIn), "Safe scaledown": bounded by heap-committed, at the cost of some over-allocation.

    Examples
    --------
    >>> from penstock.control.sizing.usage import Usage
    >>> from penstock.model.sizing import EngineShape, UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> usage = Usage(3600.0)
    >>> for window in range(8):
    ...     seen = UsageSignal(15.0 * window, heap_used_mb=500.0, heap_committed_mb=600.0, gc_fraction=0.02)
    ...     usage.add(seen, cores=2, slots=2, is_clean=True)
    >>> verdict = HeapDown().judge(SizingContext(EngineShape(1, 2048, 384), usage, SizingSettings()))
    >>> round(verdict.decision.total), verdict.reason
    (618, 'the JVM has committed 600 MB and used at most 500 MB of 2,048 MB')
    >>> for window in range(8, 16):
    ...     seen = UsageSignal(15.0 * window, heap_used_mb=500.0, heap_committed_mb=600.0, gc_fraction=0.02,
    ...                        heap_live_mb=190.0, full_gc_s=0.1, aging_mb_per_s=18.0, gcs_per_s=1.0,
    ...                        young_gc_s=0.01, heap_taken_mb=600.0)
    ...     usage.add(seen, cores=2, slots=2, is_clean=True)
    >>> verdict = HeapDown().judge(SizingContext(EngineShape(1, 2048, 384), usage, SizingSettings()))
    >>> round(verdict.decision.total), verdict.reason
    (366, '190 MB live and collections would take 9.3 % of the time: 366 MB of 2,048 MB do')
    """

    name: ClassVar[str] = "P5"
    title: ClassVar[str] = "heap down"
    resource: ClassVar[Resource] = Resource.HEAP
    is_up: ClassVar[bool] = False

    def judge(self, context: SizingContext) -> Verdict:
        """Compare the heap with what lives in it, or with what was committed and used."""
        settings, usage, shape = context.settings, context.usage, context.shape
        watched = windows_to_watch(settings)
        committed, used = _committed(context, watched), usage.peak("heap_used_mb", watched)
        share = usage.sustained("gc_fraction", watched, CONFIRM_WINDOWS)
        figures: dict[str, float | None] = {
            "heap_mb": shape.heap_mb, "heap_committed_mb": committed, "heap_used_peak_mb": used,
            "heap_low_mb": usage.low("heap_low_mb", watched), "gc_fraction": share, "windows": usage.clean_windows,
        }  # fmt: skip
        if usage.clean_windows < watched:
            return silent(self, f"{usage.clean_windows} of {watched} quiet windows watched", figures)
        if context.cores_go_first:
            return silent(self, "there are to be fewer cores first: those that stay share the memory", figures)
        if committed is None or used is None:
            return silent(self, "committed or used heap is not known", figures)
        if context.awaits_looks:
            seen = f"what lives was seen {len(usage.heap_looks)} of {settings.heap_looks} times"
            return silent(self, seen, figures)
        wanted = max(committed, used) * (1 + settings.margin)
        reason = f"the JVM has committed {committed:,.0f} MB and used at most {used:,.0f} MB of {shape.heap_mb:,} MB"
        need = _living_need(context) or _sampled_need(context, used, share)
        if need is not None:
            figures |= {"heap_live_mb": need.live_mb, "heap_lived_in_mb": need.heap_mb, **need.figures}
            if need.heap_mb < wanted:
                wanted, reason = need.heap_mb, f"{need.reason}: {need.heap_mb:,.0f} MB of {shape.heap_mb:,} MB do"
        if wanted > shape.heap_mb * (1 - settings.min_saving):
            return silent(self, f"{wanted:,.0f} MB of {shape.heap_mb:,} MB are needed", figures)
        expected = {"gc_fraction": settings.gc_limit}
        return decided(self, wanted * shape.executors, reason, figures, expected)


@dataclass(frozen=True, slots=True)
class _HeapNeed:
    """A heap that is enough, what lives in it, and why it is enough."""

    live_mb: float
    heap_mb: float
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)


def _living_need(context: SizingContext) -> _HeapNeed | None:
    """The need by what was seen to live; None where it was not seen often enough."""
    living = live_heap(context.usage.heap_looks)
    if living is None:
        return None
    heap_mb = living.heap_for(below(context.settings.gc_limit, context.settings))
    share = f"{living.share(heap_mb):.1%}".replace("%", " %")
    reason = f"{living.live_mb:,.0f} MB live and collections would take {share} of the time"
    return _HeapNeed(living.live_mb, heap_mb, reason, asdict(living))


def _sampled_need(context: SizingContext, used_mb: float, share: float | None) -> _HeapNeed | None:
    """The need by the least that was in use at a sample; None where that is unknown."""
    low = context.usage.low("heap_low_mb", windows_to_watch(context.settings))
    if low is None or share is None:
        return None
    freed = max(0.0, used_mb - low)
    heap_mb = (low + freed * min(1.0, share / context.settings.gc_limit)) / OLD_PART * (1 + context.settings.margin)
    often = f"collections, of {freed:,.0f} MB each, take {share:.1%} of the time".replace("%", " %")
    return _HeapNeed(low, heap_mb, f"{low:,.0f} MB live and {often}")


def _committed(context: SizingContext, windows: int) -> float | None:
    usage = context.usage
    committed = usage.peak("heap_committed_mb", windows)
    if committed is not None:
        return committed
    resident, beside = usage.peak("jvm_rss_mb", windows), usage.quantile("off_heap_mb", 0.5)
    return None if resident is None or beside is None else max(0.0, resident - beside)
