"""Two queries on one engine that cannot hold both, in virtual time: who drops rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.model import Application, Goal
from penstock.testing import SimulatedQuery, SimulatedRun, simulate

CORES = 2.0
COST_S = 20e-6
ALONE_ROWS_PER_S = 1.0 / COST_S


def query(load: float) -> SimulatedQuery:
    """A query that asks for a multiple of what the engine could do for it alone."""
    return SimulatedQuery(
        lambda _: load * ALONE_ROWS_PER_S, overhead_s=0.15, cost_per_row_s=CORES * COST_S, read_part=0.1,
        task_overhead_core_s=0.1, has_guard=True,
    )  # fmt: skip


def together(queries: dict[str, SimulatedQuery], priorities: dict[str, int]) -> SimulatedRun:
    """Queries with a goal of four seconds each, on two cores."""
    goals = {name: Goal(latency=4, priority=priority, minimum_accuracy=0.05) for name, priority in priorities.items()}
    return simulate(Application.of_goals(goals), queries, cores=CORES)


def kept_ratios(queries: dict[str, SimulatedQuery], priorities: dict[str, int]) -> dict[str, float]:
    """What each kept in the second half of two minutes."""
    run = together(queries, priorities).run_until(120.0)
    return {name: run.query(name).kept_ratio_since(60.0) for name in queries}


@pytest.mark.parametrize("load", [0.6, 0.7, 0.8])
def test_the_low_one_drops_rows_first(load: float) -> None:
    """Each fits alone. Together the low one gives way, and the high one keeps nearly everything, in time."""
    run = together({"low": query(load), "high": query(load)}, {"low": 1, "high": 5}).run_until(120.0)
    assert run.query("high").kept_ratio_since(60.0) > 0.95
    assert run.query("high").late_share_since(60.0) < 0.02
    assert 0.04 < run.query("low").kept_ratio_since(60.0) < 0.85


def cold_query(seed: int) -> SimulatedQuery:
    """A query whose rows cost twice as much at first, unevenly, and whose batches are mostly overhead."""
    rng = np.random.default_rng(seed)

    def cost_s(now_s: float) -> float:
        return CORES * COST_S * (1.0 + math.exp(-now_s / 40.0)) * math.exp(0.1 * rng.standard_normal())

    return SimulatedQuery(
        lambda _: 0.76 * ALONE_ROWS_PER_S, overhead_s=0.6, cost_per_row_s=cost_s, read_part=0.1,
        task_overhead_core_s=0.3, has_guard=True,
    )  # fmt: skip


def test_costs_that_were_learned_cold_do_not_last() -> None:
    """Both learn too high a cost and shed too much; idle cores show it, and the high one gets them, in time."""
    in_time = []
    for seed in range(8):
        run = together({"low": cold_query(seed), "high": cold_query(seed + 50)}, {"low": 1, "high": 5})
        run.run_until(110.0)
        low, high = (run.query(name).kept_ratio_since(70.0) for name in ("low", "high"))
        late = run.query("high").late_share_since(70.0)
        assert low < 0.5 * high
        assert late < 0.05
        in_time.append(high * (1.0 - late))
    assert min(in_time) > 0.55
    assert sum(in_time) / len(in_time) > 0.65


def test_equals_drop_alike() -> None:
    """Neither is starved for the other."""
    kept = kept_ratios({"east": query(0.8), "west": query(0.8)}, {"east": 3, "west": 3})
    assert kept["east"] == pytest.approx(kept["west"], rel=0.35)
    assert 0.25 < kept["east"] < 0.9


def test_nobody_drops_where_both_fit() -> None:
    """With room for both, priorities are of no consequence."""
    kept = kept_ratios({"low": query(0.3), "high": query(0.3)}, {"low": 1, "high": 5})
    assert kept == {"low": 1.0, "high": 1.0}


def test_the_high_one_drops_too_where_it_does_not_fit_alone() -> None:
    """Twice what the engine can do: the low one is at its minimum, the high one keeps what is left."""
    kept = kept_ratios({"low": query(0.5), "high": query(2.0)}, {"low": 1, "high": 5})
    assert kept["low"] < 0.2
    assert 0.25 < kept["high"] < 0.6
