"""The four experiments of "Supporting elasticity in Flink", in virtual time.

The thesis ran click fraud on Flink, where a change of size stops the job, and samples are discarded for four minutes
after it. :data:`FLINK` is an engine of that kind: its queue grows smoothly with utilisation, and reaches the limit of
0.1 at 1,000 rows/s an executor. Loads are scaled so that about as many workers are needed as in the thesis.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.scaling import Reactive
from penstock.model.profile import LoadProfile
from penstock.research.thesis_scaler import ThesisScaler
from penstock.research.thesis_settings import ThesisSettings
from penstock.sim.calibration import Calibration
from penstock.sim.executors import ExecutorPlant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.control.scaling import Scaler

Row = dict[str, float | int | str | bool | None]

FLINK = Calibration(
    start_s=0.0, overhead_s=0.2, rows_per_s=1_430.0, trigger_s=0.0, goal_s=10.0, pause_s=30.0, noise=0.05
)
"""Workers in standby start at once; a change stops the job. The backlog ratio is 0.03 / (1 - u): a tenth at u = 0.7."""

LIMIT = 0.1
RECOVER_S = 240.0
CAPACITY_ROWS_PER_S = 1_000.0
MOST = 8
PAPER: dict[str, dict[str, float]] = {
    "gaussian": {"proactive": 1.81, "reactive": 1.84},
    "world cup": {"proactive": 1.56, "reactive": 1.59},
}
"""Workers per sample in sections 5.3 and 5.4."""


@dataclass(slots=True)
class ElasticRun:
    """One policy on one load, sample by sample, those discarded while recovering left out."""

    policy: str
    time_s: list[float] = field(default_factory=list)
    demand: list[float] = field(default_factory=list)
    executors: list[int] = field(default_factory=list)
    backlog_ratio: list[float] = field(default_factory=list)
    predicted_share: list[float] = field(default_factory=list)
    predicted_demand: list[float] = field(default_factory=list)
    rescales: int = 0
    discarded: int = 0

    @property
    def violations(self) -> int:
        """Samples whose backlog ratio reached the limit."""
        return sum(share >= LIMIT for share in self.backlog_ratio)

    @property
    def executors_mean(self) -> float:
        """Workers per sample."""
        return float(np.mean(self.executors))


def run_elastic(
    rates: NDArray[np.float64], scaler: Scaler, *, interval_s: int, policy: str, seed: int = 0
) -> ElasticRun:
    """Run a policy the way the thesis does: one sample at a time, none for four minutes after a change."""
    plant = ExecutorPlant(rates, FLINK, executors=1, seed=seed)
    run = ElasticRun(policy)
    silent_until_s = 0.0
    for until_s in range(interval_s, rates.size + 1, interval_s):
        signal = plant.run(float(until_s)).signal
        if until_s <= silent_until_s:
            run.discarded += 1
            continue
        run.time_s.append(signal.time_s)
        run.demand.append(signal.demand_rows_per_s or 0.0)
        run.executors.append(signal.requested)
        run.backlog_ratio.append(signal.backlog_ratio or 0.0)
        _predictions(run, scaler)
        decision = scaler.decide(signal)
        if decision.executors != signal.requested and 1 <= decision.executors <= MOST:
            plant.ask_for(decision.executors)
            run.rescales += 1
            silent_until_s = until_s + RECOVER_S
    return run


def _predictions(run: ElasticRun, scaler: Scaler) -> None:
    share = demand = float("nan")
    if isinstance(scaler, ThesisScaler):
        model = scaler.learned.model
        demand = scaler.forecast.predict(5.0) or float("nan")
        if model is not None:
            share = float(model.predict(run.demand[-1], float(run.executors[-1])))
    run.predicted_share.append(share)
    run.predicted_demand.append(demand)


def autoscaler(*, explores_ahead: bool, train_every: int, ahead_s: float = 60.0) -> ThesisScaler:
    """The proactive scaler with the settings of the thesis: lambda 0.05, k 250, alpha 0.9, beta 0.4."""
    return ThesisScaler(
        ThesisSettings(
            max_executors=MOST,
            limit=LIMIT,
            ahead_s=ahead_s,
            explores_ahead=explores_ahead,
            train_every=train_every,
            settle_s=0.0,
            quantile=0.95,
        )
    )


def gaussian_rates(hours: float, *, peak_rows_per_s: float, seed: int = 1) -> NDArray[np.float64]:
    """A bell from zero to its peak and back, rows drawn for every second."""
    profile = LoadProfile.gaussian(peak_rows_per_s, seconds=3600.0 * hours)
    means = profile.rates_at(np.arange(int(3600 * hours)) + 0.5)
    return np.random.default_rng(seed).poisson(means).astype(np.float64)


def world_cup_rates(table: NDArray[np.float64] | None = None, *, seed: int = 1) -> NDArray[np.float64]:
    """Three hours in the shape of the World Cup load: a recorded table of rates per second, or a drawn stand-in.

    The stand-in has what the recording has: a slow rise to a plateau, a match's two peaks with a dip at half-time, and
    a level that wanders by a few hundredths from minute to minute.
    """
    generator = np.random.default_rng(seed)
    seconds = np.arange(3 * 3600)
    if table is None:
        knots = [0, 900, 2_700, 4_500, 5_700, 6_600, 8_100, 9_300, 10_800]
        means = np.interp(seconds, knots, [0.3, 0.36, 0.62, 1.0, 0.84, 0.95, 0.7, 0.45, 0.35])
        wander = np.cumsum(generator.normal(0.0, 0.012, 181))
        wander -= np.linspace(0.0, wander[-1], 181)
        means = 0.92 * means / means.max() * np.exp(np.interp(seconds, 60.0 * np.arange(181), wander))
    else:
        means = np.interp(seconds, np.linspace(0, seconds[-1], table.size), table / table.max())
    # Two workers at the peak, as in the thesis.
    return np.asarray(generator.poisson(1.85 * CAPACITY_ROWS_PER_S * means), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Exploration:
    """The first experiment: five hours of exploration, and what they taught."""

    run: ElasticRun
    scaler: ThesisScaler


def explore(*, seed: int = 1) -> Exploration:
    """Section 5.2: five hours of a gaussian load in exploration, a check every 450 samples of 15 s."""
    scaler = autoscaler(explores_ahead=False, train_every=450)
    rates = gaussian_rates(5.0, peak_rows_per_s=4_500.0, seed=seed)
    run = run_elastic(rates, scaler, interval_s=15, policy="exploration", seed=seed)
    if scaler.learned.model is None and run.demand:
        scaler.train(run.executors[-1], run.demand[-1])
    return Exploration(run, scaler)


def compare_gaussian(explored: Exploration, *, seed: int = 1) -> dict[str, ElasticRun]:
    """Section 5.3: 1.5 hours of a steep gaussian load, optimal control with the model of the first experiment."""
    rates = gaussian_rates(1.5, peak_rows_per_s=3_300.0, seed=seed + 1)
    trained = autoscaler(explores_ahead=True, train_every=100_000)
    trained.adopt(explored.scaler)
    return {
        "proactive": run_elastic(rates, trained, interval_s=5, policy="proactive", seed=seed),
        "reactive": run_elastic(rates, Reactive(limit=LIMIT), interval_s=5, policy="reactive", seed=seed),
    }


def compare_world_cup(table: NDArray[np.float64] | None = None, *, seed: int = 1) -> dict[str, ElasticRun]:
    """Section 5.4: three hours of the World Cup load from a cold start, a check every 300 samples of 5 s."""
    rates = world_cup_rates(table, seed=seed)
    ours = autoscaler(explores_ahead=True, train_every=300)
    return {
        "proactive": run_elastic(rates, ours, interval_s=5, policy="proactive", seed=seed),
        "reactive": run_elastic(rates, Reactive(limit=LIMIT), interval_s=5, policy="reactive", seed=seed),
    }


def comparison_rows(load: str, runs: dict[str, ElasticRun]) -> list[Row]:
    """A table beside the figures of the thesis."""
    return [
        {
            "load": load,
            "policy": policy,
            "violations": run.violations,
            "samples": len(run.demand),
            "discarded_samples": run.discarded,
            "executors_per_sample": run.executors_mean,
            "paper_executors_per_sample": PAPER[load][policy],
            "rescales": run.rescales,
        }
        for policy, run in runs.items()
    ]
