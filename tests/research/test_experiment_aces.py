"""``penstock experiment aces`` as a shell sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.research.aces import POLICIES

SMALL = ("experiment", "aces", "--elements", "15", "--nodes", "5", "--topologies", "1", "--duration", "1.5",
         "--processes", "1")  # fmt: skip


def test_json_has_rows_checks_and_charts(run: Callable[..., object], tmp_path: Path) -> None:
    """One object on standard output, progress on standard error, and a chart for each figure."""
    outcome = run(*SMALL, "--figure", "3", "--figure", "4", "--out", str(tmp_path), "--json")
    document = json.loads(outcome.out)  # type: ignore[attr-defined]
    assert {row["figure"] for row in document["rows"]} == {"3", "4"}
    assert {row["policy"] for row in document["rows"]} == {policy.value for policy in POLICIES}
    assert len(document["checks"]) == 2 * 7
    assert {row["clock"] for row in document["rows"]} == {"cpu", "wall"}
    assert [Path(chart).name for chart in document["charts"]] == [
        f"aces-figure-{figure}-{clock}.png" for figure in (3, 4) for clock in ("cpu", "wall")
    ]
    assert all(Path(chart).stat().st_size > 10_000 for chart in document["charts"])
    assert "8 of 8 topologies run" in outcome.err  # type: ignore[attr-defined]


def test_table_names_every_policy(run: Callable[..., object]) -> None:
    """Without ``--json`` there is a table, with all policies where asked."""
    outcome = run(*SMALL, "--figure", "robustness", "--every-policy")
    assert outcome.code == 0  # type: ignore[attr-defined]
    for policy in ("aces", "udp", "lock_step", "backpressure", "static_limit"):
        assert policy in outcome.out  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "said"), [(("--figure", "7"), "figure '7' is not one of"), (("--clock", "sun"), "clock 'sun' is none of")]
)
def test_unknown_values_are_refused(run: Callable[..., object], words: tuple[str, ...], said: str) -> None:
    """A figure or clock that does not exist is one line and exit code 2."""
    outcome = run(*SMALL, *words)
    assert outcome.code == 2  # type: ignore[attr-defined]
    assert said in outcome.err  # type: ignore[attr-defined]


def test_latency_is_compared_at_equal_throughput(run: Callable[..., object]) -> None:
    """The table of equal throughput has a row for each buffer and clock, and a claim for each clock."""
    outcome = run(*SMALL, "--figure", "equal", "--json")
    document = json.loads(outcome.out)  # type: ignore[attr-defined]
    assert len(document["rows"]) == 2 * 3
    assert [check["clock"] for check in document["checks"]] == ["cpu", "wall"]
