"""What holds of every plan of a fleet, whatever its graph, engines and load."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fleet_cases import fleet_loads
from penstock.control.fleet.assignment import find_assignment
from penstock.control.fleet.cpu import by_engine
from penstock.control.fleet.drops import keep_ratios
from penstock.control.fleet.plan import FleetLoad, share_out
from penstock.control.fleet.relief import relieve
from penstock.control.fleet.worth import AllowedMoves, MoveCosts, worthwhile_moves

ROUNDING = 1e-6
DRAWN_IN_VAIN = (HealthCheck.filter_too_much, HealthCheck.too_slow)
"""Most fleets that are drawn have enough of everything, or too little: those that a claim is about are among them."""
many = settings(max_examples=150, deadline=None, suppress_health_check=DRAWN_IN_VAIN)
every_way = pytest.mark.parametrize("share_by", ["accuracy", "cpu"])


def _used(load: FleetLoad, accuracy: np.ndarray) -> np.ndarray:
    """Cores of each engine at these accuracies of the sinks."""
    of_task = np.maximum(load.shape.of_sinks(accuracy), load.floor)
    return by_engine(load.cores * of_task[load.shape.task_of], load.engine_of, load.available.size)


@every_way
@many
@given(load=fleet_loads(with_backlog=True, with_floor=True))
def test_no_more_cpu_is_given_out_than_there_is(share_by: str, load: FleetLoad) -> None:
    """The cores granted on an engine are never more than it has, whatever is asked for and whatever waits."""
    granted = share_out(load, share_by).granted_cores
    assert (by_engine(granted, load.engine_of, load.available.size) <= load.available + ROUNDING).all()


@every_way
@many
@given(load=fleet_loads(with_backlog=True, with_floor=True))
def test_minima_are_held_where_they_fit(share_by: str, load: FleetLoad) -> None:
    """Where the minima of all engines fit, no sink is below its minimum, and none above one."""
    assume((load.short_cores <= 0).all())
    accuracy = share_out(load, share_by).accuracy
    assert (accuracy >= load.minimum - ROUNDING).all()
    assert (accuracy <= 1.0 + ROUNDING).all()


@every_way
@many
@given(load=fleet_loads())
def test_nobody_is_below_what_lower_priorities_could_give(share_by: str, load: FleetLoad) -> None:
    """A sink that does not get all could get no more even if all of lower priority were at their minimum."""
    assume((load.short_cores <= 0).all())
    accuracy = share_out(load, share_by).accuracy
    for sink in np.flatnonzero(accuracy < 0.97):
        wished = np.where(load.priority < load.priority[sink], load.minimum, accuracy)
        wished[sink] = accuracy[sink] + 0.02
        more = _used(load, wished) - _used(load, np.where(wished == accuracy, accuracy, np.minimum(wished, accuracy)))
        full = _used(load, wished) > load.available - 1e-3
        assert (full & (more > 1e-7)).any(), f"sink {sink} could have had more"


@many
@given(load=fleet_loads(), high=st.integers(2, 3))
def test_more_load_of_low_priority_takes_nothing_from_a_high_one(load: FleetLoad, high: int) -> None:
    """Sinks of the highest priority get the same whether lower ones ask for more than their minimum or not."""
    assume((load.short_cores <= 0).all())
    quiet = replace(load, locked=load.priority < high)
    top = load.priority >= high
    assert share_out(load).accuracy[top] == pytest.approx(share_out(quiet).accuracy[top], abs=1e-3)


@many
@given(load=fleet_loads())
def test_who_is_locked_stays_at_its_minimum(load: FleetLoad) -> None:
    """While an engine warms up, sinks that pass through it get their minimum and no more."""
    assume((load.short_cores <= 0).all())
    locked = np.arange(load.minimum.size) % 2 == 0
    assert share_out(replace(load, locked=locked)).accuracy[locked] == pytest.approx(load.minimum[locked])


@many
@given(load=fleet_loads())
def test_keep_ratios_multiply_to_the_accuracy_along_every_path(load: FleetLoad) -> None:
    """What is left behind the guards of a path is what its end was given, unless another path asks for more."""
    shape = load.shape
    desired = shape.of_sinks(share_out(load).accuracy)
    ratio = keep_ratios(shape, desired)
    assert ((ratio >= 0) & (ratio <= 1)).all()
    inside = shape.input_writer >= 0
    before = np.where(inside, desired[np.where(inside, shape.input_writer, 0)], 1.0)
    after = desired[shape.task_of[shape.input_instance]]
    assert before * ratio == pytest.approx(np.where(before > 0, after, 0.0), abs=1e-9)


def _fits_somewhere(load: FleetLoad) -> bool:
    least, engines = load.least_cores, load.available.size
    return any(
        (by_engine(least, np.array(places), engines) <= load.available + 1e-9).all()
        for places in product(range(engines), repeat=least.size)
    )


def _relieved(load: FleetLoad, moves: dict[int, int]) -> FleetLoad:
    engine_of = load.engine_of.copy()
    for instance, engine in moves.items():
        engine_of[instance] = engine
    return replace(load, engine_of=engine_of)


@settings(max_examples=200, deadline=None, suppress_health_check=DRAWN_IN_VAIN)
@given(load=fleet_loads(most_tasks=3, most_cores=1.5))
def test_minima_are_held_while_any_assignment_allows_it(load: FleetLoad) -> None:
    """Where minima do not fit on an engine and some assignment holds them all, the moves lead to such a one."""
    assume((load.short_cores > ROUNDING).any())
    names = [f"query{place}" for place in range(load.engine_of.size)]
    engines = [f"engine{place}" for place in range(load.available.size)]
    everybody = np.ones(load.engine_of.size, dtype=bool)
    moves = relieve(
        load, names, engines, everybody, np.full(load.engine_of.size, -1), np.ones(len(engines), dtype=bool)
    )
    after = _relieved(load, moves)
    was_fine = load.short_cores <= ROUNDING
    assert (after.short_cores[was_fine] <= ROUNDING).all(), "a move must not make another engine short"
    if _fits_somewhere(load):
        assert (after.short_cores <= ROUNDING).all()


@many
@given(load=fleet_loads(), barred=st.integers(0, 2), fixed=st.integers(0, 3))
def test_nobody_goes_back_and_nobody_busy_moves(load: FleetLoad, barred: int, fixed: int) -> None:
    """An instance that moves or warms up stays, and none goes to the engine that it left."""
    engines = load.available.size
    movable = np.arange(load.engine_of.size) % 4 != fixed
    left = np.full(load.engine_of.size, barred if barred < engines else -1)
    names = [f"query{place}" for place in range(movable.size)]
    every = np.ones(engines, dtype=bool)
    moves = relieve(load, names, [f"engine{place}" for place in range(engines)], movable, left, every)
    costs = MoveCosts(downtime_s=1.0, warm_up_s=1.0, payback_s=300.0)
    chosen = worthwhile_moves(load, share_out(load), costs, AllowedMoves(movable, left, every, every))
    pairs = [*moves.items(), *((move.instance, move.engine) for move in chosen)]
    assert all(movable[instance] and left[instance] != engine for instance, engine in pairs)


@many
@given(load=fleet_loads())
def test_a_worthwhile_move_brings_what_it_was_chosen_for(load: FleetLoad) -> None:
    """After the moves the highest priority that notices has more, and with those below more than the moves cost."""
    assume((load.short_cores <= 0).all())
    every, nobody = np.ones(load.available.size, dtype=bool), np.full(load.engine_of.size, -1)
    shares = share_out(load)
    costs = MoveCosts(downtime_s=5.0, warm_up_s=5.0, payback_s=300.0)
    everybody = np.ones(load.engine_of.size, dtype=bool)
    priority = load.task_priority[load.shape.task_of]
    moves = worthwhile_moves(load, shares, costs, AllowedMoves(everybody, nobody, every, every))
    if not moves:
        return
    after = share_out(_relieved(load, {move.instance: move.engine for move in moves}))
    grew = np.bincount(priority, weights=after.granted_cores - shares.granted_cores)
    decides = grew[np.abs(grew) > 1e-3][-1]
    assert decides > 0, "the highest priority that notices must gain"
    cost_cores = sum(move.cost_core_s for move in moves) / costs.gaining_s
    assert np.cumsum(grew[::-1]).max() >= cost_cores - ROUNDING, "it and those next below must gain what it costs"


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.floats(0.05, 1.0), min_size=1, max_size=6),
    rooms=st.lists(st.floats(0.2, 2.0), min_size=1, max_size=3),
)
def test_an_assignment_is_found_exactly_where_there_is_one(sizes: list[float], rooms: list[float]) -> None:
    """For few instances the search finds an assignment where there is one, and none where there is none."""
    least, available = np.array(sizes), np.array(rooms)
    start = np.zeros(least.size, dtype=np.intp)
    anywhere = np.ones((least.size, available.size), dtype=bool)
    found = find_assignment(least, start, np.ones(least.size, dtype=bool), anywhere, available)
    exists = any(
        (by_engine(least, np.array(places), available.size) <= available + 1e-9).all()
        for places in product(range(available.size), repeat=least.size)
    )
    assert (found is not None) == exists
    if found is not None:
        assert (by_engine(least, found, available.size) <= available + 1e-6).all()
