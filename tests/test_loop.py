"""The one loop: decide, record, apply what is recorded, and heal what is not in force."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from patience import PATIENCE_S
from penstock.control.application import ApplicationLogic
from penstock.control.events import BatchFinished, BatchPlanned, Event, QueryEnded, QueryStarted
from penstock.errors import StoreError, UnstorableError
from penstock.loop import Loop
from penstock.model import (
    Action,
    ActionKind,
    Application,
    BatchSignal,
    Goal,
    GuardSignal,
    LimitUnit,
    Mode,
    PlannedBatch,
    QueryName,
    QuerySpec,
    RecordedAction,
    SourceSignal,
    SourceSpec,
)
from penstock.model.decision import Decision, Executors, Fault, KeepRatio, ReadLimit, from_action
from penstock.settings import Settings
from penstock.store import MemoryStore

NAME = QueryName("clicks")
SPEC = QuerySpec(NAME, (SourceSpec(0, "numbers", LimitUnit.ROWS),))


class NumberPlant:
    """A plant of numbers: what is in force, by query and source."""

    def __init__(self) -> None:
        self.limits: dict[tuple[str, int], int] = {}
        self.ratios: list[float] = []
        self.restored: list[str] = []
        self.loses_calls = False
        self.fails = False

    def observe(self) -> Sequence[Event]:
        """What is there: nothing that changes."""
        return ()

    def apply(self, decision: Decision) -> None:
        """Put numbers in force."""
        if self.fails:
            raise RuntimeError("no such source")
        if self.loses_calls:
            return
        if isinstance(decision, ReadLimit):
            self.limits[decision.query, decision.source] = decision.units
        elif isinstance(decision, KeepRatio):
            self.ratios.append(decision.keep_ratio)

    def in_force(self, decision: Decision) -> bool:
        """Whether they are."""
        if not isinstance(decision, ReadLimit):
            return True
        return self.limits.get((decision.query, decision.source)) == decision.units

    def restore(self, query: QueryName) -> None:
        """Take them back."""
        self.restored.append(query)
        self.limits = {key: units for key, units in self.limits.items() if key[0] != query}

    suspend = restore


class Disk(MemoryStore):
    """A store that can be written or cannot, as a disk that fills up and is emptied again."""

    is_full = False

    def append_all(self, actions: Sequence[Action], *, time_s: float, mode: Mode) -> list[RecordedAction]:
        """Refuse while full."""
        if self.is_full:
            raise StoreError("no room")
        return super().append_all(actions, time_s=time_s, mode=mode)


def loop_on(
    plant: NumberPlant,
    store: MemoryStore | None = None,
    *,
    mode: Mode = Mode.ACT,
    clock: Callable[[], float] = lambda: 100.0,
) -> Loop:
    logic = ApplicationLogic(Application(), Settings(), enforced=mode is Mode.ACT)
    return Loop(logic, plant, store or MemoryStore(), mode=mode, clock=clock, patience_s=60.0)


def started(*, has_guard: bool = False) -> QueryStarted:
    goal = Goal(latency=5, minimum_accuracy=0.2 if has_guard else 1.0)
    return QueryStarted(SPEC, goal, "id-1", has_guard=has_guard)


def finished(batch_id: int, rows: int, lag_rows: float = 0.0, *, kept: int | None = None) -> BatchFinished:
    guard = None if kept is None else GuardSignal(rows, kept, kept / rows, 1.0)
    source = SourceSignal(0, rows, float(rows), lag_rows)
    duration_s = 0.2 + 20e-6 * (rows if kept is None else kept)
    return BatchFinished(BatchSignal(NAME, batch_id, 2.0 * batch_id, duration_s, rows, (source,), guard=guard))


def planned(batch_id: int, rows: int, lag_rows: float = 0.0) -> BatchPlanned:
    source = SourceSignal(0, rows, float(rows), lag_rows)
    return BatchPlanned(NAME, batch_id, PlannedBatch(batch_id, 2.0 * batch_id, (source,)))


def test_what_is_applied_is_what_is_recorded() -> None:
    """The limit in force equals the newest one in the log, after every event."""
    plant, store = NumberPlant(), MemoryStore()
    loop = loop_on(plant, store)
    events: list[Event] = [started(), *(finished(batch, 1_000 * 2**batch, 1e6) for batch in range(8))]
    for event in events:
        loop.handle(event)
        recorded = store.actions(kinds=(ActionKind.READ_LIMIT,), last=1)
        assert plant.limits[NAME, 0] == from_action(recorded[0].action).units  # type: ignore[attr-defined]


def test_a_decision_that_cannot_be_recorded_is_not_applied_until_it_is() -> None:
    """A full disk keeps everything as it was, and with room again the query is governed on as if nothing had been."""
    plant, disk = NumberPlant(), Disk()
    loop = loop_on(plant, disk)
    loop.handle(started())
    before = dict(plant.limits)
    disk.is_full = True
    for batch in range(4):
        loop.handle(finished(batch, 1_000 * 2**batch, 1e6))
    assert plant.limits == before
    assert loop.logic.governed == (NAME,)
    assert plant.restored == []
    disk.is_full = False
    loop.cycle()
    newest = disk.actions(kinds=(ActionKind.READ_LIMIT,), last=1)[0]
    assert plant.limits[NAME, 0] == newest.action.value
    assert plant.limits != before
    assert [record.action.cause for record in disk.actions(kinds=(ActionKind.FAULT,))] == ["store"]


def test_what_no_store_can_hold_does_not_wait() -> None:
    """A decision with text that is no text is refused at once, and those after it are recorded."""
    plant, store = NumberPlant(), MemoryStore()
    loop = loop_on(plant, store)
    with pytest.raises(UnstorableError):
        loop.record([Fault(query=NAME, cause="batch 1", reason="\udc80")])
    loop.handle(started())
    assert plant.limits[NAME, 0] == 1_000


def test_a_keep_ratio_that_cannot_be_recorded_is_not_told() -> None:
    """Whatever a batch is told is on record: with a full disk it gets no answer, and what it got before stands."""
    plant, disk = NumberPlant(), Disk()
    loop = loop_on(plant, disk)
    loop.handle(started(has_guard=True))
    for batch in range(9):
        loop.answer(planned(batch, 20_000))
        loop.handle(finished(batch, 20_000, kept=20_000))
    disk.is_full = True
    assert loop.answer(planned(9, 600_000)) is None
    disk.is_full = False
    loop.cycle()
    assert all(record.action.value == 1.0 for record in disk.actions(kinds=(ActionKind.KEEP_RATIO,)))


def test_a_store_that_stays_shut_gives_queries_their_own_limits_until_it_opens() -> None:
    """Fail open, and not for good: after the patience the limit is gone, with the store back it is in force again."""
    plant, disk, now_s = NumberPlant(), Disk(), [100.0]
    loop = loop_on(plant, disk, clock=lambda: now_s[0])
    loop.handle(started())
    before = dict(plant.limits)
    disk.is_full = True
    for batch in range(4):
        loop.handle(finished(batch, 1_000 * 2**batch, 1e6))
    now_s[0] += 59.0
    loop.cycle()
    assert plant.limits == before
    now_s[0] += 2.0
    loop.cycle()
    loop.cycle()
    assert plant.limits == {}
    assert plant.restored == [NAME]
    disk.is_full = False
    loop.cycle()
    assert plant.limits[NAME, 0] >= before[NAME, 0]
    (gap,) = disk.actions(kinds=(ActionKind.FAULT,))
    assert "could not be written for 61 s; queries had their own limits" in gap.action.reason


def test_a_query_that_starts_while_the_loop_closes_is_let_go_of() -> None:
    """Whatever was decided before the end is given back by it, and nothing is decided after it."""
    plant = NumberPlant()
    loop = loop_on(plant)
    loop.handle(started())
    loop.close()
    loop.release_all("detach", "over")
    assert plant.limits == {}
    assert loop.handle(started()) == []
    assert plant.limits == {}


def test_a_lost_call_heals_in_the_next_cycle() -> None:
    """What is recorded and not in force is applied again, and nothing is recorded twice for it."""
    plant, store = NumberPlant(), MemoryStore()
    loop = loop_on(plant, store)
    plant.loses_calls = True
    loop.handle(started())
    assert plant.limits == {}
    plant.loses_calls = False
    records = len(store.actions())
    loop.cycle()
    assert plant.limits[NAME, 0] == 1_000
    assert len(store.actions()) == records


def test_somebody_elses_limit_is_put_right() -> None:
    """A limit that another hand changed is compared with the record in every cycle."""
    plant = NumberPlant()
    loop = loop_on(plant)
    loop.handle(started())
    plant.limits[NAME, 0] = 7
    loop.cycle()
    assert plant.limits[NAME, 0] == 1_000


def test_observe_only_records_and_does_nothing() -> None:
    """Decisions are in the log as observed; the plant is never touched and no batch is told anything."""
    plant, store = NumberPlant(), MemoryStore()
    loop = loop_on(plant, store, mode=Mode.OBSERVE)
    loop.handle(started(has_guard=True))
    for batch in range(9):
        assert loop.answer(planned(batch, 500_000, 1e6)) is None
        loop.handle(finished(batch, 500_000, 1e6, kept=500_000))
    loop.cycle()
    assert plant.limits == {}
    assert plant.ratios == []
    assert {record.mode for record in store.actions()} == {Mode.OBSERVE}


def test_the_mode_is_switched_while_a_query_runs() -> None:
    """Observed only, a query has its own limits and is decided about on; acted on again, what stands is in force."""
    plant, store = NumberPlant(), MemoryStore()
    loop = loop_on(plant, store)
    loop.handle(started())
    loop.handle(finished(0, 1_000, 1e6))
    loop.set_mode(Mode.OBSERVE, asked_by="page")
    assert plant.limits == {}
    assert plant.restored == [NAME]
    loop.handle(finished(1, 4_000, 1e6))
    loop.cycle()
    assert plant.limits == {}
    govern = store.actions(kinds=(ActionKind.GOVERN,), last=1)[0]
    assert (govern.mode, govern.action.cause) == (Mode.OBSERVE, "asked by page")
    loop.set_mode(Mode.ACT, asked_by="page")
    loop.cycle()
    newest = store.actions(kinds=(ActionKind.READ_LIMIT,), last=1)[0]
    assert plant.limits[NAME, 0] == newest.action.value
    assert store.actions(kinds=(ActionKind.GOVERN,), last=1)[0].mode is Mode.ACT
    switched = len(store.actions(kinds=(ActionKind.GOVERN,)))
    loop.set_mode(Mode.ACT, asked_by="page")
    assert len(store.actions(kinds=(ActionKind.GOVERN,))) == switched


def test_a_fault_lets_one_query_go() -> None:
    """The query gets back what it came with, the fault is in the log, and it is not decided about any more."""
    plant, store = NumberPlant(), MemoryStore()
    loop = loop_on(plant, store)
    loop.handle(started())
    loop.fault(NAME, "batch 3", RuntimeError("boom"))
    assert plant.restored == [NAME]
    assert loop.logic.governed == ()
    assert isinstance(from_action(store.actions(last=1)[0].action), Fault)
    assert loop.handle(finished(4, 1_000)) == []
    loop.cycle()
    assert plant.limits == {}


def test_a_limit_decided_before_a_release_is_not_applied_after_it() -> None:
    """Whoever comes late with an old limit finds that it does not stand any more."""
    plant = NumberPlant()
    loop = loop_on(plant)
    loop.handle(started())
    old = next(each for each in loop._standing.values() if isinstance(each, ReadLimit))
    loop.release(NAME, "release", "asked for")
    loop._apply(old)
    assert plant.limits == {}


def test_a_limit_of_a_query_that_has_ended_stands_no_more() -> None:
    """Whatever runs under its name next is left as it came, whether its limit was on record or waited for the store."""
    plant, disk = NumberPlant(), Disk()
    loop = loop_on(plant, disk)
    for is_full in (False, True):
        loop.handle(started())
        disk.is_full = is_full
        loop.handle(finished(0, 1_000, 1e6))
        loop.handle(QueryEnded(NAME))
        disk.is_full = False
        plant.limits.clear()
        loop.cycle()
        assert plant.limits == {}


def test_a_run_with_fewer_sources_has_no_limit_of_the_run_before() -> None:
    """A query that starts again before anybody told of its end is given what its new run is told, and no more."""
    plant = NumberPlant()
    loop = loop_on(plant)
    two = QuerySpec(NAME, tuple(SourceSpec(index, "numbers", LimitUnit.ROWS) for index in range(2)))
    loop.handle(QueryStarted(two, Goal(latency=5), "id-1"))
    assert set(plant.limits) == {(NAME, 0), (NAME, 1)}
    plant.limits.clear()
    loop.handle(started())
    loop.cycle()
    assert set(plant.limits) == {(NAME, 0)}


def test_the_end_of_a_query_leaves_all_else_as_it_stands() -> None:
    """Limits of other queries and what is decided about executors are put in force again after it."""
    plant = NumberPlant()
    loop = loop_on(plant)
    other, executors = QueryName("views"), Executors(cause="scaler", reason="it grows", executors=3)
    loop.handle(started())
    loop.handle(QueryStarted(QuerySpec(other, SPEC.sources), Goal(latency=5), "id-2"))
    loop.record([executors])
    plant.limits.clear()
    loop.handle(QueryEnded(NAME))
    loop.cycle()
    assert set(plant.limits) == {(other, 0)}
    assert executors in loop._standing.values()


def test_a_fault_that_waits_for_the_store_is_told_though_its_query_has_ended() -> None:
    """A query that breaks while nothing can be recorded, and ends, is in the log with its fault all the same."""
    disk = Disk()
    loop = loop_on(NumberPlant(), disk)
    loop.handle(started())
    disk.is_full = True
    loop.fault(NAME, "batch 3", RuntimeError("boom"))
    loop.handle(QueryEnded(NAME))
    disk.is_full = False
    loop.cycle()
    assert "batch 3" in [record.action.cause for record in disk.actions(kinds=(ActionKind.FAULT,))]


def test_a_batch_that_asks_again_gets_the_same_answer_and_one_record() -> None:
    """Two guards, retries: one decision."""
    plant, store = NumberPlant(), MemoryStore()
    loop = loop_on(plant, store)
    loop.handle(started(has_guard=True))
    for batch in range(9):
        loop.answer(planned(batch, 20_000))
        loop.handle(finished(batch, 20_000, kept=20_000))
    first = loop.answer(planned(9, 600_000))
    assert first is not None
    assert first.keep_ratio < 0.5
    assert loop.answer(planned(9, 10)) == first
    assert len([each for each in store.actions(kinds=(ActionKind.KEEP_RATIO,)) if each.action.value != 1.0]) == 1


def test_a_slow_query_holds_up_nobody() -> None:
    """While one query is acted on for a long time, another is decided about and acted on."""
    plant = NumberPlant()
    loop = loop_on(plant)
    done = threading.Event()

    def handle_other() -> None:
        loop.handle(started())
        done.set()

    with loop.lock_of(QueryName("slow")):
        other = threading.Thread(target=handle_other)
        other.start()
        assert done.wait(PATIENCE_S)
    other.join()
    assert plant.limits[NAME, 0] == 1_000


def test_a_cycle_that_fails_is_told_once() -> None:
    """The loop goes on; the same fault does not fill the log."""
    plant, store = NumberPlant(), MemoryStore()
    loop = loop_on(plant, store)
    for _ in range(3):
        loop.fault(QueryName(""), "cycle", RuntimeError("no master"))
    assert len(store.actions(kinds=(ActionKind.FAULT,))) == 1
