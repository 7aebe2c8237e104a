"""The command repay, as far as it needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli import main
from penstock.cli.repay import _function, _jars
from penstock.errors import RepayError
from penstock.model import Mode, QueryName
from penstock.model.decision import Govern, to_action
from penstock.model.directive import Directive
from penstock.spark.folders import LocalFolder
from penstock.spark.guard_spec import GuardSpec, SourceReading
from penstock.spark.record import BatchRecord, CheckpointRecord
from penstock.spark.repay import checkpoint_of, remember_checkpoint
from penstock.store import MemoryStore, SqliteStore


def test_a_query_that_nobody_knows_needs_its_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The store does not know every query: the message says what to pass."""
    SqliteStore(tmp_path / "penstock.db").close()
    assert main(["repay", "clicks", "--store", str(tmp_path / "penstock.db")]) == 2
    assert capsys.readouterr().err == (
        "error: the store does not know where query 'clicks' keeps its checkpoint: pass its location\n"
    )


def test_two_ways_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are written or handed to a function, not both."""
    assert main(["repay", "clicks", "--to", "there", "--run", "job:add"]) == 2
    assert "two ways to repay: choose one" in capsys.readouterr().err


def test_a_checkpoint_is_found_by_the_name_of_its_query() -> None:
    """It is that of the query which was governed last under the name."""
    store = MemoryStore()
    for query_id in ("one", "two"):
        started = Govern(query=QueryName("clicks"), cause="start", reason="because", query_id=query_id)
        store.append(to_action(started), time_s=1.0, mode=Mode.ACT)
        remember_checkpoint(store, query_id, f"/data/{query_id}")
    assert checkpoint_of(store, "clicks") == "/data/two"
    with pytest.raises(RepayError, match="'views'"):
        checkpoint_of(store, "views")


def test_the_connector_is_fetched_only_for_kafka(tmp_path: Path) -> None:
    """Whoever repays files needs no jars, and so no network."""
    record = CheckpointRecord(LocalFolder(tmp_path / "penstock"))
    guard = record.put_guard(GuardSpec(7, ("id",), source=SourceReading("json", {}, "{}")))
    record.put(BatchRecord(Directive(3, 0.5), 1.0, (), guard))
    assert _jars(str(tmp_path)) == []


def test_a_function_is_named_by_its_module() -> None:
    """What is not there is refused with how to write it."""
    assert _function("os.path:join")("a", "b") == "a/b"  # type: ignore[arg-type]
    for text in ("os.path", "os.path:nothing", "no_such_module:add"):
        with pytest.raises(RepayError, match="module:function"):
            _function(text)
