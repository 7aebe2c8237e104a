"""Graphs that cannot run are refused, with the name of what is at fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import InvalidGraphError
from penstock.model.graph import Element, ElementGraph, Engine, Inputs, InputStream

ENGINES = (Engine("east"), Engine("west", 2.0))
STREAMS = (InputStream("clicks", 100.0), InputStream("views", 40.0))
PARSE = Element("parse", "east", ("clicks",), 200.0, selectivity=0.5)
COUNT = Element("count", "west", ("parse", "views"), 50.0, weight=1.0)


def graph(*elements: Element) -> ElementGraph:
    return ElementGraph(ENGINES, STREAMS, elements)


def test_circle_is_named() -> None:
    """A circle is refused with the elements on it in the order in which rows would go round."""
    first = replace(PARSE, reads=("clicks", "third"))
    second = Element("second", "east", ("parse",), 10.0)
    third = Element("third", "east", ("second",), 10.0)
    with pytest.raises(InvalidGraphError, match=r"(\w+) -> \w+ -> \w+ -> \1"):
        graph(first, second, third, COUNT)


@pytest.mark.parametrize(
    ("element", "said"),
    [
        (replace(COUNT, reads=("nobody",)), "'count' reads 'nobody', which no element and no input stream produces"),
        (replace(COUNT, reads=()), "'count' reads nothing"),
        (replace(COUNT, weight=0.0), "'count' has weight 0.0"),
        (replace(COUNT, weight=-1.0), "'count' has weight -1.0"),
        (replace(COUNT, engine="north"), "'count' runs on 'north'"),
        (replace(COUNT, rows_per_core_s=0.0), "'count' has rows_per_core_s 0.0"),
        (replace(COUNT, idle_rows_per_s=-1.0), "'count' has idle_rows_per_s -1.0"),
        (replace(COUNT, minimum_accuracy=1.5), "'count' has minimum accuracy 1.5"),
        (replace(COUNT, max_cores=0.0), "'count' may use 0.0 cores"),
        (replace(COUNT, name="parse"), "two of the graph go by the name 'parse'"),
        (replace(COUNT, weight=None), "no element has a weight"),
    ],
)
def test_fault_is_named(element: Element, said: str) -> None:
    """Whatever makes a graph meaningless is told with the name of the element."""
    with pytest.raises(InvalidGraphError, match=said):
        graph(PARSE, element)


@pytest.mark.parametrize("cores", [0.0, -1.0, float("nan")])
def test_engine_without_cores_is_named(cores: float) -> None:
    """An engine needs cores."""
    with pytest.raises(InvalidGraphError, match="engine 'bare' has"):
        ElementGraph((*ENGINES, Engine("bare", cores)), STREAMS, (PARSE, COUNT))


def test_offered_rows_follow_inputs() -> None:
    """A merge is offered the sum of its inputs, a join the smallest."""
    assert graph(PARSE, COUNT).offered_rows_per_s == (100.0, 90.0)
    assert graph(PARSE, replace(COUNT, inputs=Inputs.JOIN)).offered_rows_per_s == (100.0, 40.0)
