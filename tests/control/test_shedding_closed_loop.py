"""Admission and shedding together, in a closed loop in virtual time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model import ActionKind
from plants import MicroBatchPlant, closed_loop, closed_loop_step, controller

CAPACITY_ROWS_PER_S = (2.5 - 0.2) / 20e-6 / 2.5


def test_three_times_the_capacity_is_shed_to_what_fits() -> None:
    """As much is kept as fits, batches stay within their target, and the backlog of the cold start is gone."""
    plant = MicroBatchPlant(lambda _: 3 * CAPACITY_ROWS_PER_S, noise=0.04)
    run = closed_loop(plant, controller(5.0, minimum_accuracy=0.05), 120)
    tail = run.signals[-40:]
    kept = sum(signal.work_rows for signal in tail) / sum(signal.duration_s for signal in tail)
    assert kept > 0.92 * CAPACITY_ROWS_PER_S
    assert np.mean([signal.duration_s for signal in tail]) < 1.1 * 2.5
    assert max(signal.lag_rows or 0.0 for signal in tail) < 3 * CAPACITY_ROWS_PER_S * 2.5


def test_a_dear_read_does_not_lead_into_a_spiral() -> None:
    """Where a fifth of a row's cost is its reading, the share settles where reading and keeping together fit."""
    plant = MicroBatchPlant(lambda _: 3 * CAPACITY_ROWS_PER_S, noise=0.05, read_share=0.2)
    logic = controller(5.0, minimum_accuracy=0.01)
    run = closed_loop(plant, logic, 140)
    tail = run.signals[-40:]
    share = sum(signal.work_rows for signal in tail) / sum(signal.rows for signal in tail)
    # In a batch: 2.3 s of time for rows = 3 * 2.3 s * (0.2 + 0.8 p)
    assert share == pytest.approx((1 / 3 - 0.2) / 0.8, rel=0.2)
    assert np.mean([signal.duration_s for signal in tail]) < 1.1 * 2.5


def test_nothing_is_dropped_below_capacity() -> None:
    """At 80 % load the share stays at one from beginning to end."""
    plant = MicroBatchPlant(lambda _: 0.8 * CAPACITY_ROWS_PER_S, noise=0.03)
    run = closed_loop(plant, controller(5.0, minimum_accuracy=0.05), 80)
    assert [action for action in run.actions if action.kind is ActionKind.KEEP_RATIO and action.value != 1.0] == []


def test_dropping_ends_when_the_load_falls() -> None:
    """After a burst the share returns to exactly one."""
    plant = MicroBatchPlant(lambda now: (2.5 if now < 150 else 0.5) * CAPACITY_ROWS_PER_S, noise=0.03)
    logic = controller(5.0, minimum_accuracy=0.05)
    run = closed_loop(plant, logic, 160)
    assert any((action.value or 1.0) < 0.6 for action in run.actions if action.kind is ActionKind.KEEP_RATIO)
    assert logic.keep.fraction_at(10_000) == 1.0


@pytest.mark.parametrize("read_share", [0.0, 0.15])
@pytest.mark.parametrize("seed", range(4))
def test_a_step_to_three_times_the_capacity_leaves_few_rows_late(read_share: float, seed: int) -> None:
    """From a calm load with its backlog behind it: of the rows kept in the next minute, 95 % are out in time.

    Rows that are late when the step is noticed go first, so that those behind them do not wait for them.
    """
    capacity = (2.25 - 0.2) / 20e-6 / 2.25
    plant = MicroBatchPlant(
        lambda now: (0.6 if now < 40 else 3.0) * capacity,
        backlog_rows=10 * capacity, noise=0.04, seed=seed, read_share=read_share, late_after_s=2.75, late_share=0.05,
    )  # fmt: skip
    logic = controller(5.0, minimum_accuracy=0.05, batch_share=0.45)
    while plant.now_s < 40:
        closed_loop_step(plant, logic)
    calm = len(plant.ages)
    while plant.now_s < 100:
        closed_loop_step(plant, logic)
    ages, rows = np.array(plant.ages[calm:]).T
    assert rows[ages > 5.0].sum() / rows.sum() < 0.05
    assert rows.sum() > 0.8 * 60 * capacity * (1 - 3 * read_share) / (1 - read_share)


