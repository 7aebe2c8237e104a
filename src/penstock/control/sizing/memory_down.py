"""P6: less memory beside the heap, in one step that needs no remedy."""

from __future__ import annotations

from typing import ClassVar

from penstock.control.sizing.base import SizingContext, decided, silent, windows_to_watch
from penstock.model.sizing import Resource, Verdict

_SETTLED_WINDOWS = 3
"""Windows after a change of the heap: what is resident follows it, but not at once."""


class MemoryDown:
    """P6, memory down: the likely resident size leaves room.

    ``memory = max(peak(likely resident), heap + peak(off_heap) + peak(python)) * (1 + margin) / memory_limit``, with
    ``likely resident = python + max(jvm_rss, committed + off_heap)``: the committed heap counts as if every page of it
    had been touched, because the zero pages of today are in use tomorrow; and so does the heap that P5 left, because
    the JVM may take all of it when it has to catch up. So windows in which collections took too long count as well:
    how large the heap is to be is P1's business, and memory for the whole of it is kept in any case.

    Sage (LinkedIn), "Safe scaledown": maximum memory used and heap committed together.

    Examples
    --------
    >>> from penstock.control.sizing.usage import Usage
    >>> from penstock.model.sizing import EngineShape, UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> usage = Usage(3600.0)
    >>> for window in range(8):
    ...     seen = UsageSignal(15.0 * window, heap_committed_mb=900.0, jvm_rss_mb=800.0, off_heap_mb=200.0)
    ...     usage.add(seen, cores=2, slots=2, is_clean=True)
    >>> context = SizingContext(EngineShape(1, 1024, 2048), usage, SizingSettings(), settled_windows=8)
    >>> verdict = MemoryDown().judge(context)
    >>> round(verdict.decision.total), verdict.reason
    (1327, 'at most 1,224 MB of 3,072 MB would be resident')
    """

    name: ClassVar[str] = "P6"
    title: ClassVar[str] = "memory down"
    resource: ClassVar[Resource] = Resource.MEMORY
    is_up: ClassVar[bool] = False

    def judge(self, context: SizingContext) -> Verdict:
        """Compare memory with the likely resident size."""
        settings, usage, shape = context.settings, context.usage, context.shape
        resident = _resident(context)
        figures: dict[str, float | None] = {
            "memory_mb": shape.memory_mb, "likely_resident_mb": resident,
            "memory_used_peak_mb": usage.peak("memory_used_mb"), "python_rss_peak_mb": usage.peak("python_rss_mb"),
            "windows": usage.memory_windows,
        }  # fmt: skip
        watched = windows_to_watch(settings)
        if usage.memory_windows < watched or context.settled_windows < _SETTLED_WINDOWS:
            return silent(self, f"{usage.memory_windows} of {watched} quiet windows watched", figures)
        if context.cores_go_first:
            return silent(self, "there are to be fewer cores first: those that stay share the memory", figures)
        if context.awaits_looks:
            return silent(self, "what lives in the heap is being looked at: the heap goes first", figures)
        if resident is None:
            return silent(self, "resident memory is not known", figures)
        wanted = resident * (1 + settings.margin) / settings.memory_limit
        if wanted > shape.memory_mb * (1 - settings.min_saving):
            return silent(self, f"{wanted:,.0f} MB of {shape.memory_mb:,} MB are needed", figures)
        reason = f"at most {resident:,.0f} MB of {shape.memory_mb:,} MB would be resident"
        # The limit of Python workers is on what they map: what is resident of it says nothing.
        mapped = usage.peak("python_vm_mb")
        python_mb = None if mapped is None else mapped * (1 + settings.margin)
        expected = {"memory_used_mb": settings.memory_limit * wanted}
        return decided(self, wanted * shape.executors, reason, figures, expected, python_mb=python_mb)


def _resident(context: SizingContext) -> float | None:
    """Memory that an executor may come to use; None where nobody knows what is resident."""
    usage = context.usage
    seen, beside = usage.peak("likely_resident_mb"), usage.peak("off_heap_mb")
    if seen is None or beside is None:
        return seen
    return max(seen, context.shape.heap_mb + beside + (usage.peak("python_rss_mb") or 0.0))
