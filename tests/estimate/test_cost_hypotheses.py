"""What batches may cost, told from batches that scatter, jump and meet accidents."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.estimate.batch_time import BatchTimeModel
from penstock.estimate.cost_hypotheses import CostHypotheses

OVERHEAD_S, ROW_S, READ_S = 0.2, 13e-6, 0.4e-6


def duration_s(read_rows: int, kept_rows: int, slower: float = 1.0) -> float:
    return slower * (OVERHEAD_S + READ_S * (read_rows - kept_rows) + ROW_S * kept_rows)


def learned() -> BatchTimeModel:
    """A model that has seen whole batches of many sizes, on a quiet machine."""
    model = BatchTimeModel()
    for rows in (1_000, 4_000, 16_000, 64_000, 30_000, 100_000, 60_000, 120_000):
        model.update(rows, rows, duration_s(rows, rows))
    return model


def test_batches_of_one_size_leave_the_division_open_for_ever() -> None:
    """However many there were, overhead and rows are uncertain each, and certain together."""
    model, rng = BatchTimeModel(), np.random.default_rng(5)
    for _ in range(500):
        model.update(50_000, 50_000, 0.85 * float(np.exp(0.05 * rng.standard_normal())))
    assert model.row_error_s > 0.5 * model.costs.row_s
    assert not model.is_told_apart
    assert model.predict_s(50_000, 50_000) == pytest.approx(0.85, rel=0.1)
    beliefs = model.beliefs
    cheap = beliefs.works_s + beliefs.reads_s < 0.5 * model.costs.row_s
    for part in (cheap, ~cheap):
        assert beliefs.weights[part].sum() > 0.1
        assert beliefs.mean(part).predict_s(50_000, 50_000) == pytest.approx(0.85, rel=0.1)


@pytest.mark.parametrize("seed", range(8))
def test_a_large_scatter_is_not_a_machine_that_jumps(seed: int) -> None:
    """A long batch is followed by one with more rows, which is shorter again: what rows cost is not known by that."""
    model, rng = BatchTimeModel(), np.random.default_rng(seed)
    rows = 20_000
    for _ in range(60):
        batch_s = (1.0 + rows * ROW_S) * float(np.exp(0.3 * rng.standard_normal()))
        model.update(rows, rows, batch_s)
        rows = round(18_000 * batch_s)
    assert model.relative_noise == pytest.approx(0.3, rel=0.35)
    assert model.row_error_s > 0.8 * model.costs.row_s
    assert not model.is_told_apart


def test_after_a_batch_of_three_times_its_length_the_next_one_tells() -> None:
    """Alone it was an accident, which is forgotten; with another one it was the machine."""
    for second, expected in ((1.0, 1.0), (3.0, 3.0)):
        model = learned()
        model.update(100_000, 100_000, duration_s(100_000, 100_000, 3.0))
        model.update(100_000, 100_000, duration_s(100_000, 100_000, second))
        assert model.predict_s(100_000, 100_000) == pytest.approx(duration_s(100_000, 100_000, expected), rel=0.12)


def test_a_first_cut_that_meets_a_neighbour_is_soon_not_taken_for_reading() -> None:
    """Reading and a slower machine both explain it; the cuts that follow leave the machine."""
    model = learned()
    for read_rows, kept_rows in ((240_000, 140_000), (350_000, 10_000), (55_000, 55_000)):
        model.update(read_rows, kept_rows, duration_s(read_rows, kept_rows, 1.7))
    assert model.read_cost_s < 0.15 * model.costs.row_s
    assert model.predict_s(100_000, 100_000) == pytest.approx(duration_s(100_000, 100_000, 1.7), rel=0.15)


def test_costs_are_possible_whatever_batches_say() -> None:
    """Nothing is negative, and no row costs less kept than dropped, though batches get shorter with more rows."""
    model = BatchTimeModel()
    for rows in (1_000, 10_000, 100_000, 1_000, 10_000, 100_000):
        model.update(rows, rows // 2, 5.0 / rows**0.2)
    costs = model.costs
    assert min(costs.overhead_s, costs.read_s, costs.work_s) > 0.0


def test_rows_that_change_are_learned_anew() -> None:
    """Rows ten times as dear from one batch to the next, at the same overhead, are known again after a few batches."""
    model = learned()
    for rows in (10_000, 40_000, 5_000, 20_000, 60_000, 10_000, 30_000, 2_000, 50_000, 8_000):
        model.update(rows, rows, OVERHEAD_S + rows * 10.0 * ROW_S)
    assert model.predict_s(20_000, 20_000) == pytest.approx(OVERHEAD_S + 2.6, rel=0.15)
    assert model.overhead_s == pytest.approx(OVERHEAD_S, rel=0.5)


def test_a_snapshot_is_equal_to_itself_and_to_nothing_else() -> None:
    """States hold arrays, and are compared by what is in them."""
    one, other = CostHypotheses(), CostHypotheses()
    for hypotheses in (one, other):
        hypotheses.observe(1_000, 1_000, 0.5)
        hypotheses.move(0.08, 0.02)
        hypotheses.observe(4_000, 4_000, 0.6)
    assert one.snapshot() == other.snapshot()
    assert CostHypotheses(one.snapshot()).mean == one.mean
    other.observe(4_000, 2_000, 0.6)
    assert one.snapshot() != other.snapshot()
    assert one.snapshot() != "a state"
