"""``penstock experiment qod`` as a shell sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


def test_json_has_phases_backlog_checks_and_a_chart(run: Callable[..., object], tmp_path: Path) -> None:
    """One object on standard output, progress on standard error, and the chart of the scenario."""
    outcome = run("experiment", "qod", "--scenario", "3", "--out", str(tmp_path), "--json")
    document = json.loads(outcome.out)  # type: ignore[attr-defined]
    scenario = document["scenario_3"]
    assert set(document) == {"experiment", "seed", "scenario_3"}
    assert {row["control"] for row in scenario["backlog"]} == {"as in the paper", "here"}
    assert all({"what", "required", "seen", "reached"} == set(row) for row in scenario["checks"])
    assert Path(scenario["chart"]).stat().st_size > 10_000
    assert "scenario 3" in outcome.err  # type: ignore[attr-defined]


def test_a_table_for_people(run: Callable[..., object]) -> None:
    """Without ``--json`` the rising rate is a table, with and without control side by side."""
    outcome = run("experiment", "qod", "--assessment", "2")
    assert "with_lag_rows" in outcome.out  # type: ignore[attr-defined]
    assert "without_lag_rows" in outcome.out  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", ["--scenario", "--assessment"])
def test_a_number_that_there_is_not_is_refused(run: Callable[..., object], option: str) -> None:
    """A scenario or assessment that the paper does not have is a usage error."""
    outcome = run("experiment", "qod", option, "4")
    assert outcome.code == 2  # type: ignore[attr-defined]
