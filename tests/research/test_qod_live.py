"""The live scenarios of "Stream-Economics" without anything live: what is declared, and what is looked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.fleet_declaration import read_fleet
from penstock.model import QueryName
from penstock.research import qod_live
from penstock.research.qod_live import LIVE_SCENARIOS, LaterEngine, declaration_of
from penstock.research.qod_live_checks import live_checks
from penstock.settings import AgentSettings, FleetSettings

if TYPE_CHECKING:
    from pathlib import Path

OVERHEAD_CORES = 0.5
"""What drivers, broker and loads take of a core of a machine with two."""


@pytest.fixture(autouse=True)
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qod_live, "jars", lambda: ["/jars/kafka.jar"])


@pytest.mark.parametrize("number", LIVE_SCENARIOS)
def test_a_scenario_is_a_declaration(tmp_path: Path, number: int) -> None:
    """Engines are pinned to a core each, and queries have the graph, goals and costs of the script."""
    scenario = LIVE_SCENARIOS[number]()
    file = tmp_path / "fleet.toml"
    file.write_text(declaration_of(scenario, "127.0.0.1:9092", cores=[0, 1]))
    fleet = read_fleet(file)
    assert [engine.pin for engine in fleet.engines.values()] == [(0,), (1,)]
    for spec in qod_live.queries_of(scenario):
        declared = fleet.queries[spec.query.name]
        assert (declared.query.reads, declared.query.writes) == (spec.query.reads, spec.query.writes)
        assert declared.query.goal.priority == spec.query.goal.priority
        assert declared.task == spec.query.task
        assert declared.options["core_s_per_row"] == spec.core_s_per_row
    assert fleet.settings.fleet.waiting_s > qod_live.TRIGGER_S


def test_instances_share_out_partitions(tmp_path: Path) -> None:
    """Each instance of a task reads a partition of its own of every topic."""
    file = tmp_path / "fleet.toml"
    file.write_text(declaration_of(LIVE_SCENARIOS[3](), "127.0.0.1:9092", cores=[0, 1]))
    queries = read_fleet(file).queries
    assert [queries[QueryName(f"KNNSrc1-{each}")].options["partitions"] for each in (0, 1)] == [[0], [1]]


@pytest.mark.parametrize("number", LIVE_SCENARIOS)
def test_the_checks_hold_in_the_simulator(number: int) -> None:
    """On simulated engines of which the same part is taken, a scenario shows what it is to show."""
    scenario = LIVE_SCENARIOS[number]()
    foreign = dict.fromkeys(("TM1", "TM2"), lambda _: OVERHEAD_CORES)
    scenario = replace(scenario, script=replace(scenario.script, foreign_cores=foreign))
    run = scenario.run(FleetSettings(waiting_s=8.5, warm_up_s=20, move_after_s=8, downtime_s=6))
    missed = [row["what"] for row in live_checks(scenario, run, number) if not row["reached"]]
    assert missed == []


def test_an_engine_that_comes_later_is_not_there_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither started nor asked, and holds no placement up, until it is told to come."""
    started = []
    monkeypatch.setattr("penstock.fleet.engines.OwnEngine.start", lambda self: started.append(self.name))
    declaration = tmp_path / "fleet.toml"
    declaration.write_text(declaration_of(LIVE_SCENARIOS[1](), "127.0.0.1:9092", cores=[0, 1]))
    declared = read_fleet(declaration).engines["TM2"]
    engine = LaterEngine(declared, declaration, tmp_path / "TM2", AgentSettings())
    engine.start()
    assert (engine.ask().report, engine.ask().lost, engine.runs_nothing, started) == (None, None, True, [])
    engine.come()
    engine.ask()
    assert (engine.runs_nothing, started) == (False, ["TM2"])
