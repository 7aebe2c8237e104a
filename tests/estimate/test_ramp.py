"""Ramp: steep rises are drawn on at once, scatter is not taken for a rise."""

from __future__ import annotations

import json

import numpy as np
import pytest

from penstock.estimate.forecast.ramp import Ramp


def _ramp() -> Ramp:
    return Ramp(window_s=60.0, deviations=1.64, half_life_s=1_800.0)


def _calm(ramp: Ramp, *, scatter: float, count: int = 480, seed: int = 1) -> None:
    for step, value in enumerate(np.random.default_rng(seed).normal(1_000.0, scatter * 1_000.0, count)):
        ramp.update(15.0 * step, float(value))


@pytest.mark.parametrize("scatter", [0.01, 0.05, 0.2])
def test_scatter_is_learned(scatter: float) -> None:
    """After two hours the scatter of the load is known to a fifth, whatever it is."""
    ramp = _ramp()
    _calm(ramp, scatter=scatter)
    assert ramp.scatter == pytest.approx(scatter, rel=0.2)


def test_two_values_of_a_steep_rise_are_enough() -> None:
    """A load that begins to rise by 40 rows/s each second is foretold for a minute later, to a fifth, after two."""
    ramp = _ramp()
    _calm(ramp, scatter=0.02)
    before = ramp.least(60.0)
    for step, value in enumerate((1_600.0, 2_200.0)):
        ramp.update(15.0 * (480 + step), value)
    assert before < 1_200.0
    assert 0.8 * 4_600.0 <= ramp.least(60.0) <= 4_600.0


def test_what_rises_by_chance_is_not_drawn_on() -> None:
    """On a load that only scatters, a quarter more than its mean is foretold in fewer than one case of ten."""
    ramp, values = _ramp(), np.random.default_rng(2).normal(1_000.0, 100.0, 2_000)
    beyond = 0
    for step, value in enumerate(values):
        ramp.update(15.0 * step, float(value))
        beyond += ramp.least(60.0) > 1_250.0
    assert beyond < 200


def test_a_jump_to_another_level_ends_the_ramp() -> None:
    """Three samples after a jump to five times the load, no more than a fifth beyond it is foretold."""
    ramp = _ramp()
    _calm(ramp, scatter=0.02)
    for step in range(4):
        ramp.update(15.0 * (480 + step), 5_000.0)
    assert ramp.least(60.0) <= 1.2 * 5_000.0


def test_the_same_report_again_tells_nothing() -> None:
    """A value of a moment that was seen already is passed over: a line through it would be vertical."""
    ramp = _ramp()
    _calm(ramp, scatter=0.02)
    before = ramp.least(60.0)
    ramp.update(15.0 * 479, 9_000.0)
    assert ramp.least(60.0) == before


def test_a_snapshot_goes_through_text() -> None:
    """What goes on from a file says the same as what ran on."""
    ramp, other = _ramp(), _ramp()
    _calm(ramp, scatter=0.05)
    other.restore(json.loads(json.dumps(ramp.snapshot())))
    for each in (ramp, other):
        each.update(15.0 * 480, 1_400.0)
    assert other.least(75.0) == ramp.least(75.0)
