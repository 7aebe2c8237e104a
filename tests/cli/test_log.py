"""The log: filters, order, following."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.log import follow_actions
from penstock.cli.options import open_store, parse_moment_s
from penstock.model import Action, ActionKind, Mode, QueryName
from penstock.report import LogFilter
from penstock.store import MemoryStore, SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

BEGAN_S = 1_700_000_000.0
CLICKS = QueryName("clicks")


def ids(outcome: Any) -> list[int]:
    return [row["action_id"] for row in json.loads(outcome.out)["rows"]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], [1, 2, 3, 4]),
        (["--query", "clicks"], [1, 2, 3, 4]),
        (["--query", "views"], []),
        (["--kind", "read_limit"], [2, 3]),
        (["--kind", "govern", "--kind", "hold"], [1, 4]),
        (["--since", str(BEGAN_S + 2)], [3, 4]),
        (["--until", str(BEGAN_S + 1)], [1, 2]),
        (["--last", "1"], [4]),
        (["--kind", "read_limit", "--last", "1"], [3]),
        (["--since", "1 minute"], []),
    ],
)
def test_filters(words: list[str], expected: list[int], run: Callable[..., Any], store_path: Path) -> None:
    """Each filter keeps what it says, oldest first."""
    assert ids(run("log", "--json", "--store", str(store_path), *words)) == expected


@pytest.mark.parametrize(("last", "older"), [("3", True), ("4", False), ("0", False)])
def test_says_whether_older_ones_exist(last: str, older: bool, run: Callable[..., Any], store_path: Path) -> None:  # noqa: FBT001 - a test's parameter
    """What the limit leaves out is told, not silently cut off."""
    words = ("log", "--store", str(store_path), "--last", last)
    assert json.loads(run(*words, "--json").out)["older_exist"] is older
    assert ("older ones exist" in run(*words).out) is older


def test_table_shows_the_row_on_one_line(run: Callable[..., Any], store_path: Path) -> None:
    """In a pipe a row is one line, with local time and the reason as written, square brackets included."""
    lines = run("log", "--store", str(store_path), "--kind", "read_limit").out.splitlines()
    assert lines[0].split() == ["time", "query", "kind", "change", "cause", "reason"]
    when = datetime.fromtimestamp(BEGAN_S + 2).astimezone().isoformat(timespec="seconds")
    assert lines[2].startswith(when)
    assert "source 0: 1,000 -> 2,500 rows" in lines[2]
    assert "half of the goal [5 s] at 0.9 ms a row" in lines[2]


def test_empty_log_says_where_it_looked(run: Callable[..., Any], store_path: Path) -> None:
    """No match is an answer, not an error."""
    outcome = run("log", "--store", str(store_path), "--kind", "fault")
    assert (outcome.code, outcome.out) == (0, f"no actions that match in {store_path}\n")


def test_store_path_precedence(store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option wins over the variable, the variable over the file."""
    for name in ("file.db", "variable.db"):
        SqliteStore(tmp_path / name).close()
    file = tmp_path / "penstock.toml"
    file.write_text(f'[store]\npath = "{tmp_path}/file.db"\n')
    with open_store(None, file) as store:
        assert Path(store.path).name == "file.db"
    monkeypatch.setenv("PENSTOCK_STORE_PATH", str(tmp_path / "variable.db"))
    with open_store(None, file) as store:
        assert Path(store.path).name == "variable.db"
    with open_store(store_path, file) as store:
        assert Path(store.path).name == "actions.db"


def hold(text: str) -> Action:
    return Action(ActionKind.HOLD, CLICKS, text, "steady")


def test_follow_gives_each_action_once() -> None:
    """Following begins with the newest ones and goes on without gap or repetition, until its end has passed."""
    store, clock = MemoryStore(), [BEGAN_S]
    for second in range(3):
        store.append(hold(f"batch {second}"), time_s=BEGAN_S + second, mode=Mode.ACT)

    def sleep(_: float) -> None:
        clock[0] += 10
        store.append(hold(f"at {clock[0] - BEGAN_S:g}"), time_s=clock[0], mode=Mode.ACT)

    wanted = LogFilter(last=2, until_s=BEGAN_S + 25)
    causes = [entry.action.cause for entry in follow_actions(store, wanted, sleep=sleep, now=lambda: clock[0])]
    assert causes == ["batch 1", "batch 2", "at 10", "at 20"]


def test_follow_writes_lines_while_another_process_records(store_path: Path) -> None:
    """``--follow --json`` writes one object a line as soon as the writer has recorded it."""
    script = Path(sys.executable).with_name("penstock")
    words = [script, "log", "--follow", "--json", "--last", "1", "--store", store_path]
    with (
        SqliteStore(store_path) as writer,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader,
    ):
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert json.loads(reader.stdout.readline())["action_id"] == 4
        writer.append(hold("batch 3"), time_s=time.time(), mode=Mode.OBSERVE)
        assert json.loads(reader.stdout.readline())["cause"] == "batch 3"
        reader.terminate()
        assert reader.stderr.read() == ""


def test_everything_is_written_piece_by_piece(
    run: Callable[..., Any], store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--last 0 --json`` never asks for all actions at once, and is one object all the same."""
    monkeypatch.delattr(SqliteStore, "actions")
    outcome = run("log", "--last", "0", "--json", "--store", str(store_path), "--kind", "read_limit")
    document = json.loads(outcome.out)
    assert document["older_exist"] is False
    assert [row["action_id"] for row in document["rows"]] == [2, 3]


def test_everything_is_written_line_by_line_for_people_too(
    run: Callable[..., Any], store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--last 0``, followed or not, never asks for all actions at once; where there are none it says so."""
    monkeypatch.delattr(SqliteStore, "actions")
    words = ("log", "--last", "0", "--store", str(store_path))
    assert len(run(*words, "--kind", "read_limit").out.splitlines()) == 2
    assert len(run(*words, "--kind", "read_limit", "--follow", "--until", "1 s").out.splitlines()) == 2
    assert "no actions that match" in run(*words, "--query", "nobody").out


def test_observed_actions_are_marked(run: Callable[..., Any], tmp_path: Path) -> None:
    """A decision that was not carried out does not look like one that was."""
    with SqliteStore(tmp_path / "observed.db") as store:
        store.append(hold("batch 1"), time_s=BEGAN_S, mode=Mode.OBSERVE)
    assert "hold (observed only)" in run("log", "--store", str(tmp_path / "observed.db")).out


@pytest.mark.parametrize("text", ["1700000000", "2023-11-14T22:13:20+00:00", "100 s"])
def test_moments(text: str) -> None:
    """A moment can be an epoch second, an ISO time, or a time ago."""
    assert parse_moment_s(text, now_s=BEGAN_S + 100, option="--since") == BEGAN_S
