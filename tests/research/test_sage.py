"""The sizing experiment on a small fleet, and the remote-service rule on its cases."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.model.sizing import Resource
from penstock.research.sage import FleetResult, size_application, size_fleet
from penstock.research.sage_engine import SimulatedApplication
from penstock.research.sage_fleet import WINDOWS, draw_application
from penstock.research.sage_optimum import cost_mb, find_optimum
from penstock.research.sage_remote import remote_table, run_case
from penstock.settings import SizingSettings

SETTINGS = SizingSettings()


@pytest.fixture(scope="module")
def fleet() -> FleetResult:
    """Thirty applications, each for an hour of stream time."""
    return size_fleet(30)


def test_the_same_seed_gives_the_same_run() -> None:
    """Two runs of one application decide the same."""
    assert size_application(4) == size_application(4)
    assert size_application(4) != size_application(4, seed=2)


def test_no_application_oscillates_and_memory_goes_down_at_most_once(fleet: FleetResult) -> None:
    """No resource goes up after it went down at the same load, and heap and memory go down at most once each."""
    summary = fleet.summary()
    assert summary["oscillations"] == 0
    assert summary["most_heap_downs"] <= 1
    assert summary["most_memory_downs"] <= 1


def test_the_fleet_costs_at_most_a_tenth_more_than_its_optimum(fleet: FleetResult) -> None:
    """All applications together, from sizes that are wrong by a factor of three, come to within 10 % of the optimum."""
    assert abs(fleet.summary()["fleet_excess_ratio"]) <= 0.10


def test_no_parallelism_is_added_while_a_service_falters(fleet: FleetResult) -> None:
    """P4 is silent in every window in which the service of an application falters."""
    assert fleet.summary()["parallelism_ups_while_faltering"] == 0


def test_the_rule_for_remote_services_is_right_in_nearly_all_cases() -> None:
    """Over a hundred cases no backlog of rows is missed, and at most two of a service are taken for one."""
    falters, rows = remote_table(100)
    assert falters["cases"] == rows["cases"] == 50
    assert falters["false_calls"] <= 2
    assert rows["missed_calls"] == 0


def test_without_its_service_the_same_backlog_is_scaled_up() -> None:
    """A case whose backlog comes of more rows is scaled up within a few windows."""
    found = run_case(1)
    assert not found.is_remote
    assert found.scaled_after_windows is not None
    assert 0 <= found.scaled_after_windows <= 8


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_the_optimum_keeps_all_limits_and_less_does_not(number: int) -> None:
    """At the optimum no limit is broken in two windows on end; with a tenth less heap one is."""
    from dataclasses import replace  # noqa: PLC0415 - the only use

    application = draw_application(number, seed=1)
    best = find_optimum(application, SETTINGS)
    assert _broken(application, best.shape) == 0
    assert best.cost_mb == cost_mb(best.shape)
    smaller = replace(best.shape, heap_mb=int(0.9 * best.shape.heap_mb))
    assert _broken(application, smaller) > 0
    assert best.shape.total(Resource.CPU) >= 1


def _broken(application: object, shape: object) -> int:
    simulated = SimulatedApplication(application, shape)  # type: ignore[arg-type]
    over = []
    for window in range(WINDOWS):
        seen = simulated.run_window(window)
        faltering = bool(application.is_faltering[max(0, window - 60) : window + 1].any())  # type: ignore[attr-defined]
        over.append(not faltering and (seen.gc_fraction or 0.0) > 1.001 * SETTINGS.gc_limit)
    return sum(one and other for one, other in pairwise(over))


def test_json_and_chart(run: Callable[..., object], tmp_path: Path) -> None:
    """One object on standard output with all tables, and a chart."""
    outcome = run("experiment", "sage", "--applications", "4", "--cases", "8", "--out", str(tmp_path), "--json")
    document = json.loads(outcome.out)  # type: ignore[attr-defined]
    assert set(document["actions"]) == {f"P{number}" for number in range(1, 9)}
    assert document["summary"]["applications"] == 4
    assert Path(document["chart"]).stat().st_size > 10_000


def test_table_names_every_policy(run: Callable[..., object]) -> None:
    """Without ``--json`` there are tables."""
    outcome = run("experiment", "sage", "--applications", "3", "--cases", "4")
    assert outcome.code == 0  # type: ignore[attr-defined]
    assert "fleet_excess_ratio" in outcome.out  # type: ignore[attr-defined]
    assert "service falters" in outcome.out  # type: ignore[attr-defined]
