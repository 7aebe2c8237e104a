"""Several engines on live Spark: a query moves, an engine dies or falls silent, and every row is written once."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from live.helpers import show, wait_until
from penstock.bench.committed import committed_offsets
from penstock.errors import AgentError
from penstock.fleet.by_hand import ByHand
from penstock.fleet.client import AgentClient
from penstock.fleet.control import FleetControl
from penstock.fleet.engines import OwnEngine
from penstock.fleet.processes import session_members
from penstock.fleet_declaration import read_fleet
from penstock.model import Goal, QueryName
from penstock.model.engine_report import RunState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.fleet.processes import EngineProcess

pytestmark = [pytest.mark.live, pytest.mark.timeout(1050)]

MODULES = Path(__file__).parent / "fleet_modules"
ROWS = QueryName("rows")
PATIENCE_S = 120.0
DECLARATION = """\
[engines.left]
spark = {{ "spark.driver.extraJavaOptions" = "{java}" }}
[engines.right]
spark = {{ "spark.driver.extraJavaOptions" = "{java}" }}

[applications.counting]
modules = ["{modules}"]
checkpoints = "checkpoints"

[applications.counting.queries.rows]
run = "counting.queries:offsets"
options = {{ profile = "constant:rate=200", epoch = {epoch}, out = "{out}" }}
latency = "10 seconds"
priority = 5
"""


class Fleet:
    """Two engines that are led by hand."""

    def __init__(self, place: Path) -> None:
        self.out = place / "out"
        file = place / "fleet.toml"
        # A short life: what the compiler would gain later is not worth the start.
        java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        file.write_text(DECLARATION.format(modules=MODULES, out=self.out, epoch=int(time.time()), java=java))
        self.logic = ByHand()
        self.control = FleetControl(read_fleet(file), place / "state", logic=self.logic)

    def start(self) -> None:
        """Start both engines and wait for the query's first batch."""
        self.control.start_engines()
        self.control.open()
        self.await_outcomes(1)

    def await_outcomes(self, count: int) -> None:
        """Wait for so many placements and moves."""
        wait_until(lambda: len(self.logic.finished) >= count, f"placement number {count}", within_s=PATIENCE_S)

    def move(self) -> float:
        """Move the query to the other engine; gives its downtime."""
        count, home = len(self.logic.finished), self.logic.where[ROWS]
        self.logic.move(ROWS, "right" if home == "left" else "left")
        self.await_outcomes(count + 1)
        assert self.logic.where[ROWS] != home
        return self.logic.finished[-1].downtime_s

    def process(self, engine: str) -> EngineProcess:
        """The process of an engine that is up."""
        handle = self.control.handles[engine]
        assert isinstance(handle, OwnEngine)
        return wait_until(lambda: handle.process, f"engine {engine}", within_s=PATIENCE_S)

    def batches_after(self, rows: int) -> None:
        """Wait until that many rows more are written, so that the query is seen to go on."""
        before = len(committed_offsets(self.out))
        wait_until(lambda: len(committed_offsets(self.out)) >= before + rows, "more rows", within_s=PATIENCE_S)

    def require_every_row_once(self) -> int:
        """Stop the query and count what it wrote."""
        home = self.logic.where[ROWS]
        assert home is not None
        agent = self.control.handles[home].agent
        assert agent is not None
        self.control.loop.close()
        assert agent.stop(str(ROWS)).state is RunState.STOPPED
        offsets = committed_offsets(self.out)
        assert offsets == list(range(len(offsets)))
        return len(offsets)

    def end(self) -> None:
        """End everything, and see that nothing is left."""
        processes = [self.control.handles[name].process for name in ("left", "right")]  # type: ignore[attr-defined]
        self.control.close(engines_too=True)
        assert [session_members(process) for process in processes if process is not None] in ([[], []], [[]], [])


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    before = list(sys.path)
    made = Fleet(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.end()
        sys.path[:] = before


def test_a_move_and_a_kill_lose_and_double_no_row(fleet: Fleet) -> None:
    """A query that moves goes on from its checkpoint, and so it does when its engine is killed in the middle."""
    downtime_s = fleet.move()
    fleet.batches_after(200)
    goal = Goal("8 seconds", priority=9)
    fleet.control.loop.set_goal(ROWS, goal, "on-call")
    require_mistakes_leave_the_query_alone(fleet)
    home = fleet.logic.where[ROWS]
    assert home is not None
    killed, count, began_s = fleet.process(home), len(fleet.logic.finished), time.monotonic()
    os.kill(killed.pid, signal.SIGKILL)
    fleet.await_outcomes(count + 1)
    show(f"downtime of the move {downtime_s:.1f} s, running again {time.monotonic() - began_s:.1f} s after the kill")
    assert session_members(killed) == []
    assert fleet.logic.where[ROWS] != home
    run = fleet.control.fleet.run_of(ROWS)
    assert (run.priority, run.latency_s) == (9, 8.0)
    fleet.batches_after(200)
    fleet.require_every_row_once()


def require_mistakes_leave_the_query_alone(fleet: Fleet) -> None:
    """A wrong token, a module that does not import and somebody else's checkpoint are told; the query runs on."""
    home = fleet.logic.where[ROWS]
    assert home is not None
    agent = fleet.control.handles[home].agent
    assert isinstance(agent, AgentClient)
    with pytest.raises(AgentError, match="the token is not this server's"):
        AgentClient(home, agent.url, "a-token-of-somebody-else").renew()
    run = fleet.control.fleet.run_of(ROWS)
    mistakes = {
        "does not import": {"entry": "broken:run", "query": "torn", "checkpoint": run.checkpoint + "-torn"},
        "belongs to query 'rows'": {"query": "thief", "number": 2**53},
        "add its directory to modules": {"entry": "os:getcwd", "query": "far", "checkpoint": run.checkpoint + "-far"},
    }
    for said, changes in mistakes.items():
        with pytest.raises(AgentError, match=said):
            agent.start(type(run)(**{**run.to_dict(), **changes}))
    assert [each.query for each in agent.report().queries if each.state is RunState.RUNNING] == ["rows"]


@pytest.mark.slow
def test_a_silent_engine_is_fenced_before_its_query_runs_elsewhere(fleet: Fleet) -> None:
    """An engine that is stopped by a signal is killed for good before its query starts on another one."""
    home = fleet.logic.where[ROWS]
    assert home is not None
    stopped, count = fleet.process(home), len(fleet.logic.finished)
    members = [member.pid for member in session_members(stopped)]
    for pid in members:
        os.kill(pid, signal.SIGSTOP)
    fleet.await_outcomes(count + 1)
    assert session_members(stopped) == []
    fleet.batches_after(200)
    fleet.process(home)  # it is started again
    fleet.require_every_row_once()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_twenty_moves_lose_and_double_no_row(fleet: Fleet) -> None:
    """However often a query moves, every row is written once."""
    downtimes_s = []
    for _ in range(20):
        downtimes_s.append(fleet.move())
        fleet.batches_after(100)
    rows = fleet.require_every_row_once()
    show(f"{rows} rows; downtimes {', '.join(f'{each:.1f}' for each in downtimes_s)} s")
