"""Commands around Kafka, as far as they go without a broker: what they refuse, and in which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ERRORS = {
    "no cluster": (["kafka", "status"], "start one with 'penstock kafka up'"),
    "no cluster to stop": (["kafka", "down"], "there is no cluster in"),
    "bad heap": (["kafka", "up", "--heap", "lots"], "such as 512m or 1g"),
    "bad port": (["kafka", "up", "--port", "80"], "--port 80"),
    "topic without a name": (["kafka", "topic", "--delete"], "a topic's name is missing"),
    "two wishes": (["kafka", "topic", "x", "--delete", "--partitions", "2"], "exclude one another"),
    "no checkpoint": (["kafka", "lag", "nowhere"], "not the checkpoint of a query that has finished a batch"),
    "load to nowhere": (["load", "--profile", "constant:rate=1,seconds=1"], "either --topic NAME or --files DIR"),
    "load without end": (["load", "--profile", "constant:rate=1", "--files", "in"], "with --seconds"),
    "unknown content": (
        ["load", "--profile", "constant:rate=1,seconds=1", "--files", "in", "--content", "cats"],
        "clicks, plain",
    ),
    "unknown acks": (["load", "--profile", "constant:rate=1,seconds=1", "--files", "in", "--acks", "2"], "1, all"),
    "missing key file": (
        [
            "load",
            "--profile",
            "constant:rate=1,seconds=1",
            "--files",
            "in",
            "--content",
            "plain",
            "--key-file",
            "no.csv",
        ],
        "'no.csv' cannot be read",
    ),
    "load without a cluster": (["load", "--profile", "constant:rate=1,seconds=1", "--topic", "x"], "penstock kafka up"),
    "unknown application": (["run", "nothing"], "click-fraud, taxi-drives, knn, mentions, word-count"),
    "profile for Kafka": (["run", "knn", "--kafka", "--profile", "constant:rate=1"], "'penstock load' sends"),
    "too few topics": (["run", "taxi-drives", "--kafka", "--topic", "x"], "reads 2 topics"),
    "run without a cluster": (["run", "knn", "--kafka"], "penstock kafka up"),
    "goal that means nothing": (["run", "knn", "--goal", "soon"], "'soon' is not a duration"),
}


@pytest.fixture(autouse=True)
def _nothing_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", ERRORS)
def test_mistakes_are_one_line(case: str, run: Callable[..., Any]) -> None:
    """Exit code 2, one line that helps, and nothing started."""
    words, helpful = ERRORS[case]
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert helpful in outcome.err


def test_a_load_into_files_answers_in_json(tmp_path: Path, run: Callable[..., Any]) -> None:
    """One object with units in its keys on standard output; the rate of every second on the error stream."""
    words = ["--profile", "levels:rates=100/300,each=1", "--files", "in", "--content", "plain", "--truth", "t.csv"]
    outcome = run("load", *words, "--processes", "1", "--json")
    answer = json.loads(outcome.out)
    assert answer["rows"] == 400
    assert answer["lost_rows"] == 0
    assert answer["truth"] == "t.csv"
    assert "records/s, late by at most" in outcome.err
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0] == "second,rate"
    assert sum(int(line.split(",")[1]) for line in lines[1:]) == 400
