"""Tier one: the best targets, what they are worth, and what to relax when nothing fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.control.allocation import Allocation, allocate
from penstock.control.utility import Utility, UtilityKind
from penstock.errors import InfeasibleError
from penstock.model.graph import Element, ElementGraph, Engine, Inputs, InputStream
from penstock.research.topology import TopologyShape, draw_topology

LOG = Utility(UtilityKind.LOG)
EXPONENTIAL = Utility(UtilityKind.EXPONENTIAL, 50.0)


def two_on_one(first: Element, second: Element, *, cores: float = 1.0) -> ElementGraph:
    streams = (InputStream("s", 80.0), InputStream("t", 80.0))
    return ElementGraph((Engine("e", cores),), streams, (first, second))


A = Element("a", "e", ("s",), 100.0, weight=1.0)
B = Element("b", "e", ("t",), 100.0, weight=3.0)


def assert_feasible(graph: ElementGraph, found: Allocation) -> None:
    for engine in graph.engines:
        used = sum(found.cores[element.name] for element in graph.elements if element.engine == engine.name)
        assert used <= engine.cores * (1 + 1e-6)
    for index, element in enumerate(graph.elements):
        brought = [found.output_rows_per_s[graph.elements[feeder].name] for feeder in graph.feeders[index]]
        brought += graph.stream_rows_per_s[index]
        limit = min(brought) if element.inputs is Inputs.JOIN else sum(brought)
        assert found.input_rows_per_s[element.name] <= limit * (1 + 1e-6) + 1e-6


@pytest.mark.parametrize("utility", [Utility(), LOG, EXPONENTIAL], ids=lambda utility: utility.kind)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_allocation_is_feasible_and_near_its_bound(utility: Utility, seed: int) -> None:
    """Targets hold every constraint, and no allocation is worth more than the bound that comes with them."""
    graph = draw_topology(TopologyShape(elements=60, engines=10), seed=seed)
    found = allocate(graph, utility)
    assert_feasible(graph, found)
    assert found.utility_bound is not None
    assert found.utility <= found.utility_bound * (1 + 1e-6)
    assert found.utility == pytest.approx(found.utility_bound, rel=1e-4)


def test_both_solvers_agree() -> None:
    """With linear utility HiGHS and cvxpy find the same optimum."""
    graph = draw_topology(TopologyShape(), seed=4)
    by_lp, by_cvxpy = allocate(graph), allocate(graph, use_cvxpy=True)
    assert by_cvxpy.weighted_rows_per_s == pytest.approx(by_lp.weighted_rows_per_s, rel=1e-5)
    assert_feasible(graph, by_cvxpy)


@pytest.mark.parametrize("utility", [Utility(), LOG, EXPONENTIAL], ids=lambda utility: utility.kind)
def test_the_papers_size_is_allocated_to_its_optimum(utility: Utility) -> None:
    """200 elements on 80 engines get what the bound of the dual says that they can get."""
    graph = draw_topology(TopologyShape(), seed=5)
    found = allocate(graph, utility)
    assert_feasible(graph, found)
    assert found.utility == pytest.approx(found.utility_bound, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("utility", [Utility(), LOG, EXPONENTIAL], ids=lambda utility: utility.kind)
def test_extreme_scale_is_allocated_to_its_optimum(utility: Utility) -> None:
    """5,000 elements on 1,000 engines get what the bound of the dual says that they can get."""
    graph = draw_topology(TopologyShape(elements=5000, engines=1000), seed=6)
    found = allocate(graph, utility)
    assert found.utility == pytest.approx(found.utility_bound, rel=1e-3)


def test_linear_utility_follows_weights() -> None:
    """The heavier output takes what it can use, the other one the rest."""
    found = allocate(two_on_one(A, B))
    assert found.input_rows_per_s == pytest.approx({"a": 20.0, "b": 80.0})


def test_overhead_is_paid_once_running() -> None:
    """An element pays ``b / a`` cores before its first row; one that gets no rows is switched off and pays nothing."""
    dear = replace(A, idle_rows_per_s=30.0)
    found = allocate(two_on_one(dear, replace(B, rows_per_core_s=80.0)))
    assert found.off == ("a",)
    assert found.cores == pytest.approx({"a": 0.0, "b": 1.0})


def test_minimum_accuracy_is_kept() -> None:
    """A minimum holds against a heavier neighbour."""
    found = allocate(two_on_one(replace(A, minimum_accuracy=0.5), B))
    assert found.input_rows_per_s == pytest.approx({"a": 40.0, "b": 60.0})


@pytest.mark.parametrize("utility", [Utility(), LOG], ids=lambda utility: utility.kind)
def test_priority_comes_before_weight(utility: Utility) -> None:
    """What has priority is served in full before anything lower, however heavy."""
    found = allocate(two_on_one(replace(A, priority=9), B), utility)
    assert found.input_rows_per_s == pytest.approx({"a": 80.0, "b": 20.0}, rel=1e-3)
    assert found.utility_bound is None


def test_several_cores() -> None:
    """An engine of two cores carries both, and an element that cannot use more than one is held to it."""
    found = allocate(two_on_one(A, replace(B, rows_per_core_s=50.0, max_cores=1.0), cores=2.0))
    assert found.input_rows_per_s == pytest.approx({"a": 80.0, "b": 50.0})


@pytest.mark.parametrize("utility", [Utility(), LOG], ids=lambda utility: utility.kind)
def test_infeasible_says_what_to_relax(utility: Utility) -> None:
    """Minima that do not fit are answered with the minimum to lower and the cores that would do."""
    graph = two_on_one(replace(A, minimum_accuracy=0.9), replace(B, minimum_accuracy=0.9))
    with pytest.raises(InfeasibleError) as caught:
        allocate(graph, utility)
    lower, grow = caught.value.remedies
    assert "lower the minimum accuracy of" in lower
    assert "engine 'e' 0.44 cores more" in grow


def test_overhead_beyond_the_engine_is_named() -> None:
    """Elements whose overhead alone fills their engine are refused by the engine's name."""
    graph = two_on_one(replace(A, idle_rows_per_s=60.0), replace(B, idle_rows_per_s=60.0))
    with pytest.raises(InfeasibleError, match=r"engine 'e' need 1\.2 cores before"):
        allocate(graph)


