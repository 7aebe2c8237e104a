"""Closed loops whose decisions are kept as golden files: whoever changes a decision sees it."""

from __future__ import annotations

import math
from collections.abc import Callable

from closed_loops import QUERY, alone, decided
from penstock.model import Application, Goal
from penstock.model.decision import Govern
from penstock.testing import SimulatedQuery, SimulatedRun, simulate

CAPACITY_ROWS_PER_S = (2.5 - 0.2) / 20e-6 / 2.5

Trace = list[list[str | float | None]]


def _step(overhead_s: float, noise: float, seed: int) -> SimulatedRun:
    capacity = (2.0 - overhead_s) / 13e-6 / 2.0
    query = SimulatedQuery(
        lambda now: (0.4 if now < 22 else 3.0) * capacity, overhead_s=overhead_s, cost_per_row_s=13e-6, read_part=0.08,
        noise=noise, seed=seed, backlog_rows=2 * capacity, has_guard=True,
    )  # fmt: skip
    return alone(query, minimum_accuracy=0.05, batch_share=0.4).run_until(62.0)


def _shared(low: float, high: float) -> SimulatedRun:
    goals = {name: Goal(latency=4, priority=level, minimum_accuracy=0.05) for name, level in (("low", 1), ("high", 5))}
    queries = {
        name: SimulatedQuery(
            lambda _, load=load: load / 20e-6, overhead_s=0.15, cost_per_row_s=40e-6, read_part=0.1,
            task_overhead_core_s=0.1, has_guard=True,
        )
        for name, load in (("low", low), ("high", high))
    }  # fmt: skip
    return simulate(Application.of_goals(goals), queries, cores=2.0).run_until(60.0)


SCENARIOS: dict[str, Callable[[], SimulatedRun]] = {
    "cold start on a backlog": lambda: alone(SimulatedQuery(lambda _: 0.0, backlog_rows=5e6, noise=0.05)).run_batches(
        QUERY, 60
    ),
    "cheap rows, large overhead": lambda: alone(
        SimulatedQuery(lambda _: 0.0, overhead_s=1.5, cost_per_row_s=1e-6, backlog_rows=1e9, noise=0.06)
    ).run_batches(QUERY, 90),
    "a cost that triples": lambda: alone(
        SimulatedQuery(
            lambda _: 0.0, cost_per_row_s=lambda now: 20e-6 if now < 120 else 60e-6, backlog_rows=1e9, noise=0.03
        )
    ).run_batches(QUERY, 90),
    "overload and its end": lambda: alone(
        SimulatedQuery(lambda now: (3.0 if now < 100 else 0.2) * CAPACITY_ROWS_PER_S)
    ).run_batches(QUERY, 200),
    "overhead beyond the goal": lambda: alone(
        SimulatedQuery(lambda _: 0.0, overhead_s=4.0, backlog_rows=1e8)
    ).run_batches(QUERY, 60),
    "noise": lambda: alone(
        SimulatedQuery(lambda _: 0.0, overhead_s=1.3, cost_per_row_s=6e-6, backlog_rows=1e9, noise=0.25, seed=1)
    ).run_batches(QUERY, 60),
    "a query that keeps up": lambda: alone(
        SimulatedQuery(lambda _: 0.6 / 20e-6, overhead_s=1.6, noise=0.05), batch_share=0.4
    ).run_batches(QUERY, 100),
    "three times the capacity": lambda: alone(
        SimulatedQuery(lambda _: 3 * CAPACITY_ROWS_PER_S, noise=0.04, has_guard=True), minimum_accuracy=0.05
    ).run_batches(QUERY, 60),
    "step, small overhead": lambda: _step(0.2, 0.05, 1),
    "step, large overhead": lambda: _step(1.3, 0.08, 2),
    "low gives way to high": lambda: _shared(0.7, 0.7),
    "high does not fit alone": lambda: _shared(0.5, 2.0),
}


def trace_of(run: SimulatedRun) -> Trace:
    """Query, cause, kind, target and value of every decision; values to four digits."""
    return [
        [each.query, each.cause, each.kind.value, each.target, _rounded(each.value)]
        for each in decided(run)
        if not isinstance(each, Govern)
    ]


def _rounded(value: float | None) -> float | None:
    if value is None or value == 0:
        return value
    return round(value, 3 - math.floor(math.log10(abs(value))))
