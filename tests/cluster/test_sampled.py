"""The policies of a replay behind the scaler of a live engine: samples, shed load, vanished signals, bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cluster.fakes import FakeCluster
from penstock.cluster.plan import Bounds
from penstock.cluster.policy import ScalingObservation
from penstock.cluster.sampled import SampledPolicy, live_policy
from penstock.cluster.scaler import Scaler
from penstock.control.scaling import ONLINE_POLICIES, ScalerSetup, make_scaler
from penstock.model import ActionKind
from penstock.model.scaling import ScalingSignal
from penstock.sim.calibration import Calibration
from penstock.sim.executors import ExecutorPlant
from penstock.spark.workload import QueryWorkload, Workload, parse_timestamp_s
from penstock.store import MemoryStore

LOAD = Workload(400.0, 0.0, 1.0, 400.0, 0.5, 600.0)


def seen(time_s: float, executors: int = 1, load: Workload = LOAD, **more: Any) -> ScalingObservation:
    """What a scaler would tell its policy."""
    told = {name: getattr(load, name) for name in Workload.__slots__}
    return ScalingObservation(time_s, executors, more.pop("target", executors), 1, 4, **told, **more)


class Recorder:
    """A scaler that remembers what it was asked."""

    name = "recorder"

    def __init__(self) -> None:
        self.signals: list[ScalingSignal] = []
        self.inner = make_scaler("static", ScalerSetup(most=4, peak=2))

    def decide(self, signal: ScalingSignal) -> Any:
        """Remember."""
        self.signals.append(signal)
        return self.inner.decide(signal)


def test_a_sample_is_the_mean_over_its_looks() -> None:
    """Means of rates and queue, the state of the last look, and one question for each interval."""
    recorder = Recorder()
    policy = SampledPolicy(recorder, goal_s=10.0, interval_s=2.0, trigger_s=2.0)  # type: ignore[arg-type]
    for second, rate, backlog in ((0.0, 300.0, 300.0), (1.0, 400.0, 600.0), (2.0, 500.0, 900.0), (3.0, 1.0, 1.0)):
        policy.decide(seen(second, load=replace(LOAD, arrival_rows_per_s=rate, backlog_rows=backlog), target=2))
    (signal,) = recorder.signals
    assert (signal.time_s, signal.executors, signal.requested, signal.trigger_s) == (2.0, 1, 2, 2.0)
    assert (signal.demand_rows_per_s, signal.backlog_rows) == (400.0, 900.0)
    assert signal.queue_share == pytest.approx(600.0 / 4_000.0)


@pytest.mark.parametrize("name", ONLINE_POLICIES)
@pytest.mark.parametrize("lost", ["arrival_rows_per_s", "processed_rows_per_s", "busy_share", "backlog_rows"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_signals_that_vanish_hold_what_is_there(name: str, lost: str, value: float | None) -> None:
    """One look in a sample that does not know is enough, whichever policy decides."""
    policy = live_policy(name, Bounds(1, 4), goal_s=10.0, interval_s=5.0, warm_up_s=0.0)
    for second in range(31):
        load = replace(LOAD, **{lost: value}) if second % 5 == 3 else LOAD
        answer = policy.decide(seen(float(second), 3, load))
        assert answer.executors == 3
    assert answer.reason == "signals are missing: hold what is there"


@pytest.mark.parametrize("name", ["proactive", "reactive", "hpa", "ds2", "static"])
def test_live_decisions_are_those_of_a_replay(name: str) -> None:
    """Looks made of the samples of a simulated engine lead to the very same sizes as the samples themselves."""
    rates = np.concatenate((np.linspace(500.0, 4_500.0, 900), np.linspace(4_500.0, 500.0, 900)))
    calibration = Calibration(start_s=10.0)
    setup = ScalerSetup(most=8, start_s=10.0)

    def sizes(decide: Any) -> list[int]:
        plant = ExecutorPlant(rates, calibration, executors=1)
        found = []
        for until_s in range(15, 1_801, 15):
            signal = plant.run(float(until_s)).signal
            plant.ask_for(max(1, decide(signal)))
            found.append(plant.requested)
        return found

    replayed = make_scaler(name, setup)
    live = SampledPolicy(make_scaler(name, setup), goal_s=30.0, interval_s=15.0, trigger_s=5.0)

    def decide_live(signal: ScalingSignal) -> int:
        assert signal.queue_share is not None
        assert signal.demand_rows_per_s is not None
        queue = signal.queue_share * signal.demand_rows_per_s * 30.0
        told = {
            "arrival_rows_per_s": signal.demand_rows_per_s,
            "processed_rows_per_s": signal.processed_rows_per_s,
            "busy_share": signal.busy_share,
            "batch_s": signal.batch_s,
        }
        # The mean queue over a sample is not what waits at its end: two looks around the mean give both.
        live._looks, live._began_s = [], signal.time_s - 15.0
        assert signal.backlog_rows is not None
        pair = (2.0 * queue - signal.backlog_rows, signal.backlog_rows)
        for moment_s, backlog in zip((signal.time_s - 5.0, signal.time_s), pair, strict=True):
            look = ScalingObservation(moment_s, signal.executors, signal.requested, 1, 8, backlog_rows=backlog, **told)
            answer = live.decide(look)
        return answer.executors

    expected = sizes(lambda signal: replayed.decide(signal).executors)
    assert sizes(decide_live) == expected
    assert max(expected) >= 4


def test_nothing_is_decided_while_the_first_batches_are_cold() -> None:
    """A first batch that takes long is a worker that starts, not a load that is too high."""
    policy = live_policy("reactive", Bounds(1, 4), goal_s=10.0, interval_s=5.0, warm_up_s=20.0)
    unknown = Workload(None, None, None)
    cold = replace(LOAD, backlog_rows=9_000.0, busy_share=1.0)
    told = [policy.decide(seen(float(second), load=unknown if second < 10 else cold)) for second in range(40)]
    assert next(second for second, target in enumerate(told) if target.executors > 1) == 35
    assert told[20].reason == "the queries are warming up"


def test_demand_is_the_load_before_shedding() -> None:
    """A query that drops three rows in four under 1,600 rows/s has that demand, and works off a quarter of it."""
    workload = QueryWorkload()
    for batch in range(8):
        workload.learn(report(batch, rows=1_600, kept=400))
    now = workload.workload(parse_timestamp_s(report(7)["timestamp"]))
    assert now.arrival_rows_per_s == pytest.approx(800.0)
    assert now.processed_rows_per_s == pytest.approx(200.0)
    policy = live_policy("proactive", Bounds(1, 8), goal_s=10.0, interval_s=5.0, start_s=5.0)
    for second in range(60):
        answer = policy.decide(seen(float(second), 2, now))
    # 400 rows in 1.5 s on 2 executors: 133 rows/s each, so 800 rows/s want more than there may be.
    assert answer.executors >= 6
    assert "rows/s" in answer.reason


def test_what_waits_counts_before_a_long_batch_is_over() -> None:
    """A batch that takes long says nothing until it ends; rows go on arriving all the same, until that is stale."""
    workload = QueryWorkload()
    for batch in range(3):
        workload.learn(report(batch, rows=1_600, kept=1_600))
    planned_s = parse_timestamp_s(report(2)["timestamp"])
    assert workload.workload(planned_s + 30.0).backlog_rows == pytest.approx(24_000.0)
    assert workload.workload(planned_s + 500.0).backlog_rows is None


def test_a_wish_above_the_bounds_is_on_record_once() -> None:
    """The guards' infeasible reaches the log of the engine, and the answer stands between two samples."""
    cluster, store = FakeCluster(room=10), MemoryStore()
    scaler_setup = ScalerSetup(most=3, interval_s=5.0, peak=9)
    policy = SampledPolicy(make_scaler("static", scaler_setup), goal_s=10.0, interval_s=5.0)
    scaler = Scaler(cluster, Bounds(1, 3), policy, store, workload=lambda: LOAD, clock=cluster.clock)
    scaler.begin()
    cluster.join()
    for _ in range(40):
        scaler.step()
        cluster.wait(1.0)
    (refusal,) = store.actions(kinds=(ActionKind.INFEASIBLE,))
    assert refusal.action.reason.startswith("9 executors were wanted, but 3 is the maximum")
    assert (scaler.target, len(cluster.executors)) == (3, 3)
    assert store.actions(kinds=(ActionKind.EXECUTORS,))[-1].action.cause == "static"


def report(batch: int, rows: int = 0, kept: int = 0) -> dict[str, Any]:
    """A progress report: a batch every 2 s that took 1.5 s and left nothing behind."""
    done = {"row": (batch + 1) * rows}
    return {
        "runId": "a",
        "batchId": batch,
        "timestamp": f"2026-01-02T03:04:{10 + 2 * batch:02d}.000Z",
        "durationMs": {"triggerExecution": 1_500},
        "observedMetrics": {"penstock.guard.1": {"offered_rows": rows, "kept_rows": kept}},
        "sources": [{"numInputRows": rows, "endOffset": done, "latestOffset": done}],
    }
