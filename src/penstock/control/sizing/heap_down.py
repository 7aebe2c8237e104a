"""P5: less heap, in one step that needs no remedy."""

from __future__ import annotations

from typing import ClassVar

from penstock.control.sizing.base import SizingContext, decided, silent, windows_to_watch
from penstock.model.sizing import Resource, Verdict


class HeapDown:
    """P5, heap down: the heap that the JVM committed, and the most that was ever used, leave room.

    ``heap = max(peak(committed), peak(used)) * (1 + margin)`` over the windows watched. What is committed is what the
    JVM took for live objects, bookkeeping and collections that are rare enough for it; a heap of that size changes
    nothing of what it does. So one step is enough and none has to be taken back. Never below the peak of the use that
    was seen. Where the committed heap is not told, the resident part of the JVM without its native memory stands for
    it.

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
        figures: dict[str, float | None] = {
            "heap_mb": shape.heap_mb, "heap_committed_mb": committed, "heap_used_peak_mb": used,
            "gc_fraction": usage.quantile("gc_fraction", settings.quantile), "windows": usage.clean_windows,
        }  # fmt: skip
        if usage.clean_windows < watched:
            return silent(self, f"{usage.clean_windows} of {watched} quiet windows watched", figures)
        if context.cores_go_first:
            return silent(self, "there are to be fewer cores first: those that stay share the memory", figures)
        if committed is None or used is None:
            return silent(self, "committed or used heap is not known", figures)
        wanted = max(committed, used) * (1 + settings.margin)
        if wanted > shape.heap_mb * (1 - settings.min_saving):
            return silent(self, f"{wanted:,.0f} MB of {shape.heap_mb:,} MB are needed", figures)
        reason = f"the JVM has committed {committed:,.0f} MB and used at most {used:,.0f} MB of {shape.heap_mb:,} MB"
        expected = {"gc_fraction": settings.gc_limit}
        return decided(self, wanted * shape.executors, reason, figures, expected)


def _committed(context: SizingContext, windows: int) -> float | None:
    usage = context.usage
    committed = usage.peak("heap_committed_mb", windows)
    if committed is not None:
        return committed
    resident, beside = usage.peak("jvm_rss_mb", windows), usage.quantile("off_heap_mb", 0.5)
    return None if resident is None or beside is None else max(0.0, resident - beside)
