"""Read limits of a graph of queries: max-flow against min-flow, lost reports, and where lags settle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.control.graph_flow import LONGEST_BATCH, BatchDone, FlowPolicy, GraphFlow
from penstock.control.graph_governor import BatchCost, GraphGovernor
from penstock.errors import InvalidSettingError
from penstock.model.graph import Element, ElementGraph, Engine, InputStream

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


class Queries:
    """The four queries in steps of one batch, each reading no more than it may of what waits."""

    def __init__(self, policy: FlowPolicy, *, silent: str = "") -> None:
        self.governor = GraphGovernor(GRAPH, batch_s=1.0, period_s=5.0, now_s=0.0, policy=policy)
        self.limits = {element.name: self.governor.first_limit(element.name) for element in GRAPH.elements}
        self.lags = dict.fromkeys(self.limits, 0.0)
        self.done = dict.fromkeys(self.limits, 0)
        self.silent = silent

    def run(self, batches: int, arriving_rows: int = 800) -> None:
        """So many batches of every query."""
        for number in range(batches):
            self.lags["parse"] += arriving_rows
            read = {name: min(int(self.lags[name]), limit) for name, limit in self.limits.items()}
            for name, rows in read.items():
                self.lags[name] -= rows
                self.done[name] += rows
                if name == "parse":
                    for reader in ("fast", "medium", "slow"):
                        self.lags[reader] += rows
            for name, rows in read.items():
                if rows and name != self.silent:
                    done = BatchDone(name, number + 1.0, self.lags[name], 1.0)
                    core_s = rows / ROWS_PER_CORE_S[name]
                    self.limits[name] = self.governor.on_batch(done, BatchCost(rows, core_s))


def weighted(queries: Queries) -> float:
    return sum((element.weight or 0.0) * queries.done[element.name] for element in GRAPH.elements)


def test_max_flow_does_more_than_min_flow() -> None:
    """With a slow reader, following the fastest reader gives more weighted rows, at least twice as many here."""
    fast, slow = Queries(FlowPolicy.MAX), Queries(FlowPolicy.MIN)
    fast.run(60)
    slow.run(60)
    assert weighted(fast) > 2 * weighted(slow)
    assert fast.done["fast"] == pytest.approx(60 * 800, rel=0.05)
    # Min-flow: everybody at the pace of the slowest, which is held by its minimum.
    assert slow.done["fast"] <= 1.2 * slow.done["slow"] + 2 * slow.limits["fast"] + 200


def test_lag_of_the_followed_reader_settles_at_a_batch() -> None:
    """Eq. 7 keeps about one batch waiting before the reader that the producer follows, whatever it began with."""
    queries = Queries(FlowPolicy.MAX)
    queries.lags["fast"] = 4000.0
    queries.run(80)
    assert queries.lags["fast"] <= 1.5 * queries.limits["fast"]


def test_cores_are_used_and_not_promised_twice() -> None:
    """With costs that are known, targets settle at the cores that there are."""
    queries = Queries(FlowPolicy.MAX)
    queries.run(30)
    targets = queries.governor.targets_rows_per_s
    promised = sum(rate / ROWS_PER_CORE_S[name] for name, rate in targets.items())
    assert 1.8 <= promised <= 2.0 + 1e-6


@pytest.mark.parametrize("error", [0.4, 2.0])
def test_wrong_costs_neither_idle_nor_overload_cores(error: float) -> None:
    """Fixed costs that were measured wrong make no difference in the end: the cores that there are get busy."""
    elements = tuple(replace(each, idle_rows_per_s=0.3 * each.rows_per_core_s * error) for each in GRAPH.elements)
    graph = ElementGraph((Engine("east", 4.0),), GRAPH.streams, elements)
    governor = GraphGovernor(graph, batch_s=1.0, period_s=2.0, now_s=0.0)
    limits = {element.name: governor.first_limit(element.name) for element in graph.elements}
    used = 0.0
    for number in range(60):
        costs = {name: 0.3 + rows / ROWS_PER_CORE_S[name] for name, rows in limits.items()}
        used = sum(costs.values())
        for name, rows in limits.items():
            done = BatchDone(name, number + 1.0, float(rows), 1.0)
            limits[name] = governor.on_batch(done, BatchCost(rows, costs[name]))
    demand = 4 * 0.3 + sum(800.0 / rate for rate in ROWS_PER_CORE_S.values())
    assert used <= 1.15 * 4.0
    assert used >= 0.8 * min(4.0, demand)


def test_silent_reader_stops_nobody() -> None:
    """A reader whose reports are lost counts with its target: the producer keeps its pace."""
    talking, quiet = Queries(FlowPolicy.MAX), Queries(FlowPolicy.MAX, silent="fast")
    talking.run(60)
    quiet.run(60)
    assert quiet.done["parse"] >= 0.95 * talking.done["parse"]


def test_costs_are_learned() -> None:
    """A query that turns out twice as dear as thought is planned with its true cost."""
    governor = GraphGovernor(GRAPH, batch_s=1.0, period_s=5.0, now_s=0.0)
    for number in range(30):
        governor.on_batch(BatchDone("medium", float(number), 0.0, 1.0), BatchCost(rows=300, core_s=1.5))
    assert governor.rows_per_core_s["medium"] == pytest.approx(200.0, rel=0.01)


def test_fixed_cost_is_not_taken_for_the_cost_of_rows() -> None:
    """Batches of few rows, most of whose cost is fixed, do not make rows seem dear."""
    elements = tuple(replace(element, idle_rows_per_s=50.0) for element in GRAPH.elements)
    governor = GraphGovernor(ElementGraph(GRAPH.engines, GRAPH.streams, elements), batch_s=1.0, period_s=5.0, now_s=0.0)
    core_s = 50.0 / ROWS_PER_CORE_S["medium"] + 3 / ROWS_PER_CORE_S["medium"]
    for number in range(40):
        governor.on_batch(BatchDone("medium", float(number), 0.0, 1.0), BatchCost(rows=3, core_s=core_s))
    assert governor.rows_per_core_s["medium"] == pytest.approx(ROWS_PER_CORE_S["medium"], rel=0.01)


def test_idle_cores_that_nobody_waits_for_raise_nothing() -> None:
    """Where no row waits, targets do not grow with idle cores: they would overload them when rows come."""
    crowded = ElementGraph(GRAPH.engines, (InputStream("clicks", 4000.0),), GRAPH.elements)
    governor = GraphGovernor(crowded, batch_s=1.0, period_s=2.0, now_s=0.0)
    for number in range(40):
        for name, rate in ROWS_PER_CORE_S.items():
            governor.on_batch(BatchDone(name, number + 1.0, 0.0, 1.0), BatchCost(rows=10, core_s=10 / rate))
    targets = governor.targets_rows_per_s
    assert sum(rate / ROWS_PER_CORE_S[name] for name, rate in targets.items()) <= 2.05


def test_long_batches_grow_the_limit_but_not_without_end() -> None:
    """A batch that overruns makes the next one larger, up to a bound."""
    flow = GraphFlow(GRAPH, dict.fromkeys(ROWS_PER_CORE_S, 100.0), batch_s=1.0)
    rows = [flow.on_batch(BatchDone("slow", 1.0, 100.0, period_s)) for period_s in (0.5, 2.0, 50.0)]
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
    flow.on_batch(BatchDone("both", 1.0, 40.0, 1.0))
    assert flow.on_batch(BatchDone("left", 1.0, 0.0, 1.0)) == 20


def test_batches_of_no_time_are_refused() -> None:
    """A batch length of zero means nothing."""
    with pytest.raises(InvalidSettingError, match="batch_s"):
        GraphFlow(GRAPH, dict.fromkeys(ROWS_PER_CORE_S, 1.0), batch_s=0.0)
