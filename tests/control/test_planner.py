"""Tier one is solved again when it must be, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.control.planner import AllocationPlanner
from penstock.errors import InfeasibleError, InvalidSettingError
from penstock.model.graph import Element, ElementGraph, Engine, InputStream

PARSE = Element("parse", "east", ("clicks",), 100.0)
COUNT = Element("count", "east", ("parse",), 50.0, weight=1.0)
FRAUD = Element("fraud", "east", ("parse",), 50.0, weight=3.0)


def graph_of(*elements: Element, rate: float = 90.0) -> ElementGraph:
    return ElementGraph((Engine("east"),), (InputStream("clicks", rate),), elements)


def test_deployment_and_departure_are_planned_at_once() -> None:
    """A query that comes gets its share in the same look, and one that goes gives it back."""
    planner = AllocationPlanner(period_s=60.0)
    alone = planner.plan(graph_of(PARSE, COUNT), now_s=0.0)
    both = planner.plan(graph_of(PARSE, COUNT, FRAUD), now_s=1.0)
    after = planner.plan(graph_of(PARSE, COUNT), now_s=2.0)
    assert [plan.cause for plan in (alone, both, after)] == [
        "deployment of parse, count",
        "deployment of fraud",
        "departure of fraud",
    ]
    assert both.allocation.cores["fraud"] > both.allocation.cores["count"]
    assert after.allocation.cores["count"] == pytest.approx(alone.allocation.cores["count"])


def test_period_follows_costs_and_keeps_what_is_still_best() -> None:
    """Between periods nothing moves; after one a dearer query is planned anew, and an unchanged graph is kept."""
    planner = AllocationPlanner(period_s=10.0)
    graph = graph_of(PARSE, COUNT)
    first = planner.plan(graph, now_s=0.0)
    dearer = graph_of(PARSE, replace(COUNT, rows_per_core_s=25.0))
    assert planner.plan(dearer, now_s=9.9).allocation is first.allocation
    moved = planner.plan(dearer, now_s=10.0)
    assert moved.cause == "period"
    assert moved.allocation.input_rows_per_s["count"] == pytest.approx(20.0)
    again = planner.plan(dearer, now_s=20.0)
    assert again.allocation.was_kept


def test_minima_that_stop_fitting_keep_the_targets_and_say_so() -> None:
    """While a graph runs, a load that its minima cannot bear leaves the targets and names the ways out."""
    planner = AllocationPlanner(period_s=10.0)
    careful = replace(COUNT, minimum_accuracy=0.5)
    first = planner.plan(graph_of(PARSE, careful, rate=30.0), now_s=0.0)
    later = planner.plan(graph_of(PARSE, careful, rate=300.0), now_s=10.0)
    assert later.allocation is first.allocation
    assert later.infeasible is not None
    assert "count" in str(later.infeasible)


def test_deployment_that_does_not_fit_is_refused() -> None:
    """Nothing is deployed on minima that cannot be kept."""
    planner = AllocationPlanner()
    with pytest.raises(InfeasibleError, match="count"):
        planner.plan(graph_of(PARSE, replace(COUNT, minimum_accuracy=1.0), rate=300.0), now_s=0.0)


def test_period_of_nothing_is_refused() -> None:
    """A period of zero would plan without end."""
    with pytest.raises(InvalidSettingError, match="period_s"):
        AllocationPlanner(period_s=0.0)
