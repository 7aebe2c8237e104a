"""P7: fewer cores for an engine that waits for work."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from penstock.control.sizing.base import SizingContext, decided, silent, windows_to_watch
from penstock.model.sizing import Resource, Verdict

if TYPE_CHECKING:
    from penstock.control.sizing.usage import Usage
    from penstock.settings import SizingSettings


class CpuDown:
    """P7, CPU down: both CPU time and task slots leave cores unused.

    ``cores = max(quantile(cores computing), quantile(slots busy)) * (1 + margin) / cpu_limit``. A task on Spark takes a
    slot, and a slot takes a core, whether it computes or waits: an engine that waits for others needs its slots.

    Sage (LinkedIn), table 1: the counterpart of P3, in one step and never by subtraction.

    Examples
    --------
    >>> from penstock.control.sizing.usage import Usage
    >>> from penstock.model.sizing import EngineShape, UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> usage = Usage(3600.0)
    >>> for window in range(8):
    ...     seen = UsageSignal(15.0 * window, cpu_fraction=0.2, busy_fraction=0.25)
    ...     usage.add(seen, cores=16, slots=16, is_clean=True)
    >>> verdict = CpuDown().judge(SizingContext(EngineShape(4, 512, 384, cores=4), usage, SizingSettings()))
    >>> verdict.decision.total, verdict.reason
    (6.0, '4.0 slots are busy and 3.2 cores compute, of 16')
    """

    name: ClassVar[str] = "P7"
    title: ClassVar[str] = "CPU down"
    resource: ClassVar[Resource] = Resource.CPU
    is_up: ClassVar[bool] = False

    def judge(self, context: SizingContext) -> Verdict:
        """Compare cores with those that were needed."""
        settings, usage, shape = context.settings, context.usage, context.shape
        cores, watched = shape.total(Resource.CPU), windows_to_watch(settings)
        computing, busy = (usage.need(name, settings.quantile, watched) for name in ("cpu_fraction", "busy_fraction"))
        needed = needed_cores(usage, settings, task_cpus=shape.task_cpus)
        figures: dict[str, float | None] = {
            "cores": cores, "cores_computing": computing, "slots_busy": busy, "cores_needed": needed,
            "windows": usage.clean_windows,
        }  # fmt: skip
        if usage.clean_windows < watched:
            return silent(self, f"{usage.clean_windows} of {watched} quiet windows watched", figures)
        if needed is None or computing is None or busy is None:
            return silent(self, "CPU time or busy slots are not known", figures)
        wanted = float(max(1, math.ceil(needed - 1e-9)))
        if wanted > cores * (1 - settings.min_saving):
            return silent(self, f"{wanted:.0f} of {cores:.0f} cores are needed", figures)
        reason = f"{busy:.1f} slots are busy and {computing:.1f} cores compute, of {cores:.0f}"
        expected = {"cpu_fraction": settings.cpu_limit}
        return decided(self, wanted, reason, figures, expected)


def needed_cores(usage: Usage, settings: SizingSettings, *, task_cpus: int) -> float | None:
    """Cores that both CPU time and busy slots need; None where one of them is unknown."""
    windows = windows_to_watch(settings)
    computing, busy = (usage.need(name, settings.quantile, windows) for name in ("cpu_fraction", "busy_fraction"))
    if computing is None or busy is None:
        return None
    return max(computing, busy * task_cpus) * (1 + settings.margin) / settings.cpu_limit
