"""What must hold of every allocation, whatever the utility and the graph."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.allocation import allocate
from penstock.control.utility import Utility, UtilityKind
from penstock.model.graph import Element, ElementGraph, Engine, InputStream

UTILITIES = {
    "linear": Utility(),
    "log": Utility(UtilityKind.LOG),
    "exponential": Utility(UtilityKind.EXPONENTIAL, 50.0),
}


@st.composite
def graphs(draw: st.DrawFn) -> ElementGraph:
    """Trees of a few elements on a few engines of one to four cores."""
    engines = tuple(Engine(f"n{index}", float(draw(st.integers(1, 4)))) for index in range(draw(st.integers(1, 3))))
    elements = []
    for index in range(draw(st.integers(1, 6))):
        source = "s" if index == 0 else f"p{draw(st.integers(0, index - 1))}"
        elements.append(
            Element(
                f"p{index}",
                draw(st.sampled_from(engines)).name,
                (source,),
                draw(st.floats(20.0, 400.0)),
                selectivity=draw(st.floats(0.2, 2.0)),
                weight=draw(st.floats(0.5, 5.0)),
            )
        )
    return ElementGraph(engines, (InputStream("s", draw(st.floats(10.0, 400.0))),), tuple(elements))


@pytest.mark.parametrize("name", UTILITIES)
@settings(max_examples=15, deadline=None)
@given(graph=graphs())
def test_allocation_contract(name: str, graph: ElementGraph) -> None:
    """The graph is not changed, the same graph gives the same targets, they fit, and a warm start keeps them."""
    before = copy.deepcopy(graph)
    found = allocate(graph, UTILITIES[name])
    assert graph == before
    assert allocate(graph, UTILITIES[name]).cores == found.cores
    for engine in graph.engines:
        used = sum(found.cores[element.name] for element in graph.elements if element.engine == engine.name)
        assert used <= engine.cores * (1 + 1e-5)
    assert found.utility_bound is not None
    assert found.utility <= found.utility_bound + 1e-4 * abs(found.utility_bound)
    assert allocate(graph, UTILITIES[name], before=found).was_kept
