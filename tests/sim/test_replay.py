"""Replay of policies: the clairvoyant holds the goal, the tables say who won, the experiments repeat."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from penstock.sim.calibration import Calibration
from penstock.sim.change_experiment import DETECTORS, score_annotated, score_changes
from penstock.sim.change_scores import change_point_f1
from penstock.sim.elastic import compare_gaussian, compare_world_cup, explore, gaussian_rates
from penstock.sim.gains import search_gains
from penstock.sim.label_files import AnnotatedSeries
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


def test_gaussian_load_of_the_thesis() -> None:
    """Pre-trained: no violation, and no more workers per sample than the reactive policy."""
    compared = compare_gaussian(explore())
    assert compared["proactive"].violations == 0 < compared["reactive"].violations
    assert compared["proactive"].executors_mean <= compared["reactive"].executors_mean


def test_world_cup_load_of_the_thesis() -> None:
    """From a cold start on three draws of the load: never a violation, at about the workers of the reactive policy."""
    compared = [compare_world_cup(seed=seed) for seed in (1, 2, 3)]
    assert all(runs["proactive"].violations == 0 < runs["reactive"].violations for runs in compared)
    ours, theirs = (sum(runs[policy].executors_mean for runs in compared) for policy in ("proactive", "reactive"))
    assert ours <= 1.02 * theirs


def test_gains_are_ranked_by_cost() -> None:
    """The search gives every pair of its grid, cheapest first."""
    rates = gaussian_rates(0.5, peak_rows_per_s=6_000.0)
    tried = search_gains(rates, Calibration(), SETTINGS, grid=((0.9, 0.4), (0.5, 1.0)))
    costs = [one.cost_executor_hours for one in tried]
    assert len(tried) == 2
    assert costs == sorted(costs)


def test_silence_has_a_score_and_a_found_change_a_better_one() -> None:
    """Every detector but the fixed threshold finds one clear step, and silence scores what its formula says."""
    generator = np.random.default_rng(4)
    values = np.concatenate((generator.normal(0.0, 1.0, 150), generator.normal(6.0, 1.0, 150)))
    series = AnnotatedSeries("step", values[None, :], {"a": [150], "b": [151]})
    silence = change_point_f1(series.annotations, [])
    assert silence == pytest.approx(2 / 3)
    scores = {name: score_annotated([series], detector)["f1"] for name, detector in DETECTORS.items()}
    assert scores["two_lines"] == 1.0
    assert scores["threshold 0.08"] < silence


@pytest.mark.skipif(not TRACES.exists(), reason=f"no recorded loads at {TRACES}; set PENSTOCK_TRACES")
def test_recorded_load_with_gaps_is_replayed() -> None:
    """A recorded load with missing lines is bridged, and replays to a table."""
    text = (TRACES / "rates" / "elb_request_count_8c0756.rate.csv").read_text(encoding="utf-8")
    trace = trace_rates("elb", text, gaps="hold", hours=6.0)
    (result,) = replay_all([ReplayJob(trace, Calibration(), SETTINGS, ("proactive", "clairvoyant"))])
    assert [row["policy"] for row in result.rows] == ["proactive", "clairvoyant"]


@pytest.mark.skipif(not TRACES.exists(), reason=f"no labelled series at {TRACES}; set PENSTOCK_TRACES")
def test_own_detector_beats_silence_on_recorded_changes() -> None:
    """On the annotated series it scores above silence, and the fixed threshold below."""
    rows = {row["detector"]: row for row in score_changes(TRACES, parts=("tcpd",))}
    assert rows["two_lines"]["f1"] > rows["silence"]["f1"] > rows["threshold 0.08"]["f1"]
