"""Queries that share an engine: who gives way, and when nobody has to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.engine import EngineCoordinator
from penstock.control.priority import KeepBounds
from penstock.model import Goal, QueryName

LOW, HIGH = QueryName("low"), QueryName("high")


def goal(priority: int, minimum_accuracy: float = 0.2) -> Goal:
    return Goal(latency=5.0, priority=priority, minimum_accuracy=minimum_accuracy)


def observe(engine: EngineCoordinator, query: QueryName, wanted: Goal, cores: float, *, now_s: float = 0.0) -> None:
    """A query whose arrivals would keep so many cores busy."""
    for kept in (1000, 100, 500, 800, 300):
        engine.observe_batch(
            query, wanted, now_s, 1000.0, batch_s=2.0, read_rows=1000, kept_rows=kept, core_s=cores * kept / 1000
        )


def test_a_query_alone_decides_for_itself() -> None:
    """However much one query asks for, there is nobody to give way to."""
    engine = EngineCoordinator(cores=2.0)
    observe(engine, LOW, goal(1), 9.0)
    assert engine.bounds(LOW, 0.0) == KeepBounds()


def test_what_fits_needs_no_bounds() -> None:
    """Two queries that fit together may keep everything."""
    engine = EngineCoordinator(cores=2.0)
    observe(engine, LOW, goal(1), 0.8)
    observe(engine, HIGH, goal(5), 0.8)
    assert engine.bounds(LOW, 0.0).high == engine.bounds(HIGH, 0.0).high == 1.0


def test_the_low_one_gives_way_and_the_high_one_need_not_drop() -> None:
    """Three cores' worth on two: the low one gives a core, and the high one's own fear of too much is held off."""
    engine = EngineCoordinator(cores=2.0)
    observe(engine, LOW, goal(1), 1.5)
    observe(engine, HIGH, goal(5), 1.5)
    assert engine.bounds(LOW, 0.0).high == pytest.approx(1.05 / 3, rel=0.1)
    assert engine.bounds(HIGH, 0.0).hold(0.5) == 1.0


def test_the_high_one_drops_when_the_low_one_has_no_more_to_give() -> None:
    """With the low one at its minimum, the high one is free to go as low as it must, and not above what is left."""
    engine = EngineCoordinator(cores=2.0)
    observe(engine, LOW, goal(1), 1.0)
    observe(engine, HIGH, goal(5), 4.0)
    assert engine.bounds(LOW, 0.0).high == pytest.approx(0.21, rel=0.01)
    assert engine.bounds(HIGH, 0.0).low == 0.0
    assert engine.bounds(HIGH, 0.0).high == pytest.approx(1.05 * 1.8 / 4, rel=0.01)


def test_equal_priorities_share() -> None:
    """Two alike keep the same."""
    engine = EngineCoordinator(cores=2.0)
    observe(engine, LOW, goal(3), 2.0)
    observe(engine, HIGH, goal(3), 2.0)
    assert engine.bounds(LOW, 0.0) == engine.bounds(HIGH, 0.0)
    assert engine.bounds(LOW, 0.0).high == pytest.approx(0.525, rel=0.01)


def test_a_query_without_a_report_asks_for_nothing() -> None:
    """One that has ended, or is silent for a minute, leaves its cores to the others."""
    engine = EngineCoordinator(cores=2.0)
    observe(engine, LOW, goal(1), 1.5, now_s=100.0)
    observe(engine, HIGH, goal(5), 1.5, now_s=0.0)
    assert engine.bounds(LOW, 100.0) == KeepBounds()
    observe(engine, HIGH, goal(5), 1.5, now_s=100.0)
    assert engine.bounds(LOW, 100.0).high < 0.5
    engine.forget(HIGH)
    assert engine.bounds(LOW, 100.0) == KeepBounds()


def test_a_snapshot_goes_on_like_the_original() -> None:
    """Costs and loads are all there is."""
    engine = EngineCoordinator(cores=2.0)
    observe(engine, LOW, goal(1), 1.5)
    observe(engine, HIGH, goal(5), 1.5)
    assert EngineCoordinator(2.0, engine.snapshot()).bounds(LOW, 0.0) == engine.bounds(LOW, 0.0)


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0.01, 8), st.floats(0, 1)), min_size=2, max_size=6))
def test_no_bound_breaks_a_minimum(queries: list[tuple[int, float, float]]) -> None:
    """Whoever else is there, a query may always keep its minimum accuracy."""
    engine = EngineCoordinator(cores=2.0)
    for number, (priority, cores, minimum) in enumerate(queries):
        observe(engine, QueryName(str(number)), goal(priority, minimum), cores)
    for number, (_, _, minimum) in enumerate(queries):
        bounds = engine.bounds(QueryName(str(number)), 0.0)
        assert 0.0 <= bounds.low <= bounds.high <= 1.0
        assert bounds.high >= minimum - 1e-9


def test_dropping_rows_does_not_make_the_rest_look_dearer() -> None:
    """A query that keeps one row in twenty asks for as much of the engine as it did when it kept them all."""
    engine = EngineCoordinator(cores=2.0)
    for name, wanted in ((LOW, goal(1)), (HIGH, goal(5))):
        # Batches of two sizes: what every batch costs and what reading does are told apart by nothing else.
        for read, kept in ((1000, 1000), (2000, 800), (1000, 500), (2000, 200), *[(1000, 50), (2000, 100)] * 2):
            core_s = 0.2 + 0.0001 * read + 0.0012 * kept
            engine.observe_batch(name, wanted, 0.0, 1000.0, batch_s=2.0, read_rows=read, kept_rows=kept, core_s=core_s)
    # 2.8 cores asked for and two there: the low one gives 0.8 of its 1.2 cores' worth of rows.
    assert engine.bounds(LOW, 0.0).high == pytest.approx(1.05 * 0.4 / 1.2, rel=0.15)
    assert engine.bounds(HIGH, 0.0).high == 1.0


@pytest.mark.parametrize(
    ("first_batch", "held"),
    [
        ({"duration_s": 5.0}, True),  # longer than its goal allows
        ({"lag_rows": 5_000.0}, True),  # more is left waiting than comes during a batch
        ({"duration_s": 0.5, "lag_rows": 0.0}, False),
    ],
)
def test_lower_ones_are_at_their_minimum_while_a_new_one_above_them_has_trouble(
    first_batch: dict[str, float], *, held: bool
) -> None:
    """Until its cost is known nobody can say what it needs; a first batch that is late or falls behind says it does."""
    engine = EngineCoordinator(cores=2.0)
    observe(engine, LOW, goal(1), 1.0)
    first = {"batch_s": 2.0, "read_rows": 1000, "kept_rows": 1000, "core_s": 1.0}
    engine.observe_batch(HIGH, goal(5), 0.0, 1000.0, **first, **first_batch)
    assert engine.bounds(LOW, 0.0) == (KeepBounds(high=0.2) if held else KeepBounds())
    assert engine.bounds(HIGH, 0.0) == KeepBounds(), "and it is free itself"
    engine.observe_batch(QueryName("equal"), goal(5), 0.0, 1000.0, **first)
    assert engine.bounds(QueryName("equal"), 0.0) == KeepBounds(), "equals share"
    observe(engine, HIGH, goal(5), 0.5)
    observe(engine, QueryName("equal"), goal(5), 0.1)
    assert engine.bounds(LOW, 0.0).high > 0.2, "its cost is known, and both fit"
