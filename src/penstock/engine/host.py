"""The queries of one engine: started from application modules, each in a pool of its own, governed, stopped, reported.

Every query has a lock of its own, so that one that is slow to start or to stop holds up nobody.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.control.events import KeepBoundsChanged
from penstock.control.priority import KeepBounds
from penstock.engine.meter import RunMeter, RunTotals
from penstock.engine.ownership import Owner, claim, read_owner
from penstock.errors import FleetError, UnknownQueryError
from penstock.model import QueryName
from penstock.model.engine_report import RunReport, RunState
from penstock.report import application_status
from penstock.spark import internals
from penstock.spark.folders import local_path, open_folder
from penstock.spark.pools import made_pool
from penstock.spark.record import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.engine.modules import ApplicationModules
    from penstock.model import Goal
    from penstock.model.engine_report import QueryRun
    from penstock.report import QueryStatus
    from penstock.spark.attach import Penstock

logger = logging.getLogger("penstock")

_LOOK_EVERY_S = 0.02


@dataclass(slots=True)
class _Hosted:
    """One query of the engine, running or ended."""

    run: QueryRun
    started_s: float
    state: RunState = RunState.STARTING
    query: StreamingQuery | None = None
    meter: RunMeter | None = None
    totals: RunTotals = field(default_factory=RunTotals)
    error: str | None = None


class EngineHost:
    """Runs queries in one session.

    Parameters
    ----------
    name
        The engine's name.
    spark, pen
        Its session, and the hold on it that governs its queries.
    modules
        Where functions of applications come from.
    drain_s
        How long a query that is to stop may take to finish the batch that it runs.
    """

    def __init__(
        self, name: str, spark: SparkSession, pen: Penstock, modules: ApplicationModules, *, drain_s: float = 2.0
    ) -> None:
        self.name = name
        self._spark, self._pen, self._modules, self._drain_s = spark, pen, modules, drain_s
        self._hosted: dict[str, _Hosted] = {}
        self._acting: dict[str, threading.RLock] = {}
        self._prepared: dict[str, tuple[QueryRun, DataStreamWriter]] = {}
        self._lock = threading.Lock()

    # What the control side asks for

    def prepare(self, run: QueryRun) -> None:
        """Do everything of a start that can fail before the query is stopped elsewhere: import, build, look."""
        writer = self._build(run)
        self._require_ours(run)
        with self._lock:
            self._prepared[run.query] = run, writer

    def start(self, run: QueryRun) -> RunReport:
        """Start a query, or go on with the run of that number that is there already."""
        with self._lock_of(run.query):
            known = self._hosted.get(run.query)
            if known is not None and known.state is RunState.RUNNING and self._is_active(known):
                if known.run.number == run.number:
                    return self.report_of(run.query)
                raise FleetError(
                    f"engine {self.name!r} runs query {run.query!r} already, as run {known.run.number}: stop it first"
                )
            hosted = self._hosted[run.query] = _Hosted(run, time.time())
            try:
                hosted.query = _on_own_thread(f"start-{run.query}", lambda: self._start(run))
            except BaseException as error:
                hosted.state, hosted.error = RunState.FAILED, _one_line(error)
                raise
            hosted.meter, hosted.state = RunMeter(self._spark, hosted.query), RunState.RUNNING
        return self.report_of(run.query)

    def stop(self, query: str, *, drain_s: float | None = None) -> RunReport:
        """Stop a query between two batches if it gets there in time, else in the middle of one, which runs again."""
        with self._lock_of(query):
            hosted = self._known(query)
            if hosted.state is RunState.RUNNING and hosted.query is not None:
                self._await_batch_end(hosted.query, self._drain_s if drain_s is None else drain_s)
                self._end(hosted)
        return self.report_of(query)

    def set_goal(self, query: str, goal: Goal, *, asked_by: str) -> None:
        """Ask something else of a query from now on."""
        with self._lock_of(query):
            hosted = self._known(query)
            hosted.run = replace(
                hosted.run,
                latency_s=goal.latency_s,
                minimum_accuracy=goal.minimum_accuracy,
                priority=goal.priority,
                weight=goal.weight,
            )
            self._pen.set_goal(query, goal, asked_by=asked_by)

    def set_keep_bounds(self, query: str, low: float, high: float) -> None:
        """Hold what a query keeps of its rows to bounds, from its next batch on."""
        with self._lock_of(query):
            hosted = self._known(query)
            hosted.run = replace(hosted.run, keep_low=low, keep_high=high)
            self._pen.loop.handle(KeepBoundsChanged(QueryName(query), KeepBounds(low, high)))

    def release_bounds(self) -> None:
        """Let this engine decide alone what its queries keep: whoever planned for all engines is not heard any more."""
        with self._lock:
            runs = [each.run for each in self._hosted.values()]
        held = [run.query for run in runs if (run.keep_low, run.keep_high) != (0.0, 1.0)]
        for name in held:
            self.set_keep_bounds(name, 0.0, 1.0)

    # What it tells

    def reports(self) -> tuple[RunReport, ...]:
        """How every query is doing, those that ended included until they start again."""
        status = {str(each.query): each for each in application_status(self._pen.store).queries}
        with self._lock:
            known = list(self._hosted.items())
        return tuple(self._report(hosted, status.get(name)) for name, hosted in known)

    def report_of(self, query: str) -> RunReport:
        """How one query is doing."""
        return next(report for report in self.reports() if report.query == query)

    # What is looked at all the time

    def look(self) -> None:
        """Notice queries that ended by themselves, and end those whose checkpoint somebody else has taken over."""
        with self._lock:
            known = list(self._hosted.values())
        for hosted in known:
            if hosted.state is not RunState.RUNNING:
                continue
            try:
                self._look_at(hosted)
            except Exception:
                logger.exception("query %s could not be looked at", hosted.run.query)

    def stop_all(self) -> None:
        """Stop every query at once; one that does not stop does not keep the others."""
        with self._lock:
            names = list(self._hosted)
        for name in names:
            try:
                self.stop(name, drain_s=0.0)
            except Exception:
                logger.exception("query %s could not be stopped", name)

    # Starting

    def _start(self, run: QueryRun) -> StreamingQuery:
        writer = self._take_prepared(run) or self._build(run)
        self._claim(run)
        # The query's own thread inherits the pool of the thread that starts it.
        context, priority = self._spark.sparkContext, run.served_priority or run.priority
        context.setLocalProperty(internals.POOL_PROPERTY, made_pool(context, priority))
        self._pen.loop.handle(KeepBoundsChanged(QueryName(run.query), KeepBounds(run.keep_low, run.keep_high)))
        named = writer.queryName(run.query).option("checkpointLocation", run.checkpoint)
        return self._pen.govern(named, run.goal).start()

    def _take_prepared(self, run: QueryRun) -> DataStreamWriter | None:
        """What was built of the same function and options a moment ago; it serves once."""
        with self._lock:
            found = self._prepared.pop(run.query, None)
        if found is None or (found[0].entry, found[0].options) != (run.entry, run.options):
            return None
        return found[1]

    def _build(self, run: QueryRun) -> DataStreamWriter:
        function = self._modules.load(run.entry)
        try:
            writer: Any = function(self._spark, dict(run.options))
        except Exception as error:
            raise FleetError(
                f"{run.entry!r} gave no query for {run.query!r} ({_one_line(error)}): mend the function or its options"
            ) from error
        if not hasattr(writer, "queryName") or not hasattr(writer, "start"):
            raise FleetError(
                f"{run.entry!r} gave a {type(writer).__name__} for {run.query!r}: it must give a DataStreamWriter, "
                "such as rows.writeStream.format(...), and not start it"
            )
        return writer  # type: ignore[no-any-return]

    def _require_ours(self, run: QueryRun) -> None:
        """Refuse a checkpoint of another query before anything is touched."""
        owner = read_owner(self._folder(run))
        if owner is not None and (owner.application, owner.query) != (run.application, run.query):
            claim(self._folder(run), Owner(run.application, run.query, self.name, run.number), run.checkpoint)

    def _claim(self, run: QueryRun) -> None:
        path = local_path(run.checkpoint)
        if path is None:
            internals.make_folder(self._spark, run.checkpoint)
        else:
            Path(path).mkdir(parents=True, exist_ok=True)
        claim(self._folder(run), Owner(run.application, run.query, self.name, run.number), run.checkpoint)

    def _folder(self, run: QueryRun) -> Any:  # noqa: ANN401 - a Folder, imported for types only
        return open_folder(f"{run.checkpoint.rstrip('/')}/{FOLDER}", self._spark)

    # Ending

    def _await_batch_end(self, query: StreamingQuery, drain_s: float) -> None:
        """Wait until no batch runs, or the one that does is done; a batch that is cut off is work done twice."""
        deadline_s = time.monotonic() + drain_s
        before = internals.last_report(query)
        while time.monotonic() < deadline_s and query.isActive:
            if not query.status["isTriggerActive"] or internals.last_report(query) != before:
                return
            time.sleep(_LOOK_EVERY_S)

    def _end(self, hosted: _Hosted, why: str | None = None) -> None:
        assert hosted.query is not None
        hosted.query.stop()
        self._count(hosted)
        hosted.state, hosted.error = RunState.STOPPED if why is None else RunState.FAILED, why

    # Looking

    def _look_at(self, hosted: _Hosted) -> None:
        if hosted.query is None:
            return
        if not self._is_active(hosted):
            error = hosted.query.exception()
            self._count(hosted)
            hosted.error = None if error is None else _one_line(error)
            hosted.state = RunState.STOPPED if error is None else RunState.FAILED
            return
        self._count(hosted)  # Spark forgets old reports, whether or not anybody asks
        owner = read_owner(self._folder(hosted.run))
        if owner is not None and owner.number > hosted.run.number:
            with self._lock_of(hosted.run.query):
                self._end(hosted, f"run {owner.number} on engine {owner.engine!r} has its checkpoint")

    def _is_active(self, hosted: _Hosted) -> bool:
        return hosted.query is not None and bool(hosted.query.isActive)

    def _count(self, hosted: _Hosted) -> None:
        if hosted.meter is None:
            return
        try:
            watched = self._pen.plant.find(hosted.run.query)
            hosted.totals = hosted.meter.look(() if watched is None else watched.sources)
        except Exception as error:  # noqa: BLE001 - a report without news is better than none
            logger.debug("query %s could not be counted (%s)", hosted.run.query, error)

    def _report(self, hosted: _Hosted, status: QueryStatus | None) -> RunReport:
        if hosted.state is RunState.RUNNING:
            self._count(hosted)
        run, totals = hosted.run, hosted.totals
        spent_s = (totals.last_batch_s or 0.0) - hosted.started_s
        return RunReport(
            query=run.query,
            application=run.application,
            state=hosted.state,
            number=run.number,
            checkpoint=run.checkpoint,
            started_s=hosted.started_s,
            keep_low=run.keep_low,
            keep_high=run.keep_high,
            arrival_rows_per_s=None if status is None else status.arrival_rows_per_s,
            processed_rows_per_s=totals.rows / spent_s if spent_s > 0 else None,
            backlog_rows=None if status is None else status.backlog_rows,
            latency_s=None if status is None else status.latency_s,
            keep_ratio=None if status is None else status.keep_ratio,
            has_guard=self._has_guard(run.query),
            is_in_batch=self._is_in_batch(hosted),
            error=hosted.error,
            **asdict(totals),
        )

    def _is_in_batch(self, hosted: _Hosted) -> bool:
        if hosted.state is not RunState.RUNNING or hosted.query is None:
            return False
        status = hosted.query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def _has_guard(self, query: str) -> bool:
        watched = self._pen.plant.find(query)
        return watched is not None and watched.has_guard

    def _known(self, query: str) -> _Hosted:
        with self._lock:
            hosted, names = self._hosted.get(query), list(self._hosted)
        if hosted is None:
            raise UnknownQueryError(query, names)
        return hosted

    def _lock_of(self, query: str) -> threading.RLock:
        with self._lock:
            return self._acting.setdefault(query, threading.RLock())


def _on_own_thread(name: str, action: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Run on a thread of its own, whose local properties nobody inherits by accident; errors come out."""
    outcome: list[StreamingQuery] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            outcome.append(action())
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            errors.append(error)

    thread = threading.Thread(target=call, name=f"penstock-{name}", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else "no message"
    return text if isinstance(error, FleetError) else f"{type(error).__name__}: {text}"
