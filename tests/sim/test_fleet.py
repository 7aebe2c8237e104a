"""A simulated fleet under its logic: what must hold of any load, and what the paper's scenarios must show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.fleet.logic import FleetLogic
from penstock.model.decision_base import Decision
from penstock.model.fleet import EngineLost, EngineSeen, FleetEngine, FleetEvent, FleetQuery, Move, Place
from penstock.model.goal import Goal
from penstock.model.query import QueryName
from penstock.research.qod import SCENARIOS, assessment_2
from penstock.research.qod_checks import checks
from penstock.research.qod_figures import backlog_rows, compare_backlogs, mean_of
from penstock.settings import FleetSettings
from penstock.sim.fleet import FleetPhysics, FleetScript, SimulatedFleet
from penstock.sim.fleet_queries import SimulatedFleetQuery


class Watched(FleetLogic):
    """A logic that looks at each of its moves with what was known before it."""

    def on_event(self, event: FleetEvent, now_s: float) -> list[Decision]:
        """Decide, and check that nobody moves who is busy, or goes back to where it came from."""
        busy = {query for query in self.state.queries if self.state.moves.is_busy(query)}
        left = {query: self.state.moves.barred(query, now_s) for query in self.state.queries}
        decisions = super().on_event(event, now_s)
        for each in decisions:
            if isinstance(each, Move):
                assert each.query not in busy, f"{each.query} moves while it is on its way or warms up"
                assert each.engine != left[each.query], f"{each.query} goes back to {each.engine}"
                assert each.engine != each.leaves
        return decisions


@st.composite
def scripts(draw: st.DrawFn) -> FleetScript:
    """Some independent queries of random cost on two or three engines, with a load that changes twice."""
    engines = draw(st.integers(2, 3))
    happenings: list[tuple[float, EngineSeen | SimulatedFleetQuery]] = [
        (draw(st.sampled_from([0.0, 0.0, 20.0])) if place else 0.0, EngineSeen(FleetEngine(f"tm{place}")))
        for place in range(engines)
    ]
    rates = {}
    for place in range(draw(st.integers(1, 5))):
        goal = Goal(minimum_accuracy=draw(st.floats(0.0, 0.8)), priority=draw(st.integers(1, 3)))
        query = FleetQuery(QueryName(f"query{place}"), goal, reads=(f"topic:{place}",))
        happenings.append((0.0, SimulatedFleetQuery(query, core_s_per_row=draw(st.floats(0.0005, 0.003)))))
        levels = draw(st.lists(st.floats(10.0, 900.0), min_size=3, max_size=3))
        rates[f"topic:{place}"] = lambda now_s, levels=levels: levels[min(int(now_s // 30), 2)]
    return FleetScript(rates, sorted(happenings, key=lambda each: each[0]))


@settings(max_examples=15, deadline=None)
@given(script=scripts(), seed=st.integers(0, 1000))
def test_nobody_moves_twice_within_its_warm_up_or_goes_back(script: FleetScript, seed: int) -> None:
    """Whatever the load, a query that moves or warms up does not move, and none returns to the engine it left."""
    logic = Watched(FleetSettings(move_after_s=3.0, warm_up_s=20.0))
    fleet = SimulatedFleet(script, logic, physics=FleetPhysics(step_s=0.25), seed=seed)
    run = fleet.run(90.0)
    assert run.time_s[-1] >= 88
    assert all(
        running.engine is not None or name in logic.state.moves.pending for name, running in fleet.queries.items()
    )


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_scenarios_show_what_they_must(number: int) -> None:
    """Every check of a scenario is reached, for the seed of the documentation."""
    scenario = SCENARIOS[number]()
    missed = [row for row in checks(scenario, scenario.run(seed=1), number) if not row["reached"]]
    assert not missed


def test_a_backlog_is_gone_sooner_than_in_the_paper() -> None:
    """After a rate that doubles beyond capacity, less waits and for a shorter time than with the paper's own law."""
    rows = compare_backlogs()
    paper, here = (
        next(row for row in rows if row["control"] == name and row["change_s"] == 220)
        for name in ("as in the paper", "here")
    )
    assert float(here["largest_backlog_s"] or 0) < float(paper["largest_backlog_s"] or 0)
    assert float(here["back_after_s"] or 0) < float(paper["back_after_s"] or 0)


def test_lag_stays_as_the_rate_rises_beyond_the_engine() -> None:
    """Where without control the lag grows without bound, with it less than a second of input waits."""
    scenario = assessment_2()
    governed, alone = scenario.run(), scenario.run_alone()
    assert all(float(row["largest_backlog_s"] or 0) < 2 for row in backlog_rows(scenario, governed))
    assert mean_of(alone, "TDSnk2", "backlog_s", 780, 840) > 60
    assert mean_of(governed, "TDSnk2", "latency_s", 780, 840) < 3


def test_queries_of_a_lost_engine_run_elsewhere_and_nothing_is_lost() -> None:
    """When an engine dies its queries go on elsewhere within seconds, with the rows that waited meanwhile."""
    query = FleetQuery(QueryName("clicks"), Goal(minimum_accuracy=1.0), reads=("topic:clicks",))
    script = FleetScript(
        {"topic:clicks": lambda now_s: 200.0 if now_s < 80 else 0.0},
        [
            (0.0, EngineSeen(FleetEngine("tm1"))),
            (0.0, SimulatedFleetQuery(query, core_s_per_row=0.001)),
            (10.0, EngineSeen(FleetEngine("tm2"))),
            (40.0, EngineLost("tm1")),
        ],
    )
    run = SimulatedFleet(script, FleetLogic(), physics=FleetPhysics(noise=0.0)).run(120.0)
    places = [(time_s, each.engine) for time_s, each in run.decisions if isinstance(each, Place)]
    assert [engine for _, engine in places] == ["tm1", "tm2"]
    assert places[1][0] == pytest.approx(40.0)
    kept = sum(second.kept_rows for second in run.queries["clicks"] if second is not None)
    assert kept == pytest.approx(80 * 200.0, rel=1e-6)


def test_foreign_processes_take_their_share() -> None:
    """Accuracy falls where somebody else takes half of an engine's core, and comes back when they are gone."""
    query = FleetQuery(QueryName("clicks"), Goal(minimum_accuracy=0.1), reads=("topic:clicks",))
    script = FleetScript(
        {"topic:clicks": lambda _: 700.0},
        [(0.0, EngineSeen(FleetEngine("tm1"))), (0.0, SimulatedFleetQuery(query, core_s_per_row=0.001))],
        foreign_cores={"tm1": lambda now_s: 0.5 if 60 <= now_s < 120 else 0.0},
    )
    run = SimulatedFleet(script, FleetLogic()).run(180.0)
    assert mean_of(run, "clicks", "accuracy", 40, 60) == pytest.approx(1.0, abs=0.01)
    assert mean_of(run, "clicks", "accuracy", 90, 120) == pytest.approx(0.4 / 0.7, abs=0.05)
    assert mean_of(run, "clicks", "accuracy", 150, 180) == pytest.approx(1.0, abs=0.01)
    waiting = [second.backlog_s for second in run.queries["clicks"] if second is not None]
    assert np.median(waiting[90:120]) < 1.0
