"""P4: more task slots where the backlog rises and nothing else explains it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from penstock.control.sizing.base import SizingContext, above, decided, silent, step
from penstock.control.sizing.remote import blamed_service
from penstock.model.sizing import Resource, Verdict

if TYPE_CHECKING:
    from penstock.settings import SizingSettings

_SUBSTANCE = 0.05
"""Part of the rows that come that has to be left over in every window: less is the noise of a window."""


class ParallelismUp:
    """P4, parallelism up: the backlog rises through the last ``rising_windows`` windows, one of them excepted.

    ``factor = step(arrival / processed * (1 + dead_band) / cpu_limit)``; or task slots, but not cores, were busy above
    ``cpu_limit`` in all of them, with ``factor = step(busy_fraction * (1 + dead_band) / cpu_limit)``. P1 to P3 are
    silent when this is asked, so that memory and CPU are not short: tasks wait, for a disk or for somebody else's
    answer, and more of them wait at once. Where the rows that are left over follow a remote service
    (:func:`~penstock.control.sizing.remote.blamed_service`), more calls would not make it faster, and the parallelism
    stays.

    Sage (LinkedIn), table 1 and "Bounded backlog increase rates"; the window bounds how fast a backlog may grow.

    Examples
    --------
    >>> from penstock.control.sizing.usage import Usage
    >>> from penstock.model.sizing import EngineShape, UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> usage = Usage(3600.0)
    >>> for window in range(5):
    ...     seen = UsageSignal(
    ...         15.0 * window, backlog_rows=300.0 * window, arrival_rows_per_s=120.0, processed_rows_per_s=100.0
    ...     )
    ...     usage.add(seen, cores=4, slots=4, is_clean=False)
    >>> verdict = ParallelismUp().judge(SizingContext(EngineShape(4, 512, 384), usage, SizingSettings()))
    >>> round(verdict.decision.total, 2), verdict.reason
    (6.48, 'the backlog rose through 4 windows to 1,200 rows: 1.62 times the task slots')
    """

    name: ClassVar[str] = "P4"
    title: ClassVar[str] = "parallelism up"
    resource: ClassVar[Resource] = Resource.PARALLELISM
    is_up: ClassVar[bool] = True

    def judge(self, context: SizingContext) -> Verdict:
        """Look for a backlog that rises, and for a service that explains it."""
        settings, usage, shape = context.settings, context.usage, context.shape
        backlog = usage.last("backlog_rows", settings.rising_windows + 1)
        arrival, processed = usage.newest("arrival_rows_per_s"), usage.newest("processed_rows_per_s")
        figures: dict[str, float | None] = {
            "backlog_rows": usage.newest("backlog_rows"), "arrival_rows_per_s": arrival,
            "processed_rows_per_s": processed, "slots": shape.slots, "busy_fraction": usage.newest("busy_fraction"),
        }  # fmt: skip
        busy = usage.last("busy_fraction", settings.rising_windows)
        rising = _is_rising(backlog, arrival, settings)
        limit = above(settings.cpu_limit, settings)
        is_full = busy is not None and min(busy) > limit
        if backlog is None and busy is None:
            return silent(self, "neither the backlog nor busy slots are known for long enough", figures)
        if not rising and not is_full:
            waits = "" if backlog is None else f": {backlog[-1]:,.0f} rows"
            return silent(self, f"the backlog does not rise{waits}, and slots are free", figures)
        blame = blamed_service(tuple(usage.all_windows), threshold=settings.correlation, max_lag=settings.max_lag)
        if blame is not None:
            figures |= {"correlation": blame.coefficient, "lag_windows": float(blame.lag), "raised": blame.raised}
            reason = (
                f"the backlog follows {blame.service}, {blame.raised:.1f} times its usual value (correlation "
                f"{blame.coefficient:.2f} after {blame.lag} windows): more task slots would not help"
            )
            return silent(self, reason, figures)
        ratio = arrival / processed if arrival and processed else settings.step_limit
        if rising and backlog is not None:
            factor = step(ratio * (1 + settings.dead_band) / settings.cpu_limit, settings)
            what = f"the backlog rose through {settings.rising_windows} windows to {backlog[-1]:,.0f} rows"
        else:
            full = max(busy or [1.0])
            factor = step(full * (1 + settings.dead_band) / settings.cpu_limit, settings)
            what = f"task slots are busy {full:.0%} of the time in {settings.rising_windows} windows".replace("%", " %")
        reason = f"{what}: {factor:.2f} times the task slots"
        total = shape.slots * factor
        expected = {"processed_rows_per_s": arrival} if arrival else {}
        return decided(self, total, reason, figures, expected)


def _is_rising(backlog: list[float] | None, arrival_rows_per_s: float | None, settings: SizingSettings) -> bool:
    """Whether a backlog rises through its windows, one of them excepted, by more than their noise."""
    if backlog is None:
        return False
    rises = sum(before < after for before, after in pairwise(backlog))
    substance = _SUBSTANCE * settings.rising_windows * settings.window_s * (arrival_rows_per_s or 0.0)
    return rises >= settings.rising_windows - 1 and backlog[-1] - backlog[0] > substance
