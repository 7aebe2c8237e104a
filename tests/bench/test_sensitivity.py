"""The sensitivity of the proactive scaler: every constant is tried, and those that move nothing are named."""

from __future__ import annotations

import numpy as np

from penstock.bench.sensitivity import FACTORS, constants, run_sensitivity, unmoved
from penstock.research.elastic import gaussian_rates
from penstock.sim.calibration import Calibration
from penstock.sim.rate_traces import RateTrace
from penstock.sim.replay import ReplaySettings


def test_every_constant_is_halved_and_doubled() -> None:
    """The first row is the scaler as it is; then each constant twice, held against it."""
    load = RateTrace("bell", gaussian_rates(0.25, peak_rows_per_s=50.0))
    rows = run_sensitivity([load], Calibration(), ReplaySettings(peak_executors=4))
    assert [(row["constant"], row["factor"]) for row in rows[1:]] == [
        (name, factor) for name in constants() for factor in FACTORS
    ]
    assert rows[0]["executor_hours_ratio"] == 1.0
    assert set(unmoved(rows)) <= set(constants())


def test_a_constant_that_matters_moves_something() -> None:
    """On a load that falls, how long fewer executors must have sufficed is paid for."""
    falling = RateTrace("falling", np.linspace(100.0, 10.0, 1_800))
    rows = run_sensitivity([falling], Calibration(), ReplaySettings(peak_executors=8))
    hours = {row["factor"]: row["executor_hours"] for row in rows if row["constant"] == "down_after_s"}
    assert hours[0.5] < rows[0]["executor_hours"] < hours[2.0]
    assert "down_after_s" not in unmoved(rows)
