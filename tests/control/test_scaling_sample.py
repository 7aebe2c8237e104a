"""Samples of what is observed every second: means, shed load, vanished signals, and the sizes of a replay."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from executor_fakes import LOAD, Numbers, Rig, started
from penstock.control.scaling import ONLINE_POLICIES, ScalerSetup, make_scaler
from penstock.control.scaling_sample import Sample
from penstock.control.scaling_tier import ScalingTier
from penstock.control.workload import Arrived, Workload
from penstock.model import EngineView, Executor, ExecutorBounds, ExecutorsDeclaration
from penstock.model.decision import Executors, Infeasible
from penstock.model.scaling import ScalingSignal
from penstock.sim.calibration import Calibration
from penstock.sim.executors import ExecutorPlant


def test_a_sample_is_the_mean_over_its_observations() -> None:
    """Means of rates and backlog, the state of the last observation, and one question for each interval."""
    rig = Rig(ExecutorBounds(2, 4), numbers=Numbers(interval_s=2.0))
    rig.cluster.join()
    for rate, backlog in ((300.0, 300.0), (400.0, 600.0), (500.0, 900.0), (1.0, 1.0)):
        rig.load = replace(LOAD, arrival_rows_per_s=rate, backlog_rows=backlog)
        rig.run(1)
    (signal,) = rig.wish.seen
    assert (signal.time_s, signal.executors, signal.requested) == (1002.0, 1, 2)
    assert (signal.demand_rows_per_s, signal.backlog_rows) == (400.0, 900.0)
    assert signal.backlog_ratio == pytest.approx(600.0 / 4_000.0)


@pytest.mark.parametrize("name", ONLINE_POLICIES)
@pytest.mark.parametrize("lost", ["arrival_rows_per_s", "processed_rows_per_s", "busy_share", "backlog_rows"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_signals_that_vanish_hold_what_is_there(name: str, lost: str, value: float | None) -> None:
    """One observation in a sample that does not know is enough, whichever policy decides."""
    rig = started(3, ExecutorBounds(1, 4, 3), policy=name, numbers=Numbers(interval_s=5.0))
    for second in range(31):
        rig.load = replace(LOAD, **{lost: value}) if second % 5 == 3 else LOAD
        rig.run(1)
    assert [each.executors for each in rig.of(Executors)] == [3]


@pytest.mark.parametrize("name", ["proactive", "reactive", "hpa", "ds2", "static"])
def test_live_decisions_are_those_of_a_replay(name: str) -> None:
    """Observations made of the samples of a simulated engine lead to the very same sizes as the samples themselves."""
    rates = np.concatenate((np.linspace(500.0, 4_500.0, 900), np.linspace(4_500.0, 500.0, 900)))
    calibration = Calibration(start_s=10.0)
    bounds = ExecutorBounds(1, 8)

    def sizes(decide: Any) -> list[int]:
        plant = ExecutorPlant(rates, calibration, executors=1)
        found = []
        for until_s in range(15, 1_801, 15):
            signal = plant.run(float(until_s)).signal
            plant.ask_for(max(1, decide(signal)))
            found.append(plant.requested)
        return found

    replayed = make_scaler(name, ScalerSetup(bounds, start_s=10.0))
    numbers = Numbers(interval_s=10.0, start_s=10.0)
    live = ScalingTier(
        ExecutorsDeclaration(bounds, name),
        numbers,
        goal_s=30.0,
        trigger_s=5.0,
        scaler=make_scaler(name, ScalerSetup(bounds, start_s=10.0)),
    )

    def decide_live(signal: ScalingSignal) -> int:
        assert signal.backlog_ratio is not None
        assert signal.demand_rows_per_s is not None
        assert signal.backlog_rows is not None
        mean = signal.backlog_ratio * signal.demand_rows_per_s * 30.0
        view = EngineView(tuple(Executor(str(number)) for number in range(signal.executors)))
        live._state = replace(live._state, sample=Sample())
        # The mean backlog over a sample is not what waits at its end: two observations around the mean give both.
        pair = (2.0 * mean - signal.backlog_rows, signal.backlog_rows)
        for moment_s, backlog in zip((signal.time_s - 10.0, signal.time_s), pair, strict=True):
            load = Workload(
                signal.demand_rows_per_s,
                None,
                signal.batch_s,
                signal.processed_rows_per_s,
                signal.busy_share,
                backlog,
                0.0,
                batch_rows=signal.batch_rows,
            )
            live.observe(view, load, moment_s)
        return live.target

    expected = sizes(lambda signal: replayed.decide(signal).executors)
    assert sizes(decide_live) == expected
    assert max(expected) >= 4


def test_nothing_is_decided_while_the_first_batches_are_cold() -> None:
    """A first batch that takes long is a worker that starts, not a load that is too high."""
    rig = started(policy="reactive", numbers=Numbers(interval_s=5.0, warm_up_s=20.0), load=Workload())
    rig.run(9)
    rig.load = replace(LOAD, backlog_rows=9_000.0, busy_share=1.0)
    rig.run(40)
    (time_s, _), *_ = [(t, each) for t, each in rig.log if isinstance(each, Executors)][1:]
    assert time_s == 1035.0


def test_rows_that_are_shed_wait_as_if_they_were_not() -> None:
    """A query whose guards keep the backlog short has the backlog ratio of one that falls behind, up to a bound."""
    load = replace(LOAD, arrival_rows_per_s=1_000.0, processed_rows_per_s=500.0, shed_rows_per_s=500.0)
    rig = started(numbers=Numbers(interval_s=5.0), load=load)
    rig.run(60)
    ratios = [signal.backlog_ratio for signal in rig.wish.seen]
    assert ratios[0] == pytest.approx((600.0 + 500.0 * 2.5) / 10_000.0)
    assert ratios[-1] == pytest.approx(1.06)
    assert all(signal.is_shedding and signal.demand_rows_per_s == 1_000.0 for signal in rig.wish.seen)
    rig.load = LOAD
    rig.run(12)
    assert (rig.wish.seen[-1].backlog_ratio, rig.wish.seen[-1].is_shedding) == (pytest.approx(0.15), False)


def test_demand_is_the_load_before_shedding() -> None:
    """800 rows/s of which 200 are worked off by two executors in three quarters of the time want six executors."""
    load = Workload(800.0, 0.0, 1.5, 200.0, 0.75, 800.0, 600.0, measured_from_s=999.0, batch_rows=400.0)
    rig = started(
        2, ExecutorBounds(1, 8, 2), policy="proactive", numbers=Numbers(interval_s=5.0, start_s=5.0), load=load
    )
    rig.run(10)
    assert rig.tier.target >= 6
    assert "rows/s" in rig.of(Executors)[-1].reason


def test_a_wish_above_the_bounds_is_told_once() -> None:
    """The guards' infeasible is a decision of the tier, and the answer stands between two samples."""
    bounds = ExecutorBounds(1, 3)
    scaler = make_scaler("static", ScalerSetup(bounds, interval_s=5.0, peak=9))
    rig = started(1, bounds, numbers=Numbers(interval_s=5.0))
    rig.tier._scaler = scaler
    rig.run(40)
    (refusal,) = rig.of(Infeasible)
    assert refusal.reason.startswith("9 exceeds max_executors = 3")
    assert (rig.tier.target, len(rig.cluster.executors)) == (3, 3)
    assert rig.of(Executors)[-1].cause == "static"


