"""Tier two settles from any start, or says who is starved and why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.allocation import allocate
from penstock.control.min_flow import min_flow_rates
from penstock.control.utility import Utility, UtilityKind
from penstock.model.graph import Element, ElementGraph, Engine, InputStream
from penstock.research.aces import AcesExperiment, StateClock, experiment_plant, plan_targets, simulate
from penstock.research.element_policies import Policy
from penstock.research.fluid import FluidGraph, Verdict
from penstock.research.topology import TopologyShape

BUFFER_ROWS = 50.0
STEPS = 3000


@st.composite
def graphs(draw: st.DrawFn) -> ElementGraph:
    """A few elements, each reading the stream or one before it, on a few engines."""
    count = draw(st.integers(2, 7))
    engines = tuple(Engine(f"n{index}") for index in range(draw(st.integers(1, 3))))
    elements = []
    for index in range(count):
        source = "s" if index == 0 else f"p{draw(st.integers(0, index - 1))}"
        engine = draw(st.sampled_from(engines)).name
        elements.append(Element(f"p{index}", engine, (source,), draw(st.floats(50.0, 400.0)), weight=1.0))
    return ElementGraph(engines, (InputStream("s", draw(st.floats(20.0, 400.0))),), tuple(elements))


@settings(max_examples=20, deadline=None)
@given(graphs(), st.data())
def test_every_buffer_settles_or_is_explained(graph: ElementGraph, data: st.DataObject) -> None:
    """From random buffers and rate errors every buffer ends within 5 % of its target, or the record has the cause.

    A starved element asks for more than its inputs bring, while they bring all that they have; an overrun one has a
    sibling that asks for more than itself, which max-flow follows.
    """
    count = len(graph.elements)
    start = data.draw(st.lists(st.floats(0.0, BUFFER_ROWS), min_size=count, max_size=count))
    errors = data.draw(st.lists(st.floats(-50.0, 50.0), min_size=count, max_size=count))
    found = allocate(graph, Utility(UtilityKind.LOG))
    fluid = FluidGraph(graph, found.cores, buffer_rows=BUFFER_ROWS, initial_rows=start, initial_errors=errors)
    verdicts = fluid.run(STEPS)
    for index, verdict in enumerate(verdicts):
        if verdict.outcome == "starved":
            check_starved(graph, verdicts, index)
        elif verdict.outcome == "overrun":
            check_overrun(graph, verdicts, index)
        else:
            assert verdict.outcome == "settled", verdict.reason


def check_starved(graph: ElementGraph, verdicts: list[Verdict], index: int) -> None:
    """It asked for more than came, and whoever feeds it gave all: its rows or, an element, its CPU.

    One that reads a stream may also be at the end of its own cores: what it asks for moves around what it can do, and
    the stream cannot bring more than it has where that is more.
    """
    own = verdicts[index]
    assert own.brought_rows_per_s < own.asked_rows_per_s, own.reason
    assert own.reason.startswith(f"{own.element} is starved: {graph.elements[index].reads[0]} bring")
    assert own.processed_rows_per_s == pytest.approx(own.brought_rows_per_s, rel=0.02, abs=0.1)
    if graph.stream_rows_per_s[index]:
        stream_rows_per_s = pytest.approx(sum(graph.stream_rows_per_s[index]), rel=0.01)
        assert own.brought_rows_per_s == stream_rows_per_s or own.processed_rows_per_s >= 0.98 * own.able_rows_per_s
        return
    [feeder] = [verdicts[place] for place in graph.feeders[index]]
    assert own.brought_rows_per_s == pytest.approx(feeder.processed_rows_per_s, rel=0.01, abs=0.1)
    has_no_more_cpu = feeder.processed_rows_per_s >= 0.98 * feeder.able_rows_per_s
    assert has_no_more_cpu or feeder.outcome == "starved", (own.reason, feeder.reason)


def check_overrun(graph: ElementGraph, verdicts: list[Verdict], index: int) -> None:
    """More came than it asked for, and a sibling asked for more than it did."""
    own = verdicts[index]
    assert own.brought_rows_per_s > own.asked_rows_per_s, own.reason
    siblings = {reader for feeder in graph.feeders[index] for reader in graph.readers[feeder]} - {index}
    assert any(verdicts[place].asked_rows_per_s > own.asked_rows_per_s for place in siblings), own.reason
    assert "following the faster" in own.reason


def test_chain_settles_at_its_bottleneck() -> None:
    """The bottleneck and all before it settle at half a buffer; what comes after is starved, and is told so."""
    elements = tuple(
        Element(f"p{index}", f"n{index}", ("s",) if index == 0 else (f"p{index - 1}",), rate, weight=1.0 + index)
        for index, rate in enumerate((200.0, 80.0, 300.0))
    )
    graph = ElementGraph(tuple(Engine(f"n{index}") for index in range(3)), (InputStream("s", 150.0),), elements)
    cores = {"p0": 0.4, "p1": 1.0, "p2": 0.27}
    fluid = FluidGraph(
        graph, cores, buffer_rows=50.0, initial_rows=(50.0, 0.0, 50.0), initial_errors=(20.0, -20.0, 0.0)
    )
    verdicts = fluid.run(STEPS)
    assert [verdict.outcome for verdict in verdicts] == ["settled", "settled", "starved"]
    assert verdicts[2].reason.startswith("p2 is starved: p1 bring 80 rows/s, and it asks for ")
    assert verdicts[2].asked_rows_per_s > 80.0


def test_cores_just_short_of_a_stream_leave_the_buffer_just_short_of_its_target() -> None:
    """What is asked for moves around 32.3 rows/s, of which the stream has 33 at the most: that takes 2 of 25 rows."""
    elements = (Element("p0", "n0", ("s",), 50.0, weight=1.0), Element("p1", "n0", ("p0",), 91.0, weight=1.0))
    graph = ElementGraph((Engine("n0"),), (InputStream("s", 33.0),), elements)
    cores = allocate(graph, Utility(UtilityKind.LOG)).cores
    fluid = FluidGraph(graph, cores, buffer_rows=50.0, initial_rows=(0.0, 27.0), initial_errors=(0.0, 0.0))
    first, second = fluid.run(STEPS)
    assert first.processed_rows_per_s == pytest.approx(first.able_rows_per_s) == pytest.approx(50.0 * cores["p0"])
    assert first.buffer_rows == pytest.approx(23.4, abs=0.1)
    assert first.asked_rows_per_s > 33.0
    assert second.outcome == "settled"


@settings(max_examples=15, deadline=None)
@given(graphs(), st.data(), st.sampled_from([Policy.ACES, Policy.ACES_AS_PUBLISHED]))
def test_what_fits_is_carried_from_any_start(graph: ElementGraph, data: st.DataObject, policy: Policy) -> None:
    """Row by row, by the rules that run: from any buffers, a load of 0.8 of what all can take together gets through.

    This is what stability means for a network of queues: nobody's buffer stays full while the cores suffice, so next to
    nothing is refused or lost once the start is worked off.
    """
    rows_per_s = 0.8 * min_flow_rates(graph)["p0"]
    fitting = ElementGraph(graph.engines, (InputStream("s", rows_per_s),), graph.elements)
    initial = data.draw(st.lists(st.integers(0, 50), min_size=len(graph.elements), max_size=len(graph.elements)))
    experiment = AcesExperiment(TopologyShape(), clock=StateClock.CPU, duration_s=60.0, warm_up_s=20.0)
    targets = plan_targets(allocate(fitting, Utility(UtilityKind.LOG)))
    row_s = np.array([1.0 / element.rows_per_core_s for element in graph.elements])
    plant = experiment_plant(fitting, experiment, targets, policy)._replace(fast_s=row_s, slow_s=row_s)
    tally = simulate(plant, experiment, policy, seed=1, initial_rows=np.array(initial))
    offered = rows_per_s * (experiment.duration_s - experiment.warm_up_s)
    assert tally.refused.sum() <= 0.02 * offered
    assert tally.lost.sum() <= 0.02 * tally.processed.sum()
