"""The one logic of an application: its tiers are joined, and the same events give the same decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from executor_fakes import Wish
from penstock.control.application import ApplicationLogic
from penstock.control.events import (
    BatchFinished,
    BatchPlanned,
    Event,
    ExecutorsSeen,
    GoalChanged,
    KeepBoundsChanged,
    QueryEnded,
    QueryStarted,
)
from penstock.control.executor_outcomes import OutcomeState
from penstock.control.priority import KeepBounds
from penstock.control.scaling_tier import ScalingTier, ScalingTierState
from penstock.estimate.service_time import ServiceTimeState
from penstock.model import (
    Application,
    BatchSignal,
    EngineView,
    Executor,
    ExecutorBounds,
    ExecutorsDeclaration,
    Goal,
    GuardSignal,
    LimitUnit,
    PlannedBatch,
    QueryDeclaration,
    QueryName,
    QuerySpec,
    SourceSignal,
    SourceSpec,
)
from penstock.model.decision import Decision, Executors, Hold, Infeasible, KeepRatio
from penstock.settings import Settings

CLICKS, VIEWS = QueryName("clicks"), QueryName("views")
DECLARED = ExecutorsDeclaration(ExecutorBounds(1, 8), "reactive")
SETTINGS = Settings().with_values({"scaling.warm_up_s": 0.0, "scaling.interval_s": 15.0})
BATCH_S, ROWS = 2.0, 20_000


@dataclass
class Told:
    """A logic that is told of events in virtual time, and everything that it decided."""

    application: Application = field(default_factory=lambda: Application(executors=DECLARED))
    options: dict[str, Any] = field(default_factory=dict)
    now_s: float = 0.0
    decided: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.logic = ApplicationLogic(self.application, SETTINGS, **self.options)
        self.batch_ids: dict[QueryName, Iterator[int]] = {}

    @property
    def tier(self) -> ScalingTier:
        """What decides about executors."""
        assert self.logic.scaling is not None
        return self.logic.scaling

    @property
    def is_pressed(self) -> bool:
        """Whether the slow tier was told that the fast one is at its end."""
        return self.tier.snapshot().pressure is not None

    def tell(self, event: Event) -> list[Decision]:
        """One event now."""
        found = self.logic.on_event(event, self.now_s)
        self.decided += found
        return found

    def start(
        self, name: QueryName = CLICKS, goal: Goal | None = None, *, guard: bool = True, every_s: float = 0.0
    ) -> None:
        """A query with one source."""
        spec = QuerySpec(name, (SourceSpec(0, "numbers", LimitUnit.ROWS),), every_s)
        goal = goal or Goal(latency=5, minimum_accuracy=0.1 if guard else 1.0)
        self.batch_ids[name] = count()
        self.tell(QueryStarted(spec, goal, f"id of {name}", has_guard=guard))

    def see(self, executors: int = 1) -> list[Decision]:
        """The executors as they are."""
        view = EngineView(tuple(Executor(str(each)) for each in range(executors)), 8, None, float(executors))
        return self.tell(ExecutorsSeen(view))

    def plan(self, name: QueryName, batch_id: int, rows: int, lag_rows: float = 0.0) -> KeepRatio:
        """A batch that asks what to keep."""
        source = SourceSignal(0, rows, float(rows), lag_rows)
        [answer] = self.tell(BatchPlanned(name, batch_id, PlannedBatch(batch_id, self.now_s, (source,))))
        assert isinstance(answer, KeepRatio)
        return answer

    def batch(self, *names: QueryName, rows: int = ROWS, lag_rows: float = 0.0, guard: bool = True) -> None:
        """One batch of each query, planned now and done in its time; the executors are seen every second."""
        started_s, done = self.now_s, []
        for name in names or (CLICKS,):
            batch_id = next(self.batch_ids[name])
            ratio = self.plan(name, batch_id, rows, lag_rows).keep_ratio if guard else 1.0
            kept = round(ratio * rows)
            source = SourceSignal(0, rows, float(rows), lag_rows)
            seen = GuardSignal(rows, kept, ratio) if guard else None
            duration_s = 0.2 + 20e-6 * kept
            done.append(BatchSignal(name, batch_id, started_s, duration_s, rows, (source,), guard=seen))
        for moment_s in (1.0, BATCH_S):
            self.now_s = started_s + moment_s
            self.see()
        for signal in done:
            self.tell(BatchFinished(signal, 0.9 * signal.duration_s))

    def of(self, *kinds: type[Decision]) -> list[Any]:
        """Decisions of some kinds."""
        return [decision for decision in self.decided if isinstance(decision, kinds)]


def warm(*names: QueryName, **options: Any) -> Told:
    """A logic whose queries have run for 24 s, so that a sample of 15 s is over and the next one has begun."""
    told = Told(**options)
    for name in names or (CLICKS,):
        told.start(name)
    for _ in range(12):
        told.batch(*names)
    assert [each.executors for each in told.of(Executors)] == [1]
    return told


# -- tiers are joined ----------------------------------------------------------------------------------------------


def test_shed_work_asks_for_executors_before_the_sample_ends() -> None:
    """A planned batch that sheds is known to the slow tier at once: the next look at the executors asks for more."""
    told = warm()
    answer = told.plan(CLICKS, 12, 600_000)
    assert answer.keep_ratio < 0.5
    told.now_s += 0.5
    [decision] = [each for each in told.see() if isinstance(each, Executors)]
    assert decision.cause == "pressure"
    assert decision.reason.startswith("clicks sheds rows: ")
    assert decision.executors > 2
    assert told.now_s < 30.0, "the sample is not over"


def test_a_goal_that_cannot_be_met_asks_for_executors_before_the_sample_ends() -> None:
    """A query without a guard falls behind: what is infeasible for it is a reason for more executors at once."""
    told = Told()
    told.start(guard=False)
    for _ in range(8):
        told.batch(guard=False)
    while not told.of(Infeasible) and told.now_s < 120.0:
        told.batch(rows=100_000, lag_rows=1e6 + 50_000.0 * told.now_s, guard=False)
    assert told.of(Infeasible), "it was never said"
    assert told.is_pressed
    told.now_s += 0.5
    [decision] = [each for each in told.see() if isinstance(each, Executors)]
    assert decision.cause == "pressure"
    assert told.of(Infeasible)[0].reason in decision.reason


def test_pressure_ends_when_everything_is_kept() -> None:
    """A batch that keeps all of its rows gives the policy its freedom back, unless another query still sheds."""
    told = warm(CLICKS, VIEWS)
    told.plan(CLICKS, 12, 600_000)
    assert told.is_pressed
    told.now_s += 0.1
    assert told.plan(VIEWS, 12, ROWS).keep_ratio == 1.0
    assert told.is_pressed
    told.now_s += 2.0
    assert told.plan(CLICKS, 13, 100).keep_ratio == 1.0
    assert not told.is_pressed


def test_pressure_ends_with_the_query_that_pressed() -> None:
    """Nobody needs executors for a query that is gone; the end of another one changes nothing."""
    told = warm(CLICKS, VIEWS)
    told.plan(CLICKS, 12, 600_000)
    told.tell(QueryEnded(VIEWS))
    told.tell(QueryEnded(QueryName("never governed")))
    assert told.is_pressed
    told.tell(QueryEnded(CLICKS))
    assert not told.is_pressed


def test_pressure_ends_when_a_goal_can_be_met_again() -> None:
    """Of a query without a guard, too, which never asks what to keep."""
    told = Told()
    told.start(guard=False)
    for _ in range(8):
        told.batch(guard=False)
    while not told.of(Infeasible) and told.now_s < 120.0:
        told.batch(rows=100_000, lag_rows=1e6 + 50_000.0 * told.now_s, guard=False)
    assert told.is_pressed
    for _ in range(12):
        # Whatever the sample says meanwhile, the pressure is what it was.
        told.tier.on_pressure(told.now_s, reason="still")
        told.batch(rows=60_000, guard=False)
        if told.of(Hold):
            break
    assert "fits again" in told.of(Hold)[-1].reason
    assert not told.is_pressed


# -- goals ---------------------------------------------------------------------------------------------------------


def test_executors_are_scaled_for_the_goals_that_there_are() -> None:
    """The shortest goal and the longest trigger of the queries that run now; the last ones stand when all are gone."""
    told = Told()
    told.start(VIEWS, Goal())
    told.see()
    assert told.logic.scaling is None, "without a latency goal there is nothing to scale for"
    told.start(CLICKS, Goal(latency=10), every_s=2.0)
    assert (told.tier.goal_s, told.tier.trigger_s) == (10.0, 2.0)
    told.tell(GoalChanged(VIEWS, Goal(latency=5)))
    assert (told.tier.goal_s, told.tier.trigger_s) == (5.0, 2.0)
    told.tell(GoalChanged(VIEWS, Goal(latency=20)))
    assert (told.tier.goal_s, told.tier.trigger_s) == (10.0, 2.0)
    told.tell(QueryEnded(CLICKS))
    assert (told.tier.goal_s, told.tier.trigger_s) == (20.0, None)
    told.tell(QueryEnded(VIEWS))
    assert (told.tier.goal_s, told.tier.trigger_s) == (20.0, None)
    assert Told(Application()).logic.scaling is None


# -- who decides ---------------------------------------------------------------------------------------------------


def test_a_policy_of_ones_own_decides_within_the_guards() -> None:
    """It takes the place of the declared one, is asked once in a sample, and cannot leave the declared bounds."""
    wish = Wish(3)
    told = warm(options={"policy": wish}, application=Application(executors=DECLARED))
    for _ in range(4):
        told.batch()
    decision = told.of(Executors)[-1]
    assert (decision.cause, decision.executors, decision.reason) == ("wish", 3, "3 are wished for")
    wish.executors = 50
    for _ in range(8):
        told.batch()
    decision = told.of(Executors)[-1]
    assert decision.executors == 8
    assert decision.reason.startswith("50 are wished for; 50 exceeds max_executors = 8")


def test_learned_times_of_executors_are_what_it_begins_with() -> None:
    """The first change of size already expects what earlier runs took."""
    outcomes = OutcomeState(starts=ServiceTimeState((4.0, 6.0)), releases=ServiceTimeState((1.0,)))
    told = warm(options={"policy": Wish(1), "learned": ScalingTierState(outcomes=outcomes)})
    assert told.tier.releases.snapshot().observed_s == (1.0,)
    told.plan(CLICKS, 12, 600_000)
    told.now_s += 0.5
    told.see()
    assert told.of(Executors)[-1].expected == {"service_s": 5.0}


# -- one logic -----------------------------------------------------------------------------------------------------


def everything(name: QueryName = CLICKS) -> Told:
    """Two queries, an overload that is shed, executors that come, a changed goal, an end."""
    told = warm(name, VIEWS)
    told.batch(name, VIEWS, rows=400_000)
    told.batch(name, VIEWS, rows=100)
    told.tell(GoalChanged(name, Goal(latency=9, minimum_accuracy=0.3)))
    for _ in range(9):
        told.batch(name, VIEWS)
    told.tell(QueryEnded(VIEWS))
    told.batch(name)
    return told


def test_the_same_events_give_the_same_decisions() -> None:
    """Two logics of two applications: nothing but events counts, and both stand at the same place afterwards."""
    one, other = everything(), everything()
    assert one.decided == other.decided
    assert one.logic.snapshot() == other.logic.snapshot()
    assert len(one.of(Executors)) > 1
    assert any(each.keep_ratio < 0.9 for each in one.of(KeepRatio))


def test_bounds_of_several_engines_win_over_those_of_one() -> None:
    """What whoever plans for all engines leaves to a query is held, beside others too, until it is taken back."""
    told = warm(CLICKS, VIEWS)
    told.tell(KeepBoundsChanged(CLICKS, KeepBounds(0.25, 0.5)))
    for _ in range(2):
        told.batch(CLICKS, VIEWS)
    ratios = {each.query: each.keep_ratio for each in told.of(KeepRatio)}
    assert (ratios[CLICKS], ratios[VIEWS]) == (0.5, 1.0)
    assert told.logic.snapshot().bounds == {CLICKS: KeepBounds(0.25, 0.5)}
    told.tell(KeepBoundsChanged(CLICKS, KeepBounds()))
    told.batch(CLICKS, VIEWS)
    assert told.of(KeepRatio)[-2].keep_ratio == 1.0


def test_bounds_hold_for_a_query_that_is_yet_to_start() -> None:
    """A query that comes from another engine keeps to its bounds as soon as anything is known of its load."""
    told = Told()
    told.tell(KeepBoundsChanged(CLICKS, KeepBounds(0.25, 0.5)))
    told.start()
    told.batch()
    assert told.plan(CLICKS, 1, 100).keep_ratio <= 0.5


def test_a_query_named_engine_is_a_query_like_any_other() -> None:
    """No name means anything: the same decisions, with that name in them."""
    named, usual = everything(QueryName("engine")), everything()
    assert repr(usual.decided).replace("clicks", "engine") == repr(named.decided)
    assert named.logic.governed == ("engine",)


def test_a_snapshot_covers_every_tier() -> None:
    """Queries, their parts of the engine, the graph, executors and workloads; deciding on does not change it."""
    pytest.importorskip("scipy")
    parse = QueryDeclaration(Goal(latency=5, minimum_accuracy=0.1), writes=("topic:parsed",))
    count_them = QueryDeclaration(Goal(latency=5, minimum_accuracy=0.1), reads=("topic:parsed",))
    told = warm(CLICKS, VIEWS, application=Application({CLICKS: parse, VIEWS: count_them}, DECLARED))
    snapshot = told.logic.snapshot()
    assert set(snapshot.queries) == set(snapshot.workloads) == {CLICKS, VIEWS}
    assert snapshot.engine is not None
    assert set(snapshot.engine.queries) == {CLICKS, VIEWS}
    assert snapshot.graph is not None
    assert snapshot.scaling is not None
    assert snapshot.workloads[CLICKS].batch_id == 11
    before = repr(snapshot)
    told.batch(CLICKS, VIEWS, rows=400_000)
    assert repr(snapshot) == before
    after = told.logic.snapshot()
    assert after.queries != snapshot.queries
    assert after.workloads != snapshot.workloads
    assert after.scaling != snapshot.scaling
    assert Told(Application()).logic.snapshot().scaling is None
