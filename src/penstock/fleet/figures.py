"""What engines report of their queries as points of the fleet's own store, for pages, metrics and the status.

Queries of all engines are seen in one place, wherever they run, those of engines on other machines too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model import APPLICATION, Metric, QueryName, SeriesPoint
from penstock.model.engine_report import RunState

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.model.engine_report import EngineReport, RunReport

_ENGINE_EVERY_S = 5.0


class Figures:
    """Gives each batch once, and each engine's load every few seconds.

    Examples
    --------
    >>> from penstock.model.engine_report import EngineReport, RunReport
    >>> run = RunReport("clicks", "ads", RunState.RUNNING, 7, "/c", 0.0, batches=3, backlog_rows=40.0, last_batch_s=9.0)
    >>> report = EngineReport("left", "local", 1, 0.0, 2.0, 10.0, busy_cores=0.5, queries=(run,))
    >>> figures = Figures()
    >>> [(str(point.query), point.metric.value, point.value) for point in figures.points(report, {"clicks"})]
    [('', 'executor_busy_fraction', 0.25), ('clicks', 'lag_rows', 40.0)]
    >>> figures.points(report, {"clicks"})
    []
    """

    def __init__(self) -> None:
        self._batches: dict[str, tuple[int, int]] = {}
        self._engine_s: dict[str, float] = {}

    def points(self, report: EngineReport, queries: Collection[str]) -> list[SeriesPoint]:
        """What is new in a report, of these queries."""
        found: list[SeriesPoint] = []
        if report.busy_cores is not None and report.time_s - self._engine_s.get(report.name, 0.0) >= _ENGINE_EVERY_S:
            self._engine_s[report.name] = report.time_s
            busy = report.busy_cores / report.cores
            found.append(
                SeriesPoint(report.time_s, APPLICATION, Metric.EXECUTOR_BUSY_FRACTION, busy, subject=report.name)
            )
        for run in report.queries:
            done = (run.number, run.batches)
            if run.state is RunState.RUNNING and run.query in queries and run.batches and self._is_new(run.query, done):
                found += _of_batch(run)
        return found

    def _is_new(self, query: str, done: tuple[int, int]) -> bool:
        """Whether it is not of a run that another one has followed, and not counted yet."""
        if done <= self._batches.get(query, (0, 0)):
            return False
        self._batches[query] = done
        return True


def _of_batch(run: RunReport) -> list[SeriesPoint]:
    values = {
        Metric.OLDEST_ROW_AGE_S: run.latency_s,
        Metric.LAG_ROWS: run.backlog_rows,
        Metric.ARRIVAL_ROWS_PER_S: run.arrival_rows_per_s,
        Metric.PROCESSED_ROWS_PER_S: run.processed_rows_per_s,
        Metric.KEEP_RATIO: run.keep_ratio if run.has_guard else None,
    }
    time_s = run.last_batch_s or run.started_s
    return [
        SeriesPoint(time_s, QueryName(run.query), metric, float(value), run.last_batch)
        for metric, value in values.items()
        if value is not None
    ]
