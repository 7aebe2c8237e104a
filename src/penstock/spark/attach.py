"""Attach to a session: its streaming queries are observed from then on, and those with a goal are governed.

Spark's events become events of the one loop (docs/adr/0014-one-loop.md); what users call is here.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from penstock.control.application import ApplicationLogic
from penstock.control.events import GoalChanged
from penstock.declaration import read_declaration
from penstock.errors import AlreadyAttachedError, InvalidSettingError, PenstockError, UnknownQueryError
from penstock.log_lines import log_plain_lines
from penstock.loop import Loop
from penstock.model import Application, Goal, Mode, QueryName
from penstock.model.application import REPAY_WHEN_IDLE
from penstock.model.decision import ActuatorOff
from penstock.report import LogView, application_status, explain
from penstock.report.sizing import last_resize_number
from penstock.settings import Settings, load_settings
from penstock.spark import internals
from penstock.spark.answers import Answering
from penstock.spark.dashboard import Dashboard
from penstock.spark.declared import DeclaredFile
from penstock.spark.executor_plant import ExecutorPlant, why_not
from penstock.spark.govern import GovernedWriter
from penstock.spark.guard import guard_rows
from penstock.spark.idle_repay import IdleRepayer, has_room
from penstock.spark.internals import Ability
from penstock.spark.learned_file import LearnedFile
from penstock.spark.listener import Listener
from penstock.spark.operator import run_operator
from penstock.spark.plant import SparkPlant
from penstock.spark.repay import Repay, checkpoint_of
from penstock.spark.session_events import SessionEvents
from penstock.spark.sizing_plant import SizingPlant, why_not_sized
from penstock.spark.state_locality import LOCALITY_KEY, why_state_stays
from penstock.spark.warm_start import executor_times
from penstock.store import SqliteStore, forget_old
from penstock.store.size_request import take_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from plotly.graph_objects import Figure
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from penstock.control.events import Event
    from penstock.control.scaling.base import Scaler
    from penstock.declaration import Declaration, GoalChange
    from penstock.model import SeriesPoint
    from penstock.report import ApplicationStatus, Explanation
    from penstock.serve.service import Service
    from penstock.spark.operator import Operator
    from penstock.spark.operator_worker import Row
    from penstock.spark.watched import WatchedQuery
    from penstock.store import Store

logger = logging.getLogger("penstock")

_DELETE_EVERY_S = 3600.0


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
    log_plain_lines()
    internals.require_classic_session(spark)
    internals.require_supported_engine(spark)
    _require_free(spark)
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
        self._dashboard = Dashboard(self)
        self._spark = spark
        self._file: DeclaredFile | None = None
        self._deleted_s = 0.0
        goals = {name: query.goal for name, query in application.queries.items()}
        refusal = None if application.executors is None else why_not(spark, application.executors.bounds)
        if refusal is not None:
            # What cannot be applied must not be decided, or the log would tell of sizes that never come.
            application = replace(application, executors=None)
        executors = None if application.executors is None else ExecutorPlant(spark)
        self.plant = SparkPlant(spark, self.missing, executors=executors, more_events=self._look_around)
        self.plant.repay_days = settings.repay.keep_days
        self.plant.sizing = self._sizing_plant()
        self._learned = LearnedFile(store)
        learned = replace(executor_times(store), learned=self._learned.read())
        logic = ApplicationLogic(
            application,
            settings,
            enforced=self.mode is Mode.ACT,
            policy=policy,
            learned=learned,
            resizes=last_resize_number(store),
        )
        self.loop = Loop(
            logic, self.plant, store, mode=self.mode, clock=time.time, patience_s=settings.store.patience_s
        )
        self._idle_repay = IdleRepayer(spark, self.loop.record)
        if declaration is not None:
            self._file = DeclaredFile(
                declaration, is_watched=watch, now_s=time.time(), record=self.loop.record, take=self._take_goal
            )
        self._tell_missing(refusal)
        self._answering = Answering(spark, self.loop, self.plant, self.operators, settings.directives)
        self.events = SessionEvents(
            spark, self.loop, self.plant, self._answering, settings, goals=goals, missing=self.missing
        )
        self._listener: Listener | None = None
        try:
            listener = Listener(self.events, self.missing)
            _take_hold(self)
            self._listener = listener
            spark.streams.addListener(listener)
            for query in spark.streams.active:
                self.events.take_up(query)
            every_s = settings.scaling.every_s if executors is not None else settings.observe.executors_every_s
            self.loop.start(min(every_s, settings.observe.reports_every_s))
            if settings.dashboard.port:
                self._serve_if_it_can_be()
        except BaseException:
            self.detach()
            raise

    def _serve_if_it_can_be(self) -> None:
        """Serve the dashboard; a port that is taken must not keep queries from being governed."""
        try:
            self.serve()
        except PenstockError as error:
            logger.warning("the dashboard is off: %s", error)
            self.loop.record([ActuatorOff(cause="attach", reason=f"the dashboard is off: {error}")])

    def _tell_missing(self, refusal: str | None) -> None:
        reasons = [f"{ability} is off: {reason}" for ability, reason in self.missing.items()]
        if refusal is not None:
            reasons.append(f"executors are not scaled: {refusal}")
        if self.plant.sizing is not None:
            reasons += why_not_sized(self._spark, self.missing)
        if self.loop.logic.application.executors is not None:
            stays = why_state_stays(self._spark.sparkContext.getConf().get(LOCALITY_KEY))
            reasons += [] if stays is None else [stays]
        for reason in reasons:
            logger.warning("%s", reason)
        self.loop.record([ActuatorOff(cause="attach", reason=reason) for reason in reasons])

    def _sizing_plant(self) -> SizingPlant | None:
        sizing = self.settings.sizing
        if sizing.mode == "off" or Ability.USAGE in self.missing:
            return None
        return SizingPlant(
            self._spark,
            sizing,
            self.missing,
            run_ids=lambda: [str(each.query.runId) for each in self.plant.watched],
            keep=self._keep_points,
            is_asked_for=lambda: isinstance(self.store, SqliteStore) and take_request(self.store.path),
            wants_heap_look=self._wants_heap_look,
        )

    def _wants_heap_look(self) -> bool:
        sizing = self.loop.logic.sizing
        return sizing is not None and sizing.wants_heap_look

    def _keep_points(self, points: Sequence[SeriesPoint]) -> None:
        self.loop.keep_points(points)

    # What users call

    @property
    def spark(self) -> SparkSession:
        """The session that this is a hold on."""
        return self._spark

    def remote_service(self, name: str, figure: Callable[[], float | None]) -> None:
        """Name a service that the queries call, with a function that gives its latency now, or None.

        Where the backlog follows that figure, no task slots are added: more calls would not make it faster.
        :func:`penstock.spark.prometheus.prometheus_figure` makes such a function of a PromQL query.
        """
        if self.plant.sizing is None:
            raise InvalidSettingError("sizing.mode", self.settings.sizing.mode, "'recommend' or 'apply'")
        self.plant.sizing.usage.services[name] = figure

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
        before = self.events.goals.pop(name, None)
        if goal is not None:
            self.events.goals[name] = goal
        return before

    def set_goal(self, query: str, goal: Goal, *, asked_by: str = "user") -> None:
        """Ask something else of a query, now and whenever one starts under that name."""
        name = QueryName(query)
        self.events.goals[name] = goal
        watched = self.plant.find(query)
        if watched is not None and watched.is_governed:
            self.loop.handle(GoalChanged(watched.name, goal, asked_by))
        elif watched is not None:
            self.adopt(query, goal)

    def adopt(self, query: str | StreamingQuery, goal: Goal) -> None:
        """Govern a query that is already running, by its name, its id, or itself.

        Its current batch was planned without Penstock, and so may the next one be: the limit holds from then on.
        """
        name = query if isinstance(query, str) else str(query.id)
        watched = self._known(name)
        self.events.goals[watched.name] = goal
        self.events.begin(watched, goal, cause="adopt")

    def release(self, name: str) -> None:
        """Stop governing a query; its sources get the limits that they came with. It stays observed."""
        watched = self._known(name)
        self.events.goals.pop(watched.name, None)
        self.loop.release(watched.name, "release", "asked for")

    def detach(self) -> None:
        """Give everything back as it was, and let go of the session; whatever fails on the way, the rest is done."""
        if self.loop.is_closed:
            return
        with ExitStack() as after:
            after.callback(self.store.close)
            after.callback(self._dashboard.close)
            after.callback(_let_hold_go, self)
            after.callback(self._idle_repay.close)
            after.callback(self._answering.close)
            after.callback(self.events.close)
            if self.plant.sizing is not None:
                after.callback(self.plant.sizing.close)
            after.callback(self.loop.release_all, "detach", "Penstock lets go of the session")
            # First: a query whose start is being recorded is let go of with the others, and none begins after them.
            self.loop.close()
            try:
                self._learned.write(self.loop.logic.scaling)
            except Exception:
                # It would keep the store, which nobody else could open, and the session.
                logger.exception("what the scaler learned was not written")
            try:
                if self._listener is not None:
                    self._spark.streams.removeListener(self._listener)
            except Exception as error:  # noqa: BLE001 - a JVM that is gone has no listeners to remove
                logger.warning("the listener could not be removed (%s); the JVM of the session may be gone", error)

    def repay(
        self,
        query: str,
        *,
        since: str | float | None = None,
        until: str | float | None = None,
        checkpoint: str | None = None,
        rows: Callable[[DataFrame], DataFrame] | None = None,
        utility: Column | None = None,
        options: Mapping[str, str] | None = None,
        partial: bool = False,
    ) -> Repay:
        """What a query dropped while it shed, batch by batch, to be processed now.

        The query need not run. ``checkpoint`` is needed only where neither this session nor the store knows the query.
        See :class:`penstock.spark.repay.Repay`.
        """
        watched = self.plant.find(query)
        if checkpoint is None:
            is_known = watched is not None and watched.record is not None
            found = internals.checkpoint_root(watched.execution) if watched is not None and is_known else None
            checkpoint = found or checkpoint_of(self.store, query)
        return Repay(
            self._spark, checkpoint, since=since, until=until, rows=rows, utility=utility, options=options,
            partial=partial,
        )  # fmt: skip

    def on_repay(self, query: str, function: Callable[[DataFrame, int], Any], **how: Any) -> None:  # noqa: ANN401 - as for repay
        """Say what becomes of rows that a query dropped: called with them, and their batch, when there is room.

        Takes hold where the query is declared with ``repay = "when idle"``. ``how`` is as for :meth:`repay`.
        """
        name = QueryName(query)
        declared = self.loop.logic.application.queries.get(name)
        if declared is None or declared.repay != REPAY_WHEN_IDLE:
            raise InvalidSettingError(
                f"queries.{query}.repay",
                None if declared is None else declared.repay,
                f"write {REPAY_WHEN_IDLE!r} there",
            )
        self._idle_repay.take_on(name, lambda: self.repay(query, **how), function)

    def status(self) -> ApplicationStatus:
        """Every query's state in words, with the figures behind it."""
        return application_status(self.store)

    def explain(self, query: str) -> Explanation:
        """Why a query is where it is now."""
        return explain(self.store, QueryName(query))

    def log(self, query: str | None = None, *, last: int = 50) -> LogView:
        """What was decided, when and why."""
        return LogView.read(self.store, query=query, last=last)

    def serve(self, port: int | None = None) -> Service:
        """Serve the dashboard of this application, and say where it is; it ends with :meth:`detach`.

        Parameters
        ----------
        port
            Where to listen; the setting ``dashboard.port``, or any free one, if left out.
        """
        return self._dashboard.serve(port)

    def plot(self, query: str, *, hours: float = 1.0) -> Figure:
        """Load, latency, accuracy and backlog of a query over its last hours, as a chart that a notebook shows."""
        return self._dashboard.plot(query, hours=hours)

    @property
    def application_name(self) -> str:
        """The name of the Spark application."""
        return self._spark.sparkContext.appName or "application"

    @property
    def observe_only(self) -> bool:
        """Whether what is decided is not applied."""
        return self.loop.mode is Mode.OBSERVE

    def set_observe_only(self, observe_only: bool, *, asked_by: str = "user") -> None:  # noqa: FBT001 - the one thing it says
        """Apply no decision from now on, or apply them again; queries stay governed and decided about."""
        self.mode = Mode.OBSERVE if observe_only else Mode.ACT
        self.loop.set_mode(self.mode, asked_by=asked_by)
        if not observe_only:
            self.events.let_ask()

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

    # What is looked at once a cycle

    def _look_around(self) -> Sequence[Event]:
        """What is looked at once a cycle beside the executors."""
        now_s = time.time()
        self.events.look()
        logic = self.loop.logic
        governed = [query for query in map(logic.query, logic.governed) if query is not None]
        declared = logic.application.queries.items()
        self._idle_repay.miss(
            name for name, each in declared if each.repay == REPAY_WHEN_IDLE and name in self.events.started_names
        )
        if self.mode is Mode.ACT and has_room(governed, self.settings.repay.idle_below):
            self._idle_repay.look()
        self._learned.write_when_due(self.loop.logic.scaling, now_s)
        if now_s - self._deleted_s > _DELETE_EVERY_S:
            self._deleted_s = now_s
            forget_old(self.store, self.settings.store, now_s=now_s)
        return () if self._file is None else self._file.look(self.events.started_names, now_s)

    def _take_goal(self, change: GoalChange) -> bool:
        """Take over a goal from the file; one that is gone ends the governing of its query."""
        watched = self.plant.find(change.query)
        if change.new is None:
            self.events.goals.pop(change.query, None)
            if watched is not None and watched.is_governed:
                self.loop.release(change.query, "declaration", "it is not in the file any more")
            return False
        self.events.goals[change.query] = change.new
        if watched is not None and not watched.is_governed:
            self.events.begin(watched, change.new, cause="declaration", wait=False)
            return False
        return watched is not None

    def _known(self, name: str) -> WatchedQuery:
        found = self.plant.find(name)
        if found is None:
            raise UnknownQueryError(name, [str(known.name) for known in self.plant.watched])
        return found


_holds: list[Penstock] = []
_holding = threading.Lock()


def _require_free(spark: SparkSession) -> None:
    """Refuse a session that is held already: the second would take the first one's limits for the queries' own."""
    with _holding:
        _refuse_held(spark)


def _take_hold(hold: Penstock) -> None:
    """Hold a session that is free: of two that attach at once one is refused here."""
    with _holding:
        _refuse_held(hold._spark)  # noqa: SLF001 - the same module
        _holds.append(hold)


def _refuse_held(spark: SparkSession) -> None:
    if any(internals.is_same_session(hold._spark, spark) for hold in _holds):  # noqa: SLF001 - the same module
        raise AlreadyAttachedError(
            "this session is attached to already: go on with that hold, or end it with detach() first"
        )


def _let_hold_go(hold: Penstock) -> None:
    with _holding:
        if hold in _holds:
            _holds.remove(hold)
