"""The scaling tier on a cluster made of numbers: bounds, order, measured times, losses, faults, pressure, snapshots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executor_fakes import LOAD, FakeCluster, Numbers, Rig, started
from penstock.control.executor_outcomes import OutcomeState
from penstock.control.scaling import ONLINE_POLICIES
from penstock.control.scaling_tier import ScalingTier, ScalingTierState
from penstock.control.workload import Workload
from penstock.estimate.service_time import ServiceTimeState
from penstock.model import APPLICATION, EngineView, Executor, ExecutorBounds, ExecutorsDeclaration, Metric
from penstock.model.decision import (
    Executors,
    ExecutorsDone,
    Fault,
    Hold,
    Infeasible,
    from_action,
    to_action,
)

SHEDDING = Workload(3_000.0, 0.0, 1.0, 800.0, 1.0, 900.0, 2_200.0, measured_from_s=999.0)
SAMPLED = Numbers(interval_s=15.0, start_s=6.0)


# -- what came of decisions ----------------------------------------------------------------------------------------


def test_the_first_size_is_the_first_decision() -> None:
    """Before anything is known, with the standby that it needs; a tier that goes on from a snapshot has it already."""
    rig = started(bounds=ExecutorBounds(2, 6, 3, standby=1))
    (first,) = rig.of(Executors)
    assert (first.query, first.cause, first.executors, first.standby, first.number) == (APPLICATION, "start", 3, 1, 1)
    assert first.reason == "the first size, of 2 to 6 executors with 1 on standby"
    again = Rig(rig.bounds, rig.cluster, state=rig.tier.snapshot())
    assert again.tier.decision == first
    assert again.step() == []


def test_growth_is_told_with_the_time_from_decision_to_service() -> None:
    """The decision first, with its cause and reason; then what it came to, and what is learned of it."""
    rig = started()
    rig.run(9, wish=3)
    decision, outcome = rig.of(Executors)[-1], rig.of(ExecutorsDone)[-1]
    assert (decision.cause, decision.reason, decision.previous_executors) == ("wish", "3 are wished for", 1)
    assert (decision.executors, decision.expected) == (3, {"service_s": 30.0})
    assert outcome.took_s == pytest.approx(6.0)
    assert outcome.reason == "1 -> 3 executors serve, 6.0 s after the decision (30.0 s was expected)"
    assert outcome.number == decision.number
    assert rig.tier.starts.snapshot().observed_s == (6.0, 6.0)
    rig.run(9, wish=4)
    assert rig.of(Executors)[-1].expected == {"service_s": 6.0}
    assert "(6.0 s was expected)" in rig.of(ExecutorsDone)[-1].reason
    assert all(from_action(to_action(each)) == each for _, each in rig.log)


def test_figures_are_for_the_time_series() -> None:
    """Start times and the number that serves, with the observation that showed them and not again."""
    rig = started()
    points = []
    for _ in range(9):
        rig.run(1, wish=2)
        points += rig.tier.points
    assert [(point.metric, point.value) for point in points] == [
        (Metric.EXECUTOR_START_S, 6.0),
        (Metric.EXECUTORS_SERVING, 2),
    ]


def test_the_least_busy_leave_and_are_waited_for() -> None:
    """Busy executors stay; the time until the last has gone is told."""
    rig = started(3, ExecutorBounds(1, 6, 3), cluster=FakeCluster(busy={"0": 2, "2": 1}))
    rig.run(4, wish=1)
    assert [step.release for step in rig.cluster.steps if step.release] == [("1", "2")]
    assert list(rig.cluster.executors) == ["0"]
    assert rig.of(Fault) == []
    outcome = rig.of(ExecutorsDone)[-1]
    assert outcome.reason == "2 executors finished all tasks and left, 1 left serving, 2.0 s after the decision"
    assert rig.tier.releases.snapshot().observed_s == (2.0, 2.0)
    assert rig.tier.is_settled


def test_a_release_that_failed_is_awaited_once() -> None:
    """Applied again in the next cycle, it counts one executor, and its time is from the first try."""
    rig = started(2, ExecutorBounds(1, 6, 2))
    rig.wish.executors = 1
    apply, rig.cluster.apply = rig.cluster.apply, lambda *_: None  # type: ignore[method-assign,assignment]
    rig.run(1)
    rig.cluster.apply = apply  # type: ignore[method-assign]
    rig.run(4)
    (outcome,) = rig.of(ExecutorsDone)
    assert outcome.reason == "1 executor finished all tasks and left, 1 left serving, 3.0 s after the decision"


def test_what_standalone_starts_too_many_is_released_as_it_comes() -> None:
    """An application starts with all of its maximum; the first size is what stays, and nothing is learned from it."""
    rig = started(4, ExecutorBounds(1, 4, 2))
    rig.run(4, wish=2)
    assert len(rig.cluster.executors) == 2
    assert {step.total for step in rig.cluster.steps} == {2}
    assert rig.tier.starts.count == 0
    assert rig.of(Fault) == []


def test_more_than_the_cluster_has_is_said_once_and_clamped() -> None:
    """The target is what can be given, the log says why, and it is not said again every second."""
    rig = started(cluster=FakeCluster(room=3))
    rig.run(12, wish=5)
    (refusal,) = rig.of(Infeasible)
    assert refusal.reason == "5 executors are wanted, and the cluster has room for 3: 5 are wished for"
    assert rig.tier.target == 3
    assert rig.of(Executors)[-1].reason.endswith("5 executors are wanted, and the cluster has room for 3")
    rig.run(3, wish=6)
    assert len(rig.of(Infeasible)) == 1
    rig.cluster.room = 8
    rig.run(12)
    assert rig.tier.target == len(rig.cluster.executors) == 6


def test_what_fits_again_is_said() -> None:
    """A wish that shrank to what is there ends the refusal, without a change of size."""
    rig = started(cluster=FakeCluster(room=3))
    rig.run(12, wish=5)
    rig.run(2, wish=3)
    assert [hold.reason for hold in rig.of(Hold)] == ["3 executors fit again: 3 are wished for"]


def test_the_bounds_hold() -> None:
    """Never above the maximum, never below the minimum, whatever is wished for."""
    rig = started(2, ExecutorBounds(2, 4, 2))
    rig.run(10, wish=99)
    assert rig.tier.target == 4
    assert rig.of(Infeasible)[-1].reason.startswith("99 exceeds max_executors = 4")
    rig.run(10, wish=-3)
    assert rig.tier.target == 2
    assert rig.of(Executors)[-1].reason.endswith("-3 is below min_executors = 2")


def test_a_request_that_is_not_served_is_said() -> None:
    """Where nobody knew how much room there is, a request that stays open is told after a minute, once."""
    rig = started(cluster=FakeCluster(room=None, start_s=1e9))
    rig.run(130, wish=2)
    (overdue,) = rig.of(Infeasible)
    assert overdue.reason.startswith("1 of 2 executors serve 61 s after the decision; the cluster gives no more now")


def test_standby_serves_at_once_and_is_replaced() -> None:
    """The waiting executor takes over within a cycle; another is asked for in its place and waits."""
    rig = Rig(ExecutorBounds(1, 4, standby=1))
    rig.run(9, wish=1)
    assert (len(rig.cluster.executors), rig.cluster.standby) == (2, {"1"})
    rig.run(2, wish=2)
    assert rig.cluster.standby == set()
    outcome = rig.of(ExecutorsDone)[-1]
    assert outcome.reason == (
        "1 -> 2 executors serve, 1 of them from standby, 0.0 s after the decision (0.0 s was expected)"
    )
    rig.run(9)
    assert rig.cluster.standby == {"2"}
    assert len(rig.cluster.executors) == 3
    rig.run(9, wish=1)
    assert (len(rig.cluster.executors), len(rig.cluster.standby)) == (2, 1)


def test_standby_stays_below_the_maximum() -> None:
    """At the maximum nothing is left to wait."""
    rig = started(bounds=ExecutorBounds(1, 3, standby=1))
    rig.run(20, wish=3)
    assert (len(rig.cluster.executors), rig.cluster.standby) == (3, set())


def test_a_lost_executor_is_told_and_its_replacement_measured() -> None:
    """Whatever goes without being released was lost; recovery is timed like growth."""
    rig = started(2, ExecutorBounds(1, 4, 2))
    rig.run(2, wish=2)
    rig.cluster.lose("1")
    rig.run(9)
    (fault,) = rig.of(Fault)
    assert fault.cause == "loss of executor 1"
    outcome = rig.of(ExecutorsDone)[-1]
    assert outcome.reason == "1 -> 2 executors serve, 6.0 s after the loss was seen (30.0 s was expected)"
    assert (outcome.cause, outcome.number) == (fault.cause, None)
    assert rig.tier.is_settled


def test_a_step_that_is_overtaken_has_its_end_on_record() -> None:
    """2, then 4 before the second is there, then 1: every decision has exactly one outcome, served or overtaken."""
    rig = started()
    rig.run(2, wish=2)
    rig.run(12, wish=4)
    rig.run(5, wish=1)
    decisions, outcomes = rig.of(Executors)[1:], rig.of(ExecutorsDone)
    assert [outcome.number for outcome in outcomes] == [decision.number for decision in decisions] == [2, 3, 4]
    assert outcomes[0].took_s is None
    assert outcomes[0].reason == "1 of 2 executors served 2.0 s after the decision, when decision 3 overtook it"
    assert [outcome.took_s for outcome in outcomes[1:]] == [pytest.approx(6.0), pytest.approx(2.0)]


def test_growth_that_is_taken_back_has_its_end_on_record() -> None:
    """Back to 1 before the second executor has come: nobody had to leave, and the log says so."""
    rig = started(cluster=FakeCluster(start_s=1e9))
    rig.run(2, wish=3)
    rig.run(3, wish=1)
    outcomes = rig.of(ExecutorsDone)
    assert [outcome.number for outcome in outcomes] == [2, 3]
    assert "overtook it" in outcomes[0].reason
    assert outcomes[1].reason == "1 executors serve, none had to leave, 1.0 s after the decision"
    assert rig.tier.is_settled


def test_a_policy_that_fails_leaves_the_size_as_it_is() -> None:
    """The fault is told once while it lasts, and decisions go on afterwards."""
    rig = started()
    rig.wish.error = ValueError("no such forecast")
    rig.run(5, wish=3)
    assert [fault.reason for fault in rig.of(Fault)] == [
        "ValueError: no such forecast; the number of executors stays as it is"
    ]
    assert rig.tier.target == 1
    rig.wish.error = None
    rig.run(9)
    assert len(rig.cluster.executors) == 3


def test_observe_only_decides_and_waits_for_nobody() -> None:
    """The decision is there; that nothing comes of it is no fault of the cluster."""
    rig = started(is_acting=False)
    rig.run(200, wish=3)
    assert [type(decision) for _, decision in rig.log] == [Executors, Executors]
    assert rig.tier.target == 3


def test_learned_times_are_a_state() -> None:
    """A tier that starts anew expects what the last one learned."""
    outcomes = OutcomeState(starts=ServiceTimeState((5.0, 9.0)))
    rig = started(state=ScalingTierState(outcomes=outcomes))
    rig.run(1, wish=2)
    assert rig.of(Executors)[-1].expected == {"service_s": 7.0}


def test_a_wish_that_guards_hold_back_is_told_once() -> None:
    """Three samples of cooling down are one entry."""
    numbers = replace(SAMPLED, interval_s=5.0, down_every_s=1e6)
    rig = started(policy="hpa", numbers=numbers, load=replace(LOAD, busy_share=1.0))
    rig.run(30)
    assert rig.tier.target > 1
    rig.load = replace(LOAD, busy_share=0.1)
    rig.run(900)
    assert len(rig.of(Hold)) == 1
    assert "cooling down" in rig.of(Hold)[0].reason


# -- joined tiers --------------------------------------------------------------------------------------------------


def pressed(policy: str = "proactive", executors: int = 2, maximum: int = 12, **more: Any) -> Rig:
    """A rig in the middle of a sample, with a query that sheds two rows of three."""
    bounds = ExecutorBounds(1, maximum, executors)
    rig = started(executors, bounds, policy=policy, numbers=SAMPLED, load=SHEDDING, **more)
    rig.run(1)
    return rig


@pytest.mark.parametrize("policy", ONLINE_POLICIES)
def test_pressure_does_not_wait_for_the_sample(policy: str) -> None:
    """Two seconds after the first decision there are as many executors as unshed demand needs, whatever the policy."""
    rig = pressed(policy)
    rig.tier.on_pressure(1001.5, demand_rows_per_s=3_000.0, reason="rows are being shed")
    rig.run(2)
    (time_s, decision), *_ = [(t, each) for t, each in rig.log if isinstance(each, Executors)][1:]
    assert time_s <= 1003.0
    assert decision.executors >= 8
    assert decision.cause == "pressure"
    assert decision.reason.startswith("rows are being shed: 3,000 rows/s arrive, one executor does 400")
    assert decision.expected == {"service_s": 6.0}


def test_without_pressure_the_sample_is_waited_for() -> None:
    """The same load without a word from the fast tier."""
    rig = pressed()
    rig.run(10)
    assert len(rig.of(Executors)) == 1


def test_what_is_on_its_way_is_not_asked_for_again() -> None:
    """While executors start, and while batches of the smaller size are all that is measured, the need stays."""
    rig = pressed()
    for _ in range(14):
        rig.tier.on_pressure(rig.cluster.now_s, demand_rows_per_s=3_000.0, reason="rows are being shed")
        rig.run(1)
    assert [each.executors for each in rig.of(Executors)] == [2, 8]
    assert len(rig.cluster.executors) == 8


def test_pressure_beyond_the_bounds_is_infeasible_once() -> None:
    """What may be had is asked for, and the rest is said."""
    rig = pressed(maximum=5)
    for _ in range(40):
        rig.tier.on_pressure(rig.cluster.now_s, demand_rows_per_s=3_000.0, reason="rows are being shed")
        rig.run(1)
    (refusal,) = rig.of(Infeasible)
    assert refusal.reason.startswith("8 exceeds max_executors = 5: rows are being shed")
    assert rig.tier.target == 5


def test_a_need_that_is_met_already_asks_nobody() -> None:
    """An infeasible goal of a load that is carried is not for executors to mend."""
    rig = pressed("static", maximum=2)
    rig.load = replace(LOAD, measured_from_s=999.0)
    rig.tier.on_pressure(1001.5, demand_rows_per_s=400.0, reason="the goal cannot be met")
    rig.run(10)
    assert len(rig.of(Executors)) == 1


@pytest.mark.parametrize("policy", ["hpa", "ds2", "proactive", "reactive", "keda"])
def test_nothing_is_removed_while_rows_are_shed(policy: str) -> None:
    """A policy that sees idle executors must wait until nothing is dropped any more."""
    idle = replace(LOAD, busy_share=0.1, backlog_rows=0.0, arrival_rows_per_s=100.0, processed_rows_per_s=90.0)
    bounds = ExecutorBounds(1, 6, 4)
    numbers = replace(SAMPLED, interval_s=5.0, down_every_s=10.0)
    rig = started(4, bounds, policy=policy, numbers=numbers, load=replace(idle, shed_rows_per_s=10.0))
    rig.run(700)
    assert min(each.executors for each in rig.of(Executors)) == 4
    rig.load = idle
    rig.run(700)
    if policy in {"hpa", "ds2", "keda"}:  # the others learned from what was shed that all of them are needed
        assert rig.tier.target < 4


def test_the_policy_is_free_again_after_relief() -> None:
    """By word, or when nothing was said for two samples."""
    for says_so in (True, False):
        rig = pressed("ds2")
        rig.tier.on_pressure(1001.5, demand_rows_per_s=3_000.0, reason="rows are being shed")
        rig.run(10)
        assert rig.tier.target >= 8
        rig.load = Workload(400.0, 0.0, 1.0, 400.0, 0.125, 40.0, 0.0, measured_from_s=1050.0)
        if says_so:
            rig.tier.on_relief()
        rig.run(200)
        assert rig.tier.target < 8


def test_the_rate_of_a_smaller_size_is_not_taken_for_that_of_a_larger_one() -> None:
    """A batch that two executors did says nothing of eight."""
    rig = pressed()
    rig.tier.on_pressure(1001.5, demand_rows_per_s=3_000.0, reason="rows are being shed")
    rig.run(10)
    assert len(rig.cluster.executors) == 8
    assert rig.tier.snapshot().rate.rows_per_s == pytest.approx(400.0)
    rig.load = replace(SHEDDING, processed_rows_per_s=2_800.0, measured_from_s=1020.0)
    rig.run(2)
    assert rig.tier.snapshot().rate.rows_per_s == pytest.approx(375.0)


# -- snapshots -----------------------------------------------------------------------------------------------------

rates = st.one_of(st.none(), st.floats(0.0, 5_000.0))
workloads = st.builds(
    Workload,
    arrival_rows_per_s=rates,
    lag_rows=rates,
    batch_s=st.floats(0.1, 9.0),
    processed_rows_per_s=rates,
    busy_share=st.one_of(st.none(), st.floats(0.0, 1.0)),
    backlog_rows=rates,
    shed_rows_per_s=rates,
    measured_from_s=st.one_of(st.none(), st.floats(0.0, 200.0)),
)
executors = st.builds(
    Executor,
    st.sampled_from([str(number) for number in range(8)]),
    added_s=st.floats(0.0, 100.0),
    is_standby=st.booleans(),
    is_leaving=st.booleans(),
)
views = st.builds(
    EngineView,
    st.lists(executors, max_size=6, unique_by=lambda one: one.executor_id).map(tuple),
    st.one_of(st.none(), st.integers(0, 9)),
)
cycles = st.tuples(views, workloads, st.one_of(st.none(), st.floats(0.0, 9_000.0)), st.booleans())


@given(st.sampled_from(ONLINE_POLICIES), st.lists(cycles, min_size=2, max_size=40), st.integers(0, 40))
@settings(max_examples=80, deadline=None)
def test_a_tier_from_a_snapshot_decides_alike(
    policy: str, walk: list[tuple[EngineView, Workload, float | None, bool]], place: int
) -> None:
    """Whatever is seen: decisions after a snapshot are those of the tier that it was taken from, within the bounds."""
    declaration = ExecutorsDeclaration(ExecutorBounds(1, 8, 2, standby=1), policy)
    numbers = Numbers(interval_s=3.0, start_s=6.0, warm_up_s=2.0)

    def decide(tier: ScalingTier, begin: int, end: int) -> list[Any]:
        told: list[Any] = []
        for number, (view, workload, demand, is_over) in list(enumerate(walk))[begin:end]:
            if demand is not None:
                tier.on_pressure(100.0 + number, demand_rows_per_s=demand, reason="rows are being shed")
            elif is_over:
                tier.on_relief()
            told.append(tier.observe(view, workload, 100.0 + number))
        return told

    one = ScalingTier(declaration, numbers, goal_s=10.0, trigger_s=2.0)
    told = decide(one, 0, place)
    snapshot = one.snapshot()
    expected = decide(one, place, len(walk))
    other = ScalingTier(declaration, numbers, goal_s=10.0, trigger_s=2.0, state=snapshot)
    assert decide(other, place, len(walk)) == expected
    for decision in [each for cycle in told + expected for each in cycle]:
        assert from_action(to_action(decision)) == decision
        if isinstance(decision, Executors):
            assert 1 <= decision.executors <= decision.executors + decision.standby <= 8


def test_missing_signals_are_told_once_with_the_remedy() -> None:
    """A source that does not tell what waits holds the executors; the log says so once, not with every sample."""
    tier = ScalingTier(ExecutorsDeclaration(ExecutorBounds(1, 4, 2)), Numbers(), goal_s=10.0)
    view = EngineView((Executor("0"), Executor("1")))
    told = [
        decision.reason
        for second in range(20)
        for decision in tier.observe(view, Workload(400.0, None, 1.0, 400.0, 0.5, None), 1_000.0 + second)
    ]
    assert sum("rows that wait" in reason and "Kafka" in reason for reason in told) == 1


def test_observe_only_decides_by_what_is_there() -> None:
    """Nothing is applied, so every sample is decided by the executors that serve: a policy goes on deciding."""
    declared = ExecutorsDeclaration(ExecutorBounds(1, 9, 2), "hpa")
    tier = ScalingTier(declared, Numbers(down_every_s=0.0), goal_s=10.0, is_acting=False)
    view = EngineView((Executor("0"), Executor("1")))
    targets = []
    for second, busy in enumerate((1.0, 1.0, 1.0, 0.82, 0.82)):
        tier.observe(view, Workload(400.0, 0.0, 1.0, 400.0, busy, 600.0, 0.0), 1_000.0 + 400.0 * second)
        targets.append(tier.target)
    assert targets == [3, 3, 3, 2, 2]
