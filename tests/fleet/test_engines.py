"""Engines are given up only when nothing of them runs on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from fleet.fakes import FakeAgent
from penstock.engine.run import STATE_FILE
from penstock.fleet.engines import ElsewhereEngine, OwnEngine
from penstock.fleet.processes import EngineProcess, end_engine, find_engine, kill_engine, session_members
from penstock.fleet_declaration import EngineDeclaration
from penstock.process.daemon import write_state
from penstock.settings import AgentSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


class Tree:
    """A process with a child, in a session of its own, as an engine is."""

    def __init__(self) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        assert self.popen.stdout is not None
        self.child = int(self.popen.stdout.readline())
        started_s = psutil.Process(self.popen.pid).create_time()
        self.engine = EngineProcess("left", self.popen.pid, started_s, "http://127.0.0.1:9")

    @property
    def is_gone(self) -> bool:
        """Whether neither of the two runs."""
        return session_members(self.engine) == []


@pytest.fixture
def tree() -> Iterator[Tree]:
    made = Tree()
    yield made
    for pid in (made.popen.pid, made.child):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    made.popen.stdout.close()  # type: ignore[union-attr]
    made.popen.wait()


def test_a_kill_takes_what_the_engine_has_left_behind(tree: Tree) -> None:
    """Where the engine's own process is dead already, its JVM is found by its session and killed."""
    os.kill(tree.popen.pid, signal.SIGKILL)
    tree.popen.wait()
    assert not tree.engine.is_running
    assert [member.pid for member in session_members(tree.engine)] == [tree.child]
    kill_engine(tree.engine)
    assert tree.is_gone


def test_a_kill_takes_processes_that_are_stopped(tree: Tree) -> None:
    """A process that a signal has stopped is killed like any other."""
    for pid in (tree.popen.pid, tree.child):
        os.kill(pid, signal.SIGSTOP)
    kill_engine(tree.engine)
    assert tree.is_gone


def test_an_end_waits_and_then_takes_force(tree: Tree) -> None:
    """A process that ends when it is told to leaves nothing that had to be forced, or else it is."""
    os.kill(tree.child, signal.SIGKILL)
    assert end_engine(tree.engine) is False
    assert tree.is_gone


def test_another_process_with_the_same_number_is_left_alone(tree: Tree) -> None:
    """Whoever has the process number of an engine that is gone is not killed in its place."""
    earlier = EngineProcess("left", tree.popen.pid, tree.engine.started_s - 100.0)
    assert session_members(earlier) == []
    kill_engine(earlier)
    assert tree.popen.poll() is None


def test_an_engine_is_found_again_while_it_runs(tree: Tree, tmp_path: Path) -> None:
    """What is written of an engine leads to its process, and to nothing once that is gone."""
    told = {"name": "left", "pid": tree.engine.pid, "started_s": tree.engine.started_s, "url": tree.engine.url}
    assert find_engine("left", tmp_path) is None
    write_state(tmp_path / STATE_FILE, told)
    assert find_engine("left", tmp_path) == tree.engine
    kill_engine(tree.engine)
    assert find_engine("left", tmp_path) is None


class Clock:
    """A clock that a test sets."""

    now_s = 1000.0

    def __call__(self) -> float:
        """What it shows."""
        return self.now_s


def own_engine(tree: Tree, clock: Clock, tmp_path: Path) -> tuple[OwnEngine, FakeAgent]:
    engine = OwnEngine(EngineDeclaration("left"), tmp_path / "none.toml", tmp_path, AgentSettings(), clock)
    fake = FakeAgent("left")
    engine._process, engine._client = tree.engine, fake  # type: ignore[assignment]
    engine._not_before_s = 1e12  # it is not started again
    return engine, fake


def test_a_silent_engine_is_lost_when_it_is_killed(tree: Tree, tmp_path: Path) -> None:
    """One that does not answer keeps its queries for a while, and is lost only when nothing of it runs."""
    clock = Clock()
    engine, fake = own_engine(tree, clock, tmp_path)
    assert engine.ask().report is not None
    fake.is_silent = True
    clock.now_s += AgentSettings().lost_after_s - 1
    assert engine.ask().lost is None
    assert not tree.is_gone
    clock.now_s += 2
    answer = engine.ask()
    assert answer.lost is not None
    assert "has not answered for 13 s; everything of it is killed" in answer.lost
    assert tree.is_gone
    engine._not_before_s = 1e12
    assert engine.ask().lost is None, "a loss is told once"


def test_an_engine_whose_process_ended_is_lost_at_once(tree: Tree, tmp_path: Path) -> None:
    """A process that is gone is not waited for, and what it left behind is killed first."""
    engine, _ = own_engine(tree, Clock(), tmp_path)
    os.kill(tree.popen.pid, signal.SIGKILL)
    tree.popen.wait()
    answer = engine.ask()
    assert answer.lost is not None
    assert "its process has ended" in answer.lost
    assert tree.is_gone


def test_an_engine_elsewhere_is_lost_when_its_lease_is_over() -> None:
    """After the first renewal without an answer nothing renews the lease, and the loss waits until it has ended."""
    clock, settings = Clock(), AgentSettings(lease_s=15.0)
    fake: Any = Renewing("far")
    engine = ElsewhereEngine(EngineDeclaration("far", address="http://far:1"), fake, settings, clock)
    assert engine.agent is None
    assert engine.ask().report is not None
    assert engine.agent is fake
    fake.is_silent = True
    renewals = fake.renewals
    for _ in range(19):
        assert engine.ask().lost is None
        clock.now_s += 1
    assert fake.renewals == renewals + 1
    clock.now_s += 1
    lost = engine.ask().lost
    assert lost is not None
    assert "its lease is over" in lost
    assert engine.agent is None
    fake.is_silent = False
    assert engine.ask().report is not None


class Renewing(FakeAgent):
    """Counts how often its lease was renewed, with an answer or without."""

    renewals = 0

    def renew(self) -> Any:
        """Renew, and answer where it can."""
        self.renewals += 1
        return super().renew()

    def report(self) -> Any:
        """Answer, and renew nothing."""
        return super().renew()


def test_an_engine_elsewhere_that_was_never_there_is_not_lost() -> None:
    """An engine that has not answered yet has nothing to lose."""
    fake: Any = Renewing("far", is_silent=True)
    clock = Clock()
    engine = ElsewhereEngine(EngineDeclaration("far", address="http://far:1"), fake, AgentSettings(), clock)
    engine.ask()
    clock.now_s += 1e6
    assert engine.ask().lost is None
