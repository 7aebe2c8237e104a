"""Merges, engines and sources: parts of a graph where one limit is shared by several."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.allocation import allocate
from penstock.control.graph_flow import FlowReport, GraphFlow
from penstock.control.limits import SourceLimits
from penstock.control.min_flow import min_flow_rates
from penstock.control.tier_two import TierTwo
from penstock.model import Application, Goal, LimitUnit, QueryDeclaration, QueryName, QuerySpec, SourceSpec
from penstock.model.decision import ReadLimit
from penstock.model.graph import Element, ElementGraph, Engine, InputStream
from penstock.model.signal import BatchSignal, SourceSignal
from penstock.research.fluid import FluidGraph
from penstock.testing import SimulatedQuery, simulate

MERGE = ElementGraph(
    (Engine("n1"), Engine("n2"), Engine("n3")),
    (InputStream("a", 90.0), InputStream("b", 10.0)),
    (
        Element("left", "n1", ("a",), 200.0),
        Element("right", "n2", ("b",), 200.0),
        Element("both", "n3", ("left", "right"), 200.0, weight=1.0),
    ),
)


def test_a_merge_takes_all_that_uneven_feeders_bring() -> None:
    """Feeders of 90 and 10 rows/s with cores to spare: all of the 100 planned rows/s arrive, as fluid too."""
    found = allocate(MERGE)
    assert found.input_rows_per_s["both"] == pytest.approx(100.0)
    fluid = FluidGraph(
        MERGE, found.cores, buffer_rows=50.0, initial_rows=(0.0, 0.0, 0.0), initial_errors=(0.0, 0.0, 0.0)
    )
    verdicts = {verdict.element: verdict for verdict in fluid.run(3000)}
    assert verdicts["both"].processed_rows_per_s == pytest.approx(100.0, rel=0.01)


def test_uneven_feeders_leave_no_lag_where_cores_suffice() -> None:
    """A live merge of 90 and 10 rows/s keeps up: nothing but the batch to come waits before it."""
    declared = Application(
        {
            QueryName("left"): QueryDeclaration(Goal(), ("a",), ("merged",)),
            QueryName("right"): QueryDeclaration(Goal(), ("b",), ("merged",)),
            QueryName("both"): QueryDeclaration(Goal(minimum_accuracy=0.1), ("merged",)),
        }
    )
    rates = {"left": np.full(300, 900.0), "right": np.full(300, 100.0)}
    queries = {
        name: SimulatedQuery(
            rates.get(name, "merged"),
            cost_per_row_s=0.0006, overhead_s=0.1, trigger_interval_s=2.0, writes=("merged",) if name in rates else (),
        )
        for name in ("left", "right", "both")
    }  # fmt: skip
    run = simulate(declared, queries, cores=2.0).run_until(300.0)
    done = [batch.signal for batch in run.query("both").batches if batch.signal.started_s > 200.0]
    assert sum(signal.rows for signal in done) / 100.0 == pytest.approx(1000.0, rel=0.05)
    assert done[-1].lag_rows <= 2 * 1000.0 * 2.0


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(20.0, 500.0), st.floats(0.0, 5.0)), min_size=2, max_size=7),
    st.floats(10.0, 2000.0),
    st.tuples(st.floats(0.3, 3.0), st.floats(0.3, 3.0), st.floats(0.3, 3.0)),
)
def test_no_engine_is_promised_more_than_it_has(
    elements: list[tuple[int, float, float]], load: float, cores: tuple[float, float, float]
) -> None:
    """Whatever runs where, targets of tier one, new or kept, and of min-flow fit every engine, not only their sum."""

    def graph(scale: float) -> ElementGraph:
        return ElementGraph(
            tuple(Engine(f"n{place}", scale * each) for place, each in enumerate(cores)),
            (InputStream("s", load),),
            tuple(
                Element(f"p{place}", f"n{engine}", ("s",) if place == 0 else (f"p{place // 2}",), rate, 0.001 * idle,
                        weight=1.0)
                for place, (engine, rate, idle) in enumerate(elements)
            ),
        )  # fmt: skip

    first = allocate(graph(1.0))
    again = allocate(graph(0.9), before=first)
    for each, targets in ((graph(1.0), first.cores), (graph(0.9), again.cores)):
        assert_fits(each, targets)
    together = min_flow_rates(graph(1.0))
    needed = {
        element.name: (together[element.name] + element.idle_rows_per_s) / element.rows_per_core_s
        for element in graph(1.0).elements
        if together[element.name] > 0
    }
    assert_fits(graph(1.0), needed)


def assert_fits(graph: ElementGraph, cores: dict[str, float]) -> None:
    """No engine's elements need more cores than it has."""
    for engine in graph.engines:
        promised = sum(cores.get(each.name, 0.0) for each in graph.elements if each.engine == engine.name)
        assert promised <= engine.cores * (1.0 + 1e-6)


