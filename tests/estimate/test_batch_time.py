"""Learning batch times."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.estimate.arrival import ArrivalRate
from penstock.estimate.batch_time import BatchTimeModel
from penstock.estimate.rls import RecursiveLeastSquares


def test_noisy_batches_give_overhead_and_cost() -> None:
    """With 10 % noise and sizes that differ, both parts are found to within a few percent."""
    rng = np.random.default_rng(7)
    model = BatchTimeModel()
    for _ in range(200):
        rows = int(rng.integers(1_000, 200_000))
        model.update(rows, rows, (0.3 + rows * 15e-6) * float(np.exp(0.1 * rng.standard_normal())))
    assert model.predict_s(100_000, 100_000) == pytest.approx(1.8, rel=0.05)
    assert model.overhead_s == pytest.approx(0.3, abs=0.06)


def test_one_outlier_hardly_moves_the_model() -> None:
    """A single batch of ten times its expected length is cut to what is plausible."""
    model = BatchTimeModel()
    for _ in range(30):
        model.update(100_000, 100_000, 2.0)
    model.update(100_000, 100_000, 20.0)
    assert model.predict_s(100_000, 100_000) < 2.2


def test_two_surprises_on_one_side_are_a_change() -> None:
    """From the second batch at a new length on, the model is at the new length."""
    model = BatchTimeModel()
    for _ in range(30):
        model.update(100_000, 100_000, 2.0)
    model.update(100_000, 100_000, 6.0)
    model.update(100_000, 100_000, 6.0)
    assert model.predict_s(100_000, 100_000) == pytest.approx(6.0, rel=0.05)


def test_one_batch_that_is_far_too_short_is_a_change() -> None:
    """Accidents make batches longer, none shorter: what two of them had believed is unlearned by the next batch."""
    model = BatchTimeModel()
    for _ in range(30):
        model.update(100_000, 100_000, 2.0)
    for duration_s in (6.0, 6.0, 2.0):
        model.update(100_000, 100_000, duration_s)
    assert model.predict_s(100_000, 100_000) == pytest.approx(2.0, rel=0.1)


def test_equal_batches_for_a_long_time_leave_the_model_calm() -> None:
    """Forgetting without anything new must not blow the estimate up (covariance wind-up)."""
    model = BatchTimeModel()
    rng = np.random.default_rng(3)
    for _ in range(2_000):
        model.update(50_000, 50_000, 1.5 * float(np.exp(0.02 * rng.standard_normal())))
    assert model.predict_s(50_000, 50_000) == pytest.approx(1.5, rel=0.05)
    assert 0 <= model.overhead_s <= 1.6
    assert model.cost_per_kept_row_s(1.0) > 0


def test_batches_without_rows_teach_nothing() -> None:
    """An empty batch, or one without a duration, changes nothing."""
    model = BatchTimeModel()
    before = model.snapshot()
    model.update(0, 0, 1.0)
    model.update(10, 10, 0.0)
    assert model.snapshot() == before


def test_reading_and_keeping_are_told_apart_once_the_share_moves() -> None:
    """With shares of 1 and of 0.1 seen, both costs are found; a small share does not make kept rows look dear."""
    rng = np.random.default_rng(11)
    model = BatchTimeModel()
    for index in range(80):
        read = int(rng.integers(20_000, 200_000))
        kept = read if index < 30 else read // 10
        model.update(read, kept, (0.3 + read * 3e-6 + kept * 12e-6) * float(np.exp(0.05 * rng.standard_normal())))
    assert model.read_cost_s == pytest.approx(3e-6, rel=0.25)
    assert model.work_cost_s == pytest.approx(12e-6, rel=0.25)
    assert model.keep_ratio_within(2.0, 300_000) == pytest.approx((2.0 - 0.3 - 0.9) / 3.6, rel=0.2)


def test_rls_restored_from_its_snapshot_is_the_same() -> None:
    """A snapshot carries estimate and covariance."""
    first = RecursiveLeastSquares((0.0, 0.0), (10.0, 10.0))
    first.update((1.0, 2.0), 3.0, noise_variance=0.1, forgetting=0.95)
    second = RecursiveLeastSquares((0.0, 0.0), (10.0, 10.0), first.snapshot())
    first.update((1.0, 5.0), 4.0, noise_variance=0.1, forgetting=0.95)
    second.update((1.0, 5.0), 4.0, noise_variance=0.1, forgetting=0.95)
    assert first.theta == second.theta


def test_arrival_rate_follows_a_small_step_by_its_half_life() -> None:
    """After one half-life at a rate that is a little higher, the estimate is half way there."""
    arrivals = ArrivalRate(half_life_s=10.0)
    for step in range(40):
        arrivals.update(planned_s=float(step), rows=100, lag_rows=0.0)
    for step in range(40, 50):
        arrivals.update(planned_s=float(step), rows=140, lag_rows=0.0)
    assert arrivals.rate_rows_per_s == pytest.approx(120.0, rel=0.01)


@pytest.mark.parametrize("rows", [30, 300])
def test_arrival_rate_follows_a_large_step_at_once(rows: int) -> None:
    """Another load is no noise to be smoothed away."""
    arrivals = ArrivalRate(half_life_s=10.0)
    for step in range(40):
        arrivals.update(planned_s=float(step), rows=100, lag_rows=0.0)
    arrivals.update(planned_s=40.0, rows=rows, lag_rows=0.0)
    assert arrivals.rate_rows_per_s == rows


def test_arrival_rate_stays_unknown_while_the_lag_is() -> None:
    """No lag, no rate: unknown is not zero."""
    arrivals = ArrivalRate(half_life_s=10.0)
    for step in range(5):
        arrivals.update(planned_s=float(step), rows=100, lag_rows=None)
    assert arrivals.rate_rows_per_s is None


def test_a_slow_drift_is_followed() -> None:
    """Rows that become a third dearer bit by bit: after sixteen batches the prediction is within a twentieth again."""
    model = BatchTimeModel()
    for batch in range(40):
        rows = 10_000 + 500 * (batch % 5)
        model.update(rows, rows, 0.3 + rows * 100e-6)
    for step in range(16):
        rows = 10_000 + 500 * (step % 5)
        model.update(rows, rows, 0.3 + rows * 100e-6 * (1.0 + 0.33 * min(1.0, step / 8)))
    assert model.predict_s(10_000, 10_000) == pytest.approx(0.3 + 1.33, rel=0.05)


def test_a_recalled_split_of_costs_is_not_forgotten_while_nothing_is_dropped() -> None:
    """Half of a row is its reading, as an earlier run learned; batches that keep everything tell nothing else."""
    state = BatchTimeModel.recalled(overhead_s=0.2, read_cost_s=5e-6, work_cost_s=5e-6, doubt=0.25)
    model = BatchTimeModel(state=state)
    for _ in range(5):
        model.update(100_000, 100_000, 1.2)
    assert model.read_cost_s == pytest.approx(5e-6, rel=0.05)
    assert model.work_cost_s == pytest.approx(5e-6, rel=0.05)


def test_a_share_that_stays_small_does_not_make_rows_dear() -> None:
    """Twenty batches at one share, of noisy length: what is kept does not come to look many times as dear as it is."""
    model = BatchTimeModel()
    noise = np.random.default_rng(3)
    for rows in (1_000, 4_000, 16_000, 64_000, 128_000, 64_000):
        model.update(rows, rows, 0.5 + rows * 10e-6)
    for _ in range(40):
        read = int(noise.integers(300_000, 1_000_000))
        duration_s = (0.5 + read * 1e-6 + 0.05 * read * 9e-6) * float(np.exp(0.1 * noise.standard_normal()))
        model.update(read, round(0.05 * read), duration_s)
    assert 2e-6 < model.work_cost_s < 40e-6
    assert model.predict_s(300_000, 60_000) == pytest.approx(0.5 + 0.3 + 0.54, rel=0.4)


def test_the_batch_of_which_least_is_known_is_not_believed_most() -> None:
    """Ten batches that scatter by 15 %, and one of another size: what rows cost is no better known than that allows."""
    model = BatchTimeModel()
    sizes = ((1_000, 3.5), (1_000, 2.9), (1_284, 2.2), (1_545, 2.3), (2_739, 2.9), (3_690, 2.5), (4_266, 3.1))
    for rows, duration_s in sizes:
        model.update(rows, rows, duration_s)
    model.update(14_760, 1_845, 1.9)
    model.update(17_064, 8_792, 3.6)
    # Two batches, 7,000 rows apart, that may each be off by 0.35 s: half of a second over that.
    assert model.row_error_s > 0.5 * 0.5 / 7_000
    beliefs = model.beliefs
    doubted = beliefs.mean(beliefs.works_s + beliefs.reads_s < 0.5 * model.costs.row_s)
    assert doubted.overhead_s > model.overhead_s


def test_rows_that_cost_nothing_but_their_reading_are_soon_seen_to() -> None:
    """A few batches that drop most of their rows and are no shorter tell that dropping saves next to nothing.

    Among whole ones, that is: batches that are all cut alike may as well be those of a machine that has become slower.
    """
    model = BatchTimeModel()
    for rows in (1_000, 4_000, 16_000, 64_000, 30_000, 60_000):
        model.update(rows, rows, 0.2 + rows * 20e-6)
    assert model.read_cost_s < 0.3 * model.costs.row_s
    for kept_rows in (30_000, 60_000, 30_000, 60_000):
        model.update(60_000, kept_rows, 1.4)
    assert model.read_cost_s > 0.8 * model.costs.row_s
    assert model.predict_s(60_000, 60_000) == pytest.approx(1.4, rel=0.15)


def test_batches_that_meet_a_jump_of_speed_are_remembered() -> None:
    """Scatter stays what it is on a machine that a neighbour slows down again and again; its overruns tell."""
    model = BatchTimeModel()
    for batch in range(60):
        rows, speed = 20_000 + 10_000 * (batch % 4), 1.7 if batch // 6 % 2 else 1.0
        model.update(rows, rows, speed * (0.2 + rows * 20e-6))
    assert max(model.overruns).factor > 1.5
    assert min(model.overruns).factor < 0.7
