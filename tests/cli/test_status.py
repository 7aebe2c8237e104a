"""The command that shows how every query is doing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_one_line_a_query(run: Callable[..., Any], store_path: Path) -> None:
    """The table has the governed query and the observed one, with their states and figures."""
    outcome = run("status", "--store", str(store_path))
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert lines[0].split()[:2] == ["query", "state"]
    assert lines[1].split()[:4] == ["clicks", "fine", "6", "s"]
    assert "2,500 rows" in lines[1]
    assert lines[2].split() == ["views", "observed", "70"]
    assert len(lines) == 3


def test_json_has_the_same_in_rows(run: Callable[..., Any], store_path: Path) -> None:
    """Units are in the keys, what is unknown is null."""
    clicks, views = json.loads(run("status", "--json", "--store", str(store_path)).out)["rows"]
    assert (clicks["query"], clicks["state"], clicks["read_limit_rows"], clicks["latency_s"]) == (
        "clicks",
        "fine",
        2500.0,
        6.0,
    )
    assert (views["state"], views["backlog_rows"], views["goal_latency_s"]) == ("observed", 70.0, None)


def test_an_empty_store_has_a_status(run: Callable[..., Any], tmp_path: Path) -> None:
    """Nothing recorded yet is an answer, not an error."""
    SqliteStore(tmp_path / "empty.db").close()
    outcome = run("status", "--store", str(tmp_path / "empty.db"))
    assert (outcome.code, outcome.out) == (0, "no queries yet\n")
