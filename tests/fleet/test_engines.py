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
from penstock.errors import FleetError
from penstock.fleet.commands import ask_control, control_process, stop_fleet
from penstock.fleet.control import CONTROL_FILE, TOKEN_FILE
from penstock.fleet.engines import ElsewhereEngine, OwnEngine
from penstock.fleet.processes import EngineProcess, end_engine, find_engine, kill_engine, session_members
from penstock.fleet_declaration import EngineDeclaration
from penstock.process.daemon import write_private, write_state
from penstock.settings import AgentSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOBODY = 65534
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


class Tree:
    """A process with a child, in a session of its own, as an engine is."""

    def __init__(self, *words: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", PARENT, *words], stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        assert self.popen.stdout is not None
        self.child = int(self.popen.stdout.readline())
        started_s = psutil.Process(self.popen.pid).create_time()
        self.engine = EngineProcess("left", self.popen.pid, started_s, "http://127.0.0.1:9")

    @property
    def is_gone(self) -> bool:
        """Whether neither of the two runs."""
        return session_members(self.engine) == []

    @property
    def told(self) -> dict[str, object]:
        """What an engine writes about itself."""
        return {"name": "left", "pid": self.engine.pid, "started_s": self.engine.started_s, "url": self.engine.url}

    def clear(self) -> None:
        """Leave nothing of the two behind."""
        for pid in (self.popen.pid, self.child):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.popen.stdout.close()  # type: ignore[union-attr]
        self.popen.wait()


@pytest.fixture
def started() -> Iterator[Callable[..., Tree]]:
    """Starts processes with words on their command line, and ends them."""
    made: list[Tree] = []

    def start(*words: str) -> Tree:
        made.append(Tree(*words))
        return made[-1]

    yield start
    for tree in made:
        tree.clear()


@pytest.fixture
def tree(started: Callable[..., Tree]) -> Tree:
    return started()


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


def place_of(fleet: Path) -> Path:
    """Where the engine of a fleet writes about itself."""
    return fleet / "engines" / "left"


def engine_words(place: Path) -> tuple[str, ...]:
    """What an engine is started with."""
    return "engine", "run", "fleet.toml", "left", "--dir", str(place)


def test_an_engine_is_found_again_while_it_runs(started: Callable[..., Tree], tmp_path: Path) -> None:
    """What is written of an engine leads to its process, and to nothing once that is gone."""
    place = place_of(tmp_path)
    tree = started(*engine_words(place))
    assert find_engine("left", place) is None
    write_state(place / STATE_FILE, tree.told)
    assert find_engine("left", place) == tree.engine
    kill_engine(tree.engine)
    assert find_engine("left", place) is None


def test_a_fleet_is_found_through_a_link_that_its_user_names(started: Callable[..., Tree], tmp_path: Path) -> None:
    """A directory has more than one name, and an engine that runs is found under each of them."""
    place = place_of(tmp_path / "fleet")
    tree = started(*engine_words(place))
    write_state(place / STATE_FILE, tree.told)
    (tmp_path / "link").symlink_to(tmp_path / "fleet")
    assert find_engine("left", place_of(tmp_path / "link")) == tree.engine


def test_what_means_nothing_leads_to_no_engine(tmp_path: Path) -> None:
    """Half a file, another thing than an object, and an object without a process are no engine."""
    for text in ("{", "[]", '{"name": "left"}', '{"name": "left", "pid": null, "started_s": "soon"}'):
        write_private(tmp_path / STATE_FILE, text)
        assert find_engine("left", tmp_path) is None


def test_a_process_that_was_not_started_for_the_directory_is_never_ended(
    started: Callable[..., Tree], tmp_path: Path
) -> None:
    """A state that names a shell, an engine of another fleet or another command ends none of them."""
    place, other = place_of(tmp_path / "fleet"), place_of(tmp_path / "other")
    for words in ((), engine_words(other), ("status", "--dir", str(place)), ("engine", "run", "--dir", "/")):
        tree = started(*words)
        write_state(place / STATE_FILE, tree.told)
        with pytest.raises(FleetError, match="no fleet is up"):
            stop_fleet(tmp_path / "fleet")
        assert not tree.is_gone


@pytest.mark.parametrize("linked", ["engines", "engines/left"])
def test_a_link_to_another_fleet_ends_nothing_there(started: Callable[..., Tree], tmp_path: Path, linked: str) -> None:
    """Where engines of another fleet are linked in, they are the other fleet's all the same."""
    place = place_of(tmp_path / "other")
    tree = started(*engine_words(place))
    write_state(place / STATE_FILE, tree.told)
    link = tmp_path / "fleet" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "other" / linked)
    with pytest.raises(FleetError, match="no fleet is up"):
        stop_fleet(tmp_path / "fleet")
    assert find_engine("left", place) == tree.engine


