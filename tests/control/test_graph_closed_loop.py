"""A governed graph of queries on an engine whose batches have a fixed cost: no spiral, and cores that are used."""

from __future__ import annotations

import pytest

from graph_plant import GraphPlant, QueryCost
from penstock.control.allocation import allocate
from penstock.control.graph_flow import FlowPolicy
from penstock.control.graph_governor import GraphGovernor
from penstock.control.min_flow import min_flow_rates
from penstock.model.graph import Element, ElementGraph, Engine, InputStream

BATCH_S = 3.0
SLOTS, USABLE = 2, 1.8
COSTS = {
    "parse": QueryCost(None, 0.12, 60e-6),
    "fast": QueryCost("parse", 0.10, 50e-6),
    "medium": QueryCost("parse", 0.10, 130e-6),
    "slow": QueryCost("parse", 0.10, 330e-6),
}
WEIGHTS = {"fast": 5.0, "medium": 2.0, "slow": 1.0}
CAPACITY_ROWS_PER_S = (USABLE * BATCH_S - 0.42) / BATCH_S / 570e-6
LOAD_ROWS_PER_S = 3.0 * CAPACITY_ROWS_PER_S


def graph(dearer: float = 1.0, fixed_dearer: float = 1.0) -> ElementGraph:
    """The queries with costs that were measured so many times too dear."""
    return ElementGraph(
        (Engine("east", USABLE),),
        (InputStream("rows", LOAD_ROWS_PER_S),),
        tuple(
            Element(
                name,
                "east",
                (query.reads or "rows",),
                1.0 / (dearer * query.row_core_s),
                fixed_dearer * query.batch_core_s / BATCH_S / (dearer * query.row_core_s),
                weight=WEIGHTS.get(name),
                minimum_accuracy=0.02 if name in WEIGHTS else 0.0,
            )
            for name, query in COSTS.items()
        ),
    )


def weighted(rates: dict[str, float]) -> float:
    return sum(weight * rates[name] for name, weight in WEIGHTS.items())


def governed(policy: FlowPolicy, seen: ElementGraph, *, late_every: int = 0) -> dict[str, float]:
    """Rates of each query over a minute, after a minute to settle."""
    governor = GraphGovernor(seen, batch_s=BATCH_S, period_s=6.0, now_s=0.0, policy=policy)
    limits = {name: governor.first_limit(name) for name in COSTS}
    plant = GraphPlant(COSTS, LOAD_ROWS_PER_S, BATCH_S, limits, governor.on_batch, slots=SLOTS, late_every=late_every)
    return plant.run(120.0, 60.0)


def plain() -> dict[str, float]:
    return GraphPlant(COSTS, LOAD_ROWS_PER_S, BATCH_S, slots=SLOTS).run(120.0, 60.0)


OPTIMUM = allocate(graph()).weighted_rows_per_s
WRONG = [(1.0, 1.0), (6.0, 1.0), (6.0, 6.0), (0.3, 1.0), (1.0, 4.0), (0.3, 0.0)]


@pytest.mark.parametrize("late_every", [0, 2, 5])
@pytest.mark.parametrize(("dearer", "fixed_dearer"), WRONG)
def test_aces_is_near_the_optimum_whatever_costs_it_began_with(
    dearer: float, fixed_dearer: float, late_every: int
) -> None:
    """Costs that were measured far too dear or too cheap make no difference after a minute."""
    rates = governed(FlowPolicy.MAX, graph(dearer, fixed_dearer), late_every=late_every)
    assert weighted(rates) >= 0.9 * OPTIMUM


@pytest.mark.parametrize(("dearer", "fixed_dearer"), WRONG)
def test_min_flow_settles_at_the_pace_of_all(dearer: float, fixed_dearer: float) -> None:
    """The chain does not spiral down: all queries keep the pace that they could have together."""
    rates = governed(FlowPolicy.MIN, graph(dearer, fixed_dearer))
    together = min_flow_rates(graph())["slow"]
    assert together == pytest.approx(CAPACITY_ROWS_PER_S)
    for name in COSTS:
        assert rates[name] == pytest.approx(together, rel=0.15)


def test_aces_does_more_than_plain_spark_and_min_flow() -> None:
    """Both rivals give the slow reader as many rows as the others, and most of the cores with them."""
    own = weighted(governed(FlowPolicy.MAX, graph()))
    assert own > 1.7 * weighted(plain())
    assert own > 1.7 * weighted(governed(FlowPolicy.MIN, graph()))
