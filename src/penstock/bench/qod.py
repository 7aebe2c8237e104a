"""How long one cycle of a fleet's logic takes, by the number of tasks: performance assessment 1 of the paper."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.fleet.logic import FleetLogic
from penstock.model.fleet import (
    EngineSeen,
    FleetEngine,
    FleetQuery,
    FleetTick,
    Move,
    QueryAdded,
    QueryReport,
    StreamKeepRatio,
    StreamReport,
)
from penstock.model.goal import Goal
from penstock.model.query import QueryName

if TYPE_CHECKING:
    from penstock.model.decision_base import Decision

TASKS_OF_AN_APPLICATION = 5
_PRIORITIES = 5
_ROWS_PER_S = 100.0
_SPAN_S = 5.0


def taxi_drives(number: int, generator: np.random.Generator) -> list[FleetQuery]:
    """One application like Taxi Drives: two sources and three sinks that read both."""
    own = f"td{number}"
    streams = (f"{own}:a", f"{own}:b")
    sources = [
        FleetQuery(QueryName(f"{own}-src{side}"), reads=(f"topic:{own}-{side}",), writes=(streams[side],))
        for side in (0, 1)
    ]
    sinks = [
        FleetQuery(
            QueryName(f"{own}-snk{each}"),
            Goal(
                minimum_accuracy=float(generator.uniform(0.1, 0.5)), priority=int(generator.integers(_PRIORITIES)) + 1
            ),
            reads=streams,
        )
        for each in range(TASKS_OF_AN_APPLICATION - 2)
    ]
    return [*sources, *sinks]


class BenchFleet:
    """A fleet of so many tasks whose load exceeds its engines by a third and changes before every cycle."""

    def __init__(self, tasks: int, engines: int, *, load: float = 1.3, seed: int = 1) -> None:
        self._generator = np.random.default_rng(seed)
        self.logic = FleetLogic()
        self._queries: list[tuple[FleetQuery, str]] = []
        cores = float(max(1, tasks // engines))
        for engine in range(engines):
            self.logic.on_event(EngineSeen(FleetEngine(f"tm{engine}", cores=cores)), 0.0)
        applications = [taxi_drives(number, self._generator) for number in range(tasks // TASKS_OF_AN_APPLICATION)]
        for position, query in enumerate(query for each in applications for query in each):
            runs_on = f"tm{position % engines}"
            self._queries.append((query, runs_on))
            self.logic.on_event(QueryAdded(query, runs_on), 0.0)
        self._core_s_per_row = load * cores * engines / (tasks * _ROWS_PER_S)
        self.now_s = 0.0

    def report(self) -> float:
        """Every query reports another rate; gives the time that taking in one report took."""
        self.now_s += 0.9 * self.logic.state.settings.react_s
        rates = _ROWS_PER_S * self._generator.uniform(0.5, 1.5, len(self._queries))
        reports = []
        for (query, engine), rate in zip(self._queries, rates.tolist(), strict=True):
            rows = rate * _SPAN_S / len(query.reads)
            inputs = tuple(StreamReport(stream, rows, rows, 0.0, rows) for stream in query.reads)
            core_s = self._core_s_per_row * rate * _SPAN_S
            reports.append(QueryReport(query.name, engine, _SPAN_S, core_s, inputs))
        begin = time.perf_counter()
        for report in reports:
            self.logic.on_event(report, self.now_s)
        return (time.perf_counter() - begin) / len(reports)

    def cycle(self) -> tuple[float, float, list[Decision]]:
        """One cycle; gives how long it took, how much of that it had a core, and what was decided."""
        self.now_s += 2.0 * self.logic.state.settings.react_s
        begin, cpu = time.perf_counter(), time.process_time()
        decisions = self.logic.on_event(FleetTick(), self.now_s)
        return time.perf_counter() - begin, time.process_time() - cpu, decisions


def measure_cycles(tasks: int, engines: int, *, cycles: int, seed: int = 1) -> dict[str, float | int]:
    """Median, 75th percentile and largest of the cycle times, with what was decided in them.

    ``median_cpu_ms`` leaves out what other programs took. ``cpu_load`` is the part of a core that takes one report of
    every query and one cycle every ``fleet.every_s``.
    """
    fleet = BenchFleet(tasks, engines, seed=seed)
    fleet.report()
    first_s, _, _ = fleet.cycle()
    times_s, cpu_s, report_s, changed, moved = [], [], [], [], []
    for _ in range(cycles):
        report_s.append(fleet.report())
        taken_s, busy_s, decisions = fleet.cycle()
        times_s.append(taken_s)
        cpu_s.append(busy_s)
        changed.append(sum(isinstance(each, StreamKeepRatio) for each in decisions))
        moved.append(sum(isinstance(each, Move) for each in decisions))
    quartiles = np.percentile(times_s, [50, 75, 100])
    return {
        "tasks": tasks,
        "engines": engines,
        "cycles": cycles,
        "median_ms": 1000 * float(quartiles[0]),
        "median_cpu_ms": 1000 * float(np.median(cpu_s)),
        "third_quartile_ms": 1000 * float(quartiles[1]),
        "largest_ms": 1000 * float(quartiles[2]),
        "first_ms": 1000 * first_s,
        "report_us": 1e6 * float(np.median(report_s)),
        "cpu_load": (float(quartiles[0]) + tasks * float(np.median(report_s))) / fleet.logic.state.settings.every_s,
        "keep_ratios_changed": int(np.median(changed)),
        "moves": sum(moved),
    }
