"""The performance model of the thesis on recorded loads, with and without."""

from __future__ import annotations

from penstock.research.elastic import gaussian_rates
from penstock.research.model_worth import WAYS, model_worth
from penstock.sim.calibration import Calibration
from penstock.sim.rate_traces import RateTrace
from penstock.sim.replay import ReplaySettings


def test_each_scaler_has_a_row() -> None:
    """All three replay the same loads, and the one without a model never trains one."""
    load = RateTrace("bell", gaussian_rates(2.0, peak_rows_per_s=50.0))
    said: list[str] = []
    rows = model_worth([load], Calibration(), ReplaySettings(peak_executors=6), progress=said.append)
    assert [row["scaler"] for row in rows] == list(WAYS)
    assert said == ["bell"]
    hours = [float(row["executor_hours"] or 0.0) for row in rows]
    assert all(hour > 0.0 for hour in hours)
    assert hours[0] != hours[1]
