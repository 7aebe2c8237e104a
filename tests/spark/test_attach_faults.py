"""The hold on a session whose queries misbehave, without Spark: nothing that Penstock does may reach the query."""

from __future__ import annotations

import json
import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock import Application, Goal, Penstock
from penstock.control.events import QueryStarted
from penstock.model import ActionKind, QueryName, QuerySpec
from penstock.settings import Settings
from penstock.spark import internals
from penstock.store import MemoryStore


class FakeQuery:
    """A query that has a name and nothing to govern."""

    def __init__(self, name: str) -> None:
        self.id = uuid.uuid4()
        self.runId = uuid.uuid4()
        self.name = name
        self.isActive = True
        self.recentProgress: list[object] = []


class FakeSession:
    """A session with one query; listeners are kept in a list."""

    version = "0"

    def __init__(self, query: FakeQuery) -> None:
        self._jvm = self._jsparkSession = object()
        self.listeners: list[object] = []
        self.streams = SimpleNamespace(
            active=[query],
            get=lambda _: query,
            addListener=self.listeners.append,
            removeListener=self.listeners.remove,
        )


@pytest.fixture
def query() -> FakeQuery:
    return FakeQuery("clicks")


@pytest.fixture
def pen(query: FakeQuery, monkeypatch: pytest.MonkeyPatch) -> Penstock:
    missing = {internals.Ability.TEXT_REPORTS: "no Spark here"}
    monkeypatch.setattr(internals, "probe", lambda _: missing)
    settings = Settings().with_values({"directives.enabled": False})
    return Penstock(cast("Any", FakeSession(query)), Application(), settings, MemoryStore())


def report(query: FakeQuery, batch_id: int = 3) -> str:
    progress = {
        "id": str(query.id), "batchId": batch_id, "timestamp": "2026-01-02T03:04:05Z", "durationMs": {}, "sources": [],
    }  # fmt: skip
    return json.dumps(progress)


def faults(pen: Penstock) -> list[str]:
    return [record.action.reason for record in pen.store.actions(kinds=[ActionKind.FAULT])]


def test_a_report_that_cannot_be_read_is_a_fault_on_record(pen: Penstock) -> None:
    """Neither a broken report nor what follows from it raises inside Spark's listener."""
    pen.on_progress("{")
    (reason,) = faults(pen)
    assert reason.startswith("JSONDecodeError: ")
    assert reason.endswith("; everything stays as it is")


def test_a_fault_that_cannot_be_recorded_is_only_logged(
    pen: Penstock, query: FakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    """With the store closed under it the listener still raises nothing, and says so in the log."""
    pen.store.close()
    pen.on_progress(report(query))
    assert "runs on as if Penstock were not there" in caplog.text
    assert "could not be recorded" in caplog.text


def test_a_start_that_fails_is_a_fault_on_record(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query whose sources cannot be looked at starts as its user wrote it."""

    def refuse(_: object) -> None:
        raise RuntimeError("no such class\nat line 1")

    monkeypatch.setattr(internals, "execution_of", refuse)
    pen.expect("clicks", Goal(latency=5))
    pen.on_started(cast("Any", SimpleNamespace(id=query.id, name="clicks")))
    assert faults(pen) == ["RuntimeError: no such class; the query runs on as if Penstock were not there"]


def test_reports_of_unknown_queries_and_after_the_end_are_ignored(pen: Penstock, query: FakeQuery) -> None:
    """A query of another session, one that has ended, and one after detach leave no trace."""
    pen.on_progress(report(FakeQuery("other")))
    pen.on_terminated(cast("Any", SimpleNamespace(id=query.id, runId=query.runId)))
    pen.on_progress(report(query))
    assert {record.action.kind for record in pen.store.actions()} == {ActionKind.ACTUATOR_OFF}
    assert "clicks" not in pen.store.queries()


def test_a_late_word_of_the_end_does_not_end_the_next_run(pen: Penstock, query: FakeQuery) -> None:
    """A query started again from its checkpoint has its old id: the end of its old run is not its own."""
    restarted = FakeQuery("clicks")
    restarted.id = query.id
    cast("Any", pen._spark).streams.get = lambda _: restarted
    pen.on_started(cast("Any", SimpleNamespace(id=query.id, name="clicks")))
    pen.on_terminated(cast("Any", SimpleNamespace(id=query.id, runId=query.runId)))
    assert cast("Any", pen.watched("clicks").query) is restarted


def test_detach_removes_its_listener_once(pen: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second detach does nothing, and a hold that cannot let go of one query still lets go of the session."""
    spec = QuerySpec(QueryName("clicks"), ())
    pen.loop.handle(QueryStarted(spec, Goal(latency=5), "id-1"))

    def refuse() -> None:
        raise RuntimeError("the query is gone")

    monkeypatch.setattr(pen.watched("clicks"), "restore", refuse)
    session = cast("Any", pen._spark)
    assert len(session.listeners) == 1
    pen.detach()
    pen.detach()
    assert session.listeners == []


def test_a_logic_that_breaks_lets_the_query_go(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that cannot be decided on is a fault of Penstock's, not of the listener bus of Spark."""

    def broken(_: object) -> object:
        raise RuntimeError("no idea what to do")

    monkeypatch.setattr(pen.watched("clicks"), "signal", broken)
    pen.on_progress(report(query))
    assert faults(pen) == ["RuntimeError: no idea what to do; the query runs on as if Penstock were not there"]
