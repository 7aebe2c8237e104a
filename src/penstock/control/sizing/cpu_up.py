"""P3: more cores for an engine that computes all the time."""

from __future__ import annotations

from typing import ClassVar

from penstock.control.sizing.base import SizingContext, above, decided, silent, step
from penstock.model.sizing import Resource, Verdict


class CpuUp:
    """P3, CPU up: CPU time is above ``cpu_limit`` of the cores, in two windows, in six where P7 made them fewer.

    ``factor = step(cpu_fraction / cpu_limit * max(1, arrival / processed) * (1 + dead_band))``: where cores are busy
    the fraction says nothing of the need, but the rows that came and were not done do. P1 and P2 are silent when this
    is asked, so that it is not garbage collection that takes the time.

    Sage (LinkedIn), table 1: CPU time over allotted CPU.

    Examples
    --------
    >>> from penstock.control.sizing.usage import Usage
    >>> from penstock.model.sizing import EngineShape, UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> usage = Usage(3600.0)
    >>> for window in (1, 2):
    ...     seen = UsageSignal(15.0 * window, cpu_fraction=0.96, arrival_rows_per_s=900.0, processed_rows_per_s=800.0)
    ...     usage.add(seen, cores=8, slots=8, is_clean=False)
    >>> verdict = CpuUp().judge(SizingContext(EngineShape(4, 512, 384, cores=2), usage, SizingSettings()))
    >>> round(verdict.decision.total, 2)
    11.66
    """

    name: ClassVar[str] = "P3"
    title: ClassVar[str] = "CPU up"
    resource: ClassVar[Resource] = Resource.CPU
    is_up: ClassVar[bool] = True

    def judge(self, context: SizingContext) -> Verdict:
        """Compare CPU time with the cores that there are."""
        settings, usage, shape = context.settings, context.usage, context.shape
        shares = usage.last("cpu_fraction", context.confirm_windows)
        arrival, processed = usage.newest("arrival_rows_per_s"), usage.newest("processed_rows_per_s")
        figures: dict[str, float | None] = {
            "cpu_fraction": usage.newest("cpu_fraction"), "cpu_limit": settings.cpu_limit,
            "cores": shape.total(Resource.CPU), "arrival_rows_per_s": arrival, "processed_rows_per_s": processed,
        }  # fmt: skip
        if shares is None:
            return silent(self, "CPU time is not known yet", figures)
        share = min(shares)
        if share <= above(settings.cpu_limit, settings):
            return silent(self, f"computes {share:.0%} of the time, at most {settings.cpu_limit:.0%}", figures)
        short = max(1.0, arrival / processed) if arrival and processed else 1.0
        factor = step(max(shares) / settings.cpu_limit * short * (1 + settings.dead_band), settings)
        reason = (
            f"cores compute {share:.0%} of the time, more than {settings.cpu_limit:.0%}: {factor:.2f} times the cores"
        )
        total = shape.total(Resource.CPU) * factor
        expected = {"cpu_fraction": settings.cpu_limit}
        return decided(self, total, reason, figures, expected)
