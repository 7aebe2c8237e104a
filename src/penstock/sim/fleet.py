"""A simulated fleet in virtual time: engines of some cores each, queries that move, and the logic that decides live.

Rows flow like a fluid in short steps. The queries of an engine share its cores fairly, as FAIR pools do, whatever their
priority: what a query gets follows from keep ratios alone. A query that moves is down for some seconds, its rows wait
meanwhile, and its first rows on the new engine are dearer.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.fleet.accuracy import current_accuracy, local_accuracy
from penstock.model.fleet import (
    EngineLost,
    EngineSeen,
    FleetEngine,
    FleetGoalChanged,
    FleetTick,
    Move,
    MoveFinished,
    Place,
    QueryAdded,
    StreamKeepRatio,
)
from penstock.sim.fleet_queries import RunningQuery, SimulatedFleetQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.control.fleet.logic import FleetLogic
    from penstock.model.decision_base import Decision
    from penstock.model.fleet import FleetEvent


@dataclass(frozen=True, slots=True)
class FleetScript:
    """What happens to a fleet from outside.

    Parameters
    ----------
    rates
        Rows a second of each stream from outside, as a function of time.
    happenings
        What comes when: engines that are seen or lost, queries that are added, goals that change.
    foreign_cores
        CPU that others take of an engine's cores, as a function of time.
    """

    rates: Mapping[str, Callable[[float], float]]
    happenings: Sequence[tuple[float, EngineSeen | EngineLost | SimulatedFleetQuery | FleetGoalChanged]]
    foreign_cores: Mapping[str, Callable[[float], float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FleetPhysics:
    """How the simulated fleet behaves.

    Parameters
    ----------
    step_s, report_every_s
        Length of a step, and how often queries and engines report.
    downtime_s
        Shortest and longest time that a move keeps a query from running.
    noise
        Scatter of rates within a second, as a part of them.
    batch_s
        What the batch that a row waits for and is processed in adds to its latency.
    """

    step_s: float = 0.1
    report_every_s: float = 1.0
    downtime_s: tuple[float, float] = (3.0, 7.0)
    noise: float = 0.03
    batch_s: float = 1.0


@dataclass(slots=True)
class QuerySecond:
    """One query within one second, for charts and figures."""

    engine: str | None
    accuracy: float
    arrived_rows: float
    kept_rows: float
    backlog_rows: float
    backlog_s: float
    latency_s: float
    cores: float
    estimated_rows_per_s: float = 0.0
    current_accuracy: float = 1.0


@dataclass(slots=True)
class FleetRun:
    """What happened, second by second."""

    time_s: list[float] = field(default_factory=list)
    queries: dict[str, list[QuerySecond | None]] = field(default_factory=dict)
    engines: dict[str, list[float]] = field(default_factory=dict)
    decisions: list[tuple[float, Decision]] = field(default_factory=list)
    downtimes_s: list[float] = field(default_factory=list)

    @property
    def moves(self) -> list[tuple[float, Move]]:
        """Moves with their times."""
        return [(time_s, each) for time_s, each in self.decisions if isinstance(each, Move)]


class SimulatedFleet:
    """Runs a script; without a logic all rows are kept and queries stay where they are put in turn."""

    def __init__(
        self, script: FleetScript, logic: FleetLogic | None, *, physics: FleetPhysics | None = None, seed: int = 1
    ) -> None:
        self._script = script
        self._logic = logic
        self._physics = physics or FleetPhysics()
        self._generator = np.random.default_rng(seed)
        self.queries: dict[str, RunningQuery] = {}
        self.engines: dict[str, FleetEngine] = {}
        self.run_log = FleetRun()
        self._future: list[tuple[float, int, FleetEvent | SimulatedFleetQuery]] = []
        self._numbers = count()
        self._used_core_s: dict[str, float] = defaultdict(float)
        self._ages: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._second: dict[str, list[float]] = {}
        for time_s, event in script.happenings:
            self._later(time_s, event)

    def run(self, until_s: float) -> FleetRun:
        """Let time pass; gives what happened."""
        steps = round(until_s / self._physics.step_s)
        per_report = round(self._physics.report_every_s / self._physics.step_s)
        per_second = round(1.0 / self._physics.step_s)
        for step in range(steps):
            now_s = step * self._physics.step_s
            while self._future and self._future[0][0] <= now_s + 1e-9:
                self._happen(heapq.heappop(self._future)[2], now_s)
            if step and step % per_report == 0:
                self._report(now_s)
            if step and step % per_second == 0:
                self._log_second(now_s)
            self._arrive(now_s)
            for engine in self.engines.values():
                self._work(engine, now_s)
        return self.run_log

    # ---- events and decisions ------------------------------------------------------------------------------------

    def _later(self, time_s: float, event: FleetEvent | SimulatedFleetQuery) -> None:
        heapq.heappush(self._future, (time_s, next(self._numbers), event))

    def _happen(self, event: FleetEvent | SimulatedFleetQuery, now_s: float) -> None:
        if isinstance(event, SimulatedFleetQuery):
            self.queries[event.query.name] = RunningQuery(event, reported_s=now_s)
            event = QueryAdded(event.query)
        elif isinstance(event, EngineSeen):
            self.engines[event.engine.name] = event.engine
        elif isinstance(event, EngineLost):
            del self.engines[event.engine]
            for running in self.queries.values():
                running.engine = None if running.engine == event.engine else running.engine
        elif isinstance(event, MoveFinished):
            self._start(self.queries[event.query], event.engine, now_s)
        self._tell(event, now_s)

    def _tell(self, event: FleetEvent, now_s: float) -> None:
        if self._logic is None:
            if isinstance(event, QueryAdded):
                names = sorted(self.engines)
                self._start(self.queries[event.query.name], names[(len(self.queries) - 1) % len(names)], now_s)
            return
        for decision in self._logic.on_event(event, now_s):
            self.run_log.decisions.append((now_s, decision))
            self._apply(decision, now_s)

    def _apply(self, decision: Decision, now_s: float) -> None:
        if isinstance(decision, Place | Move):
            running = self.queries[decision.query]
            running.engine = None
            downtime_s = float(self._generator.uniform(*self._physics.downtime_s))
            self.run_log.downtimes_s.append(downtime_s)
            done = MoveFinished(decision.query, decision.engine, decision.number, downtime_s)
            self._later(now_s + downtime_s, done)
        elif isinstance(decision, StreamKeepRatio):
            self.queries[decision.query].keep[decision.stream] = decision.keep_ratio
            self.queries[decision.query].path_keep_ratio = decision.path_keep_ratio

    def _start(self, running: RunningQuery, engine: str, now_s: float) -> None:
        running.engine = engine if engine in self.engines else None
        running.started_s = running.reported_s = now_s
        running.core_s = running.rows_out = 0.0

    def _report(self, now_s: float) -> None:
        for name, engine in list(self.engines.items()):
            busy = self._used_core_s.pop(name, 0.0) / self._physics.report_every_s
            self.run_log.engines.setdefault(name, []).append(busy)
            self._tell(EngineSeen(engine, busy + self._foreign(name, now_s), busy), now_s)
        for running in list(self.queries.values()):
            if running.engine is not None and now_s > running.reported_s:
                self._tell(running.report(now_s), now_s)
        self._tell(FleetTick(), now_s)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _foreign(self, engine: str, now_s: float) -> float:
        foreign = self._script.foreign_cores.get(engine)
        return 0.0 if foreign is None else foreign(now_s)

    def _arrive(self, now_s: float) -> None:
        for stream, rate in self._script.rates.items():
            scatter = 1.0 + self._physics.noise * float(self._generator.standard_normal())
            rows = max(0.0, rate(now_s) * self._physics.step_s * scatter)
            self._hand_on(stream, [(now_s, rows)])

    def _hand_on(self, stream: str, rows: Sequence[tuple[float, float]]) -> None:
        """Every task that reads the stream gets all rows, each of its instances an equal part."""
        readers = [each for each in self.queries.values() if stream in each.queues]
        instances: dict[str, int] = defaultdict(int)
        for reader in readers:
            instances[reader.spec.query.task_name] += 1
        for reader in readers:
            part = 1.0 / instances[reader.spec.query.task_name]
            for born_s, many in rows:
                reader.queues[stream].put(born_s, many * part)
                self._counted(reader)[0] += many * part

    def _work(self, engine: FleetEngine, now_s: float) -> None:
        there = [each for each in self.queries.values() if each.engine == engine.name]
        budget = max(0.0, engine.cores - self._foreign(engine.name, now_s)) * self._physics.step_s
        wanted = {each.spec.query.name: each.work_core_s(now_s) for each in there}
        for position, running in enumerate(sorted(there, key=lambda each: wanted[each.spec.query.name])):
            fair = budget / (len(there) - position)
            before = sum(done.kept_rows for done in running.done.values())
            spent = min(fair, wanted[running.spec.query.name])
            out = running.process(spent, now_s)
            budget -= spent
            self._used_core_s[engine.name] += spent
            counted = self._counted(running)
            counted[1] += sum(done.kept_rows for done in running.done.values()) - before
            counted[2] += spent
            for stream in running.spec.query.writes:
                self._hand_on(stream, out)
            self._ages[running.spec.query.name].extend((now_s - born_s, rows) for born_s, rows in out)

    def _counted(self, running: RunningQuery) -> list[float]:
        return self._second.setdefault(running.spec.query.name, [0.0, 0.0, 0.0])

    def _known(self) -> dict[str, tuple[float, float]]:
        """Rate and current accuracy of each query as the logic sees them."""
        if self._logic is None:
            return {}
        table, shape = self._logic.state.table, self._logic.state.graph.shape
        arrived = table["arrived_rows_per_s"]
        current = current_accuracy(shape, local_accuracy(shape, table["kept_rows_per_s"], arrived))[shape.task_of]
        return dict(zip(table.names, zip(arrived.tolist(), current.tolist(), strict=True), strict=True))

    def _log_second(self, now_s: float) -> None:
        log, known = self.run_log, self._known()
        log.time_s.append(now_s)
        for name, running in self.queries.items():
            arrived, kept, core_s = self._second.get(name, [0.0, 0.0, 0.0])
            row = QuerySecond(
                engine=running.engine, accuracy=running.path_keep_ratio, arrived_rows=arrived, kept_rows=kept,
                backlog_rows=running.backlog_rows, backlog_s=running.backlog_rows / arrived if arrived > 0 else 0.0,
                latency_s=_percentile(self._ages.get(name, []), 0.99) + self._physics.batch_s, cores=core_s,
                estimated_rows_per_s=known.get(name, (0.0, 1.0))[0], current_accuracy=known.get(name, (0.0, 1.0))[1],
            )  # fmt: skip
            earlier = log.queries.setdefault(name, [None] * (len(log.time_s) - 1))
            earlier.append(row)
        self._second.clear()
        self._ages.clear()


def _percentile(ages: Sequence[tuple[float, float]], part: float) -> float:
    """Age that this part of the rows does not exceed."""
    if not ages:
        return 0.0
    values = np.array(ages)
    order = np.argsort(values[:, 0])
    cumulative = np.cumsum(values[order, 1])
    return float(values[order, 0][np.searchsorted(cumulative, part * cumulative[-1])])
