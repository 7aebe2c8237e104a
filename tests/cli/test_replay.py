"""``penstock replay`` and ``penstock experiment elastic`` from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten minutes with a step."""
    path = tmp_path / "step.csv"
    lines = [f"{second},{10 if second < 300 else 40}" for second in range(600)]
    path.write_text("second,rate\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_replay_gives_a_table_and_charts(trace: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    """One row a policy, the clairvoyant's hours as their measure, and a chart as a file."""
    words = ["--policy", "hpa", "--policy", "clairvoyant", "--out", str(tmp_path / "charts"), "--processes", "1"]
    outcome = run("replay", "--trace", str(trace), *words, "--json")
    found = json.loads(outcome.out)
    assert [row["policy"] for row in found["rows"]] == ["hpa", "clairvoyant"]
    assert found["rows"][1]["of_clairvoyant"] == 1.0
    assert (tmp_path / "charts" / "replay-step.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--trace", "{place}/none.csv"], "none.csv"),
        (["--trace", "{place}"], "has no trace"),
        (["--trace", "{place}/data/bad.csv"], "line 3"),
        (["--trace", "{place}/data/gap.csv", "--gaps", "refuse"], "a gap of 3 seconds"),
        (["--trace", "{place}/data/gap.csv", "--policy", "magic"], "'magic' is not one of all, proactive"),
        (["--trace", "{place}/data/gap.csv", "--calibration", "{place}/data/engine.json"], "rows_per_s"),
        (["--trace", "{place}/data/gap.csv", "--goal-latency", "soon"], "soon"),
        (
            ["--trace", "{place}/data/gap.csv", "--minimum-accuracy", "0.5", "--policy", "clairvoyant"],
            "takes one --policy of",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(words: list[str], told: str, tmp_path: Path, run: Callable[..., Any]) -> None:
    """A trace or engine that cannot be used ends with the thing and the remedy."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "bad.csv").write_text("second,rate\n0,1\n1,-3\n", encoding="utf-8")
    (data / "gap.csv").write_text("second,rate\n0,1\n1,3\n4,3\n", encoding="utf-8")
    (data / "engine.json").write_text('{"rows_per_s": -1}', encoding="utf-8")
    outcome = run("replay", *(word.format(place=tmp_path) for word in words))
    assert outcome.code == 2
    assert told in outcome.err
    assert outcome.err.count("\n") == 1


def test_shedding_and_scaling_are_replayed_together(tmp_path: Path, run: Callable[..., Any]) -> None:
    """One row a way to meet the load, with units in the keys, and fewer late rows than by scaling alone."""
    seconds = range(2_400)
    lines = [f"{second},{400 if 600 <= second < 900 else 100}" for second in seconds]
    (tmp_path / "burst.csv").write_text("second,rate\n" + "\n".join(lines) + "\n", encoding="utf-8")
    words = ["--trace", str(tmp_path / "burst.csv"), "--policy", "reactive", "--peak-executors", "8", "--json"]
    outcome = run("replay", *words, "--goal-latency", "20 seconds", "--minimum-accuracy", "0.2")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["goal_latency_s"] == 20.0
    rows = {row["way"]: row for row in document["rows"]}
    assert list(rows) == ["shedding and scaling", "scaling alone", "shedding alone", "static peak"]
    joined, alone = rows["shedding and scaling"], rows["scaling alone"]
    assert 0.2 <= joined["accuracy_ratio"] < 1.0
    assert alone["accuracy_ratio"] == 1.0
    assert joined["late_rows"] <= 0.1 * alone["late_rows"]