def test_a_state_that_others_may_have_written_ends_nothing(started: Callable[..., Tree], tmp_path: Path) -> None:
    """Neither a file that others may write, nor a link, nor another user's file is believed; the file is named."""
    place = place_of(tmp_path)
    path, planted = place / STATE_FILE, tmp_path / "planted.json"
    tree = started(*engine_words(place))
    write_state(path, tree.told)
    path.chmod(0o620)
    with pytest.raises(FleetError, match=r"engine\.json is not a file that this user alone may write"):
        stop_fleet(tmp_path)
    path.chmod(0o600)
    path.rename(planted)
    path.symlink_to(planted)
    with pytest.raises(FleetError, match=r"engine\.json cannot be read"):
        stop_fleet(tmp_path)
    if os.geteuid() == 0:
        planted.rename(path)
        os.chown(path, NOBODY, NOBODY)
        with pytest.raises(FleetError, match="not believed"):
            stop_fleet(tmp_path)
    assert not tree.is_gone


CONTROL_WORDS = ("up", "fleet.toml", "--foreground")


def planted_control(fleet: Path, tree: Tree) -> Path:
    """A file that says that a process controls a fleet."""
    write_state(fleet / CONTROL_FILE, {**tree.told, "url": "http://127.0.0.1:9"})
    return fleet / CONTROL_FILE


def test_a_planted_control_process_is_neither_asked_nor_killed(started: Callable[..., Tree], tmp_path: Path) -> None:
    """No token goes to the address in such a file, and its process stays."""
    tree = started("up", "fleet.toml", "--foreground", "--dir", str(tmp_path / "other"))
    path = planted_control(tmp_path, tree)
    with pytest.raises(FleetError, match="no fleet is up"):
        ask_control(tmp_path, "GET", "/v1/fleet")
    with pytest.raises(FleetError, match="no fleet is up"):
        stop_fleet(tmp_path)
    path.chmod(0o602)
    with pytest.raises(FleetError, match=r"control\.json is not a file that this user alone may write"):
        ask_control(tmp_path, "GET", "/v1/fleet")
    path.rename(tmp_path / "planted.json")
    path.symlink_to(tmp_path / "planted.json")
    with pytest.raises(FleetError, match=r"control\.json cannot be read"):
        stop_fleet(tmp_path)
    assert not (tmp_path / TOKEN_FILE).exists()
    assert not tree.is_gone


def test_a_control_process_is_known_by_the_directory_that_it_was_started_for(
    started: Callable[..., Tree], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is written: in two words or one, from where it was started, or left out for the usual place."""
    fleet = tmp_path / "penstock" / "fleet"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for words in (("--dir", str(fleet)), (f"--dir={fleet}",), ("--dir", "penstock/fleet"), ()):
        planted_control(fleet, started(*CONTROL_WORDS, *words))
        assert control_process(fleet) is not None, words
        planted_control(tmp_path, started(*CONTROL_WORDS, *words))
        assert control_process(tmp_path) is None, words


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
