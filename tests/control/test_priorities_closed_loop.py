"""Two queries on one engine that cannot hold both, in virtual time: who drops rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.model import Goal, QueryName
from plants import MicroBatchPlant, controller
from shared_engine import GovernedQuery, run_together

COST_S = 20e-6
ALONE_ROWS_PER_S = 1.0 / COST_S


def query(name: str, priority: int, load: float, *, read_share: float = 0.1, seed: int = 1) -> GovernedQuery:
    """A query that asks for a multiple of what the engine could do for it alone."""
    plant = MicroBatchPlant(
        lambda _: load * ALONE_ROWS_PER_S, overhead_s=0.15, cost_per_row_s=lambda _: COST_S, read_share=read_share,
        seed=seed, late_after_s=2.0, late_share=0.05,
    )  # fmt: skip
    goal = Goal(latency=4, priority=priority, minimum_accuracy=0.05)
    return GovernedQuery(QueryName(name), goal, plant, controller(4.0, minimum_accuracy=0.05, batch_share=0.4))


def shares(queries: list[GovernedQuery]) -> dict[str, float]:
    """What each kept in the second half of two minutes."""
    run_together(queries, 120.0)
    return {each.name: each.kept_share(60.0) for each in queries}


@pytest.mark.parametrize("load", [0.6, 0.7, 0.8])
def test_the_low_one_drops_rows_first(load: float) -> None:
    """Each fits alone. Together the low one gives way, and the high one keeps nearly everything."""
    kept = shares([query("low", 1, load), query("high", 5, load)])
    assert kept["high"] > 0.9
    assert 0.04 < kept["low"] < 0.85


def cold_query(name: str, priority: int, seed: int) -> GovernedQuery:
    """A query whose rows cost twice as much at first, unevenly, and whose batches are mostly overhead."""
    rng = np.random.default_rng(seed)

    def cost_s(now_s: float) -> float:
        return COST_S * (1.0 + math.exp(-now_s / 40.0)) * math.exp(0.1 * rng.standard_normal())

    plant = MicroBatchPlant(
        lambda _: 0.76 * ALONE_ROWS_PER_S, overhead_s=0.6, cost_per_row_s=cost_s, read_share=0.1, seed=seed,
        late_after_s=2.16, late_share=0.05,
    )  # fmt: skip
    goal = Goal(latency=4, priority=priority, minimum_accuracy=0.05)
    logic = controller(4.0, minimum_accuracy=0.05, batch_share=0.4)
    return GovernedQuery(QueryName(name), goal, plant, logic, task_overhead_core_s=0.3)


def test_costs_that_were_learned_cold_do_not_last() -> None:
    """Both learn too high a cost and shed too much; idle cores show it, and the high one gets them.

    Alone, the high one would keep 0.82 of its rows in batches of the target length.
    """
    kept = []
    for seed in range(8):
        queries = [cold_query("low", 1, seed), cold_query("high", 5, seed + 50)]
        run_together(queries, 110.0)
        low, high = (each.kept_share(70.0) for each in queries)
        assert low < 0.5 * high
        kept.append(high)
    assert min(kept) > 0.55
    assert sum(kept) / len(kept) > 0.75


def test_equals_drop_alike() -> None:
    """Neither is starved for the other."""
    kept = shares([query("east", 3, 0.8), query("west", 3, 0.8)])
    assert kept["east"] == pytest.approx(kept["west"], rel=0.35)
    assert 0.25 < kept["east"] < 0.9


def test_nobody_drops_where_both_fit() -> None:
    """With room for both, priorities are of no consequence."""
    kept = shares([query("low", 1, 0.3), query("high", 5, 0.3)])
    assert kept == {"low": 1.0, "high": 1.0}


def test_the_high_one_drops_too_where_it_does_not_fit_alone() -> None:
    """Twice what the engine can do: the low one is at its minimum, the high one keeps what is left."""
    kept = shares([query("low", 1, 0.5), query("high", 5, 2.0)])
    assert kept["low"] < 0.2
    assert 0.25 < kept["high"] < 0.6
