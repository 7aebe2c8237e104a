"""The proactive scaler in closed loops: rows that change their cost, any goal and trigger, partitions, restarts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from penstock.control.scaling import Autoscaler, AutoscalerSettings, ScalerSetup, make_scaler
from penstock.control.scaling.batch_times import BatchTimes
from penstock.model.executors import ExecutorBounds
from penstock.model.scaling import ScalingSignal
from penstock.sim.calibration import Calibration
from penstock.sim.executors import ExecutorPlant

HOUR_S = 3_600
INTERVAL_S = 15
SETUP = ScalerSetup(ExecutorBounds(1, 25))


class Loop:
    """A scaler and a simulated query, signals through reports."""

    def __init__(
        self,
        rates: np.ndarray,
        calibration: Calibration,
        *,
        speeds: np.ndarray | None = None,
        told_start_s: float | None = None,
    ) -> None:
        self.plant = ExecutorPlant(rates, calibration, executors=10, seed=2, speeds=speeds)
        self.scaler = make_scaler("proactive", replace(SETUP, start_s=told_start_s or calibration.start_s))
        self.late: list[bool] = []
        self.sizes: list[int] = []
        self.notices: list[tuple[float, str]] = []
        self.reasons: list[str] = []

    def run(self) -> Loop:
        """To the end of the load."""
        for until_s in range(INTERVAL_S, int(self.plant.duration_s) + 1, INTERVAL_S):
            sample = self.plant.run(float(until_s))
            decision = self.scaler.decide(sample.reported)
            self.late.append(sample.late_share >= 0.1)
            if decision.notice:
                self.notices.append((float(until_s), decision.notice))
            self.reasons.append(decision.reason)
            self.plant.ask_for(decision.executors)
            self.sizes.append(self.plant.requested)
        return self


def swing(hours: float, *, low: float = 3_000.0, high: float = 9_000.0, period_s: float = 5_400.0) -> np.ndarray:
    """A load that goes up and down."""
    seconds = np.arange(int(HOUR_S * hours))
    means = (low + high) / 2 + (high - low) / 2 * np.sin(2 * np.pi * seconds / period_s)
    return np.random.default_rng(3).poisson(means).astype(np.float64)


def test_rows_that_become_expensive_at_once_are_noticed() -> None:
    """An executor does 0.6 of what it did, from one second to the next: few late samples, on record within minutes."""
    speeds = np.where(np.arange(8 * HOUR_S) < 4 * HOUR_S, 1.0, 0.6)
    loop = Loop(swing(8.0), Calibration(), speeds=speeds).run()
    assert sum(loop.late) <= 5
    first_s = next(time_s for time_s, _ in loop.notices if time_s > 4 * HOUR_S)
    assert first_s - 4 * HOUR_S <= 15 * 60


def test_rows_that_become_expensive_by_and_by_are_noticed() -> None:
    """0.6 over eight hours: no more late samples, on record before rows cost a twentieth more, and again after that.

    Not within 15 minutes, which nobody could: see the next test.
    """
    seconds = np.arange(14 * HOUR_S)
    speeds = np.interp(seconds, [4 * HOUR_S, 12 * HOUR_S], [1.0, 0.6])
    loop = Loop(swing(14.0), Calibration(), speeds=speeds).run()
    assert sum(loop.late) <= 5
    told_s = [time_s for time_s, _ in loop.notices if time_s > 4 * HOUR_S]
    assert 1.0 / speeds[int(told_s[0])] < 1.05
    assert len(told_s) >= 3


def straight_rises(samples: np.ndarray) -> np.ndarray:
    """For each sample, how many deviations the best straight rise that ends there is away from nothing.

    It begins at any of 40 moments up to 100 minutes ago: the likelihood ratio of a drift whose shape is known and whose
    beginning and slope are not. No test of as few false alarms finds more of them.
    """
    ends = np.arange(1, samples.size + 1)
    total = np.concatenate(([0.0], np.cumsum(samples)))
    moment = np.concatenate(([0.0], np.cumsum(samples * ends)))
    best = np.zeros(samples.size)
    for length in np.unique(np.geomspace(4, 400, 40).round().astype(int)):
        last = ends[length - 1 :]
        first = last - length
        rise = moment[last] - moment[first] - first * (total[last] - total[first])
        norm = np.sqrt((np.arange(1, length + 1) ** 2.0).sum())
        best[length - 1 :] = np.maximum(best[length - 1 :], np.abs(rise) / norm)
    return best


def test_nobody_finds_a_slow_drift_within_a_quarter_of_an_hour() -> None:
    """A detector that knows the drift's shape, with an alarm in 60 hours without one, needs 20 minutes or more.

    Samples every 15 s are means of three batches that scatter by 5 %. One that finds half of these drifts within 15
    minutes has an alarm every two hours.
    """
    rng, before, scatter = np.random.default_rng(1), 1_000, 0.05 / np.sqrt(3.0)
    calm = [straight_rises(rng.standard_normal(60 * 240)) for _ in range(20)]
    threshold = np.median([run.max() for run in calm])
    costs = 1.0 / np.interp(15.0 * (np.arange(2_000) - before), [0.0, 8.0 * HOUR_S], [1.0, 0.6])
    drifts = [straight_rises(rng.standard_normal(2_000) + np.log(costs) / scatter)[before:] for _ in range(100)]
    delays_s = [15.0 * (np.flatnonzero(run > threshold)[0] + 1) for run in drifts]
    assert np.median(delays_s) > 20 * 60
    assert np.mean(np.array(delays_s) <= 15 * 60) < 0.2
    soon = np.median([run[:60].max() for run in drifts])
    assert np.mean([(run.reshape(-1, 480).max(axis=1) > soon).mean() for run in calm]) > 0.5


def test_what_does_not_change_is_not_noticed() -> None:
    """Twelve hours in which rows cost the same: at most one alarm, for detectors that see 2,880 samples."""
    assert len(Loop(swing(12.0), Calibration()).run().notices) <= 1


def test_rows_that_become_cheap_again_free_their_executors() -> None:
    """And back: the change is on record within minutes, and the size is what it was before all that."""
    seconds = np.arange(12 * HOUR_S)
    speeds = np.where((seconds >= 4 * HOUR_S) & (seconds < 8 * HOUR_S), 0.6, 1.0)
    loop = Loop(swing(12.0), Calibration(), speeds=speeds).run()
    assert sum(loop.late) <= 5
    back_s = next(time_s for time_s, _ in loop.notices if time_s > 8 * HOUR_S)
    assert back_s - 8 * HOUR_S <= 15 * 60
    before, after = (loop.sizes[hour * 240 : (hour + 3) * 240] for hour in (1, 9))
    assert np.mean(after) == pytest.approx(np.mean(before), rel=0.03)


@pytest.mark.parametrize(
    ("goal_s", "trigger_s"), [(15.0, 5.0), (10.0, 5.0), (30.0, 10.0), (60.0, 30.0), (30.0, 0.0), (30.0, 5.0)]
)
def test_any_goal_and_trigger(goal_s: float, trigger_s: float) -> None:
    """On a load that swings no sample is late, at no more than a fifth above what the load needs at least."""
    calibration = Calibration(goal_s=goal_s, trigger_s=trigger_s)
    rates = swing(6.0)
    loop = Loop(rates, calibration).run()
    assert not any(loop.late)
    needed = rates.reshape(-1, INTERVAL_S).mean(axis=1) / (calibration.rows_per_s * calibration.sustainable_share)
    assert np.mean(loop.sizes[240:]) <= 1.2 * np.mean(np.ceil(needed)[240:])


@pytest.mark.parametrize(("rows_per_s", "most"), [(36.0, 1), (1_075.0, 2)])
def test_batch_after_batch_a_small_load_needs_few(rows_per_s: float, most: int) -> None:
    """Without a trigger batches are short and busy all the time: that is not a load."""
    rates = np.random.default_rng(1).poisson(rows_per_s, 2 * HOUR_S).astype(np.float64)
    loop = Loop(rates, Calibration(trigger_s=0.0)).run()
    assert max(loop.sizes[240:]) <= most
    assert not any(loop.late)


def test_partitions_bound_the_executors() -> None:
    """Eight partitions where ten executors would be needed: eight, and the reason says so."""
    calibration = Calibration(partitions=8)
    loop = Loop(swing(3.0, low=5_000.0, high=9_500.0), calibration).run()
    assert max(loop.sizes[20:]) == 8
    assert any("partitions for 8 executors only" in reason for reason in loop.reasons)


def test_start_times_are_learned() -> None:
    """Executors take 120 s where 30 were told: once one has come, the forecast reaches as far as they take."""
    loop = Loop(swing(8.0), Calibration(start_s=120.0), told_start_s=30.0).run()
    assert "within 150 s" in loop.reasons[-1]
    assert not any(loop.late[240:])


def test_a_restart_decides_as_if_there_was_none() -> None:
    """What was learned goes through a file as text; the first decision after it, and the next ones, are the same."""
    rates = swing(30.0, period_s=20_000.0)
    plant = ExecutorPlant(rates, Calibration(), executors=10, seed=2)
    scaler, size = Autoscaler(AutoscalerSettings()), 10
    signals: list[ScalingSignal] = []
    for until_s in range(INTERVAL_S, rates.size + 1, INTERVAL_S):
        signals.append(plant.run(float(until_s)).reported)
        if until_s == 29 * HOUR_S:
            stored = json.dumps(scaler.remembered())
            asked = len(signals) - 1
        size = scaler.decide(signals[-1]).executors
        plant.ask_for(size)
    ran_on = Autoscaler(AutoscalerSettings())
    for signal in signals[:asked]:
        ran_on.decide(signal)
    restarted = Autoscaler(AutoscalerSettings())
    restarted.recall(json.loads(stored))
    rest = signals[asked : asked + 100]
    assert [restarted.decide(each) for each in rest] == [ran_on.decide(each) for each in rest]


def test_demand_is_the_unshed_load() -> None:
    """A query that sheds half of its rows is sized for all of them."""
    scaler = Autoscaler()
    for step in range(100):
        # Two executors can do 2,000 rows/s; 4,000 arrive, and the guard drops what does not fit.
        signal = ScalingSignal(15.0 * step, 2, 2, 4_000.0, 2_000.0, 1.0, 20_000.0, 0.2, 5.0, 5.0, 10_000.0, goal_s=30.0)
        decision = scaler.decide(signal)
    assert decision.executors == 4


def test_what_never_settles_is_learned_all_the_same() -> None:
    """A size that changes in every sample teaches nothing at first; after 20 of them mean executors have to do."""
    times = BatchTimes(memory_s=1_800.0, deviations=1.64)

    def seen(step: int, executors: int) -> ScalingSignal:
        return ScalingSignal(
            15.0 * step, executors, executors, 4_000.0, 4_000.0, 0.9, 0.0, 0.2, 4.5, 5.0, 20_000.0, goal_s=30.0
        )

    times.observe(seen(0, 5))
    before = times.snapshot()["line"]
    for step in range(1, 40):
        times.observe(seen(step, 4 + 2 * (step % 2)))
    assert len(times.snapshot()["line"]) > len(before)
