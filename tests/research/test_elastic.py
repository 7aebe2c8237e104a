"""The experiments of the thesis on elasticity repeat, and change detectors score what their formulas say."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.research.change_experiment import DETECTORS, score_annotated, score_changes
from penstock.research.change_scores import change_point_f1
from penstock.research.commands.experiment_elastic import _world_cup
from penstock.research.elastic import compare_gaussian, compare_world_cup, explore, gaussian_rates
from penstock.research.gains import search_gains
from penstock.research.label_files import AnnotatedSeries
from penstock.sim.calibration import Calibration
from penstock.sim.replay import ReplaySettings

ROOT = Path(__file__).parents[2]
TRACES = Path(os.environ.get("PENSTOCK_TRACES", ROOT / "../shared/traces"))
SETTINGS = ReplaySettings(peak_executors=8)


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


@pytest.mark.skipif(not TRACES.exists(), reason=f"no labelled series at {TRACES}; set PENSTOCK_TRACES")
def test_own_detector_beats_silence_on_recorded_changes() -> None:
    """On the annotated series it scores above silence, and the fixed threshold below."""
    rows = {row["detector"]: row for row in score_changes(TRACES, parts=("tcpd",))}
    assert rows["two_lines"]["f1"] > rows["silence"]["f1"] > rows["threshold 0.08"]["f1"]


@pytest.mark.parametrize("part", ["--changes", "--model"])
def test_recorded_series_are_asked_for_by_name(
    part: str, run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a folder, or with one that is not there, one line says how to name it; nobody looks anywhere else."""
    for name in ("rates", "tcpd", "nab"):
        (tmp_path / "shared" / "traces" / name).mkdir(parents=True)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv("PENSTOCK_TRACES", raising=False)
    remedy = "with --traces or PENSTOCK_TRACES"
    ended = run("experiment", "elastic", part)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {part} reads recorded series: name their folder {remedy}\n"
    for words in ([], ["--traces", "absent"]):
        monkeypatch.setenv("PENSTOCK_TRACES", "absent")
        ended = run("experiment", "elastic", part, *words)
        assert ended.code == 2
        (line,) = ended.err.splitlines()
        assert line.startswith("error: folder 'absent")
        assert line.endswith(remedy)


def test_without_a_folder_the_load_of_the_world_cup_is_drawn() -> None:
    """No recording is no error there."""
    assert _world_cup(None) is None
    assert _world_cup(Path("absent")) is None
