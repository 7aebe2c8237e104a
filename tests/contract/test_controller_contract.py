"""What must hold of every controller, whatever it decides."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.admission import AdmissionController, AdmissionState
from penstock.model import (
    Action,
    ActionKind,
    BatchSignal,
    Goal,
    LimitUnit,
    QueryName,
    QuerySpec,
    SourceSignal,
    SourceSpec,
)
from penstock.settings import AdmissionSettings

QUERY = QueryName("q")
OWN_LIMIT_ROWS = 700_000

Build = Callable[[AdmissionState | None], AdmissionController]


def _admission(units: tuple[LimitUnit | None, ...]) -> Build:
    spec = QuerySpec(
        QUERY,
        tuple(SourceSpec(index, "s", unit, OWN_LIMIT_ROWS if unit else None) for index, unit in enumerate(units)),
    )
    return lambda state: AdmissionController(spec, Goal(latency=4.0), AdmissionSettings(), state=state)


CONTROLLERS: dict[str, tuple[Build, int]] = {
    "admission, one source": (_admission((LimitUnit.ROWS,)), 1),
    "admission, three units": (_admission((LimitUnit.ROWS, LimitUnit.FILES, LimitUnit.BYTES)), 3),
    "admission, one left alone": (_admission((LimitUnit.ROWS, None)), 2),
}


@st.composite
def histories(draw: st.DrawFn, sources: int) -> list[BatchSignal]:
    """Batches of any size, length and lag, as a query might report them."""
    signals, now_s = [], 1000.0
    for batch_id in range(draw(st.integers(1, 25))):
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
        signals.append(BatchSignal(QUERY, batch_id, now_s, duration_s, rows, parts))
        now_s += duration_s
    return signals


def run(build: Build, signals: list[BatchSignal], state: AdmissionState | None = None) -> list[Action]:
    logic = build(state)
    actions = [] if state else logic.on_start()
    return actions + [action for signal in signals for action in logic.on_batch(signal)]


@pytest.mark.parametrize("name", CONTROLLERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_same_events_give_the_same_actions(name: str, data: st.DataObject) -> None:
    """A controller has no clock and no randomness of its own, and does not change what it is told."""
    build, sources = CONTROLLERS[name]
    signals = data.draw(histories(sources))
    before = copy.deepcopy(signals)
    first, second = run(build, signals), run(build, signals)
    assert first == second
    assert signals == before


@pytest.mark.parametrize("name", CONTROLLERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_snapshot_goes_on_like_the_original(name: str, data: st.DataObject) -> None:
    """Built from a snapshot taken anywhere, a controller decides what the original decides."""
    build, sources = CONTROLLERS[name]
    signals = data.draw(histories(sources))
    cut = data.draw(st.integers(0, len(signals)))
    original = build(None)
    original.on_start()
    for signal in signals[:cut]:
        original.on_batch(signal)
    copied = build(original.snapshot())
    for signal in signals[cut:]:
        assert copied.on_batch(signal) == original.on_batch(signal)
    assert copied.snapshot() == original.snapshot()


@pytest.mark.parametrize("name", CONTROLLERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_limit_is_within_its_bounds(name: str, data: st.DataObject) -> None:
    """Never less than one unit, never more than the source's own limit, never for a source that is left alone."""
    build, sources = CONTROLLERS[name]
    for action in run(build, data.draw(histories(sources))):
        if action.kind is ActionKind.READ_LIMIT:
            assert action.value is not None
            assert 1 <= action.value <= OWN_LIMIT_ROWS
            assert action.value == int(action.value)
            assert action.unit in {unit.value for unit in LimitUnit}
        assert action.reason
        assert action.cause


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_budget_never_outgrows_what_was_seen(data: st.DataObject) -> None:
    """No batch may be more than the growth factor times the largest one seen so far."""
    build, sources = CONTROLLERS["admission, one source"]
    logic = build(None)
    logic.on_start()
    largest = 0
    for signal in data.draw(histories(sources)):
        logic.on_batch(signal)
        largest = max(largest, signal.rows)
        if signal.batch_id > 0 and largest:
            assert logic.budget_rows <= max(4.0 * largest, 1000.0)
