"""One streaming query of the session: what it is, what it does, and what it runs under."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.estimate.arrival import ArrivalRate
from penstock.model import Metric, QuerySpec, SeriesPoint
from penstock.model.directive import Directive
from penstock.model.shed_history import NOTHING_SHED, ShedHistory
from penstock.spark import guard_spec, internals
from penstock.spark.collector import BY_CHANCE, GUARD_PREFIX, ProgressCollector, parse_progress
from penstock.spark.directive_task import end_asking
from penstock.spark.directives import TIMEOUT_PROPERTY, directive_properties
from penstock.spark.folders import open_folder
from penstock.spark.internals import Ability, SeenReport
from penstock.spark.pools import pools
from penstock.spark.record import FOLDER, CheckpointRecord
from penstock.spark.sources import build_limit, describe_sources

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.control.query_logic import QueryLogic
    from penstock.model import BatchSignal, PlannedBatch, QueryName
    from penstock.spark.directives import Answer
    from penstock.spark.guard_spec import GuardSpec
    from penstock.spark.internals import JavaObject, RunningBatch
    from penstock.spark.sources import LiveSource

logger = logging.getLogger("penstock")

_ARRIVAL_HALF_LIFE_S = 10.0
_PLANNED_WITHIN_S = 30.0
_REMEMBERED_ANSWERS = 16


class WatchedQuery:
    """A query of the session, observed; governed as well once the loop decides about it."""

    def __init__(
        self, spark: SparkSession, query: StreamingQuery, name: QueryName, missing: Collection[Ability]
    ) -> None:
        self.name = name
        self.query = query
        self.query_id, self.run_id = str(query.id), str(query.runId)
        self.sources: tuple[LiveSource, ...] = ()
        self.has_guard = False
        self.draws_by_chance = False
        self.is_governed = False
        self.uncommitted_batch: int | None = None
        self.answers: dict[tuple[int, str | None], Answer] = {}
        self.answering = threading.Lock()
        self.shed = ShedHistory()
        self.last_answered: int | None = None
        self.last_ratio = 1.0
        self._spark = spark
        self._missing = missing
        self._collector = ProgressCollector(spark, name)
        self._interval_s = 0.0
        self._last_job: int | None = None
        self._applied: dict[int, JavaObject] = {}
        self._seen: SeenReport | None = None
        self._reading = threading.Lock()
        self._connection: JavaObject | None = None
        self.is_told = False
        self._sent_along = Directive(0, everything=True)
        self.repay_days = 7.0
        self._running: RunningBatch | None = None
        self._record: CheckpointRecord | None = None
        self._can_record = True
        self._guard: GuardSpec | None = None
        self._is_guard_known = False
        self._arrivals = ArrivalRate(_ARRIVAL_HALF_LIFE_S)

    @property
    def execution(self) -> JavaObject:
        """What runs its batches."""
        return internals.execution_of(self.query)

    @property
    def is_micro_batch(self) -> bool:
        """Whether the query runs in batches, without which there is nothing to limit."""
        return internals.is_micro_batch(self.execution)

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to read and works on nothing: no batch for a while is either that or a long one."""
        status = self.query.status
        return not status["isDataAvailable"] and not status["isTriggerActive"]

    @property
    def is_over(self) -> bool:
        """Whether its thread is done: one that is being stopped counts as inactive while its last batch still asks."""
        return not self.query.isActive and internals.is_over(self.query)

    # What it is

    def describe(self, *, starting: bool) -> QuerySpec:
        """Its sources and trigger; a query that has no plan yet is waited for, or made to plan where it starts."""
        execution = self.execution
        if starting:
            internals.plan_now(execution)
        else:
            self._await_plan(execution)
        self._describe_sources(execution)
        _, self._interval_s = internals.trigger_of(execution)
        self.has_guard = internals.plan_mentions(execution, GUARD_PREFIX) and Ability.CHANNEL not in self._missing
        self.draws_by_chance = self.has_guard and internals.plan_mentions(execution, f"{GUARD_PREFIX}{BY_CHANCE}")
        if starting and Ability.PLANNED not in self._missing:
            self.uncommitted_batch = internals.uncommitted_batch(execution)
        return QuerySpec(self.name, tuple(source.spec for source in self.sources), self._interval_s)

    def _describe_sources(self, execution: JavaObject) -> None:
        # Once, and by one thread: the limit that is in force when it is first looked at is the query's own, and a look
        # after the first limit of Penstock would take that one for it.
        with self._reading:
            if not self.sources:
                self.sources = describe_sources(execution, self._missing)

    @property
    def is_planned(self) -> bool:
        """Whether it has its sources, so that nobody must wait for them."""
        return internals.is_planned(self.execution)

    def past_signals(self) -> tuple[BatchSignal, ...]:
        """What it did before it was adopted."""
        reports = [parse_progress(report.json) for report in self.query.recentProgress if report.numInputRows > 0]
        for report in reports:
            self.is_news(report)  # whoever brings it again tells nothing new
        return tuple(self.signal(report) for report in reports)

    def skip_past(self) -> None:
        """Count what it did before it was watched as seen: it was nobody's business then."""
        for text in self.missed_reports()[-1:]:
            self.is_news(parse_progress(text))

    def _await_plan(self, execution: JavaObject) -> None:
        """Wait for the sources of a query that was started a moment ago: it creates them on its own thread."""
        deadline_s = time.monotonic() + _PLANNED_WITHIN_S
        while self.query.isActive and not internals.is_planned(execution) and time.monotonic() < deadline_s:
            time.sleep(0.02)

    # What it does

    def is_news(self, progress: Mapping[str, Any]) -> bool:
        """Whether a report was not seen before: each comes by the listener bus, or is fetched where that is held up."""
        report = SeenReport.of(progress)
        with self._reading:
            is_news = self._seen is None or self._seen.is_before(report.batch_id, report.began)
            if is_news:
                self._seen = report
        return is_news

    def missed_reports(self) -> list[str]:
        """Reports of finished batches that nobody brought."""
        return internals.unseen_reports(self.query, self._seen)

    def called_on(self, connection: JavaObject | None) -> None:
        """Remember the connection on which the query's own thread calls Python."""
        self._connection = connection

    def end(self) -> None:
        """End what the query's thread has left behind in this process; the query is over."""
        connection, self._connection = self._connection, None
        internals.end_connection(connection)
        end_asking(str(self.query.runId))

    def signal(self, progress: Mapping[str, Any]) -> BatchSignal:
        """What a progress report says."""
        if not self.sources and self.is_micro_batch:
            self._describe_sources(self.execution)
        signal = self._collector.signal(progress, self.sources)
        return replace(signal, is_next_planned=self._is_planned(signal.batch_id + 1))

    def _is_planned(self, batch_id: int) -> bool:
        """Whether a batch has its offsets; where this Spark does not tell, it is not taken for granted."""
        if Ability.PLANNED in self._missing or not self.is_micro_batch:
            return False
        return internals.is_batch_planned(self.execution, batch_id)

    def planned(self, batch_id: int) -> PlannedBatch | None:
        """What a batch that asks takes and leaves; None where its sources do not count rows."""
        running = self.running(batch_id)
        return None if running is None else self._collector.planned(running, self.sources)

    def running(self, batch_id: int) -> RunningBatch | None:
        """The offsets of a batch that asks; None where this Spark does not tell."""
        if Ability.PLANNED in self._missing:
            return None
        if self._running is None or self._running.batch_id != batch_id:
            sources = [source.java_source for source in self.sources]
            self._running = internals.running_batch(self.execution, batch_id, sources) if sources else None
        return self._running

    # What its batches were told

    @property
    def has_past(self) -> bool:
        """Whether its batches have anything to hear of earlier ones: what one ran with, or that rows were dropped."""
        return self.uncommitted_batch is not None or self.shed != NOTHING_SHED

    @property
    def record(self) -> CheckpointRecord | None:
        """What stands beside its checkpoint; None where this Spark does not tell where that is."""
        if self._record is None and self._can_record and Ability.RECORD not in self._missing:
            try:
                self._record = self._open_record()
            except Exception:
                # A query is governed all the same; what its batches were told is then in the log only.
                logger.exception("%s: nothing can be kept beside its checkpoint", self.name)
                self._can_record = False
        return self._record

    def _open_record(self) -> CheckpointRecord:
        location = f"{internals.checkpoint_root(self.execution).rstrip('/')}/{FOLDER}"
        retained = int(self._spark.conf.get("spark.sql.streaming.minBatchesToRetain") or 0)
        folder = open_folder(location, self._spark)
        return CheckpointRecord(folder, keep_batches=retained, keep_days=self.repay_days)

    @property
    def guard(self) -> GuardSpec | None:
        """By which columns it draws; None where that is not known."""
        if not self._is_guard_known and internals.is_planned(self.execution):
            self._guard = guard_spec.book.in_plan(internals.plan_text(self.execution))
            self._is_guard_known = True
        return self._guard

    def core_seconds(self) -> float | None:
        """Seconds that the query's jobs kept cores busy since the last call; None at the first, and where unknown."""
        if Ability.EXECUTORS in self._missing:
            return None
        is_first = self._last_job is None
        group = str(self.query.runId)
        busy_s, self._last_job = internals.core_seconds(self._spark, group, -1 if is_first else self._last_job or 0)
        return None if is_first else busy_s

    # What it runs under

    def set_limit(self, source: int, units: int) -> None:
        """Limit a source from the next planned batch on."""
        live = self.sources[source]
        limit = build_limit(self._spark, live, units)
        internals.set_read_limit(self.execution, live.java_source, limit)
        self._applied[source] = limit

    def has_limit(self, source: int) -> bool:
        """Whether the limit that was set last is the one in force."""
        applied = self._applied.get(source)
        if applied is None:
            return False
        return bool(internals.read_limit_of(self.execution, self.sources[source].java_source).equals(applied))

    def tell(self, endpoint: str, token: str, fallback: Directive | None, timeout_s: float) -> None:
        """Tell the tasks of batches to come where to ask, and what holds without an answer."""
        execution = self.execution
        internals.send_to_tasks(execution, TIMEOUT_PROPERTY, repr(timeout_s))
        self._send(endpoint, token, fallback or Directive(0, everything=True))
        self.is_told = True

    def tell_alone(self) -> None:
        """Tell the tasks of batches to come to ask nobody and keep everything."""
        self._send("", "", Directive(0, everything=True))
        self.is_told = False

    def _send(self, endpoint: str, token: str, fallback: Directive) -> None:
        # What was dropped before is still missing from the windows that are open. A batch that nobody has heard of yet
        # may have kept to what was sent along last, up to this moment.
        before = self._sent_along
        history = self.shed.merged(before.history).with_ratio(before.least_ratio, time.time())
        self._sent_along = replace(fallback, history=history)
        for name, value in directive_properties(endpoint, token, self._sent_along):
            internals.send_to_tasks(self.execution, name, value)

    def remember(self, key: tuple[int, str | None], answer: Answer) -> None:
        """Keep an answer for whoever asks again while its batch runs; the log has it for ever."""
        self.answers[key] = answer
        while len(self.answers) > _REMEMBERED_ANSWERS:
            self.answers.pop(next(iter(self.answers)))

    def restore(self) -> None:
        """Give every source the limit that it came with, and its tasks nothing to ask."""
        if not self.query.isActive:
            return
        self._end_record()
        pools.ask_for(str(self.query.runId), None)
        execution = self.execution
        if self.is_told:
            self.tell_alone()
        for index in list(self._applied):
            source = self.sources[index]
            internals.set_read_limit(execution, source.java_source, source.own_limit)
            del self._applied[index]

    def _end_record(self) -> None:
        """Batches to come ask nobody and keep everything: a rerun or a repayment must know from which on."""
        try:
            if self.record is not None and self.answers:
                self.record.keep_all_after(max(batch_id for batch_id, _ in self.answers), self.shed)
        except Exception:
            # A query must be let go of whatever is wrong with its disk.
            logger.exception("the end of what %s was told cannot be put on record", self.name)

    # What is kept of it

    def points(self, signal: BatchSignal, logic: QueryLogic | None) -> list[SeriesPoint]:
        """Time-series points of a batch and of what is learned so far."""
        values: dict[Metric, float | None] = {
            Metric.BATCH_ROWS: signal.rows,
            Metric.BATCH_DURATION_S: signal.duration_s,
            Metric.LAG_ROWS: signal.lag_rows,
            Metric.PROCESSED_ROWS_PER_S: signal.rows_per_s,
            Metric.STATE_ROWS: signal.state_rows,
            Metric.STATE_BYTES: signal.state_bytes,
        }
        if signal.guard is not None:
            values[Metric.KEEP_RATIO] = min(1.0, signal.guard.keep_ratio)
            values[Metric.MEASURED_ACCURACY] = signal.guard.kept_ratio
            if signal.guard.oldest_arrival_s is not None:
                values[Metric.OLDEST_ROW_AGE_S] = signal.finished_s - signal.guard.oldest_arrival_s
        if logic is None:
            # Of governed queries the logic knows; it alone estimates then.
            self._arrivals.update(planned_s=signal.started_s, rows=signal.rows, lag_rows=signal.lag_rows)
            values[Metric.ARRIVAL_ROWS_PER_S] = self._arrivals.rate_rows_per_s
        else:
            values[Metric.READ_LIMIT_ROWS] = logic.budget_rows
            values[Metric.ARRIVAL_ROWS_PER_S] = logic.arrival_rows_per_s
            if logic.batch_time.batches:
                values[Metric.BATCH_OVERHEAD_S] = logic.batch_time.overhead_s
                values[Metric.READ_COST_PER_ROW_S] = logic.batch_time.read_cost_s
                values[Metric.COST_PER_ROW_S] = logic.batch_time.work_cost_s
        points = [
            SeriesPoint(signal.finished_s, self.name, metric, float(value), signal.batch_id)
            for metric, value in values.items()
            if value is not None
        ]
        points += [
            SeriesPoint(signal.finished_s, self.name, Metric.BATCH_DURATION_S, value, signal.batch_id, phase)
            for phase, value in signal.phases_s
            if phase != "triggerExecution"
        ]
        if len(signal.sources) > 1:
            points += [
                SeriesPoint(
                    signal.finished_s, self.name, Metric.LAG_ROWS, source.lag_rows, signal.batch_id,
                    f"source {source.index}",
                )
                for source in signal.sources
                if source.lag_rows is not None
            ]  # fmt: skip
        return points
