"""The hold on a session whose queries misbehave, without Spark: nothing that Penstock does may reach the query."""

from __future__ import annotations

import json
import threading
import time
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from patience import PATIENCE_S
from penstock import Application, Goal, Penstock, attach
from penstock.control.events import QueryStarted
from penstock.errors import AlreadyAttachedError, StoreError, UnsupportedSparkError
from penstock.model import ActionKind, LimitUnit, Metric, QueryName, QuerySpec, SeriesPoint
from penstock.model.decision import ReadLimit
from penstock.settings import Settings
from penstock.spark import attach as attaching
from penstock.spark import internals
from penstock.spark.directives import DirectiveServer
from penstock.spark.internals import callbacks, reports
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator


class FakeQuery:
    """A query that has a name and nothing to govern."""

    def __init__(self, name: str) -> None:
        self.id = uuid.uuid4()
        self.runId = uuid.uuid4()
        self.name = name
        self.isActive = True
        self.recentProgress: list[object] = []
        # Over as soon as it is not active.
        self._jsq = SimpleNamespace(awaitTermination=lambda _: not self.isActive)


class FakeSession:
    """A session with one query; listeners are kept in a list."""

    version = "4.2.0"

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
def pen(query: FakeQuery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Penstock]:
    missing = dict.fromkeys((internals.Ability.TEXT_REPORTS, internals.Ability.EXECUTORS), "no Spark here")
    monkeypatch.setattr(internals, "probe", lambda _: missing)
    monkeypatch.setattr(internals, "unseen_reports", lambda *_: [])
    settings = Settings().with_values({"directives.enabled": False})
    found = Penstock(cast("Any", FakeSession(query)), Application(), settings, MemoryStore())
    yield found
    found.detach()


def report(query: FakeQuery, batch_id: int = 3, began: str = "2026-01-02T03:04:05Z", *, is_batch: bool = True) -> str:
    progress = {
        "id": str(query.id), "runId": str(query.runId), "batchId": batch_id, "timestamp": began,
        "durationMs": {"addBatch": 5} if is_batch else {}, "sources": [],
    }  # fmt: skip
    return json.dumps(progress)


def faults(pen: Penstock) -> list[str]:
    return [record.action.reason for record in pen.store.actions(kinds=[ActionKind.FAULT])]


def test_a_report_that_cannot_be_read_is_a_fault_on_record(pen: Penstock) -> None:
    """Neither a broken report nor what follows from it raises inside Spark's listener."""
    pen.events.on_progress("{")
    (reason,) = faults(pen)
    assert reason.startswith("JSONDecodeError: ")
    assert reason.endswith("; everything stays as it is")


def test_a_fault_that_cannot_be_recorded_is_only_logged(
    pen: Penstock, query: FakeQuery, caplog: pytest.LogCaptureFixture
) -> None:
    """With the store closed under it the listener still raises nothing, and says so in the log, once."""
    pen.store.close()
    pen.events.on_progress("{")
    pen.events.on_progress("[")
    assert "everything stays as it is" in caplog.text
    assert caplog.text.count("until it can be recorded again") == 1


