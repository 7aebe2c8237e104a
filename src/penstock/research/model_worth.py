"""What the performance model of the thesis is worth on recorded loads: its scaler with it, without it, and ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.control.scaling import Scaler, ScalerSetup, guarded, make_scaler
from penstock.control.scaling.batch_length import backlog_limit
from penstock.research.thesis_scaler import ThesisScaler
from penstock.research.thesis_settings import ThesisSettings
from penstock.sim.rate_traces import RateTrace, scaled_to
from penstock.sim.replay import ReplaySettings, Row, needed_sizes, run_policy, scaler_setup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.sim.calibration import Calibration

WITH, WITHOUT, OURS = "thesis, with its model", "thesis, without", "proactive"
WAYS = (WITH, WITHOUT, OURS)
_NEVER = 2**62


def model_worth(
    traces: Sequence[RateTrace],
    calibration: Calibration,
    settings: ReplaySettings,
    *,
    progress: Callable[[str], None] | None = None,
) -> list[Row]:
    """Violations and executor-hours of all loads together, one row for each scaler.

    Without its model the scaler of the thesis goes by what an executor does in busy time; nothing else differs. Signals
    come through reports, and all three have the same guards.
    """
    totals = dict.fromkeys(WAYS, (0, 0.0, 0))
    for trace in traces:
        rates = scaled_to(
            trace, calibration, peak_executors=settings.peak_executors, window_s=settings.interval_s, seed=settings.seed
        ).rates
        first = int(needed_sizes(rates, calibration, settings)[0])
        for way in WAYS:
            scaler = _scaler(way, calibration, scaler_setup(calibration, settings))
            run = run_policy(rates, scaler, calibration, settings, executors=first, policy=way)
            late = sum(share >= settings.late_share for share in run.late_share)
            violations, executor_s, bad = totals[way]
            totals[way] = (violations + late, executor_s + run.paid_executor_s, bad + (late > 0))
        if progress is not None:
            progress(trace.name)
    return [
        {
            "scaler": way,
            "traces": len(traces),
            "violations": violations,
            "traces_with_violations": bad,
            "executor_hours": executor_s / 3600.0,
        }
        for way, (violations, executor_s, bad) in totals.items()
    ]


def _scaler(way: str, calibration: Calibration, setup: ScalerSetup) -> Scaler:
    if way == OURS:
        return make_scaler(OURS, setup)
    numbers = ThesisSettings(
        max_executors=setup.bounds.max_executors,
        limit=backlog_limit(calibration.goal_s, calibration.trigger_s),
        ahead_s=setup.start_s + 2.0 * setup.interval_s,
        drain_s=calibration.goal_s,
        train_every=_NEVER if way == WITHOUT else ThesisSettings().train_every,
    )
    return guarded(ThesisScaler(numbers), setup)
