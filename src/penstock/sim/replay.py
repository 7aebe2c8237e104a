"""Policies side by side on one load: violations, executor-hours, rescales, and what a clairvoyant would have paid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.scaling import ONLINE_POLICIES, ScalerSetup, Schedule, make_scaler
from penstock.control.scaling.clairvoyant import cheapest_plan
from penstock.model.executors import ExecutorBounds
from penstock.sim.executors import ExecutorPlant
from penstock.sim.rate_traces import window_means

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from penstock.control.scaling import Scaler
    from penstock.sim.calibration import Calibration

Row = dict[str, float | int | str | bool | None]

POLICIES = (*ONLINE_POLICIES, "clairvoyant")
YARDSTICKS = frozenset({"static", "clairvoyant"})
_REPAIRS = 60
_ROOM = 1.25


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """How a load is replayed.

    Parameters
    ----------
    interval_s
        Time between two decisions, for every policy alike.
    peak_executors
        Executors that the highest load of the trace needs; the trace is scaled to it.
    late_share
        Share of rows over the goal from which a sample violates it.
    as_recorded
        Whether the trace is taken as it is; the peak's executors then follow from it.
    rows_for_each
        Rows of lag for each executor, the threshold of ``keda``; None is what an executor does from one batch to the
        next.
    exact
        Whether policies see exact signals; else they see what reports of finished batches tell, as live ones do.
    """

    interval_s: int = 15
    peak_executors: int = 20
    late_share: float = 0.1
    seed: int = 0
    exact: bool = False
    as_recorded: bool = False
    rows_for_each: float | None = None

    @property
    def most(self) -> int:
        """Executors that may be asked for: a quarter more than the peak needs, to catch up."""
        return max(self.peak_executors + 1, round(_ROOM * self.peak_executors))


@dataclass(slots=True)
class Run:
    """One policy on one load, sample by sample."""

    policy: str
    executors: list[int] = field(default_factory=list)
    demand: list[float] = field(default_factory=list)
    backlog_ratio: list[float] = field(default_factory=list)
    late_share: list[float] = field(default_factory=list)
    paid_executor_s: float = 0.0
    late_rows: float = 0.0
    due_rows: float = 0.0
    rescales: int = 0


def run_policy(
    rates: NDArray[np.float64],
    scaler: Scaler,
    calibration: Calibration,
    settings: ReplaySettings,
    *,
    executors: int,
    policy: str,
) -> Run:
    """Let a policy decide over a load, every ``interval_s`` seconds of virtual time."""
    plant = ExecutorPlant(rates, calibration, executors=executors, seed=settings.seed)
    run = Run(policy)
    moments = range(settings.interval_s, rates.size + 1, settings.interval_s)
    for until_s in moments:
        sample = plant.run(float(until_s))
        signal = sample.signal if settings.exact else sample.reported
        run.paid_executor_s += sample.paid_executor_s
        run.late_rows += sample.late_rows
        run.due_rows += sample.due_rows
        run.executors.append(signal.requested)
        run.demand.append(sample.signal.demand_rows_per_s or 0.0)
        run.backlog_ratio.append(sample.signal.backlog_ratio or 0.0)
        run.late_share.append(sample.late_share)
        decision = scaler.decide(signal)
        if decision.executors != signal.requested:
            run.rescales += 1
            plant.ask_for(decision.executors)
    return run


def needed_sizes(rates: NDArray[np.float64], calibration: Calibration, settings: ReplaySettings) -> NDArray[np.int64]:
    """Executors that each interval needs so that no row of it is late."""
    means = window_means(rates, settings.interval_s)
    exact = means / (calibration.rows_per_s * calibration.sustainable_share)
    return np.maximum(1, np.ceil(exact - 1e-9)).astype(np.int64)


def clairvoyant_plan(
    rates: NDArray[np.float64], calibration: Calibration, settings: ReplaySettings
) -> tuple[NDArray[np.int64], Run]:
    """The cheapest plan that has no violation in the simulator, as far as there is one.

    Planned by interval; where the simulator, which knows of batches and noise, still finds a violation, the intervals
    before it get one executor more, and the plan is made again.
    """
    needed = needed_sizes(rates, calibration, settings)
    start_steps = int(-(-calibration.start_s // settings.interval_s))
    before = round(calibration.goal_s / settings.interval_s) + 1
    for _ in range(_REPAIRS):
        plan = cheapest_plan(
            np.minimum(needed, settings.most),
            step_s=settings.interval_s,
            start_s=calibration.start_s,
            most=settings.most,
        )
        run = run_policy(
            rates,
            _ahead(plan, start_steps, settings),
            calibration,
            settings,
            executors=int(plan[0]),
            policy="clairvoyant",
        )
        bad = np.flatnonzero(np.array(run.late_share) >= settings.late_share)
        if not bad.size:
            break
        raised = np.unique(np.clip(bad[:, None] - np.arange(before + 1)[None, :], 0, needed.size - 1))
        if np.all(needed[raised] >= settings.most):
            break
        needed[raised] = np.minimum(plan[raised] + 1, settings.most)
    return plan, run


def _ahead(plan: NDArray[np.int64], start_steps: int, settings: ReplaySettings) -> Schedule:
    """Ask for executors as long before they are needed as they take to start, and let go when they are not."""
    padded = np.concatenate((plan, np.full(start_steps + 1, plan[-1])))
    windows = np.lib.stride_tricks.sliding_window_view(padded, start_steps + 1)[: plan.size]
    return Schedule(windows.max(axis=1).tolist(), step_s=float(settings.interval_s))


def scaler_setup(calibration: Calibration, settings: ReplaySettings, *, peak: int | None = None) -> ScalerSetup:
    """What policies are told of the engine that is simulated."""
    wait_s = max(calibration.trigger_s + calibration.overhead_s, 1.0)
    return ScalerSetup(
        ExecutorBounds(max_executors=settings.most),
        interval_s=settings.interval_s,
        start_s=calibration.start_s,
        rows_for_each=settings.rows_for_each or calibration.rows_per_s * wait_s,
        peak=peak,
    )


def replay(
    rates: NDArray[np.float64],
    calibration: Calibration,
    settings: ReplaySettings,
    *,
    policies: Sequence[str] = POLICIES,
) -> dict[str, Run]:
    """Run every policy on the same load, the clairvoyant always among them: it is the measure of the others."""
    plan, best = clairvoyant_plan(rates, calibration, settings)
    peak = int(plan.max())
    runs = {}
    for policy in policies:
        if policy == "clairvoyant":
            continue
        scaler = make_scaler(policy, scaler_setup(calibration, settings, peak=peak))
        begin = peak if policy == "static" else int(plan[0])
        runs[policy] = run_policy(rates, scaler, calibration, settings, executors=begin, policy=policy)
    return runs | {"clairvoyant": best}


def summarise(runs: dict[str, Run], calibration: Calibration, settings: ReplaySettings) -> list[Row]:
    """One row a policy; over- and under-provisioning are executor-hours above and below the clairvoyant's."""
    best = np.array(runs["clairvoyant"].executors)
    best_hours = runs["clairvoyant"].paid_executor_s / 3600.0
    rows: list[Row] = []
    for policy, run in runs.items():
        sizes, late = np.array(run.executors), np.array(run.late_share)
        hours = run.paid_executor_s / 3600.0
        step_h = settings.interval_s / 3600.0
        rows.append(
            {
                "policy": policy,
                "violations": int((late >= settings.late_share).sum()),
                "samples": int(late.size),
                "late_share": run.late_rows / run.due_rows if run.due_rows else 0.0,
                "executor_hours": hours,
                "of_clairvoyant": hours / best_hours,
                "cost": hours * calibration.cost_per_hour,
                "rescales": run.rescales,
                "over_executor_hours": float(np.maximum(sizes - best, 0).sum()) * step_h,
                "under_executor_hours": float(np.maximum(best - sizes, 0).sum()) * step_h,
                "executors_mean": float(sizes.mean()),
                "executors_max": int(sizes.max()),
            }
        )
    return rows
