"""The applications of "Stream-Economics" as graphs with costs: Taxi Drives and k nearest neighbours."""

from __future__ import annotations

from penstock.model.fleet import FleetQuery
from penstock.model.goal import Goal
from penstock.model.query import QueryName
from penstock.sim.fleet_queries import SimulatedFleetQuery

YELLOW, GREEN, POINTS = "topic:taxi-yellow", "topic:taxi-green", "topic:points"
SOURCE_CORE_S, LANDMARK_CORE_S, DETOUR_CORE_S, NEIGHBOUR_CORE_S = 0.0002, 0.0010, 0.0012, 0.0010
"""Cost of a row: parsing is cheap beside what the sinks compute, and a detour costs more than a landmark.

A drive at full accuracy costs 2.4 ms in all, so an engine of one core that is given out up to 0.9 takes 375 drives a
second, and two take 750."""


def taxi_drives(
    *, landmarks: Goal | None = None, detours: Goal | None = None, parallelism: int = 2
) -> list[SimulatedFleetQuery]:
    """Two sources, and two sinks that each read the union of both: landmarks (TDSnk1) and detours (TDSnk2).

    The paper says in section 7 that TDSnk2 runs in two instances, and in 7.1 and 7.2 that TDSnk1 does, whose instances
    then move one after the other; the scenarios are what is repeated, so it is TDSnk1 here.
    """
    streams = ("drives:yellow", "drives:green")
    sources = [
        _query(f"TDSrc{number}", SOURCE_CORE_S, (topic,), (stream,))
        for number, (topic, stream) in enumerate(zip((YELLOW, GREEN), streams, strict=True), start=1)
    ]
    first = [
        _query(f"TDSnk1-{each}", LANDMARK_CORE_S, streams, task="TDSnk1", goal=landmarks or Goal(minimum_accuracy=0.4))
        for each in range(parallelism)
    ]
    second = _query("TDSnk2", DETOUR_CORE_S, streams, goal=detours or Goal(minimum_accuracy=0.6))
    return [*sources, *first, second]


def nearest_neighbours(*, goal: Goal | None = None, parallelism: int = 1) -> list[SimulatedFleetQuery]:
    """One task that reads its topic itself."""
    names = ["KNNSrc1"] if parallelism == 1 else [f"KNNSrc1-{each}" for each in range(parallelism)]
    asked = goal or Goal(minimum_accuracy=0.3)
    return [_query(name, NEIGHBOUR_CORE_S, (POINTS,), task="KNNSrc1", goal=asked) for name in names]


def _query(
    name: str,
    core_s_per_row: float,
    reads: tuple[str, ...],
    writes: tuple[str, ...] = (),
    *,
    task: str = "",
    goal: Goal | None = None,
) -> SimulatedFleetQuery:
    query = FleetQuery(QueryName(name), goal or Goal(), reads, writes, task, application=name[:3].rstrip("S"))
    return SimulatedFleetQuery(query, core_s_per_row)
