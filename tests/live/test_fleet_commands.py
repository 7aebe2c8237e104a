"""A fleet through its commands: up, status, goal, a control process that is killed, up again, down."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from live.helpers import wait_until
from penstock.bench.committed import committed_offsets
from penstock.fleet.commands import control_process
from penstock.fleet.processes import EngineProcess, end_engine, find_engine, session_members
from penstock.model import ActionKind
from penstock.store import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Outcome

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1500)]

DECLARATION = """\
[engines.left]
[engines.right]

[applications.counting]
modules = ["{modules}"]
checkpoints = "checkpoints"

[applications.counting.queries.rows]
run = "counting.queries:offsets"
options = {{ profile = "constant:rate=200", epoch = {epoch}, out = "{out}" }}
latency = "10 seconds"

[applications.counting.queries.torn]
run = "broken:run"
latency = "10 seconds"
"""


class Place:
    """A directory with a declaration and a fleet."""

    def __init__(self, root: Path, run: Callable[..., Outcome]) -> None:
        self.root, self.run = root, run
        self.state, self.out, self.file = root / "state", root / "out", root / "fleet.toml"
        modules = Path(__file__).parent / "fleet_modules"
        self.file.write_text(DECLARATION.format(modules=modules, out=self.out, epoch=int(time.time())))

    def call(self, *words: str) -> dict[str, Any]:
        """One command with --json; its answer."""
        outcome = self.run(*words, "--dir", str(self.state), "--json")
        assert outcome.code == 0, outcome.err
        return dict(json.loads(outcome.out))

    def query(self, name: str) -> dict[str, Any]:
        """What the status says of a query."""
        return next(dict(row) for row in self.call("status")["rows"] if row["query"] == name)

    def engines(self) -> list[EngineProcess]:
        """Engines that run."""
        places = [(name, self.state / "engines" / name) for name in ("left", "right")]
        return [found for name, place in places if (found := find_engine(name, place)) is not None]

    def end(self) -> None:
        """End whatever a test that failed has left."""
        control = control_process(self.state)
        if control is not None:
            os.kill(int(control["pid"]), signal.SIGKILL)
        for process in self.engines():
            end_engine(process)


@pytest.fixture
def place(tmp_path: Path, run: Callable[..., Outcome]) -> Iterator[Place]:
    made = Place(tmp_path, run)
    yield made
    made.end()


def test_a_fleet_from_up_to_down(place: Place) -> None:
    """Queries run, a broken module is told, a goal is on record, and a killed control process changes nothing."""
    up = place.call("up", str(place.file))
    assert [engine["state"] for engine in up["engines"]] == ["up", "up"]
    wait_until(lambda: place.query("rows")["state"] == "running", "running query", within_s=120)
    wait_until(lambda: "does not import" in (place.query("torn")["error"] or ""), "error of the module", within_s=120)
    again = place.run("up", str(place.file), "--dir", str(place.state))
    assert (again.code, "is up in" in again.err) == (2, True)

    place.call("goal", "rows", "--priority", "7", "--by", "on-call")
    assert place.query("rows")["priority"] == 7
    unknown = place.run("goal", "nobody", "--priority", "7", "--dir", str(place.state))
    assert (unknown.code, "known queries: rows, torn" in unknown.err) == (2, True)
    with open_reader(place.state / "fleet.db") as store:
        asked = [record.action for record in store.actions() if record.action.kind is ActionKind.GOVERN]
    assert (asked[-1].cause, asked[-1].details["priority"]) == ("asked by on-call", 7)

    require_the_page_reaches_the_engine(place)
    control, engines = control_process(place.state), place.engines()
    assert control is not None
    os.kill(int(control["pid"]), signal.SIGKILL)
    before = len(committed_offsets(place.out))
    wait_until(lambda: len(committed_offsets(place.out)) > before + 200, "rows without a control process", within_s=60)
    place.call("up", str(place.file))
    assert place.engines() == engines
    wait_until(lambda: place.query("rows")["state"] == "running", "query that was taken over", within_s=60)

    down = place.call("down")
    assert [row["engine"] for row in down["rows"]] == ["left", "right"]
    assert [session_members(process) for process in engines] == [[], []]
    offsets = committed_offsets(place.out)
    assert offsets == list(range(len(offsets)))
    assert place.run("down", "--dir", str(place.state)).code == 2


def require_the_page_reaches_the_engine(place: Place) -> None:
    """The fleet's page shows what its engines report, and a goal that is asked for there is told to the engine."""
    base, token = place.call("status")["page_url"].split("/#token=")
    wait_until(lambda: page_row(base, "rows").get("arrival_rows_per_s"), "figures on the page", within_s=60)
    body = {"engine": place.file.stem, "query": "rows", "priority": 8}
    httpx.put(f"{base}/api/goal", json=body, headers={"authorization": f"Bearer {token}"}).raise_for_status()
    home = place.query("rows")["engine"]

    def is_told() -> bool:
        with open_reader(place.state / "engines" / home / "penstock.db") as store:
            asked = store.actions(kinds=(ActionKind.GOVERN,))
        return any(each.action.cause == "asked by page" and each.action.details["priority"] == 8 for each in asked)

    wait_until(is_told, "goal at the engine", within_s=30)
    assert place.query("rows")["priority"] == 8


def page_row(base: str, query: str) -> dict[str, Any]:
    """What the page shows of a query."""
    rows = httpx.get(f"{base}/api/fleet").raise_for_status().json()["queries"]
    return next((dict(row) for row in rows if row["query"] == query), {})
