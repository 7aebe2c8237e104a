"""Replay of policies: the clairvoyant holds the goal, the tables say who won."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.control.limits import ARRIVAL_HALF_LIFE_S
from penstock.control.scaling_sample import Sample
from penstock.control.workload import QueryWorkload, Workload
from penstock.estimate.arrival import ArrivalRate
from penstock.model import BatchSignal, SourceSignal
from penstock.research.elastic import gaussian_rates
from penstock.sim.calibration import Calibration
from penstock.sim.executors import ExecutorPlant
from penstock.sim.rate_traces import RateTrace, trace_rates
from penstock.sim.replay import POLICIES, ReplaySettings, replay, summarise
from penstock.sim.replay_table import ReplayJob, by_policy, losses, replay_all

ROOT = Path(__file__).parents[2]
TRACES = Path(os.environ.get("PENSTOCK_TRACES", ROOT / "../shared/traces"))
SETTINGS = ReplaySettings(peak_executors=8)


@pytest.fixture(scope="module")
def runs() -> dict:
    """All policies on a bell of two hours."""
    rates = gaussian_rates(2.0, peak_rows_per_s=7_000.0)
    return replay(rates, Calibration(), SETTINGS)


def test_every_policy_runs(runs: dict) -> None:
    """The table has a row for each policy, and the measure of all is one."""
    rows = {row["policy"]: row for row in summarise(runs, Calibration(), SETTINGS)}
    assert set(rows) == set(POLICIES)
    assert rows["clairvoyant"]["of_clairvoyant"] == 1.0
    assert rows["clairvoyant"]["violations"] == 0
    assert rows["static"]["violations"] == 0
    assert rows["static"]["executor_hours"] > rows["proactive"]["executor_hours"]


def test_proactive_holds_the_goal_cheaply(runs: dict) -> None:
    """On a smooth load it has no violation, and costs less than the utilisation rule."""
    rows = {row["policy"]: row for row in summarise(runs, Calibration(), SETTINGS)}
    assert rows["proactive"]["violations"] == 0
    assert rows["proactive"]["executor_hours"] < rows["hpa"]["executor_hours"]


def test_same_seed_same_table() -> None:
    """A replay is a function of its inputs, however many processes there are."""
    trace = RateTrace("bell", gaussian_rates(0.5, peak_rows_per_s=50.0))
    job = ReplayJob(trace, Calibration(), SETTINGS, ("proactive", "hpa", "clairvoyant"))
    assert replay_all([job])[0].rows == replay_all([job])[0].rows


def test_tables_tell_where_the_proactive_policy_loses() -> None:
    """A trace on which another policy has fewer violations is named, yardsticks aside."""
    base = {"late_share": 0.0, "executor_hours": 1.0, "rescales": 1}
    rows = [
        {"trace": trace, "policy": policy, "violations": violations, "of_clairvoyant": 1.1, **base}
        for trace, policy, violations in (
            ("won", "proactive", 2),
            ("won", "hpa", 3),
            ("won", "static", 0),
            ("lost", "proactive", 4),
            ("lost", "hpa", 1),
        )
    ]
    assert [(row["trace"], row["better"]) for row in losses(rows)] == [("lost", "hpa")]
    assert {row["policy"]: row["violations"] for row in by_policy(rows)} == {"proactive": 6, "hpa": 4, "static": 0}


@pytest.mark.skipif(not TRACES.exists(), reason=f"no recorded loads at {TRACES}; set PENSTOCK_TRACES")
def test_recorded_load_with_gaps_is_replayed() -> None:
    """A recorded load with missing lines is bridged, and replays to a table."""
    text = (TRACES / "rates" / "elb_request_count_8c0756.rate.csv").read_text(encoding="utf-8")
    trace = trace_rates("elb", text, gaps="hold", hours=6.0)
    (result,) = replay_all([ReplayJob(trace, Calibration(), SETTINGS, ("proactive", "clairvoyant"))])
    assert [row["policy"] for row in result.rows] == ["proactive", "clairvoyant"]


def test_a_load_is_replayed_as_it_was_recorded() -> None:
    """Twice the rows need twice the executors, where a load scaled to its peak would need the same."""
    settings = ReplaySettings(as_recorded=True)
    hours = []
    for factor in (1.0, 2.0):
        trace = RateTrace("own", gaussian_rates(0.5, peak_rows_per_s=factor * 4_000.0))
        (result,) = replay_all([ReplayJob(trace, Calibration(), settings, ("proactive", "clairvoyant"))])
        hours.append({row["policy"]: row["executor_hours"] for row in result.rows})
    assert hours[1]["clairvoyant"] == pytest.approx(2.0 * hours[0]["clairvoyant"], rel=0.15)
    assert hours[1]["proactive"] > 1.5 * hours[0]["proactive"]


def test_simulated_reports_are_those_of_a_live_query() -> None:
    """What a policy is shown of a simulated query is what workload and sample make of the same reports, live."""
    rates = gaussian_rates(0.2, peak_rows_per_s=4_000.0)
    plant = ExecutorPlant(rates, Calibration(), executors=4, seed=3)
    seen, arrivals, sample, batch_id = QueryWorkload(), ArrivalRate(ARRIVAL_HALF_LIFE_S), Sample(), 0
    compared = 0
    for until_s in range(15, rates.size + 1, 15):
        reported = plant.run(float(until_s)).reported
        finished = [batch for batch in plant.finished if batch[1] <= until_s]
        for now_s in range(until_s - 14, until_s + 1):
            for planned_s, ended_s, rows, lag_rows in [one for one in finished if now_s - 1 < one[1] <= now_s]:
                arrivals.update(planned_s=planned_s, rows=rows, lag_rows=lag_rows)
                source = SourceSignal(0, rows, rows, lag_rows)
                seen.observe_batch(BatchSignal("q", batch_id, planned_s, ended_s - planned_s, rows, (source,)))
                batch_id += 1
            live = seen.at(float(now_s), arrival_rows_per_s=arrivals.rate_rows_per_s)
            sample = sample.with_(live or Workload(), float(now_s), goal_s=30.0)
        own = sample.signal(executors=4, requested=4, goal_s=30.0, trigger_s=5.0)
        sample = sample.following()
        for name in (
            "demand_rows_per_s",
            "processed_rows_per_s",
            "busy_share",
            "backlog_rows",
            "batch_s",
            "batch_rows",
        ):
            if getattr(reported, name) is not None:
                assert getattr(own, name) == pytest.approx(getattr(reported, name)), (until_s, name)
                compared += 1
    assert compared > 200
