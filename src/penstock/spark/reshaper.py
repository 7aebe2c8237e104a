"""Gives the executors of a running application another shape, the cheapest way that does it.

Number of executors and task slots change at once. Another heap, memory or number of cores needs other executors: they
are asked for under a resource profile of their own, rehearse the running queries, take over their tasks, and the old
ones are then let go as any executor is, their tasks finished and their blocks passed on (docs/adr/0023-sizing.md).
Where that cannot be done the shape stays, and the outcome says which settings a restart needs.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from penstock.model.sizing import EngineShape, ResizeOutcome
from penstock.spark import internals
from penstock.spark.internals import Ability
from penstock.spark.rehearsal import in_one_line, rehearse
from penstock.spark.usage import engine_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import SparkSession

    from penstock.model.decision import Resize
    from penstock.spark.internals import ExecutorUsage

logger = logging.getLogger("penstock")

_LOOK_EVERY_S = 0.5
EXECUTORS, TASK_SLOTS, RESHAPE, RESTART = "executors", "task slots", "reshape", "restart"


def way_of(before: EngineShape, after: EngineShape) -> str:
    """How a shape is changed into another.

    Examples
    --------
    >>> shape = EngineShape(2, 1024, 384, cores=2)
    >>> way_of(shape, EngineShape(3, 1024, 384, cores=2))
    'executors'
    >>> way_of(shape, EngineShape(2, 1024, 384, cores=2, task_cpus=2))
    'task slots'
    >>> way_of(shape, EngineShape(2, 2048, 384, cores=2))
    'reshape'
    """
    each = (before.heap_mb, before.overhead_mb, before.python_mb, before.cores)
    if each != (after.heap_mb, after.overhead_mb, after.python_mb, after.cores):
        return RESHAPE
    return TASK_SLOTS if before.task_cpus != after.task_cpus else EXECUTORS


def restart_settings(shape: EngineShape) -> dict[str, str]:
    """Settings of Spark that give an application a shape when it starts again.

    Examples
    --------
    >>> restart_settings(EngineShape(2, 1024, 384, cores=2))["spark.executor.memory"]
    '1024m'
    """
    settings = {
        "spark.executor.instances": str(shape.executors),
        "spark.executor.cores": str(shape.cores),
        "spark.executor.memory": f"{shape.heap_mb}m",
        "spark.executor.memoryOverhead": f"{shape.overhead_mb}m",
        "spark.task.cpus": str(shape.task_cpus),
    }
    return settings | ({"spark.executor.pyspark.memory": f"{shape.python_mb}m"} if shape.python_mb else {})


class NeedsRestartError(Exception):
    """Executors cannot take a shape on while queries run; the message says why."""


class Reshaper:
    """Carries out one change of shape at a time, on a thread of its own: executors take seconds to start.

    Parameters
    ----------
    spark
        The session.
    missing
        Abilities that this Spark does not offer.
    start_within_s, rehearse_within_s, release_within_s
        How long new executors may take to come and to rehearse, and old ones to go.
    """

    def __init__(
        self,
        spark: SparkSession,
        missing: Collection[Ability],
        *,
        start_within_s: float = 120.0,
        rehearse_within_s: float = 60.0,
        release_within_s: float = 600.0,
    ) -> None:
        self._spark, self._missing = spark, missing
        self._start_within_s, self._release_within_s = start_within_s, release_within_s
        self._rehearse_within_s = rehearse_within_s
        self._outcomes: list[ResizeOutcome] = []
        self._thread: threading.Thread | None = None
        self._number = 0
        self._closed = threading.Event()
        self.restart: Callable[[Resize, str], bool] | None = None
        """Takes on what needs a restart, with the reason; False where it does not."""

    @property
    def number(self) -> int:
        """The newest decision that was taken on."""
        return self._number

    @property
    def is_busy(self) -> bool:
        """Whether executors are being changed now."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, decision: Resize) -> None:
        """Carry out a decision, unless it was taken on already."""
        if decision.number <= self._number or self.is_busy:
            return
        self._number = decision.number
        self._thread = threading.Thread(target=self._run, args=(decision,), name="penstock-reshape", daemon=True)
        self._thread.start()

    def take_outcomes(self) -> list[ResizeOutcome]:
        """What ended since the last call."""
        found, self._outcomes = self._outcomes, []
        return found

    def close(self) -> None:
        """Wait for nothing any more."""
        self._closed.set()

    def _run(self, decision: Resize) -> None:
        begun_s = time.monotonic()
        before, after = EngineShape.from_dict(decision.previous_shape), EngineShape.from_dict(decision.shape)
        way = way_of(before, after)
        try:
            reason = self._change(way, before, after)
        except NeedsRestartError as error:
            if self.restart is not None and self.restart(decision, str(error)):
                return
            reason = f"{error}: {_needs_restart(after)}"
        except Exception as error:  # whatever goes wrong, the queries go on with what they have
            logger.warning("the shape could not be changed", exc_info=True)
            reason = in_one_line(error)
        there = engine_shape(self._spark)
        is_done = not reason
        self._outcomes.append(
            ResizeOutcome(
                decision.number,
                there or (after if is_done else before),
                is_done,
                way,
                time.monotonic() - begun_s,
                reason,
                downtime_s=0.0 if is_done else None,
            )
        )

    def _change(self, way: str, before: EngineShape, after: EngineShape) -> str:
        """Change the shape; gives why that failed, empty where it did not.

        Raises
        ------
        NeedsRestartError
            Where only a restart can do it.
        """
        if way == TASK_SLOTS:
            return self._change_slots(after)
        if Ability.SCALING in self._missing:
            raise NeedsRestartError("executors cannot be changed while queries run")
        if way == EXECUTORS:
            return self._change_number(before, after)
        if Ability.RESHAPE in self._missing:
            raise NeedsRestartError("this Spark has no second shape of executors")
        if internals.is_allocated_by_spark(self._spark):
            raise NeedsRestartError("Spark decides on executors itself (spark.dynamicAllocation.enabled)")
        return self._reshape(after)

    def _change_slots(self, after: EngineShape) -> str:
        if Ability.RESHAPE in self._missing:
            raise NeedsRestartError("task slots cannot be changed while queries run")
        internals.set_task_cpus(self._spark, after.task_cpus)
        return ""

    def _change_number(self, before: EngineShape, after: EngineShape) -> str:
        serving = self._serving()
        profile_id = next(iter(serving.values()), 0)
        internals.request_profiles(self._spark, {profile_id: after.executors})
        if after.executors >= before.executors:
            if self._await(lambda: len(self._serving()) >= after.executors, self._start_within_s):
                return ""
            internals.request_profiles(self._spark, {profile_id: before.executors})
            return f"{after.executors} executors did not come within {self._start_within_s:.0f} s"
        newest = sorted(serving, key=lambda each: int(each) if each.isdigit() else 0, reverse=True)
        leaving = set(newest[: len(serving) - after.executors])
        return self._release(lambda one: one.executor_id in leaving)

    def _reshape(self, after: EngineShape) -> str:
        old = self._serving()
        profile_id = internals.add_profile(self._spark, after)
        staying = _counted(old)
        # Both beside each other: a query must not wait until the new ones have started.
        internals.request_profiles(self._spark, {**staying, profile_id: after.executors})

        def are_there() -> bool:
            return sum(each == profile_id for each in self._serving().values()) >= after.executors

        if not self._await(are_there, self._start_within_s):
            internals.request_profiles(self._spark, {**staying, profile_id: 0})
            come = [each for each, profile in self._serving().items() if profile == profile_id]
            self._release(lambda one: one.profile_id == profile_id)
            raise NeedsRestartError(
                f"{len(come)} of {after.executors} executors of {after.memory_mb:,} MB and {after.cores} cores came "
                f"within {self._start_within_s:.0f} s: the old shape stays until there is room beside the old ones"
            )
        self._rehearse(profile_id)
        internals.move_to_profile(self._spark, profile_id)
        internals.request_profiles(self._spark, {**dict.fromkeys(staying, 0), profile_id: after.executors})
        return self._release(lambda one: one.profile_id != profile_id)

    def _rehearse(self, profile_id: int) -> None:
        """Have new executors run the queries' last batches, so that the first one they take over is not their first."""
        if Ability.REHEARSAL in self._missing:
            return
        for why in rehearse(self._spark, profile_id, within_s=self._rehearse_within_s):
            logger.info("not rehearsed on new executors: %s", why)

    def _release(self, leaves: Callable[[ExecutorUsage], bool]) -> str:
        """Let go of those executors, also of such as come meanwhile: Spark replaces lost ones in their old shape."""
        asked: set[str] = set()

        def are_gone() -> bool:
            found = {one.executor_id for one in internals.executor_usage(self._spark) if not one.ended and leaves(one)}
            for executor_id in sorted(found - asked):
                internals.release_executor(self._spark, executor_id)
            asked.update(found)
            return not found

        if self._await(are_gone, self._release_within_s):
            return ""
        return f"old executors have not left within {self._release_within_s:.0f} s"

    def _serving(self) -> dict[str, int]:
        """Executors that are given work, with their profiles."""
        found = internals.executor_usage(self._spark)
        return {one.executor_id: one.profile_id for one in found if one.is_active and not one.ended}

    def _await(self, condition: Callable[[], bool], within_s: float) -> bool:
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            if condition():
                return True
            if self._closed.wait(_LOOK_EVERY_S):
                return False
        return condition()


def _counted(executors: dict[str, int]) -> dict[int, int]:
    return {profile: sum(each == profile for each in executors.values()) for profile in set(executors.values())}


def _needs_restart(shape: EngineShape) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in restart_settings(shape).items())
    return f"start it again with {settings}"
