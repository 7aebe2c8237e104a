"""The command that explains a query."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.model import APPLICATION, Action, ActionKind, Mode, QueryName
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_tells_goal_limit_and_effect(run: Callable[..., Any], store_path: Path) -> None:
    """The lines name the goal, the limit in force and not the older one, and what came of it."""
    text = run("explain", "clicks", "--store", str(store_path)).out
    assert len(text.splitlines()) <= 8
    assert "latency goal 5 s" in text
    assert "reads at most 2,500 rows a batch from source 0" in text
    assert "at most 1,000" not in text
    assert "batch duration was expected to be 2 s; it is 2.5 s on average over 2 points since" in text


def test_summarises_series_by_part(run: Callable[..., Any], store_path: Path) -> None:
    """Each part of a metric has a row of its own, with the newest value and the range."""
    document = json.loads(run("explain", "clicks", "--json", "--store", str(store_path)).out)
    rows = {(row["metric"], row["subject"]): row for row in document["rows"]}
    whole = rows["batch_duration_s", ""]
    assert (whole["latest"], whole["low"], whole["high"], whole["count"]) == (3.0, 2.0, 9.0, 3)
    assert rows["batch_duration_s", "addBatch"]["latest"] == 1.5
    assert [entry["kind"] for entry in document["actions"]] == ["govern", "read_limit"]


def test_observed_query_without_decisions(run: Callable[..., Any], store_path: Path) -> None:
    """A query of which only observations exist is told so."""
    assert "nothing was decided about it yet" in run("explain", "views", "--store", str(store_path)).out


def test_a_query_named_engine_is_a_query_like_any_other(run: Callable[..., Any], tmp_path: Path) -> None:
    """What is decided about the application is not taken for that query's, nor the other way round."""
    path = tmp_path / "engine.db"
    with SqliteStore(path) as store:
        govern = Action(ActionKind.GOVERN, QueryName("engine"), "start", "latency goal 3 s")
        executors = Action(ActionKind.EXECUTORS, APPLICATION, "start", "as declared", value=2.0, unit="executors")
        store.append_all([govern, executors], time_s=1.0, mode=Mode.ACT)

    def rows(*words: str) -> list[dict[str, Any]]:
        document: dict[str, list[dict[str, Any]]] = json.loads(run(*words, "--json", "--store", str(path)).out)
        return document["rows"]

    assert [row["kind"] for row in rows("log", "--query", "engine")] == ["govern"]
    assert [row["kind"] for row in rows("log", "--query", "(application)")] == ["executors"]
    assert [row["query"] for row in rows("status")] == ["engine"]
    told = run("explain", "engine", "--store", str(path)).out
    assert "latency goal 3 s" in told
    assert "(application) 2 are to serve" in told
    lines = run("log", "--store", str(path)).out.splitlines()
    assert ["engine" in line for line in lines] == [False, True, False]
    assert "(application)" in lines[2]


def test_no_escape_sequence_reaches_the_terminal(run: Callable[..., Any], tmp_path: Path) -> None:
    """Names and reasons that would clear a screen or fake a line are shown, not obeyed, by every command."""
    path, name = tmp_path / "evil.db", QueryName("a\x1b[2J\x9b1m\u202eb\r\nc")
    with SqliteStore(path) as store:
        for kind in (ActionKind.GOVERN, ActionKind.FAULT, ActionKind.EXECUTORS):
            action = Action(kind, name, "\x1b]0;cause\x07", "\x1b[31mreason\n", target="\x1bT", value=1.0, unit="\x1bu")
            store.append(action, time_s=1.0, mode=Mode.ACT)
        fault = Action(ActionKind.FAULT, APPLICATION, "tick", "\x1b[31mreason")
        store.append(fault, time_s=1.0, mode=Mode.ACT)

    calls = (["status"], ["log"], ["explain", name], ["explain", "\x1b[2J"], ["log", "--follow", "--until", "2"])
    for words in calls:
        outcome = run(*words, "--store", str(path))
        written = outcome.out + outcome.err
        assert "\\x1b" in written
        assert [character for character in written if not character.isprintable() and character != "\n"] == []
