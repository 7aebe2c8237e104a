"""Attach to a session: its streaming queries are observed from then on, and those with a goal are governed.

Spark's events become events of the one loop (docs/adr/0014-one-loop.md); what users call is here.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from penstock.control.application import ApplicationLogic
from penstock.control.events import BatchFinished, GoalChanged, QueryEnded, QueryStarted
from penstock.declaration import read_declaration
from penstock.errors import InvalidSettingError, UnknownQueryError
from penstock.loop import Loop
from penstock.model import APPLICATION, ActionKind, Application, Goal, Mode, QueryName
from penstock.model.decision import ActuatorOff, Hold, Unmanaged
from penstock.report import LogView, application_status, explain
from penstock.settings import Settings, load_settings
from penstock.spark import internals
from penstock.spark.answers import Answering
from penstock.spark.collector import parse_progress
from penstock.spark.declared import DeclaredFile
from penstock.spark.executor_plant import ExecutorPlant, why_not
from penstock.spark.executors import ExecutorCollector
from penstock.spark.govern import GovernedWriter
from penstock.spark.guard import guard_rows
from penstock.spark.identity import NO_IDENTITY
from penstock.spark.internals import Ability
from penstock.spark.listener import Listener
from penstock.spark.operator import run_operator
from penstock.spark.plant import SparkPlant
from penstock.spark.warm_start import answers_on_record, executor_times, warm_start
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from penstock.control.events import Event
    from penstock.control.scaling.base import Scaler
    from penstock.declaration import Declaration, GoalChange
    from penstock.model import SeriesPoint
    from penstock.report import ApplicationStatus, Explanation
    from penstock.spark.operator import Operator
    from penstock.spark.operator_worker import Row
    from penstock.spark.watched import WatchedQuery
    from penstock.store import Store

logger = logging.getLogger("penstock")

_DELETE_EVERY_S = 3600.0
_DAY_S = 86_400.0
_PER_BATCH_KINDS = (ActionKind.READ_LIMIT, ActionKind.KEEP_RATIO)


def attach(
    spark: SparkSession,
    application: str | Path | Application | None = None,
    *,
    goals: Mapping[str, Goal] | None = None,
    settings: Settings | Mapping[str, object] | None = None,
    store: Store | None = None,
    watch: bool = False,
    policy: Scaler | None = None,
) -> Penstock:
    """Observe every streaming query of a session, and govern those that have a goal.

    Parameters
    ----------
    spark
        A classic session; its queries run on as they are.
    application
        A file (``"penstock.toml"``) or an :class:`~penstock.model.Application`: queries with goals, what each reads and
        writes, executors. A file may hold settings as well.
    goals
        The simple case: goals by query name, for queries whose code stays as it is.
    settings
        Options by ``section.key``, or a whole :class:`~penstock.settings.Settings`. They win over environment variables
        (``PENSTOCK_...``), which win over the file.
    store
        Where decisions and series go; a SQLite file at ``store.path`` by default.
    watch
        Look for changes of the file while queries run, and take over the goals in it.
    policy
        A scaling policy of one's own (:class:`penstock.policies.Scaler`) in place of the declared one, for an
        application that declares executors. Bounds, budget and all other guards hold for it as for any other.

    Examples
    --------
    ::

        import penstock
        from penstock import Goal

        pen = penstock.attach(spark, goals={"clicks": Goal(latency="5 seconds")})
        query = df.writeStream.queryName("clicks").format("noop").start()
    """
    internals.require_classic_session(spark)
    arguments = None if isinstance(settings, Settings) else settings
    declaration: Declaration | None = None
    if isinstance(application, str | Path):
        declaration = read_declaration(application, environment=os.environ, arguments=arguments)
        whole, chosen = declaration.application, declaration.settings
    else:
        whole = application or Application()
        chosen = load_settings(environment=os.environ, arguments=arguments)
    if isinstance(settings, Settings):
        chosen = settings
    for name, goal in (goals or {}).items():
        whole = whole.with_goal(QueryName(name), goal)
    if watch and declaration is None:
        raise InvalidSettingError("watch", watch, "False where there is no file; pass the path of one to watch it")
    if policy is not None and whole.executors is None:
        raise InvalidSettingError(
            "policy", policy.name, "none where no executors are declared; give the application an ExecutorsDeclaration"
        )
    opened = store or SqliteStore(chosen.store.path)
    try:
        return Penstock(spark, whole, chosen, opened, declaration=declaration, watch=watch, policy=policy)
    except BaseException:
        if store is None:
            opened.close()
        raise


class Penstock:
    """The hold that Penstock has on a session; made by :func:`attach`, ended by :meth:`detach`."""

    def __init__(
        self,
        spark: SparkSession,
        application: Application,
        settings: Settings,
        store: Store,
        *,
        declaration: Declaration | None = None,
        watch: bool = False,
        policy: Scaler | None = None,
    ) -> None:
        self.settings, self.store = settings, store
        self.mode = Mode.OBSERVE if settings.observe.only else Mode.ACT
        self.missing = internals.probe(spark)
        self.operators: list[Operator] = []
        self._spark = spark
        self._file: DeclaredFile | None = None
        self._started_names: set[str] = set()
        self._goals = {name: query.goal for name, query in application.queries.items()}
        self._late_goals: dict[str, Goal] = {}
        self._collector = ExecutorCollector(spark, settings.observe.executors_every_s)
        self._deleted_s = 0.0
        refusal = None if application.executors is None else why_not(spark, application.executors.bounds)
        if refusal is not None:
            # What cannot be applied must not be decided, or the log would tell of sizes that never come.
            application = replace(application, executors=None)
        executors = None if application.executors is None else ExecutorPlant(spark)
        self.plant = SparkPlant(spark, self.missing, executors=executors, more_events=self._look_around)
        logic = ApplicationLogic(
            application, settings, enforced=self.mode is Mode.ACT, policy=policy, learned=executor_times(store)
        )
        self.loop = Loop(logic, self.plant, store, mode=self.mode, clock=time.time)
        if declaration is not None:
            self._file = DeclaredFile(
                declaration, is_watched=watch, now_s=time.time(), record=self.loop.record, take=self._take_goal
            )
        self._tell_missing(refusal)
        self._answering = Answering(spark, self.loop, self.plant, self.operators, settings.directives)
        self._listener = Listener(self, self.missing)
        spark.streams.addListener(self._listener)
        try:
            self._adopt_running()
            self.loop.start(settings.scaling.every_s if executors is not None else settings.observe.executors_every_s)
        except BaseException:
            self.detach()
            raise

    def _tell_missing(self, refusal: str | None) -> None:
        reasons = [f"{ability} is off: {reason}" for ability, reason in self.missing.items()]
        if refusal is not None:
            reasons.append(f"executors are not scaled: {refusal}")
        for reason in reasons:
            logger.warning("%s", reason)
        self.loop.record([ActuatorOff(cause="attach", reason=reason) for reason in reasons])

    def _adopt_running(self) -> None:
        for query in self._spark.streams.active:
            watched = self.plant.watch(query)
            self._started_names.add(str(watched.name))
            goal = self._goals.get(watched.name)
            if goal is not None:
                self._begin(watched, goal, cause="adopt", starting=False)

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
        identity: str | Sequence[str] | None = None,
    ) -> DataFrame:
        """Mark the place where rows may be dropped when the query's goal cannot be met otherwise.

        See :func:`penstock.spark.guard.guard_rows`.
        """
        return guard_rows(rows, key=key, arrival=arrival, utility=utility, identity=identity)

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
        identity: str | Sequence[str] | None = None,
    ) -> DataFrame:
        """Run a Python row function whose cost by key is learned, and shed in front of it when not all rows fit.

        The learned costs are in the last entry of :attr:`operators`. See
        :func:`penstock.spark.operator.run_operator`.
        """
        result, operator = run_operator(
            rows, function, schema, key, strategy=strategy, utility=utility, arrival=arrival, identity=identity
        )
        self.operators.append(operator)
        return result

    def expect(self, query: str, goal: Goal | None) -> Goal | None:
        """Govern the next query that starts under a name, or none; gives the goal that was expected before."""
        name = QueryName(query)
        before = self._goals.pop(name, None)
        if goal is not None:
            self._goals[name] = goal
        return before

    def set_goal(self, query: str, goal: Goal, *, asked_by: str = "user") -> None:
        """Ask something else of a query, now and whenever one starts under that name."""
        name = QueryName(query)
        self._goals[name] = goal
        watched = self.plant.find(query)
        if watched is not None and watched.is_governed:
            self.loop.handle(GoalChanged(watched.name, goal, asked_by))
        elif watched is not None:
            self.adopt(query, goal)

    def adopt(self, query: str | StreamingQuery, goal: Goal) -> None:
        """Govern a query that is already running, by its name, its id, or itself.

        Its current batch was planned without Penstock, and so may the next one be: the limit holds from then on.
        """
        name = query if isinstance(query, str) else query.name or str(query.id)
        watched = self._known(name)
        self._goals[watched.name] = goal
        if watched.is_governed:
            self.loop.handle(GoalChanged(watched.name, goal))
        else:
            self._begin(watched, goal, cause="adopt", starting=False)

    def release(self, name: str) -> None:
        """Stop governing a query; its sources get the limits that they came with. It stays observed."""
        watched = self._known(name)
        self._goals.pop(watched.name, None)
        self.loop.release(watched.name, "release", "asked for")

    def detach(self) -> None:
        """Give everything back as it was, and let go of the session."""
        if self.loop.is_closed:
            return
        self._spark.streams.removeListener(self._listener)
        for name in self.loop.logic.governed:
            try:
                self.loop.release(name, "detach", "Penstock lets go of the session")
            except Exception:
                # One query that cannot be let go of must not keep the others.
                logger.exception("query %s could not be let go of in order", name)
        self.loop.close()
        self._answering.close()
        self.store.close()

    def status(self) -> ApplicationStatus:
        """Every query's state in words, with the figures behind it."""
        return application_status(self.store)

    def explain(self, query: str) -> Explanation:
        """Why a query is where it is now."""
        return explain(self.store, QueryName(query))

    def log(self, query: str | None = None, *, last: int = 50) -> LogView:
        """What was decided, when and why."""
        return LogView.read(self.store, query=query, last=last)

    def watched(self, name: str) -> WatchedQuery:
        """The query of that name or id, as Penstock sees it."""
        return self._known(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def __repr__(self) -> str:
        return str(self.status())

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    # What the listener calls: none of these may let an error out, because the query must go on without Penstock

    def on_started(self, event: QueryStartedEvent) -> None:
        """A query starts; on its own thread, before its first batch is planned."""
        name = QueryName(event.name or str(event.id))
        try:
            query = self._spark.streams.get(str(event.id))
            if query is None:
                return
            watched = self.plant.watch(query)
            self._started_names.add(str(name))
            goal = self._goals.get(name)
            if goal is None:
                return
            if Ability.FIRST_BATCH in self.missing:
                # Nobody can plan the query early, and to wait for its plan here, on its own thread, would be for ever:
                # it is governed after its first batch, as if adopted.
                self._late_goals[str(event.id)] = goal
            else:
                self._begin(watched, goal, cause="start", starting=True)
        except Exception as error:  # noqa: BLE001 - no error of Penstock may reach the query
            self.loop.fault(name, "start", error)

    def on_progress(self, text: str) -> None:
        """A batch is done; its progress report as JSON."""
        try:
            progress = parse_progress(text)
        except (ValueError, KeyError) as error:
            self.loop.fault(APPLICATION, "report", error)
            return
        watched = self.plant.find(str(progress["id"]))
        if watched is None or self.loop.is_closed:
            return
        try:
            self._on_batch(watched, progress)
        except Exception as error:  # noqa: BLE001 - no error of Penstock may reach the query
            self.loop.fault(watched.name, f"batch {progress.get('batchId')}", error)

    def on_terminated(self, event: QueryTerminatedEvent) -> None:
        """A query has ended."""
        # A query started again from its checkpoint has the same id, and news of its end may come after its start.
        ended = self.plant.forget(str(event.id), str(event.runId))
        if ended is not None:
            try:
                self.loop.handle(QueryEnded(ended.name))
            except Exception as error:  # noqa: BLE001 - as above
                self.loop.fault(APPLICATION, f"end of {ended.name}", error)

    # From Spark's events to the loop's

    def _on_batch(self, watched: WatchedQuery, progress: Mapping[str, Any]) -> None:
        signal = watched.signal(progress)
        logic = self.loop.logic
        needs_cores = watched.is_governed and (len(logic.governed) > 1 or logic.application.has_graph)
        self._answering.learn(progress)
        if watched.is_governed:
            self.loop.handle(BatchFinished(signal, watched.core_seconds() if needs_cores else None))
            self._answering.tell_ahead(watched, signal)
        self.store.append_points([*watched.points(signal, logic.query(watched.name)), *self._executor_points()])
        late_goal = self._late_goals.pop(watched.query_id, None)
        if late_goal is not None:
            self._begin(watched, late_goal, cause="start", starting=False)

    def _begin(self, watched: WatchedQuery, goal: Goal, *, cause: str, starting: bool) -> None:
        """Govern a query; whatever takes time is done before the loop is asked, so that nobody else waits for it."""
        reason = self._unmanageable(watched)
        if reason is not None:
            self.loop.record([Unmanaged(query=watched.name, cause=cause, reason=f"{reason}; it is only observed")])
            return
        spec = watched.describe(starting=starting)
        event = QueryStarted(
            spec,
            goal,
            watched.query_id,
            cause,
            has_guard=watched.has_guard,
            asks=self._answering.is_open,
            warm_start=warm_start(self.store, watched.name, goal, self.settings.admission, time.time()),
            past=() if starting else watched.past_signals(),
            answered=answers_on_record(self.store, watched.name, watched.query_id),
        )
        watched.is_governed = True
        self.loop.handle(event)
        if watched.draws_by_chance:
            self.loop.record([Hold(query=watched.name, cause=cause, reason=NO_IDENTITY)])
        if watched.has_guard and self.mode is Mode.ACT:
            self._answering.introduce(watched, event.answered)

    def _unmanageable(self, watched: WatchedQuery) -> str | None:
        if Ability.READ_LIMIT in self.missing:
            return f"{Ability.READ_LIMIT} is off: {self.missing[Ability.READ_LIMIT]}"
        if not watched.is_micro_batch:
            return "it runs in continuous processing, which has no batches to limit"
        return None

    def _look_around(self) -> Sequence[Event]:
        """What is looked at once a cycle beside the executors."""
        return () if self._file is None else self._file.look(self._started_names, time.time())

    def _take_goal(self, change: GoalChange) -> bool:
        """Take over a goal from the file; one that is gone ends the governing of its query."""
        watched = self.plant.find(change.query)
        if change.new is None:
            self._goals.pop(change.query, None)
            if watched is not None and watched.is_governed:
                self.loop.release(change.query, "declaration", "it is not in the file any more")
            return False
        self._goals[change.query] = change.new
        if watched is not None and not watched.is_governed:
            self._begin(watched, change.new, cause="declaration", starting=False)
            return False
        return watched is not None

    def _executor_points(self) -> list[SeriesPoint]:
        if Ability.EXECUTORS in self.missing:
            return []
        now_s = time.time()
        if now_s - self._deleted_s > _DELETE_EVERY_S:
            self._deleted_s = now_s
            kept = self.settings.store
            self.store.delete_points(before_s=now_s - kept.series_days * _DAY_S)
            self.store.delete_actions(before_s=now_s - kept.action_days * _DAY_S, kinds=_PER_BATCH_KINDS)
        return self._collector.points(APPLICATION, now_s)

    def _known(self, name: str) -> WatchedQuery:
        found = self.plant.find(name)
        if found is None:
            raise UnknownQueryError(name, [str(known.name) for known in self.plant.watched])
        return found