def test_two_engines_keep_their_own_cores() -> None:
    """A full engine beside an empty one: 2 cores in all, and neither is promised more than its one."""
    graph = ElementGraph(
        (Engine("east"), Engine("west")),
        (InputStream("s", 1000.0),),
        (Element("parse", "east", ("s",), 100.0), Element("count", "west", ("parse",), 400.0, weight=1.0)),
    )
    found = allocate(graph)
    assert found.cores["parse"] == pytest.approx(1.0)
    assert found.cores["count"] == pytest.approx(0.25)


def test_two_sources_share_one_limit() -> None:
    """A query of two topics may read so many rows in all: its sources get parts of the limit, by what waits there."""
    name = QueryName("both")
    sources = tuple(SourceSpec(place, f"topic {place}", LimitUnit.ROWS) for place in range(2))
    limits = SourceLimits(QuerySpec(name, sources, 1.0), 0.0, enforced=True)
    for number in range(3):
        read = tuple(SourceSignal(place, rows, float(rows), 10.0 * rows) for place, rows in enumerate((90, 10)))
        signal = BatchSignal(name, number, float(number), 1.0, 100, read)
        limits.learn(signal)
    decisions = limits.divide(signal, 500.0, target_s=1.0, reason="", expected={})
    units = [decision.units for decision in decisions if isinstance(decision, ReadLimit)]
    assert sum(units) == pytest.approx(500, abs=2)
    assert units[0] == pytest.approx(450, abs=15)


def test_what_comes_from_outside_is_not_the_feeders() -> None:
    """A reader of 300 rows/s with 200 of its own from outside leaves its feeder the other 100, not all."""
    graph = ElementGraph(
        (Engine("east"),),
        (InputStream("a", 300.0), InputStream("b", 200.0)),
        (Element("left", "east", ("a",), 900.0), Element("both", "east", ("left", "b"), 900.0, weight=1.0)),
    )
    flow = GraphFlow(graph, {"left": 300.0, "both": 300.0}, batch_s=1.0)
    flow.on_batch(FlowReport("both", 1.0, 300.0, 1.0))
    assert flow.limit_rows("left", period_s=1.0, now_s=1.0) == 100


def test_live_and_fluid_have_one_tier_two() -> None:
    """The same reports allow the same output, whoever asks."""
    targets = {"left": 90.0, "right": 10.0, "both": 100.0}
    two = TierTwo(MERGE, targets, stale_after_s=10.0)
    two.report("both", rate_rows_per_s=80.0, buffer_rows=60.0, target_rows=80.0, step_s=1.0, now_s=1.0)
    flow = GraphFlow(MERGE, targets, batch_s=1.0, state=two.snapshot())
    for name in ("left", "right"):
        allowed = two.allowed(name, now_s=1.0)
        assert allowed is not None
        assert flow.rate_rows_per_s(name, now_s=1.0) == pytest.approx(min(targets[name], allowed))


@pytest.mark.parametrize("selectivity", [0.2, 1.0, 3.0])
def test_selectivity_is_what_the_sink_wrote(selectivity: float) -> None:
    """Of two writers of one stream one puts out something else than it reads: it alone is planned with that."""
    declared = Application(
        {
            QueryName("left"): QueryDeclaration(Goal(), ("a",), ("merged",)),
            QueryName("right"): QueryDeclaration(Goal(), ("b",), ("merged",)),
            QueryName("both"): QueryDeclaration(Goal(minimum_accuracy=0.1), ("merged", "other")),
        }
    )
    queries = {
        name: SimulatedQuery(
            (lambda _: 500.0) if name != "both" else "merged",
            cost_per_row_s=0.0003, overhead_s=0.1, trigger_interval_s=2.0, writes=("merged",) if name != "both" else (),
            rows_out_per_row=selectivity if name == "left" else 1.0,
        )
        for name in ("left", "right", "both")
    }  # fmt: skip
    run = simulate(declared, queries, cores=2.0).run_until(60.0)
    assert run.logic._graph is not None
    learned = run.logic._graph.snapshot().selectivities
    assert learned[QueryName("left")] == pytest.approx(selectivity, rel=0.02)
    assert learned[QueryName("right")] == pytest.approx(1.0, rel=0.02)
