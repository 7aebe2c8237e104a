"""What a live fleet does, second by second, in the form in which the simulator tells of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.control.fleet.logic import FleetLogic
from penstock.model.decision import from_action
from penstock.model.query import QueryName
from penstock.sim.fleet import FleetRun, QuerySecond
from penstock.sim.fleet_queries import SimulatedFleetQuery

if TYPE_CHECKING:
    from penstock.fleet.control import FleetControl
    from penstock.model.engine_report import RunReport
    from penstock.research.qod import Scenario
    from penstock.research.qod_figures import Row

_CORES = ("busy_cores", "foreign_cores", "waited_cores")


class LiveWatch:
    """Looks at a fleet once a second.

    Parameters
    ----------
    scenario
        What is run.
    control
        What is looked at: the newest reports of engines, the log of decisions, and what the logic makes of it.
    began_s
        When the loads began, in seconds since the epoch.
    """

    def __init__(self, scenario: Scenario, control: FleetControl, began_s: float) -> None:
        self._scenario, self._began_s = scenario, began_s
        self._fleet, self._store, self._logic = control.fleet, control.store, control.loop.logic
        happenings = [each for _, each in scenario.script.happenings]
        self._queries = [each for each in happenings if isinstance(each, SimulatedFleetQuery)]
        self._before: dict[str, RunReport] = {}
        self._cores: dict[str, list[tuple[float, float, float]]] = {}
        self.run = FleetRun()

    def look(self) -> str:
        """Note one second; gives a line for people."""
        run, now_s = self.run, time.time() - self._began_s
        run.time_s.append(now_s)
        for name, report in dict(self._fleet.reports).items():
            run.engines.setdefault(name, [0.0] * (len(run.time_s) - 1)).append(report.busy_cores or 0.0)
            seen = (report.busy_cores or 0.0, report.foreign_cores or 0.0, report.waited_cores or 0.0)
            self._cores.setdefault(name, []).append(seen)
        told = []
        for name in map(str, self._fleet.standing):
            second = self._second(name)
            run.queries.setdefault(name, []).append(second)
            figures = f"{second.accuracy:.2f}, {second.latency_s:.0f} s old, {second.backlog_s:.0f} s behind"
            told.append(f"{name} {second.engine or '-'} {figures}")
        return f"{now_s:.0f} s: " + "; ".join(told)

    def end(self) -> FleetRun:
        """The run with its decisions."""
        for record in self._store.actions():
            decision = from_action(record.action)
            if decision is not None:
                self.run.decisions.append((record.time_s - self._began_s, decision))
        self.run.downtimes_s = [each.took_s for _, each in self.run.decisions if hasattr(each, "took_s")]
        return self.run

    def engine_rows(self) -> list[Row]:
        """Of each engine, how busy its cores were on average, with whom, and for how many its threads waited."""
        return [
            {
                "engine": name,
                **{
                    what: round(sum(column) / len(column), 3)
                    for what, column in zip(_CORES, zip(*seen, strict=True), strict=True)
                },
            }
            for name, seen in self._cores.items()
        ]

    def _second(self, name: str) -> QuerySecond:
        standing = self._fleet.standing[QueryName(name)]
        engine = standing.engine if self._fleet.runs.in_flight(QueryName(name)) is None else None
        report = self._fleet.reports.get(standing.engine or "")
        found = None if report is None else report.query(name)
        path = min((path for _, path in standing.ratios.values()), default=1.0)
        accuracy = min(path, standing.accuracy_high)
        if found is None:
            return QuerySecond(engine, accuracy, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        before = self._before.get(name)
        if before is None or before.number != found.number:
            before = None
        self._before[name] = found
        rows = found.rows - (before.rows if before else 0.0)
        kept = found.kept_rows - (before.kept_rows if before else 0.0)
        backlog = float(found.backlog_rows or 0.0)
        offered = self._offered(name)
        return QuerySecond(
            engine=engine,
            accuracy=accuracy,
            arrived_rows=rows,
            kept_rows=kept,
            backlog_rows=backlog,
            backlog_s=backlog / offered if offered > 0 else 0.0,
            latency_s=found.latency_s or 0.0,
            cores=found.core_s - (before.core_s if before else 0.0),
            estimated_rows_per_s=self._estimated(name),
            current_accuracy=kept / rows if rows > 0 else 1.0,
        )

    def _estimated(self, name: str) -> float:
        """The rate as the logic sees it."""
        assert isinstance(self._logic, FleetLogic)
        table = self._logic.state.table
        return float(table["arrived_rows_per_s"][table.place[name]]) if name in table.place else 0.0

    def _offered(self, name: str) -> float:
        """Rows a second that come to a query where nothing is dropped before it."""
        query = next(each.query for each in self._queries if each.query.name == name)
        instances = sum(each.query.task_name == query.task_name for each in self._queries)
        rates = [rate(self.run.time_s[-1]) for rate in self._scenario.script.rates.values()]
        known = self._scenario.script.rates
        read = [known[stream](self.run.time_s[-1]) if stream in known else sum(rates[:2]) / 2 for stream in query.reads]
        return sum(read) / instances
