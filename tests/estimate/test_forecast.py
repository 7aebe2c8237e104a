"""Forecasts: exact on what they are made for, weighed by what they got right, bounded from above."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.estimate.forecast import FORECASTERS, Combined, Forecaster, Level, LinearTrend, Seasonal

MAKERS = {
    "linear": LinearTrend,
    "level": Level,
    "seasonal": lambda: Seasonal(period_s=1_200.0, bin_s=60.0),
    "combined": lambda: Combined([LinearTrend(), Level(), Seasonal(period_s=1_200.0, bin_s=60.0)]),
}
every_kind = pytest.mark.parametrize("name", sorted(FORECASTERS))


def _feed(forecaster: Forecaster, begin: int, end: int) -> list[float | None]:
    out = []
    for step in range(begin, end):
        forecaster.update(15.0 * step, 500.0 + 300.0 * np.sin(2 * np.pi * step / 80.0) + 10.0 * np.cos(7.0 * step))
        out.append(forecaster.predict(60.0))
    return out


def test_every_kind_is_checked() -> None:
    """A forecaster added to the registry without a maker here would not be checked."""
    assert set(MAKERS) == set(FORECASTERS)


@every_kind
def test_restored_forecaster_goes_on(name: str) -> None:
    """A snapshot carries all there is, and is not changed by learning on."""
    first, second, third = (MAKERS[name]() for _ in range(3))
    _feed(first, 0, 200)
    snapshot = first.snapshot()
    expected = _feed(first, 200, 260)
    second.restore(snapshot)
    third.restore(snapshot)
    assert _feed(second, 200, 260) == expected == _feed(third, 200, 260)


@every_kind
def test_forecasts_are_no_less_than_zero(name: str) -> None:
    """A load that falls to nothing is not foretold to be negative."""
    forecaster = MAKERS[name]()
    for step in range(200):
        forecaster.update(15.0 * step, max(0.0, 1_000.0 - 40.0 * step))
        guess = forecaster.predict(600.0)
        assert guess is None or guess >= 0.0


def test_linear_trend_is_the_least_squares_line() -> None:
    """The running sums give what numpy fits to the last ten minutes, long after the start."""
    trend, generator = LinearTrend(), np.random.default_rng(1)
    times, values = 15.0 * np.arange(5_000), generator.uniform(0.0, 100.0, 5_000)
    for time_s, value in zip(times, values, strict=True):
        trend.update(float(time_s), float(value))
    slope, height = np.polyfit(times[-40:] - times[-1], values[-40:], 1)
    assert trend.predict(60.0) == pytest.approx(height + 60.0 * slope)


def test_seasonal_knows_the_rise_before_it_comes() -> None:
    """After a period it foretells a jump that a trend cannot see."""
    seasonal, trend = Seasonal(period_s=7_200.0, bin_s=60.0), LinearTrend()
    for step in range(2 * 480 + 230):
        value = 100.0 if step % 480 < 240 else 400.0
        seasonal.update(15.0 * step, value)
        trend.update(15.0 * step, value)
    assert trend.predict(300.0) == pytest.approx(100.0)
    assert seasonal.predict(300.0) == pytest.approx(400.0, rel=0.05)


def test_combination_trusts_who_was_right() -> None:
    """On a ramp the trend counts, on noise around a level the level does."""
    generator = np.random.default_rng(2)
    ramp, noise = (Combined([LinearTrend(window_s=150.0), Level(half_life_s=300.0)]) for _ in range(2))
    for step in range(400):
        ramp.update(15.0 * step, 100.0 + 5.0 * step)
        noise.update(15.0 * step, float(generator.normal(500.0, 50.0)))
    assert ramp.weights[0] > 0.99
    assert noise.weights[1] > 0.6


@pytest.mark.parametrize("quantile", [0.8, 0.95])
def test_upper_bound_covers_its_share(quantile: float) -> None:
    """On noise that stays the same, about as many loads as promised are below the bound."""
    forecast, generator = Combined([Level(half_life_s=300.0)], quantile=quantile), np.random.default_rng(6)
    covered, bounds = [], {}
    for step in range(3_000):
        value = float(generator.normal(1_000.0, 80.0))
        forecast.update(15.0 * step, value)
        if step - 4 in bounds:
            covered.append(value <= bounds[step - 4])
        bounds[step] = forecast.upper(60.0)
    assert np.mean(covered[500:]) == pytest.approx(quantile, abs=0.02)


def test_a_profile_of_other_parts_is_refused() -> None:
    """What was learned with other parts would be read at other times of the day."""
    other = Seasonal(period_s=1_200.0, bin_s=60.0)
    with pytest.raises(ValueError, match="20 parts is not one of 10"):
        Seasonal(period_s=1_200.0, bin_s=120.0).restore(other.snapshot())