def step_from_a_cold_start(
    overhead_s: float, noise: float, read_share: float, seed: int, *, is_seen: bool
) -> tuple[float, float]:
    """Three times the capacity after 22 calm seconds: the share of kept rows that is late, and the share kept later."""
    cost_s, target_s = 13e-6, 2.0
    capacity = (target_s - overhead_s) / cost_s / target_s
    plant = MicroBatchPlant(
        lambda now: (0.4 if now < 22 else 3.0) * capacity, overhead_s=overhead_s, cost_per_row_s=lambda _: cost_s,
        read_share=read_share, noise=noise, seed=seed, backlog_rows=2 * capacity, late_after_s=2.7, late_share=0.05,
        is_seen=is_seen,
    )  # fmt: skip
    logic = controller(5.0, minimum_accuracy=0.05, batch_share=0.4)
    while plant.now_s < 22:
        closed_loop_step(plant, logic)
    calm, signals = len(plant.ages), []
    while plant.now_s < 62:
        signals.append(closed_loop_step(plant, logic)[0])
    ages, rows = np.array(plant.ages[calm:]).T
    tail = signals[len(signals) // 2 :]
    late = float(rows[ages > 5.0].sum() / rows.sum())
    return late, sum(each.work_rows for each in tail) / sum(each.rows for each in tail)


@pytest.mark.parametrize("is_seen", [False, True])
@pytest.mark.parametrize("read_share", [0.03, 0.15])
@pytest.mark.parametrize(("overhead_s", "noise"), [(0.2, 0.05), (0.2, 0.12), (0.5, 0.05), (1.07, 0.05)])
def test_a_step_from_a_cold_start_is_held(overhead_s: float, noise: float, read_share: float, *, is_seen: bool) -> None:
    """After calm seconds in which batches are small and little of their cost is known.

    Also where half of a batch is overhead: of the kept rows 95 % are out in time, and nearly as much is kept as fits.
    """
    fitting = (1 / 3 - read_share) / (1 - read_share)
    for seed in range(4):
        late, kept = step_from_a_cold_start(overhead_s, noise, read_share, seed, is_seen=is_seen)
        assert late < 0.05
        assert kept > 0.85 * fitting


def test_a_look_at_the_next_batch_leaves_fewer_rows_late() -> None:
    """Where most of a batch is overhead, a decision that comes one batch sooner saves most of the late rows."""
    seeds = range(12)
    late = {
        is_seen: [step_from_a_cold_start(1.3, 0.08, 0.08, seed, is_seen=is_seen)[0] for seed in seeds]
        for is_seen in (False, True)
    }
    assert sum(late[True]) < 0.5 * sum(late[False])
    assert sum(share > 0.05 for share in late[True]) <= 1


def test_a_minimum_accuracy_that_does_not_fit_is_held_and_told() -> None:
    """Three times the load with at least 70 % to keep: the share is 0.7, the record says infeasible, lag grows."""
    plant = MicroBatchPlant(lambda _: 3 * CAPACITY_ROWS_PER_S)
    logic = controller(5.0, minimum_accuracy=0.7)
    run = closed_loop(plant, logic, 80)
    assert logic.keep.fraction_at(10_000) == 0.7
    infeasible = [action for action in run.actions if action.kind is ActionKind.INFEASIBLE]
    assert len(infeasible) == 1
    assert infeasible[0].expected["missing_rows_per_s"] == pytest.approx(1.1 * CAPACITY_ROWS_PER_S, rel=0.2)
    assert (run.signals[-1].lag_rows or 0) > (run.signals[-20].lag_rows or 0)


@settings(max_examples=40, deadline=None)
@given(
    minimum=st.floats(0.0, 1.0),
    levels=st.lists(st.floats(0.0, 8.0), min_size=3, max_size=3),
    noise=st.floats(0.0, 0.3),
    seed=st.integers(0, 1000),
)
def test_minimum_accuracy_is_never_broken(minimum: float, levels: list[float], noise: float, seed: int) -> None:
    """Whatever the load does, no batch is told to keep less than the goal allows."""
    plant = MicroBatchPlant(
        lambda now: levels[min(2, int(now / 40))] * CAPACITY_ROWS_PER_S, noise=noise, seed=seed, overhead_s=0.3
    )
    logic = controller(5.0, minimum_accuracy=minimum)
    run = closed_loop(plant, logic, 40)
    assert all(signal.guard is not None and signal.guard.keep_fraction >= minimum for signal in run.signals)
    for action in run.actions:
        if action.kind is ActionKind.KEEP_RATIO:
            assert action.value is not None
            assert max(minimum, 0.001) <= action.value <= 1.0


@settings(max_examples=30, deadline=None)
@given(levels=st.lists(st.floats(0.5, 6.0), min_size=3, max_size=3), seed=st.integers(0, 100))
def test_a_share_is_never_changed_for_a_batch_that_may_run(levels: list[float], seed: int) -> None:
    """A decision after batch n speaks of batch n + 2 and later only."""
    plant = MicroBatchPlant(lambda now: levels[min(2, int(now / 40))] * CAPACITY_ROWS_PER_S, noise=0.1, seed=seed)
    run = closed_loop(plant, controller(5.0, minimum_accuracy=0.1), 40)
    for action in run.actions:
        if action.kind is ActionKind.KEEP_RATIO:
            assert action.expected["from_batch"] == int(action.cause.removeprefix("batch ")) + 2
