"""P5: less heap, in one step that needs no remedy."""

from __future__ import annotations

from typing import ClassVar

from penstock.control.sizing.base import CONFIRM_WINDOWS, OLD_PART, SizingContext, decided, silent, windows_to_watch
from penstock.model.sizing import Resource, Verdict


class HeapDown:
    """P5, heap down: the heap that the JVM committed, and the most that was ever used, leave room.

    ``heap = max(peak(committed), peak(used)) * (1 + margin)`` over the windows watched. What is committed is what the
    JVM took for live objects, bookkeeping and collections that are rare enough for it; a heap of that size changes
    nothing of what it does. So one step is enough and none has to be taken back. Where the committed heap is not told,
    the resident part of the JVM without its native memory stands for it.

    What a JVM commits it commits by rules of its own, such as a part of the host's memory to begin with. Where it is
    known how much of the heap lives, ``low``, the least that was in use at any sample, the time in collections says how
    much of the rest is needed: a collection frees ``used - low``, and with a part of that there are as many more
    collections. As P1 does, it goes by what two windows on end have in common. Where that is less,
    ``heap = (low + (used - low) * gc_fraction / gc_limit) / OLD_PART * (1 + margin)``: never below what lived at the
    last peak, and the room that its collections need. That may be below the peak of the use, most of which is garbage.

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
    ...     seen = UsageSignal(15.0 * window, heap_used_mb=500.0, heap_committed_mb=600.0, heap_low_mb=200.0,
    ...                        gc_fraction=0.02)
    ...     usage.add(seen, cores=2, slots=2, is_clean=True)
    >>> verdict = HeapDown().judge(SizingContext(EngineShape(1, 2048, 384), usage, SizingSettings()))
    >>> round(verdict.decision.total), verdict.reason
    (402, '200 MB live and collections, of 300 MB each, take 2.0 % of the time: 390 MB of 2,048 MB do')
    """

    name: ClassVar[str] = "P5"
    title: ClassVar[str] = "heap down"
    resource: ClassVar[Resource] = Resource.HEAP
    is_up: ClassVar[bool] = False

    def judge(self, context: SizingContext) -> Verdict:
        """Compare the heap with what was committed and used."""
        settings, usage, shape = context.settings, context.usage, context.shape
        watched = windows_to_watch(settings)
        committed, used = _committed(context, watched), usage.peak("heap_used_mb", watched)
        low, share = usage.low("heap_low_mb", watched), usage.sustained("gc_fraction", watched, CONFIRM_WINDOWS)
        figures: dict[str, float | None] = {
            "heap_mb": shape.heap_mb, "heap_committed_mb": committed, "heap_used_peak_mb": used,
            "heap_low_mb": low, "gc_fraction": share, "windows": usage.clean_windows,
        }  # fmt: skip
        if usage.clean_windows < watched:
            return silent(self, f"{usage.clean_windows} of {watched} quiet windows watched", figures)
        if context.cores_go_first:
            return silent(self, "there are to be fewer cores first: those that stay share the memory", figures)
        if committed is None or used is None:
            return silent(self, "committed or used heap is not known", figures)
        needed = max(committed, used)
        reason = f"the JVM has committed {committed:,.0f} MB and used at most {used:,.0f} MB of {shape.heap_mb:,} MB"
        if low is not None and share is not None:
            lived_in = (low + max(0.0, used - low) * min(1.0, share / settings.gc_limit)) / OLD_PART
            figures["heap_lived_in_mb"] = lived_in
            if lived_in < needed:
                needed = lived_in
                often = f"collections, of {used - low:,.0f} MB each, take {share:.1%} of the time".replace("%", " %")
                reason = f"{low:,.0f} MB live and {often}: {needed:,.0f} MB of {shape.heap_mb:,} MB do"
        wanted = needed * (1 + settings.margin)
        if wanted > shape.heap_mb * (1 - settings.min_saving):
            return silent(self, f"{wanted:,.0f} MB of {shape.heap_mb:,} MB are needed", figures)
        expected = {"gc_fraction": settings.gc_limit}
        return decided(self, wanted * shape.executors, reason, figures, expected)


def _committed(context: SizingContext, windows: int) -> float | None:
    usage = context.usage
    committed = usage.peak("heap_committed_mb", windows)
    if committed is not None:
        return committed
    resident, beside = usage.peak("jvm_rss_mb", windows), usage.quantile("off_heap_mb", 0.5)
    return None if resident is None or beside is None else max(0.0, resident - beside)
