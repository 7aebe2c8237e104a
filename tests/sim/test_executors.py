"""The simulated engine: what goes in comes out, late rows are late, executors take their time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidProfileError, InvalidSettingError
from penstock.sim.calibration import Calibration, read_calibration
from penstock.sim.executors import ExecutorPlant
from penstock.sim.rate_traces import scaled_to, trace_rates, window_means

QUIET = Calibration(noise=0.0)


def test_rows_are_neither_lost_nor_made() -> None:
    """Processed and waiting rows add up to those that arrived, at every moment."""
    rates = np.random.default_rng(1).poisson(900.0, 1_200).astype(float)
    plant = ExecutorPlant(rates, QUIET, executors=1)
    processed = 0.0
    for until_s in range(10, 1_201, 10):
        signal = plant.run(float(until_s)).signal
        processed += 10.0 * signal.processed_rows_per_s
        in_work = rates[:until_s].sum() - processed - signal.backlog_rows
        # The batch under way is half done: its rows are still in the backlog.
        assert -1e-6 - 15 * 1_000 <= in_work <= 1e-6


def test_utilisation_and_queue_of_a_calm_query() -> None:
    """At half load: batches of overhead plus half the trigger, and a queue of their wait and work."""
    plant = ExecutorPlant(np.full(3_600, 1_000.0), QUIET, executors=2)
    plant.run(600.0)
    signal = plant.run(3_600.0).signal
    assert signal.batch_s == pytest.approx(0.5 + 2.5, rel=0.01)
    assert signal.busy_share == pytest.approx(0.6, rel=0.01)
    assert signal.backlog_ratio == pytest.approx((2.5 + 3.0) / 30.0, rel=0.02)
    assert signal.true_rate_rows_per_s == pytest.approx(1_000.0 * 2.5 / 3.0, rel=0.01)


def test_sustainable_share_is_sustainable() -> None:
    """At the share that the calibration gives no row is late; a twentieth above it, rows are."""
    rate = 3 * QUIET.rows_per_s * QUIET.sustainable_share
    for factor, is_late in ((1.0, False), (1.05, True)):
        plant = ExecutorPlant(np.full(7_200, factor * rate), QUIET, executors=3)
        assert (plant.run(7_200.0).late_rows > 0) is is_late


def test_executors_take_their_time() -> None:
    """Those asked for are paid at once and serve after their start; those sent away are gone at once."""
    plant = ExecutorPlant(np.full(600, 100.0), QUIET, executors=2)
    plant.ask_for(5)
    assert (plant.serving, plant.requested) == (2, 5)
    assert plant.run(29.0).paid_executor_s == pytest.approx(5 * 29.0)
    assert plant.serving == 2
    plant.run(31.0)
    assert plant.serving == 5
    plant.ask_for(7)
    plant.ask_for(3)
    assert (plant.serving, plant.requested) == (3, 3)
    with pytest.raises(ValueError, match="at least one"):
        plant.ask_for(0)


def test_a_query_that_stands_still_is_late() -> None:
    """Rows that were never done count as late when they were due."""
    plant = ExecutorPlant(np.full(600, 10_000.0), QUIET, executors=1)
    plant.run(300.0)
    assert plant.run(600.0).late_share == pytest.approx(1.0)


def test_a_restart_stops_the_query() -> None:
    """Where a change of size is a restart, nothing is processed meanwhile."""
    plant = ExecutorPlant(np.full(600, 500.0), Calibration(noise=0.0, pause_s=60.0), executors=1)
    plant.run(100.0)
    plant.ask_for(2)
    plant.run(110.0)
    assert plant.run(155.0).signal.processed_rows_per_s == 0.0


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_any_requests_end_as_asked(wishes: list[int], seed: int) -> None:
    """Whatever was asked for in between, a start-up time later there is what was asked for last."""
    plant = ExecutorPlant(np.full(2_000, 300.0), Calibration(), executors=1, seed=seed)
    for number, wish in enumerate(wishes):
        plant.ask_for(wish)
        plant.run(7.0 * (number + 1))
        assert plant.requested == wish
    plant.run(7.0 * len(wishes) + 31.0)
    assert plant.serving == wishes[-1]


def test_traces_are_read_with_their_faults_named() -> None:
    """Gaps and negative rates are refused by line, or bridged where that is asked for."""
    with pytest.raises(InvalidProfileError, match=r"line 4.*-5"):
        trace_rates("bad", "second,rate\n0,1\n1,2\n2,-5\n")
    gap = "second,rate\n0,10\n60,20\n240,20\n"
    with pytest.raises(InvalidProfileError, match="gap of 180 seconds"):
        trace_rates("gap", gap)
    assert trace_rates("gap", gap, gaps="hold").rates[120] == pytest.approx(20.0)
    with pytest.raises(InvalidProfileError, match="no load at all"):
        scaled_to(trace_rates("zero", "second,rate\n0,0\n1,0\n"), QUIET, peak_executors=3, window_s=1)


def test_traces_are_scaled_to_their_peak() -> None:
    """The highest window needs as many executors as were asked for."""
    rates = trace_rates("ramp", "second,rate\n0,1\n600,3\n1200,1\n")
    scaled = scaled_to(rates, QUIET, peak_executors=10, window_s=60)
    peak = window_means(scaled.rates, 60).max() / (QUIET.rows_per_s * QUIET.sustainable_share)
    assert peak == pytest.approx(10.0, rel=0.02)


def test_calibration_files_are_read_and_checked(tmp_path) -> None:  # noqa: ANN001 - pytest's own type
    """What is left out has its default; what is wrong is named with the remedy."""
    path = tmp_path / "engine.json"
    path.write_text('{"start_s": 12.5}')
    assert read_calibration(path) == Calibration(start_s=12.5)
    path.write_text(Calibration(goal_s=60.0).to_json())
    assert read_calibration(path).goal_s == 60.0
    for text, told in (
        ('{"startup": 1}', "'startup' is none of start_s"),
        ('{"goal_s": 0}', "goal_s"),
        ('{"noise": "much"}', "noise"),
        ("[1]", "none of"),
        ("{", "JSON object"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidSettingError, match=told):
            read_calibration(path)
    with pytest.raises(InvalidSettingError, match="can be read"):
        read_calibration(tmp_path / "none.json")
