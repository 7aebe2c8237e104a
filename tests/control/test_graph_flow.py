"""Read limits of a graph of queries: long batches, merges, and readers that end."""

from __future__ import annotations

import pytest

from penstock.control.allocation import allocate
from penstock.control.graph_flow import LONGEST_BATCH, FlowReport, GraphFlow
from penstock.errors import InvalidSettingError
from penstock.model.graph import Element, ElementGraph, Engine, Inputs, InputStream

ROWS_PER_CORE_S = {"parse": 1000.0, "fast": 1000.0, "medium": 400.0, "slow": 100.0}
GRAPH = ElementGraph(
    (Engine("east", 2.0),),
    (InputStream("clicks", 800.0),),
    (
        Element("parse", "east", ("clicks",), ROWS_PER_CORE_S["parse"]),
        Element("fast", "east", ("parse",), ROWS_PER_CORE_S["fast"], weight=5.0, minimum_accuracy=0.02),
        Element("medium", "east", ("parse",), ROWS_PER_CORE_S["medium"], weight=2.0, minimum_accuracy=0.02),
        Element("slow", "east", ("parse",), ROWS_PER_CORE_S["slow"], weight=1.0, minimum_accuracy=0.02),
    ),
)


def test_long_batches_grow_the_limit_but_not_without_end() -> None:
    """A batch that overruns makes the next one larger, up to a bound."""
    flow = GraphFlow(GRAPH, dict.fromkeys(ROWS_PER_CORE_S, 100.0), batch_s=1.0)
    rows = [flow.on_batch(FlowReport("slow", 1.0, 100.0, period_s)) for period_s in (0.5, 2.0, 50.0)]
    assert rows == [100, 200, round(LONGEST_BATCH * 100)]


def test_merge_shares_what_it_can_take() -> None:
    """Two producers of one reader are each told their part of it."""
    graph = ElementGraph(
        (Engine("east"),),
        (InputStream("a", 100.0), InputStream("b", 100.0)),
        (
            Element("left", "east", ("a",), 100.0),
            Element("right", "east", ("b",), 100.0),
            Element("both", "east", ("left", "right"), 100.0, weight=1.0),
        ),
    )
    flow = GraphFlow(graph, {"left": 50.0, "right": 50.0, "both": 40.0}, batch_s=1.0)
    flow.on_batch(FlowReport("both", 1.0, 40.0, 1.0))
    assert flow.on_batch(FlowReport("left", 1.0, 0.0, 1.0)) == 20


@pytest.mark.parametrize(("first", "second"), [(90.0, 10.0), (0.0, 100.0), (30.0, 60.0)])
def test_merge_gives_each_feeder_the_part_that_it_sends(first: float, second: float) -> None:
    """A feeder of nine rows in ten may send nine in ten of what the reader can take."""
    graph = ElementGraph(
        (Engine("east"),),
        (InputStream("a", first), InputStream("b", second)),
        (
            Element("left", "east", ("a",), 1000.0),
            Element("right", "east", ("b",), 1000.0),
            Element("both", "east", ("left", "right"), 50.0, weight=1.0, inputs=Inputs.PROPORTIONAL),
        ),
    )
    targets = allocate(graph).input_rows_per_s
    whole = first + second
    assert targets["left"] == pytest.approx(targets["both"] * first / whole)
    assert targets["right"] == pytest.approx(targets["both"] * second / whole)
    flow = GraphFlow(graph, targets, batch_s=10.0)
    flow.on_batch(FlowReport("both", 10.0, 10.0 * targets["both"], 10.0))
    limit = flow.on_batch(FlowReport("left", 10.0, 0.0, 10.0))
    assert limit == max(1, round(10.0 * targets["both"] * first / whole))


def test_nobody_follows_a_reader_that_ended() -> None:
    """The fastest reader ends: its producer follows the other one, before there are new targets."""
    flow = GraphFlow(GRAPH, {"parse": 800.0, "fast": 800.0, "medium": 100.0, "slow": 20.0}, batch_s=1.0)
    for name, lag in (("fast", 800.0), ("medium", 100.0), ("slow", 20.0)):
        flow.on_batch(FlowReport(name, 1.0, lag, 1.0))
    assert flow.limit_rows("parse", period_s=1.0, now_s=1.0) == 800
    flow.leave("fast")
    assert flow.limit_rows("parse", period_s=1.0, now_s=1.0) == 100
    flow.come_back("fast")
    assert flow.limit_rows("parse", period_s=1.0, now_s=1.0) == 800


def test_batches_of_no_time_are_refused() -> None:
    """A batch length of zero means nothing."""
    with pytest.raises(InvalidSettingError, match="batch_s"):
        GraphFlow(GRAPH, dict.fromkeys(ROWS_PER_CORE_S, 1.0), batch_s=0.0)