def test_demand_is_what_arrived_and_not_the_mean_of_rates() -> None:
    """A rate that is known for longer because its batch ran longer does not count for more, with two queries too."""

    def load(rate: float, *arrived: Arrived) -> Workload:
        return Workload(rate, 0.0, 1.0, 400.0, 0.5, 600.0, arrived=arrived)

    def demand(*seen: Workload) -> float | None:
        sample = Sample().with_(load(500.0, Arrived(0.0, 10.0), Arrived(900.0, 9.0)), 10.0, goal_s=30.0).following()
        for place, workload in enumerate(seen):
            sample = sample.with_(workload, 15.0 + 5.0 * place, goal_s=30.0)
        return sample.signal(executors=1, requested=1, goal_s=30.0, trigger_s=5.0).demand_rows_per_s

    long_batch = load(900.0, Arrived(1_000.0, 12.0), Arrived(1_400.0, 14.0))
    assert demand(long_batch, long_batch, load(300.0, Arrived(4_000.0, 20.0), Arrived(1_900.0, 19.0))) == 500.0
    # A query that had no batch meanwhile, or that began anew, tells nothing of what arrived: rates do.
    assert demand(load(300.0, Arrived(4_000.0, 20.0), Arrived(900.0, 9.0))) == 300.0
    assert demand(load(300.0, Arrived(4_000.0, 20.0), Arrived(100.0, 19.0))) == 300.0
    assert demand(load(300.0, Arrived(4_000.0, 20.0))) == 300.0
