"""From what Spark tells of a session's queries to events of the loop, and to queries that are governed.

No error of Penstock may reach a query: whatever goes wrong in here is a fault on record, and the query goes on.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from penstock.control.events import BatchFinished, GoalChanged, QueryEnded, QueryStarted, WarmStart
from penstock.errors import PenstockError
from penstock.model import APPLICATION, Mode, QueryName
from penstock.model.decision import Hold, Unmanaged
from penstock.spark import internals
from penstock.spark.collector import parse_progress
from penstock.spark.executors import ExecutorCollector
from penstock.spark.identity import NO_IDENTITY
from penstock.spark.internals import Ability
from penstock.spark.plan_check import check_execution
from penstock.spark.repay import remember_checkpoint
from penstock.spark.warm_start import warm_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.loop import Loop
    from penstock.model import Goal, SeriesPoint
    from penstock.settings import Settings
    from penstock.spark.answers import Answering
    from penstock.spark.plant import SparkPlant
    from penstock.spark.watched import WatchedQuery

logger = logging.getLogger("penstock")


class SessionEvents:
    """What a session's listener calls, and what is looked for where it is not called.

    Parameters
    ----------
    spark, loop, plant, answering, settings
        The session and what acts on it.
    goals
        Goals by query name, for queries that run and those to come; changed in place.
    missing
        Abilities that this Spark does not offer, with reasons.
    """

    def __init__(
        self,
        spark: SparkSession,
        loop: Loop,
        plant: SparkPlant,
        answering: Answering,
        settings: Settings,
        *,
        goals: dict[QueryName, Goal],
        missing: Mapping[Ability, str],
    ) -> None:
        self.goals = goals
        self.started_names: set[str] = set()
        self._spark, self._loop, self._plant, self._answering = spark, loop, plant, answering
        self._settings, self._missing = settings, missing
        self._late_goals: dict[str, Goal] = {}
        self._collector = ExecutorCollector(spark, settings.observe.executors_every_s)

    # What the listener calls

    def on_started(self, event: QueryStartedEvent) -> None:
        """A query starts; on its own thread, before its first batch is planned."""
        name = QueryName(event.name or str(event.id))
        try:
            query = self._spark.streams.get(str(event.id))
            if query is None or self._loop.is_closed:
                return
            watched = self._watch(query)
            watched.called_on(internals.thread_connection())
            goal = self.goals.get(name)
            if goal is None:
                self._answering.replay(watched)
                return
            if Ability.FIRST_BATCH in self._missing:
                # Nobody can plan the query early, and to wait for its plan here, on its own thread, would be for ever:
                # it is governed after its first batch, as if adopted.
                self._late_goals[watched.query_id] = goal
            else:
                self.begin(watched, goal, cause="start", starting=True)
        except Exception as error:  # noqa: BLE001 - no error of Penstock may reach the query
            self._loop.fault(name, "start", error)

    def on_progress(self, text: str) -> None:
        """A batch is done; its progress report as JSON."""
        try:
            progress = parse_progress(text)
        except (ValueError, KeyError) as error:
            self._loop.fault(APPLICATION, "report", error)
            return
        watched = self._plant.find(str(progress["id"]))
        if watched is None or self._loop.is_closed:
            return
        if str(progress["runId"]) != watched.run_id:
            # Of the run before, from the same checkpoint: what its batch kept goes on record beside that, and its
            # numbers are not those of this run.
            self._answering.confirm(watched, progress)
            return
        try:
            if watched.is_news(progress):
                self._on_batch(watched, progress)
        except Exception as error:  # noqa: BLE001 - no error of Penstock may reach the query
            self._loop.fault(watched.name, f"batch {progress.get('batchId')}", error)

    def on_terminated(self, event: QueryTerminatedEvent) -> None:
        """A query has ended."""
        # A query started again from its checkpoint has the same id, and news of its end may come after its start.
        self._end(str(event.id), str(event.runId))

    # What is looked for

    def take_up(self, query: StreamingQuery) -> None:
        """Watch a query that runs already, and govern it where it has a goal."""
        watched = self._watch(query)
        goal = self.goals.get(watched.name)
        if goal is None:
            watched.skip_past()
        else:
            self.begin(watched, goal, cause="adopt")

    def look(self) -> None:
        """Fetch what the listener bus has not brought: reports of batches, and ends of queries.

        Spark tells all listeners of a session one after the other: one of the user's that hangs keeps every report
        from those behind it, and a query that nobody reports of would stay at its first limit for ever.
        """
        for watched in self._plant.watched:
            try:
                is_over = watched.is_over
                for text in watched.missed_reports():
                    self.on_progress(text)
            except Exception as error:  # noqa: BLE001 - one query must not keep the others from being looked at
                logger.debug("query %s could not be looked at (%s)", watched.name, error)
                continue
            if is_over:
                self._end(watched.query_id, watched.run_id)

    def close(self) -> None:
        """End what queries that are over left behind; those that run on keep their connections."""
        for watched in self._plant.watched:
            try:
                is_over = watched.is_over
            except Exception:  # noqa: BLE001 - a JVM that is gone runs nothing
                is_over = True
            if is_over:
                watched.end()

    # From there to the loop

    def _watch(self, query: StreamingQuery) -> WatchedQuery:
        before = self._plant.find(str(query.id))
        if before is not None and before.run_id != str(query.runId):
            # Spark runs a checkpoint once at a time: the run before is over, whether or not anybody told of it yet.
            self._end(before.query_id, before.run_id)
        watched = self._plant.watch(query)
        self.started_names.add(str(watched.name))
        return watched

    def _end(self, query_id: str, run_id: str) -> None:
        ended = self._plant.forget(query_id, run_id)
        if ended is None:
            return
        ended.end()
        self._late_goals.pop(query_id, None)
        try:
            # Under the lock under which the next run of its name begins: what that has been given is not taken back.
            with self._loop.lock_of(ended.name):
                other = self._plant.find(ended.name)
                if other is None and self._plant.sizing is not None:
                    self._plant.sizing.usage.forget(ended.name)
                if other is None or not other.is_governed:
                    self._loop.handle(QueryEnded(ended.name))
        except Exception as error:  # noqa: BLE001 - no error of Penstock may reach the listener bus
            self._loop.fault(APPLICATION, f"end of {ended.name}", error)

    def _on_batch(self, watched: WatchedQuery, progress: Mapping[str, Any]) -> None:
        signal = watched.signal(progress)
        logic = self._loop.logic
        needs_cores = watched.is_governed and (len(logic.governed) > 1 or logic.application.has_graph)
        if self._plant.sizing is not None:
            self._plant.sizing.usage.on_batch(signal)
        self._answering.learn(progress)
        self._answering.confirm(watched, progress)
        if watched.is_governed:
            self._loop.handle(BatchFinished(signal, watched.core_seconds() if needs_cores else None))
            self._answering.tell_ahead(watched, signal)
        self._loop.keep_points(
            [*watched.points(signal, logic.query(watched.name)), *self._executor_points(time.time())]
        )
        late_goal = self._late_goals.pop(watched.query_id, None)
        if late_goal is not None:
            self.begin(watched, late_goal, cause="start")

    def begin(
        self, watched: WatchedQuery, goal: Goal, *, cause: str, starting: bool = False, wait: bool = True
    ) -> None:
        """Govern a query, or ask something else of one that is governed already.

        Whatever takes time comes before any lock is held, so that nobody else waits for it. A query that has no plan
        yet is waited for; where that must not be (``wait``), it is governed after its next batch.
        """
        reason = self._unmanageable(watched)
        if reason is not None:
            self._loop.record([Unmanaged(query=watched.name, cause=cause, reason=f"{reason}; it is only observed")])
            return
        if not wait and not watched.is_planned:
            self._late_goals[watched.query_id] = goal
            return
        spec = watched.describe(starting=starting)
        if watched.has_guard:
            found = check_execution(watched.execution)
            watched.has_guard = bool(found.guards) and not found.refusals
            self._loop.record(found.decisions(watched.name, cause))
        remembered, answered = self._memory(watched, goal), self._answering.told_before(watched, starting=starting)
        event = QueryStarted(
            spec,
            goal,
            watched.query_id,
            cause,
            has_guard=watched.has_guard,
            asks=self._answering.is_open,
            warm_start=remembered,
            past=() if starting else watched.past_signals(),
            answered=answered,
        )
        # Under the lock under which the query is given back: whoever lets go meanwhile does so before this or after.
        with self._loop.lock_of(watched.name):
            if self._loop.is_closed:
                return
            if watched.is_governed:
                self._loop.handle(GoalChanged(watched.name, goal))
                return
            watched.is_governed = True
            self._loop.handle(event)
            if self._loop.logic.query(watched.name) is None:
                watched.is_governed = False  # the hold on the session ended in between
                return
            if watched.draws_by_chance:
                self._loop.record([Hold(query=watched.name, cause=cause, reason=NO_IDENTITY)])
            is_acting = self._loop.mode is Mode.ACT
            # What earlier runs told and dropped holds also where nothing is applied.
            if watched.has_guard and (is_acting or watched.has_past):
                self._answering.introduce(watched, event.answered if is_acting else ())

    def let_ask(self) -> None:
        """Have the batches of governed queries ask that began while nothing was applied."""
        for watched in self._plant.watched:
            with self._loop.lock_of(watched.name):
                if watched.is_governed and watched.has_guard:
                    self._answering.introduce(watched, ())

    def _memory(self, watched: WatchedQuery, goal: Goal) -> WarmStart:
        """What is on record of earlier runs; nothing where that cannot be read, or means nothing.

        The query starts without it: a store that is damaged must not keep one from being governed.
        """
        try:
            if watched.record is not None:
                root = internals.checkpoint_root(watched.execution)
                remember_checkpoint(self._loop.store, watched.query_id, root)
            return warm_start(self._loop.store, watched.name, goal, self._settings.admission, time.time())
        except Exception as error:
            is_told = isinstance(error, PenstockError)
            logger.warning("%s starts without what is on record of it (%s)", watched.name, error, exc_info=not is_told)
            return WarmStart()

    def _unmanageable(self, watched: WatchedQuery) -> str | None:
        if Ability.READ_LIMIT in self._missing:
            return f"{Ability.READ_LIMIT} is off: {self._missing[Ability.READ_LIMIT]}"
        if not watched.is_micro_batch:
            return "it runs in continuous processing, which has no batches to limit"
        return None

    def _executor_points(self, now_s: float) -> list[SeriesPoint]:
        return [] if Ability.EXECUTORS in self._missing else self._collector.points(APPLICATION, now_s)
