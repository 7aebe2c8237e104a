"""Commands of a fleet, on a control process without Spark: what they show, change and refuse."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from fleet.fakes import FakeEngine, declared
from patience import PATIENCE_S
from penstock.fleet import processes
from penstock.fleet.by_hand import ByHand
from penstock.fleet.control import CONTROL_FILE, TOKEN_FILE, FleetControl, control_app
from penstock.http import Access, GuardedApp, HttpServer, token_at
from penstock.model import Goal, QueryName
from penstock.model.application import QueryDeclaration
from penstock.process.daemon import write_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Outcome

CLICKS = QueryName("clicks")


class Served:
    """A control process inside the test's own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        declaration = declared(directory / "fleet.toml", {"clicks": QueryDeclaration(Goal("5 seconds", 0.5, 5))})
        handles: Any = {name: FakeEngine(name) for name in declaration.engines}
        self.control = FleetControl(declaration, directory, logic=ByHand(), handles=handles)
        self.is_ended = False
        access = Access(token=token_at(directory / TOKEN_FILE), reads_need_token=True)
        self.server = HttpServer(GuardedApp(control_app(self.control, self.end), access))
        deadline_s = time.monotonic() + PATIENCE_S
        while self.control.fleet.standing[CLICKS].engine is None:
            assert time.monotonic() < deadline_s
            self.control.loop.cycle()
            time.sleep(0.02)

    def end(self) -> None:
        """Note that it was told to end."""
        self.is_ended = True


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    words = ["penstock", "up", "fleet.toml", "--foreground", "--dir", str(tmp_path)]
    monkeypatch.setattr(processes, "command_of", lambda _: words)
    made = Served(tmp_path)
    with made.server:
        told = {"pid": os.getpid(), "started_s": psutil.Process().create_time(), "url": made.server.url}
        write_state(tmp_path / CONTROL_FILE, told)
        yield made
    made.control.close()


def test_status_shows_engines_and_queries(served: Served, run: Callable[..., Outcome]) -> None:
    """For people there are two tables, for machines one object with the same figures."""
    text = run("status", "--dir", str(served.directory))
    assert (text.code, "left" in text.out, "clicks" in text.out) == (0, True, True)
    tree = json.loads(run("status", "--dir", str(served.directory), "--json").out)
    assert [(engine["engine"], engine["state"]) for engine in tree["engines"]] == [("left", "up"), ("right", "up")]
    assert (tree["rows"][0]["query"], tree["rows"][0]["engine"]) == ("clicks", "left")


def test_status_finds_the_fleet_in_the_state_home(
    served: Served, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an option the fleet of the state home is shown, if there is one."""
    (served.directory / "penstock").mkdir()
    (served.directory / "penstock" / "fleet").symlink_to(served.directory)
    monkeypatch.setenv("XDG_STATE_HOME", str(served.directory))
    assert "clicks" in run("status").out


def test_a_goal_changes_what_it_names(served: Served, run: Callable[..., Outcome]) -> None:
    """What is left out stays, and who asked is told back."""
    words = ("goal", "clicks", "--priority", "9", "--latency", "2 seconds", "--by", "on-call")
    tree = json.loads(run(*words, "--dir", str(served.directory), "--json").out)
    assert tree == {
        "query": "clicks", "priority": 9, "minimum_accuracy": 0.5, "latency_s": 2.0, "weight": 1.0,
        "asked_by": "on-call",
    }  # fmt: skip
    text = run("goal", "clicks", "--minimum-accuracy", "0.25", "--dir", str(served.directory))
    assert "clicks: priority 9, minimum accuracy 0.25, latency 2 s; asked by" in text.out
    assert served.control.fleet.goals[CLICKS] == Goal("2 seconds", 0.25, 9)


def test_no_escape_sequence_of_a_fleet_reaches_the_terminal(served: Served, run: Callable[..., Outcome]) -> None:
    """An error may hold rows of a stream, and a goal comes back with who asked: both are shown, and not obeyed."""
    served.control.fleet.standing[CLICKS].error = "bad row \x1b[2J\x9b1m\u202e\rfine"
    for words in (("status",), ("goal", "clicks", "--priority", "9", "--by", "a\x1b]0;b\x07\nerror: c")):
        outcome = run(*words, "--dir", str(served.directory))
        assert (outcome.code, "\\x1b" in outcome.out) == (0, True)
        assert [character for character in outcome.out if not character.isprintable() and character != "\n"] == []
    assert outcome.out.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("goal", "nobody", "--priority", "9"), "no streaming query named 'nobody'; known queries: clicks"),
        (("goal", "clicks", "--latency", "soon"), "'soon'"),
        (("goal", "clicks"), "nothing to change: give --priority"),
        (("up", "fleet.toml"), "there is no such file"),
    ],
)
def test_mistakes_are_one_line(served: Served, run: Callable[..., Outcome], words: tuple[str, ...], said: str) -> None:
    """A query nobody knows, a goal that means nothing and a file that is not there are each told in one line."""
    outcome = run(*words, "--dir", str(served.directory))
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("words", [("status",), ("down",), ("goal", "clicks", "--priority", "3")])
def test_without_a_fleet_the_way_to_one_is_told(
    tmp_path: Path, run: Callable[..., Outcome], words: tuple[str, ...]
) -> None:
    """A directory without a fleet is named, and nothing is started."""
    outcome = run(*words, "--dir", str(tmp_path))
    assert outcome.code == 2
    assert f"no fleet is up in {tmp_path}" in outcome.err


def test_a_wrong_token_is_told(served: Served, run: Callable[..., Outcome]) -> None:
    """Whoever has another token reads so, and changes nothing."""
    (served.directory / TOKEN_FILE).write_text("another-token-of-that-length\n")
    outcome = run("goal", "clicks", "--priority", "9", "--dir", str(served.directory))
    assert (outcome.code, "the token is not this server's" in outcome.err) == (2, True)
    assert served.control.fleet.goals[CLICKS].priority == 5


def test_an_engine_that_is_not_declared_is_told(tmp_path: Path, run: Callable[..., Outcome]) -> None:
    """The name that was most likely meant is suggested, before anything starts."""
    file = tmp_path / "fleet.toml"
    file.write_text('[engines.left]\n[applications.a]\ncheckpoints = "c"\n[applications.a.queries.q]\nrun = "a:b"\n')
    outcome = run("engine", "run", str(file), "lift")
    assert (outcome.code, "did you mean 'left'?" in outcome.err) == (2, True)
