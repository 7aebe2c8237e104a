"""The page of a fleet on engines without Spark: queries of all engines are shown, and goals reach them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fleet.fakes import FakeEngine, declared
from patience import PATIENCE_S
from penstock.fleet.by_hand import ByHand
from penstock.fleet.control import FleetControl
from penstock.fleet.page import FleetPage
from penstock.model import ActionKind, Goal, QueryName
from penstock.model.application import QueryDeclaration
from penstock.serve.service import beside, open_engines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

QUERIES = {
    "clicks": QueryDeclaration(Goal("5 seconds", 0.5, 5), reads=("topic:clicks",)),
    "views": QueryDeclaration(Goal("9 seconds", 0.2, 1), reads=("topic:views",)),
}


class World:
    """A fleet of fakes with its page."""

    def __init__(self, place: Path) -> None:
        self.handles: Any = {name: FakeEngine(name) for name in ("left", "right")}
        declaration = declared(place / "shop.toml", QUERIES)
        self.control = FleetControl(declaration, place / "state", logic=ByHand(), handles=self.handles)
        self.page = FleetPage("shop", self.control.loop, self.control.store.path, declaration.settings.dashboard)
        self.page.start()
        self.until(lambda: len(self.handles["left"].fake.running()) == 2)

    def until(self, condition: Callable[[], Any]) -> None:
        """Cycle until something holds."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s
            self.control.loop.cycle()
            time.sleep(0.05)

    def get(self, path: str) -> Any:
        """What the page is told."""
        return httpx.get(f"{self.page.service.url}{path}", timeout=PATIENCE_S).raise_for_status().json()

    def put(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """Ask for something."""
        headers = {"authorization": f"Bearer {self.page.service.token}"}
        answer = httpx.put(f"{self.page.service.url}{path}", json=body, headers=headers, timeout=PATIENCE_S)
        return dict(answer.raise_for_status().json())

    def row(self, query: str) -> dict[str, Any]:
        """What is shown of a query."""
        return next((row for row in self.get("/api/fleet")["queries"] if row["query"] == query), {})

    def end(self) -> None:
        """Serve no more."""
        self.page.stop()
        self.control.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_queries_are_shown_with_what_their_engines_report(world: World) -> None:
    """Latency, backlog, what is kept and the goal of each query are on the page, whichever engine runs it."""
    fake = world.handles["left"].fake
    fake.states["clicks"] = replace(
        fake.states["clicks"], batches=4, latency_s=3.5, backlog_rows=120.0, arrival_rows_per_s=80.0, keep_ratio=0.7,
        has_guard=True, last_batch_s=time.time(),
    )  # fmt: skip
    world.until(lambda: world.row("clicks").get("backlog_rows") == 120.0)
    row = world.row("clicks")
    assert (row["latency_s"], row["goal_latency_s"], row["priority"]) == (3.5, 5.0, 5)
    assert (row["keep_ratio"], row["minimum_accuracy"]) == (0.7, 0.5)
    text = httpx.get(f"{world.page.service.url}/metrics", timeout=PATIENCE_S).text
    assert 'penstock_query_backlog_rows{engine="shop",query="clicks"} 120.0' in text


def test_a_goal_changed_from_the_page_reaches_the_engine(world: World) -> None:
    """The engine that runs the query is told, the fleet keeps to it, and the log says who asked."""
    world.until(lambda: world.row("views"))
    body = {"engine": "shop", "query": "views", "priority": 9, "latency_s": 4.0}
    assert world.put("/api/goal", body)["outcome"] == "applied"
    fake = world.handles["left"].fake
    world.until(lambda: any(call[0] == "goal" for call in fake.calls))
    told = next(call for call in fake.calls if call[0] == "goal")
    assert (told[1], told[2].priority, told[2].latency_s, told[2].minimum_accuracy) == ("views", 9, 4.0, 0.2)
    assert world.control.fleet.goals[QueryName("views")].priority == 9
    govern = world.control.store.actions(query=QueryName("views"), kinds=(ActionKind.GOVERN,), last=1)
    assert govern[0].action.cause == "asked by page"


def test_observing_is_switched_from_the_page(world: World) -> None:
    """Decisions are applied no more, and again, as the page asks; rows say so."""
    world.until(lambda: world.row("clicks"))
    world.put("/api/mode", {"engine": "shop", "observe_only": True})
    assert world.control.fleet.observe_only
    world.until(lambda: world.row("clicks")["state"] == "observed")
    world.put("/api/mode", {"engine": "shop", "observe_only": False})
    assert not world.control.fleet.observe_only


def test_a_service_elsewhere_finds_the_fleet_beside_its_store(world: World) -> None:
    """``penstock serve`` over the fleet's store forwards wishes to the control process, while that serves."""
    path = world.control.store.path
    (engine,) = open_engines([path])
    try:
        assert engine.can_change
        address = beside(path)
        assert address is not None
        assert address.url == world.page.service.url
    finally:
        engine.store.close()
