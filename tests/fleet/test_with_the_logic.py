"""The real logic of a fleet on engines without Spark: what it decides reaches the engines."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fleet.fakes import FakeEngine, declared
from patience import PATIENCE_S
from penstock.control.fleet.logic import FleetLogic
from penstock.fleet.control import FleetControl, GoalChangeRequest, make_logic
from penstock.fleet.loop import FleetLoop
from penstock.fleet.plant import EngineFleet
from penstock.model import ActionKind, Goal, QueryName
from penstock.model.application import QueryDeclaration
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUERIES = {
    "high": QueryDeclaration(Goal("5 seconds", 0.2, 9), reads=("topic:a",)),
    "low": QueryDeclaration(Goal("5 seconds", 0.2, 1), reads=("topic:b",)),
}
SETTINGS = {"fleet.every_s": 0.1, "fleet.react_s": 0.1, "fleet.warm_up_s": 0.3, "fleet.move_after_s": 0.3}


class World:
    """Fakes under the real logic; every engine has one core."""

    def __init__(self, path: Path, engines: tuple[str, ...]) -> None:
        self.declaration = declared(path, QUERIES, engines=engines, settings=SETTINGS)
        self.handles = {name: FakeEngine(name) for name in engines}
        self.fleet = EngineFleet(self.declaration, self.handles)
        self.store = MemoryStore()
        self.loop = FleetLoop(make_logic(self.declaration), self.fleet, self.store, clock=time.time)

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Cycle until something holds."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, f"there was no {what}"
            self.work()
            self.loop.cycle()
            time.sleep(0.05)

    def work(self) -> None:
        """Let every query read 1,000 rows a second that cost a core-millisecond each: one core's work each."""
        for handle in self.handles.values():
            for name, state in list(handle.fake.states.items()):
                rows = state.rows + 50.0
                kept = state.kept_rows + 50.0 * state.keep_high
                handle.fake.states[name] = replace(
                    state, rows=rows, kept_rows=kept, core_s=kept / 1000.0, batches=state.batches + 1,
                    source_rows=(rows,), source_backlog_rows=(0.0,), has_guard=True,
                )  # fmt: skip

    def running(self) -> dict[str, str]:
        """Where each query runs."""
        return {query: name for name, handle in self.handles.items() for query in handle.fake.running()}


def test_every_query_is_placed(tmp_path: Path) -> None:
    """Queries that run nowhere get an engine each, where there are as many."""
    world = World(tmp_path / "fleet.toml", ("left", "right"))
    world.until(lambda: len(world.running()) == 2, "placement of both")
    assert set(world.running().values()) == {"left", "right"}


def test_the_lower_priority_gives_way_on_the_only_engine(tmp_path: Path) -> None:
    """Where two cores' work meets one core, the engine is told to keep less of the query of lower priority."""
    world = World(tmp_path / "fleet.toml", ("left",))
    states = world.handles["left"].fake.states

    def gives_way() -> bool:
        # While one of them warms up, both are at their minimum.
        return len(states) == 2 and states["low"].keep_high < states["high"].keep_high

    world.until(gives_way, "lower bound of the lower priority")
    assert states["low"].keep_high >= 0.2


def test_a_query_moves_to_an_engine_that_is_added_later(tmp_path: Path) -> None:
    """Where rows are shed and another engine comes, the lower priority moves there and both keep all they can."""
    world = World(tmp_path / "fleet.toml", ("left", "right"))
    world.handles["right"].is_up = False
    world.until(lambda: len(world.running()) == 2, "placement of both on the only engine")
    world.handles["right"].is_up = True
    world.until(lambda: world.running() == {"high": "left", "low": "right"}, "move of the lower priority")
    states = {query: world.handles[name].fake.states for query, name in world.running().items()}
    world.until(lambda: min(states[query][query].keep_high for query in states) > 0.2, "more than the minimum for both")
    kinds = [record.action.kind for record in world.store.actions()]
    assert kinds.count(ActionKind.MOVE) == 1
    assert ActionKind.FAULT not in kinds


def test_instances_of_a_task_are_known_as_such(tmp_path: Path) -> None:
    """Queries that are declared as instances of one task have one accuracy in the logic's graph."""
    declaration = declared(tmp_path / "fleet.toml", QUERIES)
    runs = {name: replace(run, task="both") for name, run in declaration.queries.items()}
    fleet = EngineFleet(replace(declaration, queries=runs), {})
    assert {fleet._query(QueryName(name)).task_name for name in QUERIES} == {"both"}


def test_queries_of_a_lost_engine_are_placed_on_the_one_that_is_left(tmp_path: Path) -> None:
    """The logic answers a loss with placements, and they are carried out."""
    world = World(tmp_path / "fleet.toml", ("left", "right"))
    world.until(lambda: len(world.running()) == 2, "placement of both")
    world.until(lambda: not world.fleet.runs.in_flight(QueryName("high")), "end of the placement")
    world.handles["left"].lost = "killed"
    world.handles["left"].fake.states.clear()
    world.until(lambda: list(world.running().values()) == ["right", "right"], "both on the engine that is left")


def test_a_query_that_dies_is_placed_again(tmp_path: Path) -> None:
    """A query that ended by itself is a query to be placed, whatever the logic took it for."""
    world = World(tmp_path / "fleet.toml", ("left", "right"))
    world.until(lambda: len(world.running()) == 2, "placement of both")
    world.until(lambda: world.fleet.standing[QueryName("high")].engine, "news of it")
    home = world.running()["high"]
    world.handles[home].fake.fail("high", "out of memory")
    world.until(lambda: len(world.running()) == 2, "return of the query")
    reasons = [record.action.reason for record in world.store.actions() if record.action.kind is ActionKind.FAULT]
    assert any("out of memory" in reason for reason in reasons)


def test_a_goal_goes_through_the_control_side(tmp_path: Path) -> None:
    """What is asked through the API changes only what it names, and reaches engine and logic."""
    declaration = declared(tmp_path / "fleet.toml", QUERIES, settings=SETTINGS)
    handles: Any = {name: FakeEngine(name) for name in declaration.engines}
    logic = FleetLogic(declaration.settings.fleet)
    control = FleetControl(declaration, tmp_path / "state", logic=logic, handles=handles)
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while control.fleet.standing[QueryName("low")].engine is None:
            assert time.monotonic() < deadline_s
            control.loop.cycle()
            time.sleep(0.02)
        answer = control.set_goal("low", GoalChangeRequest("on-call", priority=50))
        assert (answer["priority"], answer["minimum_accuracy"], answer["latency_s"]) == (50, 0.2, 5.0)
        assert logic.state.queries["low"].goal.priority == 50
        control.loop.cycle()
        calls = [call for handle in handles.values() for call in handle.fake.calls if call[0] == "goal"]
        assert calls == [("goal", "low", Goal("5 seconds", 0.2, 50), "on-call")]
    finally:
        control.close()


@pytest.mark.parametrize(
    "request_", [GoalChangeRequest("on-call", priority=500), GoalChangeRequest("a", latency="soon")]
)
def test_a_goal_that_means_nothing_changes_nothing(tmp_path: Path, request_: GoalChangeRequest) -> None:
    """A bad goal is refused with its reason, and the old one stands."""
    declaration = declared(tmp_path / "fleet.toml", QUERIES)
    control = FleetControl(declaration, tmp_path / "state", handles={})
    try:
        with pytest.raises(ValueError, match=r"priority 500|soon"):
            control.set_goal("low", request_)
        assert control.fleet.goals[QueryName("low")] == QUERIES["low"].goal
    finally:
        control.close()
