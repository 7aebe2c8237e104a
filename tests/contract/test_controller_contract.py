"""What must hold of the logic of every query, and of an application, whatever they decide."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.keep_ratio import KeepController
from penstock.control.query_logic import QueryLogic, QueryState
from penstock.model import (
    BatchSignal,
    Goal,
    GuardSignal,
    LimitUnit,
    PlannedBatch,
    QueryName,
    QuerySpec,
    SourceSignal,
    SourceSpec,
)
from penstock.model.decision import Decision, KeepRatio, ReadLimit, Unmanaged, from_action, to_action
from penstock.settings import AdmissionSettings, SheddingSettings

QUERY = QueryName("q")
OWN_LIMIT_ROWS = 700_000
MINIMUM = 0.05

Build = Callable[[QueryState | None], QueryLogic]


def _logic(units: tuple[LimitUnit | None, ...], *, has_guard: bool = False) -> Build:
    spec = QuerySpec(
        QUERY,
        tuple(SourceSpec(index, "s", unit, OWN_LIMIT_ROWS if unit else None) for index, unit in enumerate(units)),
    )
    goal = Goal(latency=4.0, minimum_accuracy=MINIMUM if has_guard else 1.0)
    shedding = SheddingSettings() if has_guard else None
    return lambda state: QueryLogic(spec, goal, AdmissionSettings(), shedding, state=state)


LOGICS: dict[str, tuple[Build, int]] = {
    "one source": (_logic((LimitUnit.ROWS,)), 1),
    "three units": (_logic((LimitUnit.ROWS, LimitUnit.FILES, LimitUnit.BYTES)), 3),
    "one unmanaged": (_logic((LimitUnit.ROWS, None)), 2),
    "with a guard": (_logic((LimitUnit.ROWS,), has_guard=True), 1),
    "with a guard and two sources": (_logic((LimitUnit.ROWS, LimitUnit.FILES), has_guard=True), 2),
}

Event = PlannedBatch | BatchSignal


@st.composite
def histories(draw: st.DrawFn, sources: int) -> list[Event]:
    """Batches of any size, length and lag, as a query might plan and report them."""
    events: list[Event] = []
    now_s = 1000.0
    for batch_id in range(draw(st.integers(1, 20))):
        parts = tuple(
            SourceSignal(
                index,
                draw(st.integers(0, 2_000_000)),
                draw(st.one_of(st.none(), st.floats(0, 1e9))),
                draw(st.one_of(st.none(), st.floats(0, 1e9))),
            )
            for index in range(sources)
        )
        duration_s = draw(st.floats(0.001, 600.0))
        rows = sum(part.rows for part in parts)
        events.append(PlannedBatch(batch_id, now_s, parts))
        guard = None
        if draw(st.booleans()):
            kept = draw(st.integers(0, rows))
            guard = GuardSignal(rows, kept, draw(st.floats(MINIMUM, 1.0)), draw(st.none() | st.floats(0, now_s)))
        events.append(BatchSignal(QUERY, batch_id, now_s, duration_s, rows, parts, guard=guard))
        now_s += duration_s
    return events


def decide(logic: QueryLogic, event: Event) -> list[Decision]:
    """What a logic says to a batch that is planned, or done."""
    if isinstance(event, PlannedBatch):
        answer = logic.on_planned(event.batch_id, event)
        return [] if answer is None else [answer]
    return logic.on_batch(event)


def run(build: Build, events: list[Event]) -> list[Decision]:
    logic = build(None)
    return [*logic.on_start(), *(decision for event in events for decision in decide(logic, event))]


every_logic = pytest.mark.parametrize("name", LOGICS)


@every_logic
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_same_events_give_the_same_decisions(name: str, data: st.DataObject) -> None:
    """A logic has no clock and no randomness of its own, and does not change what it is told."""
    build, sources = LOGICS[name]
    events = data.draw(histories(sources))
    before = copy.deepcopy(events)
    assert run(build, events) == run(build, events)
    assert events == before


@every_logic
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_snapshot_goes_on_like_the_original(name: str, data: st.DataObject) -> None:
    """Built from a snapshot taken anywhere, a logic decides what the original decides."""
    build, sources = LOGICS[name]
    events = data.draw(histories(sources))
    cut = data.draw(st.integers(0, len(events)))
    original = build(None)
    original.on_start()
    for event in events[:cut]:
        decide(original, event)
    copied = build(original.snapshot())
    for event in events[cut:]:
        assert decide(copied, event) == decide(original, event)
    assert copied.snapshot() == original.snapshot()


@every_logic
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_decision_is_within_its_bounds_and_survives_the_log(name: str, data: st.DataObject) -> None:
    """Limits between one unit and the source's own, ratios not below the floor, and each one read back as it was."""
    build, sources = LOGICS[name]
    for decision in run(build, data.draw(histories(sources))):
        if isinstance(decision, ReadLimit):
            assert 1 <= decision.units <= OWN_LIMIT_ROWS
        if isinstance(decision, KeepRatio) and "no answer" not in decision.reason:
            assert decision.keep_ratio >= MINIMUM
        assert decision.reason
        assert decision.cause
        assert from_action(to_action(decision)) == decision


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_budget_never_outgrows_what_was_seen(data: st.DataObject) -> None:
    """No batch may be more than the growth factor times the largest one seen so far, or under way.

    The one under way reads no more than waits, and no more than was allowed when it was planned, unless its source
    takes no limit. A batch without rows decides nothing.
    """
    build, sources = LOGICS["one source"]
    logic = build(None)
    logic.on_start()
    largest, allowed = 0.0, 1000.0
    for event in data.draw(histories(sources)):
        if any(isinstance(decision, Unmanaged) for decision in decide(logic, event)):
            allowed = float("inf")
        if isinstance(event, BatchSignal) and event.rows:
            largest = max(largest, event.rows)
            under_way = min(event.lag_rows or 0.0, allowed)
            if event.batch_id > 0:
                assert logic.budget_rows <= max(4.0 * max(largest, under_way), 1000.0)
            allowed = max(allowed, logic.budget_rows)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_batch_that_asks_again_gets_the_same_answer(data: st.DataObject) -> None:
    """Whatever happened in between, and also from the answers on record alone."""
    build, sources = LOGICS["with a guard"]
    logic = build(None)
    answers: dict[int, KeepRatio] = {}
    for event in data.draw(histories(sources)):
        if isinstance(event, PlannedBatch):
            answer = logic.on_planned(event.batch_id, event)
            assert answer is not None
            answers[event.batch_id] = answer
            assert logic.on_planned(event.batch_id, None) == answer
            assert logic.on_planned(event.batch_id, event, is_rerun=True) == answer
    state = logic.snapshot().keep
    reborn = KeepController(QUERY, Goal(latency=4.0, minimum_accuracy=MINIMUM), SheddingSettings(), state)
    for batch_id, answer in answers.items():
        assert reborn.recorded(batch_id) == answer
