"""The loop over several engines, on engines without Spark: what stands is brought about, whatever goes wrong."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fleet.fakes import FakeEngine, declared
from patience import PATIENCE_S
from penstock.errors import StoreError, UnknownQueryError
from penstock.fleet.by_hand import ByHand
from penstock.fleet.loop import FleetLoop
from penstock.fleet.plant import EngineFleet
from penstock.fleet.status import FleetStatus, fleet_status
from penstock.model import ActionKind, Goal, Mode, QueryName
from penstock.model.application import QueryDeclaration
from penstock.model.decision import to_action
from penstock.model.engine_report import QueryRun, RunState
from penstock.model.fleet import AccuracyBounds, EngineSeen, Move, QueryReport, StreamKeepRatio
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLICKS = QueryName("clicks")


class World:
    """A fleet of fakes that is led by hand."""

    def __init__(self, path: Path, store: MemoryStore | None = None, **settings: object) -> None:
        queries = {"clicks": QueryDeclaration(Goal("5 seconds", 0.5, 5), reads=("topic:clicks",))}
        self.declaration = declared(path, queries, settings=settings)
        self.handles = {name: FakeEngine(name) for name in self.declaration.engines}
        self.fleet = EngineFleet(self.declaration, self.handles)
        self.logic = ByHand()
        self.store = store or MemoryStore()
        self.loop = FleetLoop(self.logic, self.fleet, self.store, clock=time.time)

    @property
    def left(self) -> FakeEngine:
        """The first engine."""
        return self.handles["left"]

    @property
    def right(self) -> FakeEngine:
        """The second one."""
        return self.handles["right"]

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Cycle until something holds."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, f"there was no {what}"
            self.loop.cycle()
            time.sleep(0.02)

    def placed(self) -> World:
        """Wait for the first placement."""
        self.until(lambda: self.logic.finished, "placement")
        return self

    def kinds(self) -> list[ActionKind]:
        """What was recorded."""
        return [record.action.kind for record in self.store.actions()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "fleet.toml").placed()


def test_a_new_query_is_placed_and_recorded_before_it_starts(world: World) -> None:
    """A query that runs nowhere starts on an engine, and the log has the decision and what came of it."""
    assert world.left.fake.running() == ["clicks"]
    assert world.kinds()[:3] == [ActionKind.GOVERN, ActionKind.PLACE, ActionKind.MOVE_DONE]


def test_a_move_stops_before_it_starts_and_has_a_larger_number(world: World) -> None:
    """The new engine is prepared, the old run is stopped, and only then does the new one start."""
    first = world.left.fake.runs["clicks"].number
    world.logic.move(CLICKS, "right")
    world.until(lambda: len(world.logic.finished) == 2, "move")
    assert world.left.fake.running() == []
    assert world.right.fake.running() == ["clicks"]
    assert [call[0] for call in world.right.fake.calls] == ["prepare", "start"]
    assert world.right.fake.runs["clicks"].number > first
    assert world.logic.finished[-1].downtime_s >= 0


def test_a_move_that_cannot_be_prepared_stops_nothing(world: World) -> None:
    """A module that does not import on the new engine costs the query nothing where it runs."""
    world.right.fake.refuses = {"prepare": "module 'shop' does not import"}
    world.logic.move(CLICKS, "right")
    world.until(lambda: world.logic.failed, "failure")
    assert world.logic.failed[0].running_on == "left"
    assert "does not import" in world.logic.failed[0].reason
    assert world.left.fake.running() == ["clicks"]
    assert ("stop", "clicks") not in world.left.fake.calls


def test_a_move_that_fails_at_the_start_goes_back(world: World) -> None:
    """A query that the new engine refuses in the end goes on where it was, under a larger number again."""
    world.right.fake.refuses = {"start": "no room"}
    world.logic.move(CLICKS, "right")
    world.until(lambda: world.logic.failed, "failure")
    assert world.logic.failed[0].running_on == "left"
    assert world.left.fake.running() == ["clicks"]
    assert ActionKind.FAULT in world.kinds()


def test_queries_of_a_lost_engine_start_elsewhere(world: World) -> None:
    """What a lost engine ran is started on another one, and the engine that comes back is not asked for it."""
    world.left.lost = "its process has ended"
    world.until(world.right.fake.running, "query on the other engine")
    world.left.is_up, world.left.fake.states = True, {}
    for _ in range(3):
        world.loop.cycle()
    assert world.left.fake.running() == []


def test_an_engine_that_is_lost_during_a_move_does_not_hold_the_query(world: World) -> None:
    """A query that is on its way to an engine which dies is brought to one that is there."""
    world.right.fake.batches = False  # it never gets warm there
    world.logic.move(CLICKS, "right")
    world.until(world.right.fake.running, "start on the other engine")
    world.right.lost = "killed"
    world.until(world.left.fake.running, "return")
    world.until(lambda: world.logic.where[CLICKS] == "left", "news of it")


def test_a_silent_engine_keeps_its_queries_until_it_is_lost(world: World) -> None:
    """As long as nobody knows that an engine runs nothing, its queries start nowhere else."""
    world.left.fake.is_silent = True
    for _ in range(5):
        world.loop.cycle()
    assert world.right.fake.calls == []


def test_a_start_that_nobody_answers_for_is_settled_first(world: World) -> None:
    """Where a start was asked for and the answer is lost, the query starts nowhere else until that is known."""

    def swallow(run: Any) -> Any:
        started(run)
        world.right.fake.is_silent = True
        world.right.fake._require_voice()

    started = world.right.fake.start
    world.right.fake.start = swallow  # type: ignore[method-assign]
    world.logic.move(CLICKS, "right")
    world.until(lambda: world.right.fake.is_silent, "lost answer")
    for _ in range(5):
        world.loop.cycle()
    assert world.left.fake.running() == []
    world.right.fake.is_silent = False
    world.until(lambda: len(world.logic.finished) == 2, "end of the move")
    assert world.logic.finished[-1].engine == "right"
    assert world.left.fake.running() == []


def test_a_query_that_dies_is_placed_again_and_later_and_later(tmp_path: Path) -> None:
    """A query that ends by itself is started again at once, and after a pause where it keeps ending."""
    world = World(tmp_path / "fleet.toml", **{"agents.retry_s": 600}).placed()
    world.left.fake.fail("clicks", "out of memory")
    world.until(lambda: len(world.logic.finished) == 2, "second start")
    assert "out of memory" in world.logic.failed[0].reason
    world.left.fake.refuses = world.right.fake.refuses = {"start": "no room"}
    world.left.fake.fail("clicks", "out of memory")
    for _ in range(50):
        world.loop.cycle()
        time.sleep(0.01)
    starts = [call for call in world.left.fake.calls if call[0] == "start"]
    assert len(starts) == 3
    assert world.fleet.standing[CLICKS].error == "no room"


def test_a_second_control_process_takes_over_what_runs(world: World) -> None:
    """A control process that is started anew finds queries where they run and starts none of them."""
    second = World(world.declaration.path)
    second.handles.update(world.handles)
    for _ in range(3):
        second.loop.cycle()
    assert second.logic.where == {CLICKS: "left"}
    assert [call[0] for call in world.left.fake.calls] == ["start"]
    assert world.right.fake.calls == []


def test_of_two_runs_the_older_one_is_stopped(world: World) -> None:
    """A run left behind by a move that was cut off is ended when the newer one is found."""
    world.right.fake.start(world.fleet.run_of(CLICKS))  # number 0: older than any
    second = World(world.declaration.path)
    second.handles.update(world.handles)
    second.until(lambda: not world.right.fake.running(), "end of the older run")
    assert world.left.fake.running() == ["clicks"]


def test_nothing_is_placed_before_every_engine_has_said_what_it_runs(tmp_path: Path) -> None:
    """A query may run on an engine that has not answered yet, unless that engine is known to run nothing."""
    world = World(tmp_path / "fleet.toml")
    world.left.fake.is_silent = True
    for _ in range(3):
        world.loop.cycle()
    assert world.right.fake.calls == []
    world.left.is_up = False
    world.until(world.right.fake.running, "query on the engine that is there")


def test_undeclared_queries_are_stopped(world: World) -> None:
    """An engine that still runs what is declared no more is told to stop it."""
    world.right.fake.start(QueryRun("shop", "views", "a:b", "/c", 1))
    world.until(lambda: not world.right.fake.running(), "end of the query")


def test_bounds_are_put_in_force_and_again_when_they_are_lost(world: World) -> None:
    """What a query may keep is told to its engine, and told again where something else is in force there."""
    told = {"query": CLICKS, "cause": "test", "reason": "test"}
    world.fleet.apply(AccuracyBounds(**told, low=0.5, high=0.8))  # type: ignore[arg-type]
    world.fleet.apply(StreamKeepRatio(**told, stream="topic:clicks", keep_ratio=0.75, path_keep_ratio=0.75))  # type: ignore[arg-type]
    world.loop.cycle()
    assert world.left.fake.calls[-1] == ("bounds", "clicks", 0.5, 0.75)
    world.left.fake.set_keep_bounds("clicks", 0.0, 1.0)
    world.loop.cycle()
    world.loop.cycle()
    assert world.left.fake.calls[-1] == ("bounds", "clicks", 0.5, 0.75)
    world.logic.move(CLICKS, "right")
    world.until(lambda: len(world.logic.finished) == 2, "move")
    run = world.right.fake.runs["clicks"]
    assert (run.keep_low, run.keep_high) == (0.5, 0.75)


def test_what_is_dropped_in_front_of_a_guard_is_divided_out(world: World) -> None:
    """An accuracy counts from the application's input on; a guard behind another drops only what is left to drop."""
    told = {"query": CLICKS, "cause": "test", "reason": "test"}
    world.fleet.apply(AccuracyBounds(**told, low=0.3, high=1.0))  # type: ignore[arg-type]
    world.fleet.apply(StreamKeepRatio(**told, stream="topic:clicks", keep_ratio=0.8, path_keep_ratio=0.4))  # type: ignore[arg-type]
    assert world.fleet._bounds(CLICKS) == (pytest.approx(0.6), pytest.approx(0.8))


