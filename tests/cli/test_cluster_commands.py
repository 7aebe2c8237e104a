"""Commands around clusters, as far as they go without one: what they refuse, and in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cluster import calibrate as calibration
from penstock.cluster.calibrate import Calibration

if TYPE_CHECKING:
    from collections.abc import Callable

ERRORS = {
    "no cluster": (["cluster", "status"], "start one with 'penstock cluster up'"),
    "no cluster to stop": (["cluster", "down"], "there is no cluster in"),
    "bad memory": (["cluster", "up", "--memory", "lots"], "--memory 'lots': write a number and a unit"),
    "too many workers": (["cluster", "up", "--workers", "99"], "--workers"),
    "nowhere to write": (["calibrate", "--output", "no/such/place.json"], "there is no directory"),
}
FIGURES = Calibration(
    executor_start_s_p50=6.0, executor_start_s_p95=9.5, release_s=1.5, release_s_p95=2.0, batch_overhead_s=0.2,
    cost_s_per_row=1e-5, executor_starts=5, batches=24, hashes_per_row=20, measured_on="2026-01-05T10:00:00+00:00",
    spark_version="4.2.0", cores=2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", ERRORS)
def test_mistakes_are_one_line(case: str, run: Callable[..., Any]) -> None:
    """Exit code 2, nothing on standard output, one line that names the thing and the remedy."""
    words, message = ERRORS[case]
    result = run(*words)
    assert result.code == 2
    assert result.out == ""
    assert len(result.err.splitlines()) == 1
    assert message in result.err


def test_figures_are_written_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any]
) -> None:
    """The file has what was measured, and the object on standard output is the same with the file's name."""
    monkeypatch.setattr(calibration, "calibrate", lambda **_: FIGURES)
    result = run("calibrate", "--output", "here.json", "--json")
    assert result.code == 0
    assert json.loads(result.out) == {"file": "here.json", **FIGURES.to_dict()}
    assert '"executor_start_s_p95": 9.5' in (tmp_path / "here.json").read_text()
