"""Both tiers on one load: shedding holds the goal until executors come, and never makes rows later than without it."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.model import ExecutorBounds
from penstock.sim.calibration import Calibration
from penstock.sim.joint_replay import JointRun, run_jointly
from penstock.sim.replay import ReplaySettings


def met(rates: np.ndarray, minimum_accuracy: float, *, seed: int, first: int) -> JointRun:
    """A load with up to 25 executors of 1,000 rows/s; goal 30 s, trigger 5 s."""
    bounds = ExecutorBounds(max_executors=25, first_executors=first)
    settings = ReplaySettings(seed=seed)
    return run_jointly(rates, Calibration(), settings, minimum_accuracy=minimum_accuracy, bounds=bounds)


def burst(rows_per_s: float, times: float, *, seed: int) -> np.ndarray:
    """Twenty minutes of calm, and as long of many times that, from one second to the next."""
    means = np.repeat([rows_per_s, times * rows_per_s], 1_200)
    return np.random.default_rng(seed).poisson(means).astype(np.float64)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("times", "most"), [(3.0, 0.05), (4.0, 0.1)])
def test_a_burst_is_bridged_until_executors_come(times: float, most: float, seed: int) -> None:
    """Three times the load, half of which must be kept: a twentieth of the late rows of scaling alone at the most.

    Four times is more than the floor can hold for so long, whatever is decided: a tenth.
    """
    rates = burst(4_000.0, times, seed=seed)
    alone, both = (met(rates, accuracy, seed=seed, first=5) for accuracy in (1.0, 0.5))
    assert alone.late_rows > 100_000
    assert both.late_rows <= most * alone.late_rows
    assert both.executor_s <= 1.05 * alone.executor_s
    assert both.accuracy > 0.97


def test_what_scaling_alone_carries_is_not_shed() -> None:
    """A load that swings by a fifth: both together keep everything, as late and as dear as scaling alone."""
    seconds = np.arange(7_200)
    rates = np.random.default_rng(5).poisson(6_000.0 * (1.0 + 0.2 * np.sin(seconds / 600.0))).astype(np.float64)
    alone, both = (met(rates, accuracy, seed=5, first=7) for accuracy in (1.0, 0.5))
    assert both.late_rows == alone.late_rows == 0.0
    assert both.accuracy == 1.0
    assert both.executor_s <= 1.005 * alone.executor_s