def test_a_goal_takes_effect_and_is_on_record_with_who_asked(world: World) -> None:
    """Another goal reaches the running query and the log, and holds on the next engine too."""
    goal = Goal("2 seconds", 0.7, 9)
    world.loop.set_goal(CLICKS, goal, "on-call")
    world.loop.cycle()
    assert world.left.fake.calls[-1] == ("goal", "clicks", goal, "on-call")
    govern = [record.action for record in world.store.actions() if record.action.kind is ActionKind.GOVERN]
    assert govern[-1].cause == "asked by on-call"
    assert govern[-1].details["priority"] == 9
    assert world.fleet.run_of(CLICKS).priority == 9


def test_a_goal_for_nobody_is_an_error(world: World) -> None:
    """A query that is not in the fleet is named with those that are."""
    with pytest.raises(UnknownQueryError, match="known queries: clicks"):
        world.loop.set_goal(QueryName("views"), Goal(), "on-call")


class ForgetfulStore(MemoryStore):
    """A store that cannot be written for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def append_all(self, actions: Any, **how: Any) -> Any:
        """Refuse while there is no room."""
        if self.is_full:
            raise StoreError("no room")
        return super().append_all(actions, **how)


def test_what_cannot_be_recorded_is_not_applied(tmp_path: Path) -> None:
    """A decision waits for the store, and is carried out as soon as it is on record."""
    store = ForgetfulStore()
    world = World(tmp_path / "fleet.toml", store).placed()
    store.is_full = True
    world.logic.move(CLICKS, "right")
    for _ in range(3):
        world.loop.cycle()
    assert world.right.fake.calls == []
    store.is_full = False
    world.until(lambda: world.right.fake.running() == ["clicks"], "move")
    assert ActionKind.MOVE in world.kinds()


def test_observing_runs_queries_and_moves_none(tmp_path: Path) -> None:
    """In observe mode queries are placed, since nothing would run without; moves are on record and not made."""
    world = World(tmp_path / "fleet.toml")
    world.loop.set_observe_only(True)
    world.placed()
    world.logic.move(CLICKS, "right")
    world.until(lambda: world.logic.failed, "word of the move that was not made")
    assert world.logic.failed[0].running_on == "left"
    assert ActionKind.MOVE in world.kinds()
    assert ActionKind.FAULT not in world.kinds()
    assert world.right.fake.calls == []
    assert [call[0] for call in world.left.fake.calls] == ["start"]


def test_observing_drops_nothing(tmp_path: Path) -> None:
    """Bounds of what a query keeps are decided and on record in observe mode, and never told to its engine."""
    world = World(tmp_path / "fleet.toml")
    world.loop.set_observe_only(True)
    world.placed()
    told = {"query": CLICKS, "cause": "test", "reason": "test"}
    decision = AccuracyBounds(**told, low=0.5, high=0.8)  # type: ignore[arg-type]
    world.loop._apply_all(world.loop.record([decision]))
    world.loop.cycle()
    assert [call[0] for call in world.left.fake.calls] == ["start"]
    assert ActionKind.ACCURACY_BOUNDS in world.kinds()
    world.loop.set_observe_only(False, asked_by="on-call")
    world.loop.cycle()
    assert world.left.fake.calls[-1] == ("bounds", "clicks", 0.5, 0.8)
    assert [record.mode for record in world.store.actions(kinds=(ActionKind.GOVERN,))][-1] is Mode.ACT


def test_a_decision_that_cannot_be_put_in_force_keeps_no_other_from_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each decision stands for itself: one that fails is on record as a fault, and the next is applied."""
    applied, apply = [], world.fleet.apply

    def fail_once(decision: Any) -> None:
        if decision.cause == "bad":
            raise KeyError("clicks")
        applied.append(decision.cause)
        apply(decision)

    monkeypatch.setattr(world.fleet, "apply", fail_once)
    bad, good = (AccuracyBounds(query=CLICKS, cause=cause, reason="", low=0.5, high=0.8) for cause in ("bad", "good"))
    world.loop._apply_all([bad, good])
    assert applied == ["good"]
    assert world.kinds()[-1] is ActionKind.FAULT


