"""The scaler on an engine made of numbers: bounds, order, measured times, losses, faults."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from cluster.fakes import FakeCluster, Wish
from penstock.cluster.plan import Bounds
from penstock.cluster.scaler import ENGINE, Scaler
from penstock.errors import StoreError
from penstock.model import Action, ActionKind, Metric, Mode, SeriesPoint
from penstock.spark.workload import Workload
from penstock.store import MemoryStore


class Rig:
    """A scaler, its policy, its cluster and its log."""

    def __init__(self, cluster: FakeCluster | None = None, bounds: Bounds | None = None, **options: Any) -> None:
        self.cluster = cluster or FakeCluster()
        bounds = bounds or Bounds(1, 6)
        self.wish, self.store = Wish(bounds.first), options.pop("store", MemoryStore())
        self.scaler = Scaler(self.cluster, bounds, self.wish, self.store, clock=self.cluster.clock, **options)
        self.scaler.begin()

    def run(self, seconds: int, wish: int | None = None) -> None:
        """So many cycles, a second apart."""
        self.wish.executors = self.wish.executors if wish is None else wish
        for _ in range(seconds):
            self.scaler.step()
            self.cluster.wait(1.0)

    def log(self, *kinds: ActionKind) -> list[Action]:
        """What is on record."""
        return [record.action for record in self.store.actions(kinds=kinds)]


def started(executors: int = 1, **options: Any) -> Rig:
    """A rig whose first executors are there."""
    rig = Rig(**options)
    for _ in range(executors):
        rig.cluster.join()
    rig.run(1)
    return rig


def test_growth_is_recorded_with_the_time_from_decision_to_service() -> None:
    """The decision first, with its cause and reason; then what it came to, and what is learned of it."""
    rig = started()
    rig.run(9, wish=3)
    decision, outcome = rig.log(ActionKind.EXECUTORS)[-1], rig.log(ActionKind.EXECUTORS_DONE)[-1]
    assert (decision.cause, decision.reason, decision.previous, decision.value) == ("wish", "3 are wished for", 1, 3)
    assert outcome.value == pytest.approx(6.0)
    assert outcome.reason == "1 -> 3 executors serve, 6.0 s after the decision"
    assert rig.scaler.starts.snapshot().observed_s == (6.0, 6.0)
    assert [point.value for point in rig.store.points(ENGINE, Metric.EXECUTOR_START_S)] == [6.0, 6.0]
    rig.run(9, wish=4)
    assert rig.log(ActionKind.EXECUTORS)[-1].expected == {"service_s": 6.0}
    assert "(6.0 s was expected)" in rig.log(ActionKind.EXECUTORS_DONE)[-1].reason


def test_the_least_busy_leave_and_are_waited_for() -> None:
    """Busy executors stay; the number is lowered before anybody goes; the time until the last has gone is told."""
    rig = started(3, bounds=Bounds(1, 6, first=3), cluster=FakeCluster(busy={"0": 2, "2": 1}))
    rig.run(4, wish=1)
    assert [step.release for step in rig.cluster.steps if step.release] == [("1", "2")]
    assert list(rig.cluster.executors) == ["0"]
    assert rig.log(ActionKind.FAULT) == []
    outcome = rig.log(ActionKind.EXECUTORS_DONE)[-1]
    assert outcome.reason == "2 executors finished all tasks and left, 1 left serving, 2.0 s after the decision"
    assert rig.scaler.releases.snapshot().observed_s == (2.0, 2.0)


def test_what_standalone_starts_too_many_is_released_as_it_comes() -> None:
    """An application starts with all of its maximum; the first size is what stays, and nothing is learned from it."""
    rig = started(4, bounds=Bounds(1, 4, first=2))
    rig.run(4, wish=2)
    assert len(rig.cluster.executors) == 2
    assert rig.cluster.totals == [2] * len(rig.cluster.totals)
    assert rig.scaler.starts.count == 0


def test_more_than_the_cluster_has_is_said_once_and_clamped() -> None:
    """The target is what can be given, the log says why, and it is not said again every second."""
    rig = started(cluster=FakeCluster(room=3))
    rig.run(12, wish=5)
    (refusal,) = rig.log(ActionKind.INFEASIBLE)
    assert refusal.reason == "5 executors were wanted, but the cluster has room for 3: 5 are wished for"
    assert rig.scaler.target == 3
    assert rig.log(ActionKind.EXECUTORS)[-1].reason == (
        "5 are wished for; 5 executors were wanted, but the cluster has room for 3"
    )
    rig.cluster.room = 8
    rig.run(12)
    assert rig.scaler.target == len(rig.cluster.executors) == 5


def test_the_bounds_hold() -> None:
    """Never above the maximum, never below the minimum, whatever is wished for."""
    rig = started(2, bounds=Bounds(2, 4, first=2))
    rig.run(10, wish=99)
    assert rig.scaler.target == 4
    assert rig.log(ActionKind.INFEASIBLE)[-1].reason.startswith("99 executors were wanted, but 4 is the maximum")
    rig.run(10, wish=-3)
    assert rig.scaler.target == 2
    assert rig.log(ActionKind.EXECUTORS)[-1].reason.endswith("-3 executors were wanted, but 2 is the minimum")


def test_a_request_that_is_not_served_is_said() -> None:
    """Where nobody knew how much room there is, a request that stays open is told after a minute, once."""
    rig = started(cluster=FakeCluster(room=None, start_s=1e9))
    rig.run(130, wish=2)
    (overdue,) = rig.log(ActionKind.INFEASIBLE)
    assert overdue.reason.startswith("1 of 2 executors serve 61 s after that; the cluster gives no more now")


def test_standby_serves_at_once_and_is_replaced() -> None:
    """The waiting executor takes over within a cycle; another is asked for in its place and waits."""
    rig = Rig(bounds=Bounds(1, 4, first=1, standby=1))
    rig.run(9, wish=1)
    assert (len(rig.cluster.executors), rig.cluster.standby) == (2, {"1"})
    rig.run(2, wish=2)
    assert rig.cluster.standby == set()
    outcome = rig.log(ActionKind.EXECUTORS_DONE)[-1]
    assert outcome.reason == "1 -> 2 executors serve, 1 of them from standby, 0.0 s after the decision"
    rig.run(9)
    assert rig.cluster.standby == {"2"}
    assert len(rig.cluster.executors) == 3
    rig.run(9, wish=1)
    assert (len(rig.cluster.executors), len(rig.cluster.standby)) == (2, 1)


def test_standby_stays_below_the_maximum() -> None:
    """At the maximum nothing is left to wait."""
    rig = started(bounds=Bounds(1, 3, first=1, standby=1))
    rig.run(20, wish=3)
    assert (len(rig.cluster.executors), rig.cluster.standby) == (3, set())


def test_a_lost_executor_is_told_and_its_replacement_measured() -> None:
    """Whatever goes without being released was lost; recovery is timed like growth."""
    rig = started(2, bounds=Bounds(1, 4, first=2))
    rig.run(2, wish=2)
    rig.cluster.lose("1")
    rig.run(9)
    (fault,) = rig.log(ActionKind.FAULT)
    assert fault.cause == "loss of executor 1"
    outcome = rig.log(ActionKind.EXECUTORS_DONE)[-1]
    assert outcome.reason == "1 -> 2 executors serve, 6.0 s after the loss was seen"
    assert outcome.cause == f"action {rig.store.actions(kinds=(ActionKind.FAULT,))[0].action_id}"


def test_a_step_that_is_overtaken_has_its_end_on_record() -> None:
    """2, then 4 before the second is there, then 1: every decision has exactly one outcome, served or overtaken."""
    rig = started()
    rig.run(2, wish=2)
    rig.run(12, wish=4)
    rig.run(5, wish=1)
    decisions = rig.store.actions(kinds=(ActionKind.EXECUTORS,))[1:]
    outcomes = rig.log(ActionKind.EXECUTORS_DONE)
    assert [outcome.cause for outcome in outcomes] == [f"action {one.action_id}" for one in decisions]
    overtaken = outcomes[0]
    assert overtaken.value is None
    assert overtaken.reason == (
        f"1 of 2 executors served 2.0 s after the decision, when action {decisions[1].action_id} overtook it"
    )
    assert [outcome.value for outcome in outcomes[1:]] == [pytest.approx(6.0), pytest.approx(2.0)]


def test_growth_that_is_taken_back_has_its_end_on_record() -> None:
    """Back to 1 before the second executor has come: nobody had to leave, and the log says so."""
    rig = started(cluster=FakeCluster(start_s=1e9))
    rig.run(2, wish=3)
    rig.run(3, wish=1)
    decisions = rig.store.actions(kinds=(ActionKind.EXECUTORS,))[1:]
    outcomes = rig.log(ActionKind.EXECUTORS_DONE)
    assert [outcome.cause for outcome in outcomes] == [f"action {one.action_id}" for one in decisions]
    assert "overtook it" in outcomes[0].reason
    assert outcomes[1].reason == "1 executors serve, none had to leave, 1.0 s after the decision"
    assert rig.scaler.is_settled


def test_a_policy_that_fails_leaves_the_engine_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """The fault is recorded once while it lasts, and decisions go on afterwards."""
    rig = started()
    rig.wish.error = ValueError("no such forecast")
    with caplog.at_level(logging.CRITICAL, logger="penstock"):
        rig.run(5, wish=3)
    assert [fault.reason for fault in rig.log(ActionKind.FAULT)] == [
        "ValueError: no such forecast; the engine keeps its size"
    ]
    assert rig.scaler.target == 1
    rig.wish.error = None
    rig.run(9)
    assert len(rig.cluster.executors) == 3


def test_what_cannot_be_recorded_is_not_carried_out() -> None:
    """A full disk must not lead to executors that nobody can explain."""
    rig = started()
    rig.wish.executors = 3
    rig.store.close()
    with pytest.raises(StoreError):
        rig.scaler.step()
    assert (rig.scaler.target, rig.cluster.totals[-1]) == (1, 1)


def test_observe_only_decides_and_does_nothing() -> None:
    """The log has the decision; the cluster was never asked."""
    rig = started(mode=Mode.OBSERVE)
    rig.run(5, wish=3)
    assert rig.log(ActionKind.EXECUTORS)[-1].value == 3
    assert rig.cluster.steps == []


def test_times_are_recalled_from_the_log() -> None:
    """A scaler that starts anew expects what the last one learned."""
    store = MemoryStore()
    store.append_points([SeriesPoint(t, ENGINE, Metric.EXECUTOR_START_S, v) for t, v in ((1.0, 5.0), (2.0, 9.0))])
    rig = started(store=store)
    assert rig.scaler.starts.quantile_s(0.5) == pytest.approx(7.0)
    assert rig.wish.seen[-1].start_s_p95 == pytest.approx(8.8)


def test_the_policy_is_told_what_arrives() -> None:
    """Rates and lag of the queries, and None where nobody knows."""
    rig = started(workload=lambda: Workload(250.0, 40.0, 1.5))
    seen = rig.wish.seen[-1]
    assert (seen.arrival_rows_per_s, seen.lag_rows, seen.batch_s, seen.available) == (250.0, 40.0, 1.5, 10)
    assert started().wish.seen[-1].lag_rows is None


def test_the_thread_survives_faults_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    """A cluster that cannot be looked at is a fault on record, not the end of the scaler."""
    rig = Rig(every_s=0.01)
    calls = []

    def broken() -> Any:
        calls.append(1)
        raise OSError("the master is away")

    rig.cluster.look = broken  # type: ignore[method-assign]
    with caplog.at_level(logging.CRITICAL, logger="penstock"), rig.scaler:
        while len(calls) < 3:
            time.sleep(0.01)
    assert [fault.reason for fault in rig.log(ActionKind.FAULT)] == [
        "OSError: the master is away; the engine stays as it is"
    ]
