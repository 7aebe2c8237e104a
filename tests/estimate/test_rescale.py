"""Costs that are rescaled because the engine has other cores."""

from __future__ import annotations

import pytest

from penstock.estimate.batch_time import BatchTimeModel


def learned() -> BatchTimeModel:
    model = BatchTimeModel()
    for rows in (1_000, 4_000, 16_000, 64_000, 32_000, 8_000):
        model.update(rows, rows, 0.3 + rows * 20e-6)
    return model


def test_twice_the_cores_halve_the_cost_of_rows_and_not_the_overhead() -> None:
    """A quarter of the cost is predicted at once with four times the cores."""
    model = learned()
    model.rescale(0.25)
    assert model.overhead_s == pytest.approx(0.3, abs=0.05)
    assert model.predict_s(100_000, 100_000) == pytest.approx(0.3 + 0.5, rel=0.1)


def test_what_does_not_add_up_is_learned_within_three_batches() -> None:
    """Where four times the cores are only twice as fast, the next batches say so."""
    model = learned()
    model.rescale(0.25)
    for _ in range(3):
        model.update(100_000, 100_000, 0.3 + 100_000 * 10e-6)
    assert model.predict_s(100_000, 100_000) == pytest.approx(1.3, rel=0.15)


def test_a_model_that_knows_nothing_stays_so() -> None:
    """Executors may come before the first batch."""
    model = BatchTimeModel()
    model.rescale(0.5)
    model.update(1_000, 1_000, 0.5)
    assert model.predict_s(1_000, 1_000) == pytest.approx(0.5, rel=0.1)