def test_a_start_that_fails_is_a_fault_on_record(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query whose sources cannot be looked at starts as its user wrote it."""

    def refuse(_: object) -> None:
        raise RuntimeError("no such class\nat line 1")

    monkeypatch.setattr(internals, "execution_of", refuse)
    pen.expect("clicks", Goal(latency=5))
    pen.events.on_started(cast("Any", SimpleNamespace(id=query.id, name="clicks")))
    assert faults(pen) == ["RuntimeError: no such class; the query runs on as if Penstock were not there"]


def test_reports_of_unknown_queries_and_after_the_end_are_ignored(pen: Penstock, query: FakeQuery) -> None:
    """A query of another session, one that has ended, and one after detach leave no trace."""
    pen.events.on_progress(report(FakeQuery("other")))
    pen.events.on_terminated(cast("Any", SimpleNamespace(id=query.id, runId=query.runId)))
    pen.events.on_progress(report(query))
    assert {record.action.kind for record in pen.store.actions()} == {ActionKind.ACTUATOR_OFF}
    assert "clicks" not in pen.store.queries()


def test_a_late_word_of_the_end_does_not_end_the_next_run(pen: Penstock, query: FakeQuery) -> None:
    """A query started again from its checkpoint has its old id: the end of its old run is not its own."""
    restarted = FakeQuery("clicks")
    restarted.id = query.id
    cast("Any", pen._spark).streams.get = lambda _: restarted
    pen.events.on_started(cast("Any", SimpleNamespace(id=query.id, name="clicks")))
    pen.events.on_terminated(cast("Any", SimpleNamespace(id=query.id, runId=query.runId)))
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
    pen.events.on_progress(report(query))
    assert faults(pen) == ["RuntimeError: no idea what to do; the query runs on as if Penstock were not there"]


class FakeExecution:
    """What runs the batches of a query with no source."""

    def sources(self) -> Any:
        """None."""
        return SimpleNamespace(size=lambda: 0)


@pytest.fixture
def governable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries without sources can be governed, as far as anybody can tell without Spark."""
    execution = FakeExecution()
    monkeypatch.setattr(internals, "execution_of", lambda _: execution)
    monkeypatch.setattr(internals, "is_micro_batch", lambda _: True)
    monkeypatch.setattr(internals, "is_planned", lambda _: True)
    monkeypatch.setattr(internals, "is_batch_planned", lambda *_: True)
    monkeypatch.setattr(internals, "plan_now", lambda _: None)
    monkeypatch.setattr(internals, "trigger_of", lambda _: ("ProcessingTimeTrigger", 0.0))
    monkeypatch.setattr(internals, "plan_mentions", lambda *_: False)
    monkeypatch.setattr(internals, "uncommitted_batch", lambda _: None)


def start(pen: Penstock, query: FakeQuery) -> FakeQuery:
    cast("Any", pen._spark).streams.get = lambda _: query
    pen.events.on_started(cast("Any", SimpleNamespace(id=query.id, name=query.name)))
    return query


@pytest.mark.usefixtures("governable")
@pytest.mark.parametrize("same_checkpoint", [True, False])
def test_a_run_that_nobody_governs_ends_what_was_decided_about_the_run_before(
    pen: Penstock, query: FakeQuery, *, same_checkpoint: bool
) -> None:
    """A query whose goal was taken away and that starts again is not decided about, whoever is told of first."""
    pen.adopt("clicks", Goal(latency=5))
    pen.expect("clicks", None)
    query.isActive = False
    restarted = FakeQuery("clicks")
    if same_checkpoint:
        restarted.id = query.id
    start(pen, restarted)
    pen.events.on_terminated(cast("Any", SimpleNamespace(id=query.id, runId=query.runId)))
    assert pen.loop.logic.governed == ()
    assert [each.query for each in pen.plant.watched] == [restarted]


@pytest.mark.usefixtures("governable")
def test_news_of_the_end_of_a_run_takes_nothing_from_the_next(pen: Penstock, query: FakeQuery) -> None:
    """A query that starts again at once is governed on when the end of its run before is told of."""
    pen.adopt("clicks", Goal(latency=5))
    query.isActive = False
    restarted = FakeQuery("clicks")
    restarted.id = query.id
    start(pen, restarted)
    standing = list(pen.loop._standing.values())
    pen.events.on_terminated(cast("Any", SimpleNamespace(id=query.id, runId=query.runId)))
    assert pen.loop.logic.governed == ("clicks",)
    assert list(pen.loop._standing.values()) == standing != []


def test_a_query_that_is_not_governed_is_not_limited(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that stands for its name is not its own; it is applied only while the query is governed."""
    limits: list[int] = []
    watched = pen.watched("clicks")
    monkeypatch.setattr(watched, "set_limit", lambda _, units: limits.append(units))
    limit = ReadLimit(
        query=watched.name, cause="start", reason="it is safe", source=0, units=1_000, limit_unit=LimitUnit.ROWS
    )
    assert pen.plant.in_force(limit)
    pen.plant.apply(limit)
    assert limits == []
    watched.is_governed = True
    assert not pen.plant.in_force(limit)
    pen.plant.apply(limit)
    assert limits == [1_000]


@pytest.mark.usefixtures("governable")
def test_a_query_that_is_adopted_twice_begins_once(pen: Penstock) -> None:
    """Two threads that adopt one query give it one start and one more goal, so that its own limit is looked at once."""
    both = threading.Barrier(2)

    def adopt() -> None:
        both.wait(PATIENCE_S)
        pen.adopt("clicks", Goal(latency=5))

    threads = [threading.Thread(target=adopt) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    causes = [record.action.cause for record in pen.store.actions(kinds=[ActionKind.GOVERN])]
    assert causes.count("adopt") == 1
    assert pen.loop.logic.governed == ("clicks",)


def test_a_session_is_attached_to_once(pen: Penstock) -> None:
    """A second hold would take the first one's limits for the query's own: it is refused until the first ends."""
    session = cast("Any", pen._spark)
    settings = Settings().with_values({"directives.enabled": False})
    with pytest.raises(AlreadyAttachedError, match="detach"):
        attach(session, settings=settings, store=MemoryStore())
    assert len(session.listeners) == 1
    pen.detach()
    attach(session, settings=settings, store=MemoryStore()).detach()
    assert session.listeners == []


class PoliteLock:
    """A lock that lets whoever waits for it go first, as a machine with much to do may."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        time.sleep(0.1)


def test_of_two_that_attach_at_once_one_is_refused(query: FakeQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find the session free before either holds it; the one that is refused leaves no listener behind."""
    both = threading.Barrier(2)

    def probe(_: object) -> dict[internals.Ability, str]:
        both.wait(PATIENCE_S)
        return dict.fromkeys((internals.Ability.TEXT_REPORTS, internals.Ability.EXECUTORS), "no Spark here")

    monkeypatch.setattr(internals, "probe", probe)
    monkeypatch.setattr(internals, "unseen_reports", lambda *_: [])
    monkeypatch.setattr(attaching, "_holding", PoliteLock())
    session = cast("Any", FakeSession(query))
    settings = Settings().with_values({"directives.enabled": False})
    holds: list[Penstock] = []
    refused: list[AlreadyAttachedError] = []

    def hold() -> None:
        try:
            holds.append(attach(session, settings=settings, store=MemoryStore()))
        except AlreadyAttachedError as error:
            refused.append(error)

    threads = [threading.Thread(target=hold) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert (len(holds), len(refused), len(session.listeners)) == (1, 1, 1)
    holds[0].detach()
    assert session.listeners == []


@pytest.mark.parametrize("version", ["3.5.3", "4.1.1", "4.3.0-SNAPSHOT"])
def test_a_jvm_of_another_spark_is_refused_in_one_sentence(version: str) -> None:
    """PySpark alone does not tell what runs behind it: SPARK_HOME may be of any version."""
    session = cast("Any", FakeSession(FakeQuery("clicks")))
    session.version = version
    with pytest.raises(UnsupportedSparkError) as refusal:
        attach(session, store=MemoryStore())
    assert str(refusal.value).startswith(f"the JVM of this session runs Spark {version}, which is not supported")
    assert "SPARK_HOME" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert session.listeners == []


def test_what_the_scaler_learned_and_cannot_be_written_keeps_no_store(
    pen: Penstock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong there, all is given back: a store that stays open is locked for every other program."""

    def refuse(_: object) -> None:
        raise TypeError("not of a kind that JSON has")

    monkeypatch.setattr(pen._learned, "write", refuse)
    pen.detach()
    assert cast("Any", pen._spark).listeners == []
    with pytest.raises(StoreError):
        pen.store.actions()
    assert "what the scaler learned was not written" in caplog.text
    attach(pen._spark, settings=pen.settings, store=MemoryStore()).detach()


def test_an_attach_that_fails_leaves_nothing_behind(query: FakeQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever raises after the listener was added, its listener is gone, and the next one finds the session free."""
    monkeypatch.setattr(internals, "probe", lambda _: {internals.Ability.TEXT_REPORTS: "no Spark here"})
    monkeypatch.setattr(internals, "unseen_reports", lambda *_: [])
    session = cast("Any", FakeSession(query))
    settings = Settings().with_values({"directives.enabled": False})
    active = session.streams.active
    session.streams.active = [object()]
    with pytest.raises(AttributeError):
        attach(session, goals={"clicks": Goal(latency=5)}, settings=settings, store=MemoryStore())
    assert session.listeners == []
    session.streams.active = active
    attach(session, settings=settings, store=MemoryStore()).detach()


def test_an_attach_without_a_listener_leaves_no_server_behind(
    query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the JVM takes no listener, whoever answers batches is closed, and the next attach finds all free."""

    def refuse(*_: object) -> None:
        raise RuntimeError("the JVM takes no listener")

    servers: list[FakeServer] = []
    monkeypatch.setattr(DirectiveServer, "for_session", lambda *_: servers.append(FakeServer()) or servers[-1])
    monkeypatch.setattr(internals, "probe", lambda _: {internals.Ability.EXECUTORS: "no Spark here"})
    monkeypatch.setattr(internals, "unseen_reports", lambda *_: [])
    monkeypatch.setattr(internals, "take_reports_as_text", refuse)
    session = cast("Any", FakeSession(query))
    with pytest.raises(RuntimeError, match="takes no listener"):
        attach(session, store=MemoryStore())
    assert [server.is_closed for server in servers] == [True]
    monkeypatch.setattr(internals, "take_reports_as_text", lambda *_: None)
    attach(session, store=MemoryStore()).detach()
    assert [server.is_closed for server in servers] == [True, True]


class FakeServer:
    """Answers nobody."""

    endpoint, token = ("127.0.0.1", 1), "token"
    is_closed = False

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


def test_detach_after_the_death_of_the_jvm_lets_go_of_everything_else(
    pen: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nobody to answer any more the store is closed, the loop has ended, and nothing is raised."""

    def refuse(*_: object) -> None:
        raise ConnectionRefusedError("[Errno 111] Connection refused")

    session = cast("Any", pen._spark)
    pen.loop.handle(QueryStarted(QuerySpec(QueryName("clicks"), ()), Goal(latency=5), "id-1"))
    monkeypatch.setattr(session.streams, "removeListener", refuse)
    monkeypatch.setattr(pen.watched("clicks"), "restore", refuse)
    monkeypatch.setattr(FakeQuery, "isActive", property(refuse), raising=False)
    pen.detach()
    assert pen.loop.is_closed
    with pytest.raises(StoreError):
        pen.store.actions()
    monkeypatch.undo()


@pytest.mark.usefixtures("governable")
def test_a_query_that_begins_while_the_hold_ends_is_not_governed(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A detach in the middle of a start leaves the query as its user wrote it."""
    restored: list[bool] = []
    watched = pen.watched("clicks")
    monkeypatch.setattr(watched, "restore", lambda: restored.append(watched.is_governed))
    recorded, detached = threading.Event(), threading.Event()
    record = pen.loop.record

    def slowly(decisions: Any) -> Any:
        found = record(decisions)
        recorded.set()
        detached.wait(0.2)
        return found

    monkeypatch.setattr(pen.loop, "record", slowly)
    pen.expect("clicks", Goal(latency=5))
    event = SimpleNamespace(id=query.id, name="clicks")
    starting = threading.Thread(target=pen.events.on_started, args=(event,))
    starting.start()
    assert recorded.wait(PATIENCE_S)
    pen.detach()
    detached.set()
    starting.join(PATIENCE_S)
    assert restored == [False]
    assert not watched.is_governed
    assert pen.loop.logic.governed == ()


@pytest.mark.usefixtures("governable")
def test_the_newest_run_under_a_name_is_the_one_that_is_meant(pen: Penstock, query: FakeQuery) -> None:
    """A query started anew under its name is adopted itself, though nobody told of the end of the old one yet."""
    query.isActive = False
    pen.expect("clicks", Goal(latency=5))
    restarted = start(pen, FakeQuery("clicks"))
    assert cast("Any", pen.watched("clicks").query) is restarted
    pen.events.on_terminated(cast("Any", SimpleNamespace(id=query.id, runId=query.runId)))
    assert pen.loop.logic.governed == ("clicks",), "the end of the old run is not the end of the new one"


@pytest.mark.usefixtures("governable")
def test_a_start_is_not_held_up_by_an_adopt_that_waits(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one query is waited for until it has a plan, another starts and is governed."""
    waiting, planned = threading.Event(), threading.Event()

    def until_planned(*_: object) -> None:
        waiting.set()
        planned.wait(PATIENCE_S)

    monkeypatch.setattr(pen.watched("clicks"), "_await_plan", until_planned)
    adopting = threading.Thread(target=pen.adopt, args=("clicks", Goal(latency=5)))
    adopting.start()
    assert waiting.wait(PATIENCE_S)
    other = FakeQuery("other")
    cast("Any", pen._spark).streams.get = lambda _: other
    pen.expect("other", Goal(latency=5))
    pen.events.on_started(cast("Any", SimpleNamespace(id=other.id, name="other")))
    assert pen.loop.logic.governed == ("other",)
    planned.set()
    adopting.join(PATIENCE_S)
    assert set(pen.loop.logic.governed) == {"clicks", "other"}


@pytest.mark.usefixtures("governable")
@pytest.mark.parametrize("error", [StoreError("another program holds the file"), ValueError("no such number")])
def test_a_store_that_cannot_be_read_costs_a_start_its_memory_only(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """With the store held by another program, or damaged, the query is governed, as one of which nothing is known."""

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(pen.store, "points", refuse)
    pen.expect("clicks", Goal(latency=5))
    pen.events.on_started(cast("Any", SimpleNamespace(id=query.id, name="clicks")))
    assert pen.loop.logic.governed == ("clicks",)
    assert faults(pen) == []


@pytest.mark.usefixtures("governable")
@pytest.mark.parametrize("duration_s", [0.0, float("inf"), -1.0])
def test_a_damaged_series_keeps_no_query_from_being_governed(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch, duration_s: float
) -> None:
    """Batches that took no time, or one without end, are no reason to run on as if Penstock were not there."""
    name, now_s = QueryName("clicks"), time.time()

    def points(_: QueryName, metric: Metric, **__: Any) -> list[SeriesPoint]:
        value = duration_s if metric is Metric.BATCH_DURATION_S else 1e6
        return [SeriesPoint(now_s - 60.0 + number, name, metric, value, number) for number in range(10)]

    monkeypatch.setattr(pen.store, "points", points)
    pen.expect("clicks", Goal(latency=5))
    pen.events.on_started(cast("Any", SimpleNamespace(id=query.id, name="clicks")))
    assert pen.loop.logic.governed == ("clicks",)
    assert faults(pen) == []


@pytest.mark.usefixtures("governable")
def test_what_a_query_did_before_it_was_watched_is_not_told_again(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports that were there when the query was taken up are neither fetched nor taken from the bus."""
    monkeypatch.setattr(internals, "unseen_reports", lambda _, seen: [] if seen else [report(query)])
    pen.events.take_up(cast("Any", query))
    pen.events.look()
    pen.events.on_progress(report(query))
    assert pen.store.points(QueryName("clicks"), Metric.BATCH_ROWS) == []


@pytest.mark.usefixtures("governable")
def test_reports_that_the_bus_does_not_bring_are_fetched_once(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is fetched counts once, also when the bus brings it later; a query that is over is let go of."""
    monkeypatch.setattr(internals, "unseen_reports", lambda _, seen: [] if seen else [report(query)])
    pen.events.look()
    pen.events.look()
    pen.events.on_progress(report(query))
    assert [point.batch_id for point in pen.store.points(QueryName("clicks"), Metric.BATCH_ROWS)] == [3]
    query.isActive = False
    pen.events.look()
    assert pen.plant.watched == []


def seen_batches(pen: Penstock) -> list[int]:
    return sorted(point.batch_id or 0 for point in pen.store.points(QueryName("clicks"), Metric.BATCH_ROWS))


@pytest.fixture
def fetching(pen: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports that queries keep are fetched as from Spark."""
    monkeypatch.setattr(internals, "unseen_reports", reports.unseen_reports)


class KeptReport:
    """A report as the JVM hands it out."""

    def __init__(self, text: str) -> None:
        self.json = lambda: text
        self.batchId = lambda: json.loads(text)["batchId"]
        self.timestamp = lambda: json.loads(text)["timestamp"]


def keep(query: FakeQuery, texts: list[str]) -> None:
    """Have a query keep reports, as Spark does."""
    kept = [KeptReport(text) for text in texts]
    query._jsq.lastProgress = lambda: kept[-1] if kept else None
    query._jsq.recentProgress = lambda: kept


@pytest.mark.usefixtures("governable", "fetching")
@pytest.mark.parametrize("is_fetched", [True, False])
def test_a_clock_that_is_set_back_silences_no_batch(pen: Penstock, query: FakeQuery, *, is_fetched: bool) -> None:
    """Batches that seem to have begun before the one that was seen last count, whichever way they are told of."""
    told = [report(query, 3, "2026-01-02T03:04:05Z"), report(query, 4, "2026-01-02T02:54:07Z")]
    for count in (1, 2):
        if is_fetched:
            keep(query, told[:count])
            pen.events.look()
        else:
            pen.events.on_progress(told[count - 1])
    assert seen_batches(pen) == [3, 4]


@pytest.mark.usefixtures("governable", "fetching")
def test_a_query_that_found_no_rows_is_heard_when_it_does(pen: Penstock, query: FakeQuery) -> None:
    """While it is idle it reports under the number of the batch to come; each counts once, and so does that."""
    idle = [report(query, 4, f"2026-01-02T{at}Z", is_batch=False) for at in ("03:04:15", "03:04:25", "02:54:35")]
    batches = [report(query, 3, "2026-01-02T03:04:05Z"), report(query, 4, "2026-01-02T02:54:40Z")]
    for count in (1, 3):
        keep(query, [batches[0], *idle[:count]])
        pen.events.look()
    pen.events.on_progress(batches[0])
    assert seen_batches(pen) == [3, 4, 4, 4]
    pen.events.on_progress(batches[1])
    pen.events.on_progress(idle[-1])
    keep(query, [batches[0], *idle, batches[1]])
    pen.events.look()
    assert seen_batches(pen) == [3, 4, 4, 4, 4]


@pytest.mark.usefixtures("governable")
def test_a_late_report_of_a_run_is_not_taken_for_one_of_the_next(pen: Penstock, query: FakeQuery) -> None:
    """A batch of the run before counts for nothing in the next one, whose first batch may have the same number."""
    restarted = FakeQuery("clicks")
    restarted.id = query.id
    start(pen, restarted)
    pen.events.on_progress(report(query, 3))
    assert seen_batches(pen) == []
    pen.events.on_progress(report(restarted, 3))
    assert seen_batches(pen) == [3]


def test_a_query_that_is_being_stopped_is_not_ended_before_its_thread(
    pen: Penstock, query: FakeQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is inactive while its last batch still asks: its connection must not be shut down under it."""
    monkeypatch.setattr(internals, "unseen_reports", lambda *_: [])
    pen.events.take_up(cast("Any", query))
    query.isActive = False
    query._jsq = SimpleNamespace(awaitTermination=lambda _: False)
    pen.events.look()
    assert [each.query for each in pen.plant.watched] == [query]
    query._jsq = SimpleNamespace(awaitTermination=lambda _: True)
    pen.events.look()
    assert pen.plant.watched == []


def test_a_listener_takes_calls_of_spark_and_no_others() -> None:
    """Of the object that the JVM calls nothing can be reached but Spark's four methods."""
    texts: list[str] = []
    exposed = callbacks.OnlyCallbacks(
        reports._TextReports(cast("Any", None), texts.append), "org.example.Listener", reports._CALLED_BY_SPARK
    )
    exposed.onQueryProgress(SimpleNamespace(progress=lambda: SimpleNamespace(json=lambda: "{}")))
    assert texts == ["{}"]
    for name in ("_on_progress", "_listener", "_target", "__init__", "__setattr__", "__dict__", "__reduce__"):
        with pytest.raises(AttributeError):
            getattr(exposed, name)


def test_ids_of_objects_that_the_jvm_calls_cannot_be_guessed() -> None:
    """Two pools give the same object other ids, long ones, and asking twice changes nothing."""
    from py4j.java_gateway import PythonProxyPool  # noqa: PLC0415 - only this test needs it

    ids = []
    for _ in range(2):
        pool = PythonProxyPool()
        callbacks.make_ids_unguessable(pool)
        callbacks.make_ids_unguessable(pool)
        ids += [pool.put(object()), pool.put(object())]
    assert len(set(ids)) == 4
    assert min(map(len, ids)) == 33
