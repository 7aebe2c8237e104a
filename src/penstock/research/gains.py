"""Gains found by simulation: the hysteresis that would have cost least on a load of the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.scaling import Guarded, GuardSettings
from penstock.model.executors import ExecutorBounds
from penstock.research.hysteresis import Gains
from penstock.research.thesis_scaler import ThesisScaler
from penstock.research.thesis_settings import ThesisSettings
from penstock.sim.replay import ReplaySettings, clairvoyant_plan, run_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from penstock.sim.calibration import Calibration

GRID = tuple((up, down) for up in (0.5, 0.7, 0.9, 1.0) for down in (0.2, 0.4, 0.7, 1.0))
LIMIT = 0.4
"""Backlog ratio that must not be reached: batches of 8 s at a goal of 30 s."""
VIOLATION_EXECUTOR_HOURS = 0.5
"""What a sample in violation is worth: about two minutes of fifteen executors."""


@dataclass(frozen=True, slots=True)
class GainsTried:
    """One pair of gains on a load."""

    gains: Gains
    violations: int
    executor_hours: float
    rescales: int

    @property
    def cost_executor_hours(self) -> float:
        """Executor-hours with the violations priced in."""
        return self.executor_hours + VIOLATION_EXECUTOR_HOURS * self.violations


def search_gains(
    rates: NDArray[np.float64],
    calibration: Calibration,
    settings: ReplaySettings,
    *,
    grid: tuple[tuple[float, float], ...] = GRID,
    progress: Callable[[int, int], None] | None = None,
) -> list[GainsTried]:
    """Try every pair of the grid on a load, cheapest first.

    The thesis sets 0.9 and 0.4 by hand and names a search by simulation as work to come (Bodik et al. call it the
    control policy simulator). Everything else stays as it is, so the difference is that of the gains.
    """
    plan, _ = clairvoyant_plan(rates, calibration, settings)
    tried = []
    for number, (up, down) in enumerate(grid, start=1):
        gains = Gains(up, down)
        inner = ThesisScaler(
            ThesisSettings(
                max_executors=settings.most,
                limit=LIMIT,
                ahead_s=calibration.start_s + 2.0 * settings.interval_s,
                gains=gains,
            )
        )
        scaler = Guarded(inner, GuardSettings(ExecutorBounds(max_executors=settings.most), backlog_ratio=LIMIT))
        run = run_policy(rates, scaler, calibration, settings, executors=int(plan[0]), policy="proactive")
        violations = sum(share >= settings.late_share for share in run.late_share)
        tried.append(GainsTried(gains, violations, run.paid_executor_s / 3600.0, run.rescales))
        if progress is not None:
            progress(number, len(grid))
    return sorted(tried, key=lambda one: (one.cost_executor_hours, one.rescales))
