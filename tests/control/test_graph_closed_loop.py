"""A graph of queries that is governed from a cold start, on an engine whose batches have a fixed cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from penstock.control.allocation import allocate
from penstock.control.graph_tier import GraphTier
from penstock.control.min_flow import min_flow_rates
from penstock.control.tier_two import FlowPolicy
from penstock.model import Application, Goal, QueryDeclaration, QueryName
from penstock.model.decision import GraphPlan
from penstock.model.graph import Element, ElementGraph, Engine, InputStream
from penstock.testing import SimulatedQuery, SimulatedRun, simulate


@dataclass(frozen=True)
class QueryCost:
    """What it reads (None for the input), core seconds for a batch and for a row, and rows put out for each."""

    reads: str | None
    batch_core_s: float
    row_core_s: float
    selectivity: float = 1.0


BATCH_S = 3.0
SLOTS, USABLE = 2, 1.8
COSTS = {
    "parse": QueryCost(None, 0.12, 60e-6),
    "fast": QueryCost("parse", 0.10, 50e-6),
    "medium": QueryCost("parse", 0.10, 130e-6),
    "slow": QueryCost("parse", 0.10, 330e-6),
}
WEIGHTS = {"fast": 5.0, "medium": 2.0, "slow": 1.0}
GOALS = {name: Goal(weight=weight, minimum_accuracy=0.02) for name, weight in WEIGHTS.items()}
CAPACITY_ROWS_PER_S = (USABLE * BATCH_S - 0.42) / BATCH_S / 570e-6
LOAD_ROWS_PER_S = 3.0 * CAPACITY_ROWS_PER_S
TRUTH = ElementGraph(
    (Engine("east", USABLE),),
    (InputStream("rows", LOAD_ROWS_PER_S),),
    tuple(
        Element(
            name,
            "east",
            (query.reads or "rows",),
            1.0 / query.row_core_s,
            query.batch_core_s / BATCH_S / query.row_core_s,
            weight=WEIGHTS.get(name),
            minimum_accuracy=0.02 if name in WEIGHTS else 0.0,
        )
        for name, query in COSTS.items()
    ),
)
OPTIMUM = allocate(TRUTH).weighted_rows_per_s
TOGETHER = min_flow_rates(TRUTH)["slow"]
# Rows of the first batch (None: all that is there), and how much dearer it is than later ones.
STARTS = [(None, 0.0), (1000, 0.0), (1000, 5.0), (100, 5.0)]
# First batches that keep the engine busy for a minute, before anything is known of them.
HARD_STARTS = [(None, 5.0), (20_000, 2.0)]


def weighted(rates: Mapping[str, float]) -> float:
    return sum(weight * rates[name] for name, weight in WEIGHTS.items())


def start(
    costs: Mapping[str, QueryCost],
    goals: Mapping[str, Goal],
    load_rows_per_s: float,
    *,
    policy: FlowPolicy | None,
    first_rows: int | None = 1000,
    warm_up: float = 0.0,
    late_every: int = 0,
) -> SimulatedRun:
    """Queries that each write a stream of their own name; without a policy nothing governs them."""
    declared = Application(
        {
            QueryName(name): QueryDeclaration(goals.get(name, Goal()), (query.reads or "input",), (name,))
            for name, query in costs.items()
        }
    )
    queries = {
        name: SimulatedQuery(
            (lambda _: load_rows_per_s) if query.reads is None else query.reads,
            overhead_s=0.15, commit_s=0.15, cost_per_row_s=query.row_core_s, task_overhead_core_s=query.batch_core_s,
            trigger_interval_s=BATCH_S, writes=(name,), rows_out_per_row=query.selectivity, warm_up=warm_up,
        )
        for name, query in costs.items()
    }  # fmt: skip
    governed = declared if policy is not None else Application()
    run = simulate(
        governed, queries, cores=SLOTS, limit_delay_batches=0, core_reports_late_every=late_every, cycle_every_s=BATCH_S
    )
    if policy is not None:
        tier = GraphTier(declared, plan_every_s=6.0, batch_s=BATCH_S, cores=USABLE, policy=policy)
        for name in declared.queries:
            tier.query_started(name)
        run.logic._graph = tier
    if first_rows is not None:
        for own in run.engine.queries.values():
            own.next_limit_rows = float(first_rows)
    return run


def rates_of(run: SimulatedRun, settle_s: float, until_s: float) -> dict[str, float]:
    """Rows a second of each query between two moments, a batch that is not done counting its part."""
    run.run_until(until_s + 60.0)
    return {
        name: sum(
            batch.signal.rows
            * max(0.0, min(until_s, batch.signal.finished_s) - max(settle_s, batch.signal.started_s))
            / batch.signal.duration_s
            for batch in own.batches
        )
        / (until_s - settle_s)
        for name, own in run.engine.queries.items()
    }


def governed(
    policy: FlowPolicy,
    *,
    first_rows: int | None = 1000,
    warm_up: float = 5.0,
    late_every: int = 0,
    settle_s: float = 60.0,
) -> dict[str, float]:
    """Rates of each query over a minute, after some time to settle."""
    run = start(
        COSTS, GOALS, LOAD_ROWS_PER_S, policy=policy, first_rows=first_rows, warm_up=warm_up, late_every=late_every
    )
    return rates_of(run, settle_s, settle_s + 60.0)


def plain() -> dict[str, float]:
    return rates_of(start(COSTS, GOALS, LOAD_ROWS_PER_S, policy=None, first_rows=None), 60.0, 120.0)


@pytest.mark.parametrize("late_every", [0, 2, 5])
@pytest.mark.parametrize(("first_rows", "warm_up"), STARTS)
def test_aces_is_near_the_optimum_from_a_cold_start(first_rows: int | None, warm_up: float, late_every: int) -> None:
    """Nothing is calibrated: however the first batches were, and whatever reports came late, a minute is enough."""
    rates = governed(FlowPolicy.MAX, first_rows=first_rows, warm_up=warm_up, late_every=late_every)
    assert weighted(rates) >= 0.95 * OPTIMUM


@pytest.mark.parametrize("late_every", [0, 2, 5])
@pytest.mark.parametrize(("first_rows", "warm_up"), HARD_STARTS)
def test_aces_gets_out_of_a_start_that_nobody_limited(first_rows: int | None, warm_up: float, late_every: int) -> None:
    """First batches that last a minute are worked off, and then it is as if they had not been."""
    rates = governed(FlowPolicy.MAX, first_rows=first_rows, warm_up=warm_up, late_every=late_every, settle_s=180.0)
    assert weighted(rates) >= 0.95 * OPTIMUM


@pytest.mark.parametrize(("first_rows", "warm_up"), STARTS)
def test_min_flow_settles_at_the_pace_of_all(first_rows: int | None, warm_up: float) -> None:
    """The chain does not spiral down: all queries keep the pace that they could have together."""
    rates = governed(FlowPolicy.MIN, first_rows=first_rows, warm_up=warm_up)
    assert pytest.approx(CAPACITY_ROWS_PER_S) == TOGETHER
    for name in COSTS:
        assert rates[name] == pytest.approx(TOGETHER, rel=0.15)


def test_aces_does_more_than_plain_spark_and_min_flow() -> None:
    """Both rivals give the slow reader as many rows as the others, and most of the cores with them."""
    own = weighted(governed(FlowPolicy.MAX))
    assert own > 1.7 * weighted(plain())
    assert own > 1.8 * weighted(governed(FlowPolicy.MIN))


def test_a_load_that_fits_is_not_limited() -> None:
    """With half of what all can do together, everybody reads all of it, and the plan says so."""
    load_rows_per_s = 0.5 * CAPACITY_ROWS_PER_S
    run = start(COSTS, GOALS, load_rows_per_s, policy=FlowPolicy.MAX, warm_up=5.0)
    rates = rates_of(run, 60.0, 120.0)
    for name in COSTS:
        assert rates[name] == pytest.approx(load_rows_per_s, rel=0.1)
    assert run.decisions(GraphPlan)[-1].reason.startswith("all that comes fits")


def test_filtering_queries_are_planned_with_what_they_put_out() -> None:
    """A producer that drops four of five rows is not held to the pace of its reader's rows."""
    costs = {"parse": QueryCost(None, 0.1, 60e-6, selectivity=0.2), "count": QueryCost("parse", 0.1, 400e-6)}
    run = start(costs, {"count": Goal(minimum_accuracy=0.1)}, 20_000.0, policy=FlowPolicy.MAX)
    rates = rates_of(run, 180.0, 300.0)
    best = (USABLE - 0.2 / BATCH_S) / (60e-6 + 0.2 * 400e-6)
    assert rates["parse"] == pytest.approx(best, rel=0.1)
    assert rates["count"] == pytest.approx(0.2 * rates["parse"], rel=0.1)
