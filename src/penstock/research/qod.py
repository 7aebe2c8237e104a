"""The scenarios and the second performance assessment of "Stream-Economics", on a simulated fleet."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.control.fleet.logic import FleetLogic
from penstock.model.fleet import EngineSeen, FleetEngine
from penstock.model.goal import Goal
from penstock.settings import FleetSettings
from penstock.sim.fleet import FleetRun, FleetScript, SimulatedFleet
from penstock.sim.fleet_apps import GREEN, POINTS, YELLOW, nearest_neighbours, taxi_drives

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIRST, SECOND = EngineSeen(FleetEngine("TM1")), EngineSeen(FleetEngine("TM2"))
LATENCY_GOAL_S = 5.0
AS_IN_THE_PAPER = FleetSettings(react_s=5.0, every_s=5.0, drain_s=3600.0, payback_s=0.0, share_by="cpu")
"""A fixed cycle of 5 s, no backlog in the demand, CPU shared evenly, and no move but for minima that do not fit.

A move for minima is weighed against ``payback_s`` too; with zero it never pays, so scenario 3, which has none, is what
this is held against."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One experiment: a script, how long it lasts, and when what changes (``marks``, as in the paper's figures)."""

    name: str
    script: FleetScript
    until_s: float
    changes_s: tuple[float, ...]
    marks: tuple[tuple[float, str], ...] = ()

    def run(self, settings: FleetSettings | None = None, *, seed: int = 1) -> FleetRun:
        """Run it under the logic of the fleet."""
        return SimulatedFleet(self.script, FleetLogic(settings), seed=seed).run(self.until_s)

    def run_alone(self, *, seed: int = 1) -> FleetRun:
        """Run it without any control: nothing is dropped, nothing moves."""
        return SimulatedFleet(self.script, None, seed=seed).run(self.until_s)


def steps(*levels: tuple[float, float]) -> Callable[[float], float]:
    """Rate that is each level from its time on.

    Examples
    --------
    >>> rate = steps((0, 100.0), (60, 250.0))
    >>> rate(59.9), rate(60.0)
    (100.0, 250.0)
    """
    return lambda now_s: next(level for begin_s, level in reversed(levels) if now_s >= begin_s)


def _changes(*levels: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    return tuple(sorted({begin_s for each in levels for begin_s, _ in each if begin_s > 0}))


def scenario_1() -> Scenario:
    """Equal priorities, one engine, a second one added later; more load, less, more again, and more still."""
    drives = ((0, 250.0), (60, 450.0), (180, 250.0), (270, 450.0), (450, 700.0), (660, 400.0))
    half = steps(*((begin_s, rate / 2) for begin_s, rate in drives))
    return Scenario(
        "1: equal priorities",
        FleetScript({YELLOW: half, GREEN: half}, [(0, FIRST), *((0, each) for each in taxi_drives()), (240, SECOND)]),
        until_s=760,
        changes_s=_changes(drives),
        marks=((60, "A"), (180, "B"), (240, "TM2 added"), (270, "C"), (450, "D")),
    )


def scenario_2() -> Scenario:
    """Detours before landmarks before neighbours; neighbours are added and grow, then the drives do."""
    drives = ((0, 300.0), (300, 620.0), (480, 720.0), (660, 300.0))
    points = ((0, 150.0), (180, 900.0))
    half = steps(*((begin_s, rate / 2) for begin_s, rate in drives))
    applications = taxi_drives(
        landmarks=Goal(minimum_accuracy=0.4, priority=5),
        detours=Goal(latency=LATENCY_GOAL_S, minimum_accuracy=0.6, priority=9),
    )
    neighbours = nearest_neighbours(goal=Goal(minimum_accuracy=0.1, priority=1))
    return Scenario(
        "2: different priorities",
        FleetScript(
            {YELLOW: half, GREEN: half, POINTS: steps(*points)},
            [(0, FIRST), (0, SECOND), *((0, each) for each in applications), *((90, each) for each in neighbours)],
        ),
        until_s=760,
        changes_s=_changes(drives, points),
        marks=((90, "A"), (180, "B"), (300, "C"), (480, "D"), (660, "E")),
    )


def scenario_3() -> Scenario:
    """Neighbours in two instances on two engines; the rate doubles, doubles again, and falls."""
    points = ((0, 800.0), (100, 1600.0), (220, 3200.0), (340, 1200.0))
    return Scenario(
        "3: rate of a topic",
        FleetScript(
            {POINTS: steps(*points)},
            [(0, FIRST), (0, SECOND), *((0, each) for each in nearest_neighbours(parallelism=2))],
        ),
        until_s=460,
        changes_s=_changes(points),
        marks=((100, "A"), (220, "A"), (340, "B")),
    )


def assessment_2() -> Scenario:
    """Taxi drives on one engine, while the injection rate rises step by step."""
    drives = tuple((60.0 * step, 100.0 + 50.0 * step) for step in range(14))
    half = steps(*((begin_s, rate / 2) for begin_s, rate in drives))
    gentle = Goal(minimum_accuracy=0.3)
    return Scenario(
        "assessment 2: rising rate",
        FleetScript(
            {YELLOW: half, GREEN: half},
            [(0, FIRST), *((0, each) for each in taxi_drives(landmarks=gentle, detours=gentle))],
        ),
        until_s=840,
        changes_s=_changes(drives),
    )


SCENARIOS: dict[int, Callable[[], Scenario]] = {1: scenario_1, 2: scenario_2, 3: scenario_3}


def phases(scenario: Scenario) -> list[tuple[float, float]]:
    """From each change to the next."""
    ends = sorted({0.0, *scenario.changes_s, *(at_s for at_s, _ in scenario.marks), scenario.until_s})
    return [(begin_s, end_s) for begin_s, end_s in pairwise(ends) if end_s - begin_s > 1]
