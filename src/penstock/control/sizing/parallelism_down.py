"""P8: fewer executors, where a whole one is left over."""

from __future__ import annotations

import math
from typing import ClassVar

from penstock.control.sizing.base import SizingContext, decided, silent, windows_to_watch
from penstock.control.sizing.cpu_down import needed_cores
from penstock.model.sizing import Resource, Verdict


class ParallelismDown:
    """P8, parallelism down: task slots, and memory, of whole executors are left over.

    ``executors = max(ceil(cores needed / cores each), ceil(memory resident / memory each))``, with
    the executors as they are. Only memory that leaves room counts: what the state of the executors that go takes moves
    to those that stay.

    Sage (LinkedIn), table 1: the counterpart of P4.

    Examples
    --------
    >>> from penstock.control.sizing.usage import Usage
    >>> from penstock.model.sizing import EngineShape, UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> usage = Usage(3600.0)
    >>> for window in range(8):
    ...     seen = UsageSignal(15.0 * window, cpu_fraction=0.2, busy_fraction=0.25, jvm_rss_mb=300.0)
    ...     usage.add(seen, cores=8, slots=8, is_clean=True)
    >>> verdict = ParallelismDown().judge(SizingContext(EngineShape(8, 512, 384), usage, SizingSettings()))
    >>> verdict.decision.total, verdict.reason
    (3.0, '2.6 of 8 cores are needed and 33 % of the memory is resident: 3 of 8 executors do')
    """

    name: ClassVar[str] = "P8"
    title: ClassVar[str] = "parallelism down"
    resource: ClassVar[Resource] = Resource.PARALLELISM
    is_up: ClassVar[bool] = False

    def judge(self, context: SizingContext) -> Verdict:
        """Count executors that are left over."""
        settings, usage, shape = context.settings, context.usage, context.shape
        needed = needed_cores(usage, settings, task_cpus=shape.task_cpus)
        resident = usage.peak("likely_resident_mb")
        figures: dict[str, float | None] = {
            "executors": shape.executors, "cores_needed": needed, "likely_resident_mb": resident,
            "memory_mb": shape.memory_mb, "windows": usage.clean_windows,
        }  # fmt: skip
        watched = windows_to_watch(settings)
        if usage.clean_windows < watched:
            return silent(self, f"{usage.clean_windows} of {watched} quiet windows watched", figures)
        if needed is None or resident is None:
            return silent(self, "busy slots or resident memory are not known", figures)
        ratio = resident * (1 + settings.margin) / settings.memory_limit / shape.memory_mb
        executors = max(1, math.ceil(needed / shape.cores - 1e-9), math.ceil(ratio * shape.executors - 1e-9))
        if executors > shape.executors * (1 - settings.min_saving):
            return silent(self, f"{executors} of {shape.executors} executors are needed", figures)
        cores = shape.total(Resource.CPU)
        reason = (
            f"{needed:.1f} of {cores:.0f} cores are needed and {resident / shape.memory_mb:.0%} of the memory is "
            f"resident: {executors} of {shape.executors} executors do"
        ).replace("% of", " % of")
        slots = float(executors * (shape.cores // shape.task_cpus))
        return decided(self, slots, reason, figures, {"cpu_fraction": settings.cpu_limit})
