"""P1: more heap for an engine that collects garbage instead of working."""

from __future__ import annotations

from typing import ClassVar

from penstock.control.sizing.base import (
    OLD_PART,
    SizingContext,
    above,
    below,
    decided,
    silent,
    step,
    windows_to_watch,
)
from penstock.control.sizing.live_heap import live_heap
from penstock.control.wording import number_of_executors
from penstock.model.sizing import Resource, Verdict

_HALF_OF_TIME = 0.5


class HeapUp:
    """P1, heap up: garbage collection takes more than ``gc_limit`` of the time, or an executor ran out of heap.

    ``factor = step(gc_fraction / gc_limit)``: the heap that a collection frees is the distance between the heap and
    what lives in it, so twice the collections need about twice that distance; the step limit holds the rest. Where an
    executor was lost for want of heap, or more than half of the time is gone, nothing can be told of the need and the
    factor is the step limit.

    A JVM that has never used ``OLD_PART`` of its heap does not collect for want of heap: it begins with little, and
    collects all of it each time before it takes more. More heap would change nothing of that.

    Where it is known what lives, since P5 looked before it made the heap smaller, the step goes by P5's law
    (:mod:`penstock.control.sizing.live_heap`): to the heap with which collections would take
    ``below(gc_limit) * share(heap) / gc_fraction``, so much less of the time as they take more now than was foretold.

    Two windows on end have to be above the limit. Where P5 has made the heap smaller at this load, as many as it
    watched have to be, so that no burst takes back what was seen; and the step goes at most back to what was enough.

    Sage (LinkedIn), table 1: heap allocation before total memory, by heap utilisation, GC time and frequency; P1 to P3
    multiply.

    Examples
    --------
    >>> from penstock.control.sizing.usage import Usage
    >>> from penstock.model.sizing import EngineShape, UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> usage = Usage(3600.0)
    >>> for window in (1, 2):
    ...     seen = UsageSignal(15.0 * window, heap_used_mb=490.0, gc_fraction=0.16)
    ...     usage.add(seen, cores=2, slots=2, is_clean=False)
    >>> verdict = HeapUp().judge(SizingContext(EngineShape(2, 512, 384), usage, SizingSettings()))
    >>> round(verdict.decision.total), verdict.reason
    (1638, 'garbage collection took 16 % of the time, more than 10 %: 1.60 times the heap')
    """

    name: ClassVar[str] = "P1"
    title: ClassVar[str] = "heap up"
    resource: ClassVar[Resource] = Resource.HEAP
    is_up: ClassVar[bool] = True

    def judge(self, context: SizingContext) -> Verdict:
        """Compare time in garbage collection with its limit."""
        settings, usage, shape = context.settings, context.usage, context.shape
        lost = sum(seen.lost_to_heap for seen in usage.recent)
        windows = windows_to_watch(settings) if context.was_made_smaller else context.confirm_windows
        shares = usage.last("gc_fraction", windows)
        figures: dict[str, float | None] = {
            "gc_fraction": usage.newest("gc_fraction"), "gc_limit": settings.gc_limit,
            "heap_used_mb": usage.newest("heap_used_mb"), "heap_mb": shape.heap_mb, "lost_to_heap": lost,
        }  # fmt: skip
        if lost:
            return self._decide(context, settings.step_limit, f"{number_of_executors(lost)} ran out of heap", figures)
        if shares is None:
            return silent(self, "time in garbage collection is not known yet", figures)
        share = min(shares)
        if share <= above(settings.gc_limit, settings):
            return silent(self, f"garbage collection took {share:.1%}, at most {settings.gc_limit:.0%}", figures)
        what = f"garbage collection took {share:.0%} of the time, more than {settings.gc_limit:.0%}".replace("%", " %")
        used = usage.most("heap_used_mb")
        if used is not None and used < OLD_PART * shape.heap_mb:
            return silent(
                self, f"{what}, with {used:,.0f} of {shape.heap_mb:,} MB ever used: not for want of it", figures
            )
        return self._decide(context, _factor(context, share), what, figures)

    def _decide(self, context: SizingContext, factor: float, what: str, figures: dict[str, float | None]) -> Verdict:
        present = context.shape.total(Resource.HEAP)
        total = context.bounded(present * factor, present)
        expected = {"gc_fraction": context.settings.gc_limit}
        reason = f"{what}: {total / present:.2f} times the heap"
        return decided(self, total, reason, figures, expected)


def _factor(context: SizingContext, share: float) -> float:
    """How much more heap keeps collections within their limit, at a part of the time that they take now."""
    settings, heap_mb = context.settings, context.shape.heap_mb
    if share > _HALF_OF_TIME:
        return settings.step_limit
    living = live_heap(context.usage.heap_looks) if context.was_made_smaller else None
    foretold = 0.0 if living is None else living.share(heap_mb)
    if living is None or foretold <= 0:
        return step(share / settings.gc_limit, settings)
    limit = below(settings.gc_limit, settings) * min(1.0, foretold / share)
    return step(living.heap_for(limit) / heap_mb, settings)
