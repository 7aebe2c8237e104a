"""Attach to a session: its streaming queries are observed from then on, and those with a goal are governed."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from penstock.control.engine import EngineCoordinator
from penstock.errors import PenstockError, UnknownQueryError
from penstock.model import Action, ActionKind, Goal, Mode, QueryName
from penstock.settings import Settings, load_settings
from penstock.spark import internals
from penstock.spark.collector import parse_progress
from penstock.spark.executors import ExecutorCollector
from penstock.spark.govern import GovernedWriter
from penstock.spark.guard import guard_rows
from penstock.spark.internals import Ability
from penstock.spark.listener import Listener
from penstock.spark.lookout import HeldReport, Lookout
from penstock.spark.operator import Operator, run_operator
from penstock.spark.recall import recall, recorded_shares
from penstock.spark.watch import WatchedQuery
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from penstock.model import BatchSignal, PlannedBatch, SeriesPoint
    from penstock.spark.operator_worker import Row
    from penstock.store import Store

logger = logging.getLogger("penstock")

_ENGINE = QueryName("engine")
_DELETE_EVERY_S = 3600.0
_SAME_SHARE = 1e-9
_COSTS_HOLD_AFTER_BATCHES = 2
_SHARE_KINDS = (ActionKind.GOVERN, ActionKind.KEEP_RATIO)


def attach(
    spark: SparkSession,
    *,
    goals: Mapping[str, Goal] | None = None,
    settings: Settings | Mapping[str, object] | None = None,
    store: Store | None = None,
) -> Penstock:
    """Observe every streaming query of a session, and govern those that have a goal.

    Parameters
    ----------
    spark
        A classic session; its queries run on as they are.
    goals
        Goals by query name, for queries whose code stays as it is.
    settings
        Options by ``section.key``, or a whole :class:`~penstock.settings.Settings`. Environment variables
        (``PENSTOCK_...``) are read as well and give way to what is passed here.
    store
        Where actions and series go; a SQLite file at ``store.path`` by default.

    Examples
    --------
    ::

        import penstock
        from penstock import Goal

        pen = penstock.attach(spark, goals={"clicks": Goal(latency="5 seconds")})
        query = df.writeStream.queryName("clicks").format("noop").start()
    """
    internals.require_classic_session(spark)
    chosen = settings if isinstance(settings, Settings) else load_settings(environment=os.environ, arguments=settings)
    return Penstock(spark, chosen, store or SqliteStore(chosen.store.path), dict(goals or {}))


class Penstock:
    """The hold that Penstock has on a session; made by :func:`attach`, ended by :meth:`detach`."""

    def __init__(self, spark: SparkSession, settings: Settings, store: Store, goals: dict[str, Goal]) -> None:
        self.settings = settings
        self.store = store
        self.mode = Mode.OBSERVE if settings.observe.only else Mode.ACT
        self.missing = internals.probe(spark)
        self._spark = spark
        self._goals = {QueryName(name): goal for name, goal in goals.items()}
        self.operators: list[Operator] = []
        self._watched: dict[str, WatchedQuery] = {}
        self._late_goals: dict[str, Goal] = {}
        self._engine = EngineCoordinator(cores=1.0)
        self._executors = ExecutorCollector(spark, settings.observe.executors_every_s)
        self._lookout = Lookout()
        self._lock = threading.RLock()
        self._attached = True
        self._deleted_s = 0.0
        for ability, reason in self.missing.items():
            self._record(Action(ActionKind.ACTUATOR_OFF, _ENGINE, "attach", f"{ability} is off: {reason}"))
            logger.warning("%s is off: %s", ability, reason)
        self._listener = Listener(self, self.missing)
        spark.streams.addListener(self._listener)
        for query in spark.streams.active:
            self._watch(query)
        for name in list(self._goals):
            if self._find(name) is not None:
                self.adopt(name, self._goals[name])

    # What users call

    def govern(self, writer: DataStreamWriter, goal: Goal | None = None) -> GovernedWriter:
        """Give a query a goal before it starts; its first batch already reads no more than is safe."""
        return GovernedWriter(self, writer, goal or Goal())

    def guard(
        self,
        rows: DataFrame,
        key: str | None = None,
        arrival: str | None = "timestamp",
        utility: str | Column | None = None,
    ) -> DataFrame:
        """Mark the place where rows may be dropped when the query's goal cannot be met otherwise.

        See :func:`penstock.spark.guard.guard_rows`.
        """
        return guard_rows(rows, key=key, arrival=arrival, utility=utility)

    def operator(
        self,
        rows: DataFrame,
        function: Callable[[Row], Row | None],
        schema: StructType | str,
        key: str,
        *,
        strategy: str = "economic",
        utility: str | Column | None = None,
        arrival: str | None = "timestamp",
    ) -> DataFrame:
        """Run a Python row function whose cost by key is learned, and shed in front of it when not all rows fit.

        The learned costs are in the last entry of :attr:`operators`. See
        :func:`penstock.spark.operator.run_operator`.
        """
        result, operator = run_operator(
            rows, function, schema, key, strategy=strategy, utility=utility, arrival=arrival
        )
        self.operators.append(operator)
        return result

    def adopt(self, query: str | StreamingQuery, goal: Goal) -> None:
        """Govern a query that is already running, by its name, its id, or itself.

        Its current batch was planned without Penstock, and so may the next one be: the limit holds from then on.
        """
        name = query if isinstance(query, str) else _name_of(query)
        watched = self._find(name)
        if watched is None:
            raise UnknownQueryError(name, [str(known.name) for known in self._watched.values()])
        self._goals[watched.name] = goal
        with self._lock:
            self._begin(watched, goal, cause="adopt", starting=False)

    def release(self, name: str) -> None:
        """Stop governing a query; its sources get the limits that they came with. It stays observed."""
        watched = self._find(name)
        if watched is None:
            raise UnknownQueryError(name, [str(known.name) for known in self._watched.values()])
        self._goals.pop(watched.name, None)
        self._release(watched, "release", "asked for")

    def detach(self) -> None:
        """Put everything back as it was, and let go of the session."""
        with self._lock:
            if not self._attached:
                return
            self._attached = False
        self._spark.streams.removeListener(self._listener)
        self._lookout.close()
        for watched in list(self._watched.values()):
            try:
                if watched.is_governed:
                    self._release(watched, "detach", "Penstock lets go of the session")
            except Exception:
                # One query that cannot be let go of must not keep the others.
                logger.exception("query %s could not be let go of in order", watched.name)
        self._watched.clear()
        self.store.close()

    def watched(self, name: str) -> WatchedQuery:
        """The query of that name or id, as Penstock sees it."""
        found = self._find(name)
        if found is None:
            raise UnknownQueryError(name, [str(known.name) for known in self._watched.values()])
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def expect(self, name: str, goal: Goal) -> None:
        """Govern the next query that starts under this name."""
        self._goals[QueryName(name)] = goal

    # What the listener calls: none of these may let an error out, because the query must go on without Penstock

    def on_started(self, event: QueryStartedEvent) -> None:
        """A query starts; on its own thread, before its first batch is planned."""
        name = QueryName(event.name or str(event.id))
        try:
            query = self._spark.streams.get(str(event.id))
            if query is None:
                return
            watched = self._watch(query)
            goal = self._goals.get(name)
            if goal is not None:
                self._begin_start(watched, goal)
        except Exception as error:  # noqa: BLE001 - no error of Penstock may reach the query
            self._fault(name, "start", error)

    def on_progress(self, text: str) -> None:
        """A batch is done; its progress report as JSON."""
        try:
            progress = parse_progress(text)
        except (ValueError, KeyError) as error:
            self._fault(_ENGINE, "report", error)
            return
        query_id = str(progress["id"])
        watched = self._watched.get(query_id)
        if watched is None:
            return
        try:
            hand_on = partial(self._on_batch, watched, progress)
            hold_s = watched.look_s(progress) if self.mode is Mode.ACT else 0.0
            if hold_s > 0:
                look = partial(watched.planned_after, int(progress["batchId"]))
                self._lookout.hold(query_id, HeldReport(look, hand_on, time.monotonic() + hold_s))
            else:
                self._lookout.release(query_id)
                hand_on(None)
        except Exception as error:  # noqa: BLE001 - no error of Penstock may reach the query
            self._fault(watched.name, f"batch {progress.get('batchId')}", error)

    def _on_batch(self, watched: WatchedQuery, progress: Mapping[str, Any], planned: PlannedBatch | None) -> None:
        query_id = str(progress["id"])
        try:
            with self._lock:
                # Under the lock: a limit decided before a detach must not be put in force after it.
                if not self._attached:
                    return
                self._step(watched, progress, planned)
                late_goal = self._late_goals.pop(query_id, None)
                if late_goal is not None:
                    self._begin(watched, late_goal, cause="start", starting=False)
        except Exception as error:  # noqa: BLE001 - no error of Penstock may reach the query
            self._fault(watched.name, f"batch {progress.get('batchId')}", error)

    def on_terminated(self, event: QueryTerminatedEvent) -> None:
        """A query has ended."""
        self._lookout.release(str(event.id))
        with self._lock:
            watched = self._watched.get(str(event.id))
            # A query started again from its checkpoint has the same id, and news of its end may come after its start.
            if watched is not None and str(watched.query.runId) == str(event.runId):
                del self._watched[str(event.id)]
                self._engine.forget(watched.name)

    # The loop: collect, estimate and decide, record, actuate

    def _step(self, watched: WatchedQuery, progress: Mapping[str, Any], planned: PlannedBatch | None) -> None:
        signal = replace(watched.signal(progress), planned=planned)
        self._check_share(watched, signal)
        fair_pace = self._share_engine(watched, signal)
        controller = watched.controller
        actions = controller.on_batch(signal, fair_pace=fair_pace) if controller is not None else []
        for action in actions:
            self._record(action)
            self._actuate(watched, action)
        self._pass_costs_on(watched, progress, signal.batch_id)
        self.store.append_points([*watched.series(signal), *self._executor_points()])

    def _share_engine(self, watched: WatchedQuery, signal: BatchSignal) -> float:
        """Hold the query to what its priority leaves it, as soon as it is not the only governed one.

        Gives how much faster or slower its batches would be if all queries kept to their parts.
        """
        controller, goal = watched.controller, watched.goal
        is_shared = sum(other.is_governed for other in list(self._watched.values())) > 1
        if controller is None or goal is None or not is_shared or Ability.EXECUTORS in self.missing:
            return 1.0
        self._engine.cores = float(internals.engine_cores(self._spark))
        self._engine.hear(
            watched.name,
            goal,
            signal.finished_s,
            controller.arrival_rows_per_s or 0.0,
            batch_s=controller.target_batch_s or signal.duration_s,
            read_rows=signal.rows,
            kept_rows=signal.work_rows,
            core_s=watched.core_seconds(),
            can_shed=watched.has_guard,
            lag_rows=signal.lag_rows,
        )
        controller.hold_share(self._engine.bounds(watched.name, signal.finished_s))
        return self._engine.fair_pace(watched.name, signal.finished_s)

    def _pass_costs_on(self, watched: WatchedQuery, progress: Mapping[str, Any], batch_id: int) -> None:
        """Merge what the operators of a query have learned, and give it to the batches after the next."""
        observed = progress.get("observedMetrics") or {}
        for operator in self.operators:
            if operator.observation in observed:
                operator.absorb()
                if self.mode is Mode.ACT and watched.is_governed and Ability.CHANNEL not in self.missing:
                    messages = watched.cost_messages(operator, batch_id + _COSTS_HOLD_AFTER_BATCHES)
                    self.store.put_messages(str(watched.query.id), messages)
                    watched.send(messages)

    def _begin_start(self, watched: WatchedQuery, goal: Goal) -> None:
        if Ability.FIRST_BATCH in self.missing:
            # Nobody can plan the query early, and to wait for its plan here, on its own thread, would be for ever: it
            # is governed after its first batch, as if adopted.
            self._late_goals[str(watched.query.id)] = goal
        else:
            self._begin(watched, goal, cause="start", starting=True)

    def _check_share(self, watched: WatchedQuery, signal: BatchSignal) -> None:
        """Put into the log what a batch kept, should it not be what was recorded for it beforehand."""
        if self.mode is not Mode.ACT or watched.controller is None or signal.guard is None:
            return
        told, used = watched.controller.keep.fraction_at(signal.batch_id), signal.guard.keep_fraction
        if abs(told - used) > _SAME_SHARE:
            reason = f"batch {signal.batch_id} kept {used:g} where {told:g} was recorded: the message came too late"
            target = f"batch {signal.batch_id}"
            self._record(Action(ActionKind.FAULT, watched.name, f"batch {signal.batch_id}", reason, target=target))
            logger.warning("query %s: %s", watched.name, reason)

    def _begin(self, watched: WatchedQuery, goal: Goal, *, cause: str, starting: bool) -> None:
        if Ability.READ_LIMIT in self.missing:
            reason = f"{Ability.READ_LIMIT} is off: {self.missing[Ability.READ_LIMIT]}; the query is only observed"
            self._record(Action(ActionKind.UNMANAGED, watched.name, cause, reason))
            return
        if not watched.is_micro_batch:
            reason = "it runs in continuous processing, which has no batches to limit; the query is only observed"
            self._record(Action(ActionKind.UNMANAGED, watched.name, cause, reason))
            return
        query_id = str(watched.query.id)
        shares = recorded_shares(self.store.actions(query=watched.name, kinds=_SHARE_KINDS), query_id)
        known = recall(self.store, watched.name, goal, self.settings.admission, time.time())
        actions = watched.govern(goal, self.settings, starting=starting, recorded_shares=shares, recalled=known)
        if self.mode is Mode.ACT and Ability.CHANNEL not in self.missing:
            watched.resume_costs(self.store.messages(query_id))
        self._record(watched.govern_action(goal, cause))
        for source in watched.left_alone:
            reason = f"{source.spec.description}: {source.spec.reason}"
            target = f"source {source.spec.index}"
            self._record(Action(ActionKind.UNMANAGED, watched.name, cause, reason, target=target))
        for action in actions:
            self._record(action)
            self._actuate(watched, action)

    def _release(self, watched: WatchedQuery, cause: str, why: str) -> None:
        reason = f"{why}; its sources have their own limits again"
        with self._lock:
            try:
                self._record(Action(ActionKind.RELEASE, watched.name, cause, reason))
            finally:
                self._engine.forget(watched.name)
                watched.put_back()

    def _record(self, action: Action) -> None:
        self.store.append(action, time_s=time.time(), mode=self.mode)

    def _actuate(self, watched: WatchedQuery, action: Action) -> None:
        if self.mode is Mode.ACT:
            watched.carry_out(action)

    def _executor_points(self) -> list[SeriesPoint]:
        if Ability.EXECUTORS in self.missing:
            return []
        now_s = time.time()
        if now_s - self._deleted_s > _DELETE_EVERY_S:
            self._deleted_s = now_s
            self.store.delete_points(before_s=now_s - self.settings.store.series_days * 86_400)
        return self._executors.points(_ENGINE, now_s)

    def _fault(self, name: QueryName, cause: str, error: Exception) -> None:
        """Fail open: a query that Penstock cannot handle runs on as if Penstock were not there."""
        unforeseen = not isinstance(error, PenstockError)
        logger.warning("query %s runs on without Penstock: %s", name, error, exc_info=unforeseen)
        watched = self._find(name)
        if watched is not None:
            try:
                watched.put_back()
            except Exception:
                logger.exception("the read limits of query %s could not be put back", name)
        try:
            what = str(error).splitlines()[0] if str(error) else "no message"
            reason = f"{type(error).__name__}: {what}; the query runs on as if Penstock were not there"
            self._record(Action(ActionKind.FAULT, name, cause, reason))
        except Exception:
            logger.exception("the fault of query %s could not be recorded", name)

    def _watch(self, query: StreamingQuery) -> WatchedQuery:
        watched = WatchedQuery(self._spark, query, QueryName(_name_of(query)), self.missing)
        with self._lock:
            known = self._watched.get(str(query.id))
            if known is not None and known.query.runId == query.runId:
                return known
            self._watched[str(query.id)] = watched
            return watched

    def _find(self, name: str) -> WatchedQuery | None:
        with self._lock:
            running = list(self._watched.items())
        return next((watched for key, watched in running if name in (watched.name, key)), None)


def _name_of(query: StreamingQuery) -> str:
    return query.name or str(query.id)