@pytest.mark.parametrize("utility", [Utility(), LOG], ids=lambda utility: utility.kind)
def test_warm_start_keeps_what_still_serves(utility: Utility) -> None:
    """The allocation before is kept while it is within one in a thousand of the best, and replaced after."""
    graph = draw_topology(TopologyShape(elements=60, engines=10), seed=2)
    before = allocate(graph, utility)
    nudged = replace(
        graph, streams=tuple(replace(each, rate_rows_per_s=1.0001 * each.rate_rows_per_s) for each in graph.streams)
    )
    assert allocate(nudged, utility, before=before).was_kept
    halved = replace(graph, engines=(replace(graph.engines[0], cores=0.2), *graph.engines[1:]))
    anew = allocate(halved, utility, before=before)
    assert not anew.was_kept
    assert_feasible(halved, anew)


def test_printed_equation_5_holds_a_merge_to_its_slowest_input() -> None:
    """As printed, Eq. 5 is a join: an element that merges a fast and a slow stream would be held to the slow one."""
    streams = (InputStream("fast", 90.0), InputStream("slow", 5.0))
    merged = Element("merged", "e", ("fast", "slow"), 100.0, weight=1.0)
    graph = ElementGraph((Engine("e"),), streams, (merged,))
    printed = replace(graph, elements=(replace(merged, inputs=Inputs.JOIN),))
    assert allocate(graph).input_rows_per_s["merged"] == pytest.approx(95.0)
    assert allocate(printed).input_rows_per_s["merged"] == pytest.approx(5.0)