def test_reports_become_what_was_done_between_two_batches(world: World) -> None:
    """Totals of an engine turn into rows, core-seconds and accuracy of a span that ends with a batch."""
    world.loop.cycle()
    states = world.left.fake.states
    states["clicks"] = replace(
        states["clicks"], batches=3, rows=600.0, kept_rows=300.0, core_s=1.5, source_rows=(600.0,),
        source_backlog_rows=(40.0,), has_guard=True,
    )  # fmt: skip
    (report,) = [event for event in world.fleet.observe() if isinstance(event, QueryReport)]
    assert (report.engine, report.core_s, report.accuracy) == ("left", 1.5, 0.5)
    assert [(one.stream, one.read_rows, one.kept_rows, one.backlog_rows) for one in report.inputs] == [
        ("topic:clicks", 600.0, 300.0, 40.0)
    ]


def test_a_query_in_the_middle_of_a_batch_is_not_idle(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long batch is no lack of load: nothing is said of its query until it is done, or has nothing to do."""
    monkeypatch.setattr("penstock.fleet.spans._IDLE_AFTER_S", 0.0)
    world.loop.cycle()
    states = world.left.fake.states

    def reports() -> list[QueryReport]:
        return [event for event in world.fleet.observe() if isinstance(event, QueryReport)]

    states["clicks"] = replace(states["clicks"], is_in_batch=True)
    assert reports() == []
    states["clicks"] = replace(states["clicks"], is_in_batch=False)
    assert [report.core_s for report in reports()] == [0.0]


def test_prometheus_tells_how_busy_the_hosts_of_an_engine_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an engine cannot look at its hosts, a PromQL query does; where it can, nothing is asked."""
    asked = []

    def figure(server: str, query: str) -> Callable[[], float | None]:
        return lambda: asked.append((server, query)) or 1.75  # type: ignore[func-returns-value]

    monkeypatch.setattr("penstock.fleet.plant.prometheus_figure", figure)
    world = World(tmp_path / "fleet.toml")
    engines = dict(world.declaration.engines)
    engines["right"] = replace(engines["right"], prometheus="http://metrics:9090", host_busy="sum(busy)")
    fleet = EngineFleet(replace(world.declaration, engines=engines), world.handles)
    renew = world.right.fake.renew
    monkeypatch.setattr(world.right.fake, "renew", lambda: replace(renew(), busy_cores=None))
    seen = {event.engine.name: event.host_busy_cores for event in fleet.observe() if isinstance(event, EngineSeen)}
    assert seen == {"left": 0.25, "right": 1.75}
    assert asked == [("http://metrics:9090", "sum(busy)")]


def test_the_status_tells_engines_and_queries(world: World) -> None:
    """The status has every engine and query, goes through JSON unharmed and prints as tables."""
    world.left.lost = "killed"
    world.until(lambda: len(world.logic.finished) == 2, "query elsewhere")
    status = fleet_status(world.fleet, 7.0)
    assert [(line.engine, line.state) for line in status.engines] == [("left", "down"), ("right", "up")]
    assert (status.queries[0].engine, status.queries[0].state) == ("right", RunState.RUNNING.value)
    assert FleetStatus.from_dict(status.to_dict()) == status
    assert "clicks" in str(status)


def test_moves_come_back_from_the_log() -> None:
    """A recorded move is the move that was decided."""
    from penstock.model.decision import from_action  # noqa: PLC0415 - only here

    move = Move(query=CLICKS, cause="plan", reason="left is short", engine="right", leaves="left", number=3)
    assert from_action(to_action(move)) == move
