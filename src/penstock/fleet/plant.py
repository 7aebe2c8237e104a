"""The engines and queries of a fleet as its loop sees them: what is there, and how decisions are put in force."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import TYPE_CHECKING

from penstock.control.fleet.needs import served_priorities
from penstock.errors import FleetError, UnknownQueryError
from penstock.fleet.contention import contended_cores
from penstock.fleet.figures import Figures
from penstock.fleet.runs import Order, Runs
from penstock.fleet.spans import Spans
from penstock.model.engine_report import QueryRun, RunState
from penstock.model.fleet import (
    AccuracyBounds,
    EngineKind,
    EngineLost,
    EngineSeen,
    FleetEngine,
    FleetQuery,
    Move,
    MoveFailed,
    MoveFinished,
    Place,
    QueryAdded,
    StreamKeepRatio,
)
from penstock.spark.prometheus import prometheus_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.fleet.client import Agent
    from penstock.fleet.engines import Answer, EngineHandle
    from penstock.fleet_declaration import FleetDeclaration
    from penstock.model import Goal, QueryName, SeriesPoint
    from penstock.model.decision import Decision
    from penstock.model.engine_report import EngineReport
    from penstock.model.fleet import FleetEvent

logger = logging.getLogger("penstock")

_ROUNDING = 1e-6
_LARGEST_PAUSE_S = 600.0


@dataclass(slots=True)
class Standing:
    """What stands about one query: where it is to be, how much it may keep, and how often it failed in a row."""

    engine: str | None = None
    order: Order | None = None
    low: float = 0.0
    accuracy_high: float = 1.0
    ratios: dict[str, tuple[float, float]] = field(default_factory=dict)
    failures: int = 0
    downtime_s: float | None = None
    error: str | None = None
    goal_in_force: bool = True


class EngineFleet:
    """Acts on engines through their agents.

    Parameters
    ----------
    declaration
        Engines, queries and settings.
    handles
        The engines, by name.
    """

    def __init__(self, declaration: FleetDeclaration, handles: Mapping[str, EngineHandle]) -> None:
        self.declaration, self.handles = declaration, handles
        settings = declaration.settings
        self._retry_s = settings.agents.retry_s
        self.goals: dict[QueryName, Goal] = {name: run.query.goal for name, run in declaration.queries.items()}
        self.standing: dict[QueryName, Standing] = {name: Standing() for name in declaration.queries}
        self.reports: dict[str, EngineReport] = {}
        self.runs = Runs(
            self._agent,
            self.run_of,
            self.reports.get,
            engines=lambda: list(handles),
            warm_up_s=settings.fleet.warm_up_s,
        )
        self._host_busy = {
            name: prometheus_figure(engine.prometheus, engine.host_busy)
            for name, engine in declaration.engines.items()
            if engine.prometheus and engine.host_busy
        }
        self._spans = Spans(declaration)
        self._late: list[tuple[float, list[FleetEvent]]] = []
        self._asked_by: dict[QueryName, str] = {}
        self.observe_only = False
        self._figures = Figures()
        self._is_known = False
        self._lock = threading.Lock()

    # What is there

    def observe(self) -> Sequence[FleetEvent]:
        """Ask all engines at once; give what is new about engines and queries, losses first."""
        answers = self._ask_all()
        events: list[FleetEvent] = []
        for answer in answers:
            if answer.lost is not None:
                self.reports.pop(answer.engine, None)
                events += self._lose(answer)
            elif answer.report is not None:
                self.reports[answer.engine] = answer.report
                events.append(self._seen(answer.report))
        events += self._outcomes()
        if not self._is_known and self._all_asked():
            self._is_known = True
            events += self._known_queries()
        if self._is_known:
            self._stop_strays()
            events += self._failed_queries()
            events += [event for report in self.reports.values() for event in self._spans.reports(report)]
        return events

    def points(self) -> list[SeriesPoint]:
        """Figures of batches that were done since the last call, and how busy engines are."""
        declared = {str(name) for name in self.standing}
        return [point for report in self.reports.values() for point in self._figures.points(report, declared)]

    def _ask_all(self) -> list[Answer]:
        # One that does not answer must not hold up the news of another.
        with ThreadPoolExecutor(max_workers=max(1, len(self.handles))) as pool:
            return list(pool.map(self._ask, self.handles.values()))

    def _ask(self, handle: EngineHandle) -> Answer:
        """How an engine is; how busy its hosts are is asked of Prometheus where it cannot look itself."""
        answer, host_busy = handle.ask(), self._host_busy.get(handle.name)
        if host_busy is None or answer.report is None or answer.report.busy_cores is not None:
            return answer
        return replace(answer, report=replace(answer.report, busy_cores=host_busy()))

    def _seen(self, report: EngineReport) -> EngineSeen:
        return EngineSeen(FleetEngine(report.name, report.cores, EngineKind(report.kind)), contended_cores(report))

    def _lose(self, answer: Answer) -> list[FleetEvent]:
        logger.warning("engine %s is lost: %s", answer.engine, answer.lost)
        for standing in self.standing.values():
            if standing.engine == answer.engine:
                standing.engine = None
        return [EngineLost(answer.engine, answer.lost or "")]

    def _all_asked(self) -> bool:
        """Whether every engine has said what it runs: a query must not be placed while it may run somewhere."""
        return all(handle.name in self.reports or handle.runs_nothing for handle in self.handles.values())

    def _known_queries(self) -> list[FleetEvent]:
        """All queries, each with the engine that runs it already, as after a start of the control side."""
        for name, standing in self.standing.items():
            standing.engine = self._where(name)
        return [QueryAdded(self._query(name), standing.engine) for name, standing in self.standing.items()]

    def _query(self, name: QueryName) -> FleetQuery:
        declared, goal = self.declaration.queries[name], self.goals[name]
        return FleetQuery(
            name,
            goal,
            self._spans.streams(name),
            declared.query.writes,
            task=declared.task,
            prefers=declared.prefers,
            application=declared.application,
            is_guarded=goal.minimum_accuracy < 1.0,
        )

    def _where(self, query: QueryName) -> str | None:
        """The engine that runs a query; of several, the one with the newest run."""
        running = [
            (found.number, report.name)
            for report in self.reports.values()
            if (found := report.query(str(query))) is not None and found.state is RunState.RUNNING
        ]
        return max(running)[1] if running else None

    def _stop_strays(self) -> None:
        """End runs that are not where they are to be: left over from a move that was cut off, or not declared."""
        for report in self.reports.values():
            for found in report.queries:
                name = next((each for each in self.standing if str(each) == found.query), None)
                if found.state is not RunState.RUNNING or (name is not None and self.runs.in_flight(name)):
                    continue
                if name is None or self.standing[name].engine not in {None, report.name}:
                    self._call(report.name, found.query, methodcaller("stop", found.query))

    def _failed_queries(self) -> list[FleetEvent]:
        """Queries that ended on the engine where they are to run."""
        events: list[FleetEvent] = []
        for name, standing in self.standing.items():
            report = self.reports.get(standing.engine or "")
            if report is None or self.runs.in_flight(name):
                continue
            found = report.query(str(name))
            if found is None or found.state is not RunState.RUNNING:
                why = "it is not there" if found is None else (found.error or f"it is {found.state}")
                failed = MoveFailed(name, report.name, 0, f"{name} ended on {report.name}: {why}")
                # No order of the logic failed: it is told that the query is to be placed anew.
                events += self._fail(failed, QueryAdded(self._query(name)))
        return events

    # What came of starts and moves

    def _outcomes(self) -> list[FleetEvent]:
        events: list[FleetEvent] = []
        for outcome in self.runs.events():
            standing = self.standing[outcome.query]
            if isinstance(outcome, MoveFinished):
                standing.engine, standing.failures, standing.error = outcome.engine, 0, None
                standing.downtime_s = outcome.downtime_s
                events.append(outcome)
            else:
                events += self._fail(outcome)
        now_s = time.monotonic()
        due = [event for due_s, late in self._late if due_s <= now_s for event in late]
        self._late = [entry for entry in self._late if entry[0] > now_s]
        return [*events, *due]

    def _fail(self, outcome: MoveFailed, *more: FleetEvent) -> list[FleetEvent]:
        """Tell the logic of a failure: at once the first time, later and later where it fails again and again."""
        standing = self.standing[outcome.query]
        standing.engine, standing.error = outcome.running_on, outcome.reason
        logger.warning("%s", outcome.reason)
        if outcome.running_on is not None:
            return [outcome]
        standing.failures += 1
        if standing.failures == 1:
            return [outcome, *more]
        pause_s = min(_LARGEST_PAUSE_S, self._retry_s * 2.0 ** (standing.failures - 2))
        self._late.append((time.monotonic() + pause_s, [outcome, *more]))
        return []

    # What is decided

    def apply(self, decision: Decision) -> None:
        """Put a decision in force; starts and moves go on by themselves."""
        if isinstance(decision, Place | Move):
            leaves = decision.leaves if isinstance(decision, Move) else None
            self.standing[decision.query].order = Order(decision.query, decision.engine, decision.number, leaves)
            self._begin(decision.query)
        elif isinstance(decision, AccuracyBounds):
            standing = self.standing[decision.query]
            standing.low, standing.accuracy_high = decision.low, decision.high
        elif isinstance(decision, StreamKeepRatio):
            ratios = self.standing[decision.query].ratios
            ratios[decision.stream] = decision.keep_ratio, decision.path_keep_ratio

    def reconcile(self) -> None:
        """Tell engines what stands about their queries and is not in force there."""
        for name, standing in self.standing.items():
            self._begin(name)
            report = self.reports.get(standing.engine or "")
            found = None if report is None else report.query(str(name))
            if report is None or found is None or found.state is not RunState.RUNNING or self.runs.in_flight(name):
                continue
            low, high = self._bounds(name)
            if abs(found.keep_low - low) > _ROUNDING or abs(found.keep_high - high) > _ROUNDING:
                self._call(report.name, name, methodcaller("set_keep_bounds", str(name), low, high))
            if not standing.goal_in_force:
                standing.goal_in_force = self._tell_goal(report.name, name)

    def _begin(self, query: QueryName) -> None:
        """Carry out the newest order for a query, once what is being done about it is over."""
        standing = self.standing[query]
        if standing.order is not None and self.runs.begin(standing.order):
            standing.order = None

    def set_goal(self, query: QueryName, goal: Goal, asked_by: str) -> None:
        """Ask something else of a query, wherever it runs and will run."""
        if query not in self.goals:
            raise UnknownQueryError(str(query), [str(each) for each in self.goals])
        with self._lock:
            self.goals[query], self._asked_by[query] = goal, asked_by
            self.standing[query].goal_in_force = False

    def run_of(self, query: QueryName) -> QueryRun:
        """How a query is to run now."""
        declared, goal = self.declaration.queries[query], self.goals[query]
        low, high = self._bounds(query)
        return QueryRun(
            application=declared.application,
            query=str(query),
            entry=declared.entry,
            checkpoint=declared.checkpoint,
            number=0,
            options=declared.options,
            latency_s=goal.latency_s,
            minimum_accuracy=goal.minimum_accuracy,
            priority=goal.priority,
            weight=goal.weight,
            keep_low=low,
            keep_high=high,
            served_priority=served_priorities([self._query(name) for name in self.declaration.queries])[query],
        )

    def _bounds(self, query: QueryName) -> tuple[float, float]:
        """Bounds of what a query's guard keeps of what it reads.

        Accuracies count from the application's input on; what is left in front of this guard is divided out.
        """
        if self.observe_only:
            return 0.0, 1.0
        standing = self.standing[query]
        # One guard for all streams: what fits is what the stream of which it keeps least leaves.
        keep_high, path_ratio = min(standing.ratios.values(), default=(1.0, 1.0))
        upstream = min(1.0, max(path_ratio / keep_high if keep_high > 0 else 1.0, _ROUNDING))
        high = min(keep_high, standing.accuracy_high / upstream, 1.0)
        return min(high, standing.low / upstream), high

    def _tell_goal(self, engine: str, query: QueryName) -> bool:
        with self._lock:
            goal, asked_by = self.goals[query], self._asked_by.get(query, "declaration")
        return self._call(engine, query, methodcaller("set_goal", str(query), goal, asked_by))

    def _call(self, engine: str, query: str, call: Callable[[Agent], object]) -> bool:
        agent = self._agent(engine)
        if agent is None:
            return False
        try:
            call(agent)
        except FleetError as error:
            logger.warning("%s on %s: %s", query, engine, error)
            return False
        return True

    def _agent(self, engine: str) -> Agent | None:
        handle = self.handles.get(engine)
        return None if handle is None else handle.agent
