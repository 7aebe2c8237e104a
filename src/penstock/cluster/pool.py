"""The executors of a running engine: looked at, asked for, put on standby, released."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.cluster.master import ask_master, executors_with_room
from penstock.cluster.plan import Executor
from penstock.errors import ClusterError
from penstock.spark import internals
from penstock.spark.internals import Ability

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.cluster.engine_spec import EngineSpec
    from penstock.cluster.plan import Step


@dataclass(frozen=True, slots=True)
class PoolView:
    """What is there at one moment: executors that stay, by id since when, and those that leave."""

    executors: tuple[Executor, ...]
    added_s: dict[str, float]
    leaving: frozenset[str]
    busy_fraction: float | None = None

    @property
    def serving(self) -> tuple[str, ...]:
        """Ids of executors that are given work."""
        return tuple(executor.executor_id for executor in self.executors if not executor.is_standby)

    @property
    def standby(self) -> tuple[str, ...]:
        """Ids of executors that wait."""
        return tuple(executor.executor_id for executor in self.executors if executor.is_standby)


class Pool(Protocol):
    """What a scaler needs of the executors; a test's is made of numbers."""

    def look(self) -> PoolView:
        """What is there now."""
        ...

    def available(self) -> int | None:
        """Most executors that the cluster could give, those that are there included; None where nobody knows."""
        ...

    def carry_out(self, step: Step) -> None:
        """Ask for, call, put on standby and release executors."""
        ...


class ExecutorPool:
    """The executors of a Spark application on a cluster.

    Parameters
    ----------
    spark
        Its session.
    spec
        Size of its executors.
    ui_url
        The page of the Standalone master, where there is one; what the cluster can give is asked for there.
    """

    def __init__(self, spark: SparkSession, spec: EngineSpec, ui_url: str | None = None) -> None:
        internals.require_classic_session(spark)
        self._spark = spark
        self._spec = spec
        self._ui_url = ui_url
        self._requested: int | None = None
        self._task_s: dict[str, float] = {}
        self._looked_s: float | None = None
        self.missing = {
            ability: reason
            for ability, reason in internals.probe(spark).items()
            if ability in {Ability.SCALING, Ability.STANDBY}
        }
        self._check()

    def look(self) -> PoolView:
        """What is there now."""
        now_s = time.monotonic()
        found = internals.live_executors(self._spark)
        waiting = {e.executor_id for e in found if not e.is_active and self._is_on_standby(e.executor_id)}
        worked_s = {e.executor_id: max(0.0, e.task_s - self._task_s.get(e.executor_id, 0.0)) for e in found}
        staying = [e for e in found if e.is_active or e.executor_id in waiting]
        executors = [
            Executor(e.executor_id, e.active_tasks, worked_s[e.executor_id], is_standby=e.executor_id in waiting)
            for e in staying
        ]
        serving = [e.executor_id for e in executors if not e.is_standby]
        busy = None
        if self._looked_s is not None and serving and now_s > self._looked_s:
            core_s = len(serving) * self._spec.cores * (now_s - self._looked_s)
            busy = sum(worked_s[executor_id] for executor_id in serving) / core_s
        self._looked_s, self._task_s = now_s, {e.executor_id: e.task_s for e in found}
        leaving = {e.executor_id for e in found} - {e.executor_id for e in staying}
        return PoolView(tuple(executors), {e.executor_id: e.added_s for e in found}, frozenset(leaving), busy)

    def available(self) -> int | None:
        """Most executors that the cluster could give, those that are there included; None where nobody knows."""
        answer = None if self._ui_url is None else ask_master(self._ui_url)
        if answer is None:
            return None
        # By the master's count: an executor that is being launched has its cores there, and is not yet known here.
        own = answer.cores_by_application.get(self._spark.sparkContext.applicationId, 0) // self._spec.cores
        return own + executors_with_room(answer.workers, self._spec.cores, self._spec.memory_mb)

    def carry_out(self, step: Step) -> None:
        """Ask for, call, put on standby and release executors."""
        # The number first: an executor that goes while more are asked for is replaced at once.
        if step.total != self._requested:
            internals.request_executors(self._spark, step.total)
            self._requested = step.total
        for executor_id in step.call:
            internals.call_from_standby(self._spark, executor_id)
        for executor_id in step.park:
            internals.put_on_standby(self._spark, executor_id)
        for executor_id in step.release:
            # One on standby is passed over as if it left already, so it must be back first.
            if self._is_on_standby(executor_id):
                internals.call_from_standby(self._spark, executor_id)
            internals.release_executor(self._spark, executor_id)

    def _is_on_standby(self, executor_id: str) -> bool:
        return Ability.STANDBY not in self.missing and internals.is_on_standby(self._spark, executor_id)

    def _check(self) -> None:
        name = self._spec.name
        if Ability.SCALING in self.missing:
            raise ClusterError(f"engine {name} cannot be scaled: {self.missing[Ability.SCALING]}")
        if str(self._spark.sparkContext.master).startswith("local"):
            raise ClusterError(
                f"engine {name} runs in the driver alone (local mode): start it on a cluster to scale it"
            )
        if internals.is_allocated_by_spark(self._spark):
            raise ClusterError(
                f"engine {name} is scaled by Spark already: set spark.dynamicAllocation.enabled to false"
            )
        if not internals.is_graceful(self._spark):
            raise ClusterError(
                f"executors of engine {name} would not leave gracefully: set spark.decommission.enabled and "
                "spark.storage.decommission.enabled to true before the session starts"
            )
        if self._spec.bounds.standby and Ability.STANDBY in self.missing:
            raise ClusterError(f"engine {name} cannot keep standby: {self.missing[Ability.STANDBY]}; set standby to 0")
