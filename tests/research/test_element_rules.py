"""What rows of a simulated graph are worth: prices from who runs dry, who is waited for, whose row is next."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.control.allocation import allocate
from penstock.model.graph import Element, ElementGraph, Engine, InputStream
from penstock.research.aces import AcesExperiment, experiment_control, experiment_plant, plan_targets, simulate
from penstock.research.element_control import learn_prices
from penstock.research.element_policies import Policy
from penstock.research.element_rules import may_go_on, preference
from penstock.research.plant import Plant, State, new_state
from penstock.research.topology import TopologyShape

PARSE, DEAR, CHEAP = 0, 1, 2
EXPERIMENT = AcesExperiment(TopologyShape(), buffer_rows=10, duration_s=60.0, warm_up_s=20.0)
CONTROL = experiment_control(EXPERIMENT, Policy.ACES)
STEPS = 1000


@pytest.fixture(scope="module")
def plant() -> Plant:
    """One producer and readers worth 5 and 1 a row, each on an engine of its own."""
    graph = ElementGraph(
        (Engine("n0"), Engine("n1"), Engine("n2")),
        (InputStream("s", 100.0),),
        (
            Element("parse", "n0", ("s",), 275.0),
            Element("dear", "n1", ("parse",), 275.0, weight=5.0),
            Element("cheap", "n2", ("parse",), 275.0, weight=1.0),
        ),
    )
    return experiment_plant(graph, EXPERIMENT, plan_targets(allocate(graph)), Policy.ACES)


def state_of(plant: Plant, *rows: int) -> State:
    """A state with these buffers, and prices learned over many steps in which they stay so."""
    state = new_state(plant, CONTROL, 1, initial_rows=np.array(rows))
    for _ in range(STEPS):
        for engine in (2, 1, 0):
            learn_prices(plant, CONTROL, state, engine)
    return state


def test_a_row_is_worth_what_a_dry_element_makes_of_it(plant: Plant) -> None:
    """Whoever has no rows makes its weight of one more, and what is dry before it as much as all its readers."""
    assert state_of(plant, 0, 0, 0).price == pytest.approx([6.0, 5.0, 1.0], rel=0.01)
    assert state_of(plant, 0, 3, 0).price == pytest.approx([1.0, 0.0, 1.0], abs=0.01)
    assert state_of(plant, 3, 0, 0).price == pytest.approx([0.0, 5.0, 1.0], abs=0.01)


@pytest.mark.parametrize(
    ("owed", "waiting", "goes_on"),
    [(DEAR, 5, False), (CHEAP, 5, True), (CHEAP, 0, False)],
    ids=["a dear reader is waited for", "a cheap one is not", "but while there is nothing else to do"],
)
def test_who_is_waited_for(plant: Plant, owed: int, waiting: int, goes_on: bool) -> None:  # noqa: FBT001 - a parameter
    """An element goes on without a full reader when the other gains more, and when it has something to go on to."""
    state = state_of(plant, 0, 0, 0)
    state.rows[PARSE], state.held[PARSE] = waiting, 1
    state.rows[owed] = EXPERIMENT.buffer_rows
    state.is_owed[:] = plant.reader == owed
    assert may_go_on(plant, state, PARSE) is goes_on


def test_nobody_waits_for_a_reader_that_always_has_rows(plant: Plant) -> None:
    """A dear reader that never runs dry has no price, so that the cheap one that does is served on."""
    state = state_of(plant, 5, EXPERIMENT.buffer_rows, 0)
    state.held[PARSE] = 1
    state.is_owed[:] = plant.reader == DEAR
    assert may_go_on(plant, state, PARSE)


def test_cores_prefer_rows_by_worth_pressure_and_speed(plant: Plant) -> None:
    """A result's rows count by weight; a producer's by how far it is ahead of whom; a slow one's for a tenth."""
    state = state_of(plant, 4, 2, 2)
    value = [preference(plant, CONTROL, state, element) for element in (PARSE, DEAR, CHEAP)]
    assert value[DEAR] / value[CHEAP] == pytest.approx(5.0 * fast(plant, state, DEAR) / fast(plant, state, CHEAP))
    assert value[PARSE] == pytest.approx((5.0 * 3 + 1.0 * 3) * fast(plant, state, PARSE))
    state.rows[DEAR] = 5
    assert preference(plant, CONTROL, state, PARSE) == pytest.approx(1.0 * 3 * fast(plant, state, PARSE))
    state.row_cost_s[CHEAP] = plant.slow_s[CHEAP]
    assert preference(plant, CONTROL, state, CHEAP) == pytest.approx(1.0 * 3 * 0.1)


def fast(plant: Plant, state: State, element: int) -> float:
    """How fast its rows go at the moment, as a share of the fastest."""
    return float(plant.fast_s[element] / state.row_cost_s[element])


def test_a_fast_reader_is_not_held_up_by_a_slow_one(plant: Plant) -> None:
    """With a cheap reader twenty times as slow, the dear one has all that comes; under Lock-Step it has a part."""
    slow = plant._replace(
        fast_s=np.array([0.002, 0.002, 0.04]), slow_s=np.array([0.002, 0.002, 0.04])
    )  # fmt: skip
    done = {
        policy: simulate(slow, EXPERIMENT, policy, seed=1).put_out[DEAR] / 40.0
        for policy in (Policy.ACES, Policy.LOCK_STEP)
    }
    assert done[Policy.ACES] == pytest.approx(100.0, rel=0.05)
    assert done[Policy.LOCK_STEP] < 30.0
