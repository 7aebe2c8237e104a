"""The fleet's own logic on live engines: who keeps what, and who moves to an engine that comes later."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from live.helpers import show, wait_until
from penstock.fleet.control import FleetControl, engine_directory
from penstock.fleet.engines import OwnEngine
from penstock.fleet_declaration import read_fleet
from penstock.model import ActionKind, QueryName
from penstock.research.qod_live import LaterEngine

if TYPE_CHECKING:
    from penstock.model.engine_report import RunReport

# Slow: who sheds and who moves follows from how busy the cores are, and on a busy machine both may move.
pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1050)]

MODULES = Path(__file__).parent / "fleet_modules"
PATIENCE_S = 120.0
ENGINE = """\
[engines.{name}]
pin = [{core}]
spark = {{ "spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" }}
"""
QUERY = """\
[applications.counting.queries.{name}]
run = "counting.queries:busy"
options = {{ profile = "constant:rate=250", epoch = {epoch}, core_s_per_row = 0.002 }}
minimum_accuracy = 0.02
priority = {priority}
"""
SETTINGS = """\
[fleet]
warm_up_s = 8
move_after_s = 4
downtime_s = 5
waiting_s = 5
"""


def test_the_lower_priority_gives_way_and_moves_to_an_engine_that_comes_later(tmp_path: Path) -> None:
    """More work than one engine has cores for: the lower priority sheds, and moves when another engine is there."""
    before = list(sys.path)
    cores = sorted(os.sched_getaffinity(0))
    file = tmp_path / "fleet.toml"
    parts = [SETTINGS, ENGINE.format(name="left", core=cores[0]), ENGINE.format(name="right", core=cores[-1])]
    parts.append(f'[applications.counting]\nmodules = ["{MODULES}"]\ncheckpoints = "checkpoints"\n')
    parts += [
        QUERY.format(name=name, priority=which, epoch=int(time.time())) for name, which in (("high", 9), ("low", 1))
    ]
    file.write_text("\n".join(parts))
    declaration, place = read_fleet(file), tmp_path / "state"
    agents = declaration.settings.agents
    later = LaterEngine(declaration.engines["right"], file, engine_directory(place, "right"), agents)
    handles = {"left": OwnEngine(declaration.engines["left"], file, engine_directory(place, "left"), agents)}
    control = FleetControl(declaration, place, handles={**handles, "right": later})

    def run_of(query: str, engine: str) -> RunReport | None:
        report = control.fleet.reports.get(engine)
        return None if report is None else report.query(query)

    def gives_way() -> bool:
        high, low = run_of("high", "left"), run_of("low", "left")
        return high is not None and low is not None and low.keep_high < high.keep_high

    def is_there() -> bool:
        low = run_of("low", "right")
        return low is not None and low.batches > 1

    try:
        control.start_engines()
        control.open()
        wait_until(gives_way, "lower bound of the lower priority", within_s=PATIENCE_S)
        later.come()
        wait_until(is_there, "the lower priority on the other engine", within_s=PATIENCE_S)
        moves = control.store.actions(kinds=(ActionKind.MOVE,))
        show(f"{[(str(each.action.query), each.action.target, each.action.reason) for each in moves]}")
        assert [(each.action.query, each.action.target) for each in moves] == [(QueryName("low"), "left to right")]
        done = control.store.actions(query=QueryName("low"), kinds=(ActionKind.MOVE_DONE,))
        assert done[-1].action.target == "right"
    finally:
        control.close(engines_too=True)
        sys.path[:] = before
