"""An application that is started again where its executors cannot take another shape on while queries run.

::

    def start(settings):
        builder = SparkSession.builder.appName("clicks")
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        pen = penstock.attach(spark, "penstock.toml")
        clicks(spark).writeStream.option("checkpointLocation", "...").start()
        return pen

    ResizableApplication(start).run()

Within the hours of ``sizing.restart`` the queries are stopped, the session is ended and ``start`` is called with the
settings of the new shape. Queries go on from their checkpoints, so that nothing is lost; what it costs is on record.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.control.sizing.restart_hours import RestartHours
from penstock.errors import ClusterError, InvalidSettingError
from penstock.model.decision import Infeasible, ResizeDone
from penstock.model.sizing import EngineShape, Resource
from penstock.spark import internals
from penstock.spark.reshaper import restart_settings
from penstock.spark.restart import restart_with

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.model.decision import Resize
    from penstock.model.sizing import ResizeOutcome
    from penstock.spark.attach import Penstock

logger = logging.getLogger("penstock")

_LOOK_EVERY_S = 0.5
_BATCH_ENDS_WITHIN_S = 30.0


class ResizableApplication:
    """Runs an application, and starts it again for another shape when that is due and allowed.

    Parameters
    ----------
    start
        Starts a session with some settings of Spark above its own, attaches to it and starts all queries; gives the
        hold. It is called again after the session before has ended.
    up_within_s
        How long queries may take from their start to the end of their first batches; an engine that takes longer did
        not come up.
    settings
        What the first start is given.
    partitions_per_slot
        State partitions for each task slot of a new shape: at a restart the state of every query is given so many, by
        Spark's own offline operation (Spark 4.2). 0 leaves them as they are.
    """

    def __init__(
        self,
        start: Callable[[Mapping[str, str]], Penstock],
        *,
        up_within_s: float = 300.0,
        settings: Mapping[str, str] | None = None,
        partitions_per_slot: float = 0.0,
    ) -> None:
        self._start_application, self._up_within_s = start, up_within_s
        self._partitions_per_slot = partitions_per_slot
        self._settings: Mapping[str, str] = dict(settings or {})
        self._due: tuple[Resize, str] | None = None
        self._pen: Penstock | None = None
        self._hours = RestartHours()
        self._is_up = False

    @property
    def pen(self) -> Penstock:
        """The hold on the session that runs now."""
        if self._pen is None:
            raise ClusterError("the application has not been started: call run()")
        return self._pen

    @property
    def is_up(self) -> bool:
        """Whether every query has had a batch since the last start."""
        return self._is_up

    @property
    def due(self) -> Resize | None:
        """The change that waits for a restart; None where there is none."""
        return None if self._due is None else self._due[0]

    def run(self, stop: threading.Event | None = None) -> None:
        """Run until it is told to stop, or no query is active any more; the session is ended then."""
        stop = stop or threading.Event()
        try:
            self._begin(self._settings)
            while not stop.wait(_LOOK_EVERY_S) and self.pen.spark.streams.active:
                if self._due is not None and self._hours.allow(_minute_now()):
                    self._restart(*self._due)
        finally:
            self._end()

    # -- one restart -------------------------------------------------------------------------------------------------

    def ask(self, decision: Resize, reason: str) -> bool:
        """Have a decision carried out by a restart, when the hours allow it; False where they never do."""
        if self._hours.is_never:
            return False
        logger.info("a restart is due: %s", reason)
        self._due = decision, reason
        return True

    def _restart(self, decision: Resize, why: str) -> None:
        self._due = None
        old, new = EngineShape.from_dict(decision.previous_shape), EngineShape.from_dict(decision.shape)
        before = self._settings
        on_standalone = str(self.pen.spark.sparkContext.master).startswith("spark://")

        def start(shape: EngineShape) -> None:
            chosen = {**before, **restart_settings(shape)}
            if on_standalone:
                # There the number of executors is what fits into the cores.
                chosen["spark.cores.max"] = str(shape.executors * shape.cores)
            # The last good shape is the one that was there, however it was told.
            self._begin(before if shape == old else chosen)

        partitions = math.ceil(self._partitions_per_slot * new.slots)
        outcome = restart_with(decision.number, old, new, stop=lambda: self._end(partitions), start=start)
        self._tell(decision, outcome, why)

    def _tell(self, decision: Resize, outcome: ResizeOutcome, why: str) -> None:
        resource = Resource(decision.resource)
        self.pen.loop.record([ResizeDone.of(outcome, why=why)])
        if outcome.is_done:
            return
        blocked = f"{resource} could not be changed by a restart and stays: {outcome.reason}"
        self.pen.loop.logic.leave_resource(resource, blocked)
        self.pen.loop.record([Infeasible(cause=decision.policy, reason=blocked)])

    # -- start and end -----------------------------------------------------------------------------------------------

    def _begin(self, settings: Mapping[str, str]) -> None:
        """Start with some settings, and wait for the first batch of every query."""
        try:
            self._pen = self._start_application(settings)
            self._hours = RestartHours.parse(self._pen.settings.sizing.restart)
            self._await_batches()
        except BaseException:
            self._end()
            raise
        self._settings = settings
        sizing = self._pen.plant.sizing
        if sizing is not None:
            sizing.restart_by(self.ask)
        self._is_up = True

    def _await_batches(self) -> None:
        deadline_s = time.monotonic() + self._up_within_s
        queries = self.pen.spark.streams.active
        if not queries:
            raise InvalidSettingError("start", self._start_application, "a function that starts at least one query")
        while waiting := [each for each in queries if not _has_batch(each)]:
            for query in waiting:
                error = query.exception()
                if error is not None:
                    raise ClusterError(f"{query.name or query.id} failed: {str(error).splitlines()[0]}")
            if time.monotonic() > deadline_s:
                names = ", ".join(str(each.name or each.id) for each in waiting)
                raise ClusterError(f"no batch of {names} was over within {self._up_within_s:.0f} s of the start")
            time.sleep(_LOOK_EVERY_S)

    def _end(self, partitions: int = 0) -> None:
        """Stop all queries, after their batches where these end soon, give state its partitions, end the session."""
        pen, self._pen = self._pen, None
        was_up, self._is_up = self._is_up, False
        spark = internals.open_session() if pen is None else pen.spark
        if spark is None:
            return
        try:
            for query in spark.streams.active:
                if was_up:
                    _await_end_of_batch(query)
                query.stop()
                if was_up and partitions:
                    _repartition(spark, query, partitions)
            if pen is not None:
                pen.detach()
        finally:
            # Also one of a start that failed half-way: the next would be given that session with its old settings.
            internals.end_session(spark)


def _has_batch(query: StreamingQuery) -> bool:
    """Whether a batch is over; one that had nothing to read is enough."""
    return query.lastProgress is not None


def _await_end_of_batch(query: StreamingQuery) -> None:
    """Wait for the moment at which the least is done in vain: nothing runs, or a batch has just ended."""
    deadline_s, before = time.monotonic() + _BATCH_ENDS_WITHIN_S, _batch_of(query)
    while query.status["isTriggerActive"] and _batch_of(query) == before and time.monotonic() < deadline_s:
        time.sleep(_LOOK_EVERY_S / 5)


def _repartition(spark: SparkSession, query: StreamingQuery, partitions: int) -> None:
    """Give the state of a query that has ended another number of partitions; where that fails it keeps its own."""
    report = query.lastProgress
    operators = [] if report is None else report["stateOperators"]
    if not operators or operators[0]["numShufflePartitions"] == partitions:
        return
    try:
        internals.repartition_state(spark, internals.checkpoint_root(internals.execution_of(query)), partitions)
    except Exception:
        logger.warning("%s keeps its state partitions", query.name or query.id, exc_info=True)


def _batch_of(query: StreamingQuery) -> int:
    report = query.lastProgress
    return -1 if report is None else int(report["batchId"])


def _minute_now() -> int:
    now = datetime.now().astimezone()
    return now.hour * 60 + now.minute
