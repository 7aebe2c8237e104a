"""The performance model: the misprints of the thesis shown failing, and what stands in their place."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.research.thesis_performance import bootstrap_deviation, fit_performance
from penstock.research.thesis_stability import check_stability


def _data(count: int = 1_200, *, seed: int = 0, noise: float = 0.005) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    executors = generator.integers(1, 5, count).astype(float)
    load = generator.uniform(50.0, 900.0, count)
    share = 0.03 / (1.0 - load / 1_000.0) + generator.normal(0.0, noise, count)
    return load * executors, executors, share


def test_error_of_a_prediction_with_itself_is_no_choice() -> None:
    """As printed, Algorithm 3 finds zero for every degree; on the training data the highest degree always wins."""
    demand, executors, share = _data(400, noise=0.05)
    printed, trained = [], []
    for degree in range(1, 9):
        model = fit_performance(demand, executors, share, degrees=[degree])
        predicted = model.predict(demand, executors)
        printed.append(float(np.sqrt(np.mean((predicted - predicted) ** 2))))
        raw = np.polynomial.polynomial.polyfit(demand / executors / 1_000.0, share, degree)
        fitted = np.polynomial.polynomial.polyval(demand / executors / 1_000.0, raw)
        trained.append(float(np.mean((share - fitted) ** 2)))
    assert printed == [0.0] * 8
    assert int(np.argmin(trained)) == 7
    chosen = fit_performance(demand, executors, share)
    assert chosen.basis.degree < 8


def test_a_straight_line_stays_one() -> None:
    """Cross-validation does not take a higher degree for noise."""
    generator = np.random.default_rng(8)
    executors = np.repeat([1.0, 2.0], 300)
    demand = executors * generator.uniform(0.0, 900.0, 600)
    share = 0.1 + 0.0002 * demand / executors + generator.normal(0.0, 0.03, 600)
    assert fit_performance(demand, executors, share).basis.degree == 1


def test_outliers_do_not_bend_the_model() -> None:
    """One sample in twenty after a crash changes the answer by little."""
    demand, executors, share = _data()
    spoiled = share.copy()
    spoiled[::20] = 2.0
    clean, robust = (fit_performance(demand, executors, y) for y in (share, spoiled))
    points = np.linspace(200.0, 1_600.0, 30), np.full(30, 2.0)
    np.testing.assert_allclose(robust.predict(*points), clean.predict(*points), atol=0.02)


def test_deviation_of_refits_shrinks_with_data() -> None:
    """Refits agree better the more data there is; the spread that Algorithm 4 prints does not shrink at all."""
    deviations, printed = [], []
    for count in (300, 4_800):
        samples = _data(count, noise=0.02)
        model = fit_performance(*samples, degrees=[4])
        points = samples[0][:200], samples[1][:200]
        refits = bootstrap_deviation(model, samples, points, refits=100, generator=np.random.default_rng(1))
        deviations.append(float(refits.mean()))
        printed.append(float(model.predict(samples[0], samples[1]).std()))
    assert deviations[1] < 0.4 * deviations[0]
    assert printed[1] == pytest.approx(printed[0], rel=0.2)
    assert printed[1] > 0.04


def test_bootstrap_agrees_with_plain_refits() -> None:
    """Weighted normal equations give the deviation of refitting on drawn rows one by one."""
    samples = _data(400, noise=0.02)
    model = fit_performance(*samples, degrees=[3])
    points = np.array([300.0, 900.0]), np.array([1.0, 2.0])
    quick = bootstrap_deviation(model, samples, points, refits=400, generator=np.random.default_rng(2))
    generator, plain = np.random.default_rng(3), []
    columns, shares = model.basis.columns(samples[0], samples[1]), samples[2]
    for _ in range(400):
        drawn = generator.integers(0, 400, 400)
        root = np.sqrt(model.weights[drawn])
        fit = np.linalg.lstsq(columns[drawn] * root[:, None], shares[drawn] * root, rcond=None)[0]
        plain.append(model.basis.columns(*points) @ fit)
    np.testing.assert_allclose(quick, np.std(plain, axis=0), rtol=0.25)


def test_stability_needs_a_capacity_and_both_phases() -> None:
    """Without a capacity phase two is not reached; beyond the data the model is not sure."""
    samples = _data(600)
    model = fit_performance(*samples)
    arguments = {"demand_rows_per_s": 500.0, "executors": 2, "generator": np.random.default_rng(1), "refits": 50}
    assert not check_stability(model, samples, capacity_rows_per_s=None, **arguments).is_stable
    assert check_stability(model, samples, capacity_rows_per_s=800.0, **arguments).is_stable
    far = check_stability(model, samples, capacity_rows_per_s=2_000.0, **arguments)
    assert far.ahead is not None
    assert far.ahead > far.threshold


def test_first_crossing_counts() -> None:
    """The capacity of a size is where the share first reaches the limit."""
    model = fit_performance(*_data())
    assert model.largest_demand(2, limit=0.1, load_bound=900.0) == pytest.approx(1_400.0, rel=0.03)
    assert model.largest_demand(2, limit=9.9, load_bound=900.0) == pytest.approx(1_800.0)
    assert model.largest_demand(2, limit=0.0, load_bound=900.0) == 0.0


def test_too_few_samples_are_refused() -> None:
    """A model of a handful of samples would be a guess."""
    with pytest.raises(ValueError, match="too few"):
        fit_performance(*_data(30))
