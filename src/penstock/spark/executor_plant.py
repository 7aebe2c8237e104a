"""The executors of a running application: observed, asked for, put on standby, released."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.control.executor_plan import plan_step
from penstock.model.executors import EngineView, Executor
from penstock.spark import internals
from penstock.spark.internals import Ability
from penstock.spark.standalone_master import PAGE_KEY, ask_master, executors_with_room, find_master_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model.decision import Executors
    from penstock.model.executors import ExecutorBounds

_MEGABYTE = 1024 * 1024


def why_not(spark: SparkSession, bounds: ExecutorBounds | None = None) -> str | None:
    """One sentence why the executors of this session cannot be scaled; None where they can."""
    internals.require_classic_session(spark)
    if str(spark.sparkContext.master).startswith("local"):
        return "the application runs in the driver alone (local mode): start it on a cluster to scale it"
    missing = internals.probe(spark)
    if Ability.SCALING in missing:
        return missing[Ability.SCALING]
    if internals.is_allocated_by_spark(spark):
        return "Spark scales the application itself: set spark.dynamicAllocation.enabled to false"
    if not internals.is_graceful(spark):
        return (
            "executors would not leave gracefully: set spark.decommission.enabled and "
            "spark.storage.decommission.enabled to true before the session starts"
        )
    if bounds is not None and bounds.standby and Ability.STANDBY in missing:
        return f"executors cannot be kept on standby: {missing[Ability.STANDBY]}; set standby to 0"
    return None


class ExecutorPlant:
    """Observes and applies, by Spark's own calls: the same on Standalone, YARN and Kubernetes.

    Parameters
    ----------
    spark
        The session; :func:`why_not` says beforehand whether it can be scaled.
    cores_per_executor
        Cores of each executor; ``spark.executor.cores`` where it is not given.
    ui_url
        The page of the Standalone master, where what the cluster can give is asked for. Where it is not given, the
        session's setting ``spark.penstock.master.page`` says, or else the master's host is tried at the usual port. Of
        other managers nobody knows.
    """

    def __init__(
        self, spark: SparkSession, *, cores_per_executor: int | None = None, ui_url: str | None = None
    ) -> None:
        internals.require_classic_session(spark)
        conf = spark.sparkContext.getConf()
        self._spark = spark
        self._cores = cores_per_executor or int(conf.get("spark.executor.cores") or 1)
        self._memory_mb = max(1, (internals.executor_heap_max_bytes(spark) or 0) // _MEGABYTE)
        self._ui_url = ui_url or conf.get(PAGE_KEY) or find_master_page(str(spark.sparkContext.master))
        self._has_standby = Ability.STANDBY not in internals.probe(spark)
        self._requested: int | None = None
        self._task_s: dict[str, float] = {}
        self._observed_s: float | None = None

    def observe(self) -> EngineView:
        """What is there now; how busy it is, is since the last time."""
        now_s = time.monotonic()
        found = internals.live_executors(self._spark)
        executors = []
        for one in found:
            is_standby = not one.is_active and self._is_on_standby(one.executor_id)
            executors.append(
                Executor(
                    one.executor_id,
                    added_s=one.added_s,
                    active_tasks=one.active_tasks,
                    recent_task_s=max(0.0, one.task_s - self._task_s.get(one.executor_id, 0.0)),
                    is_standby=is_standby,
                    is_leaving=not one.is_active and not is_standby,
                )
            )
        serving = [one for one in executors if not one.is_standby and not one.is_leaving]
        cores = len(serving) * self._cores
        busy = None
        if self._observed_s is not None and serving and now_s > self._observed_s:
            busy = sum(one.recent_task_s for one in serving) / (cores * (now_s - self._observed_s))
        self._observed_s, self._task_s = now_s, {one.executor_id: one.task_s for one in found}
        return EngineView(tuple(executors), self._available(), busy, float(max(1, cores)))

    def apply(self, decision: Executors, view: EngineView) -> None:
        """Ask for, call, put on standby and release executors; applied again, it does what is still to be done."""
        step = plan_step(view.executors, decision.executors, standby=decision.standby)
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
        return self._has_standby and internals.is_on_standby(self._spark, executor_id)

    def _available(self) -> int | None:
        answer = None if self._ui_url is None else ask_master(self._ui_url)
        if answer is None:
            return None
        # By the master's count: an executor that is being launched has its cores there, and is not yet known here.
        own = answer.cores_by_application.get(self._spark.sparkContext.applicationId, 0) // self._cores
        return own + executors_with_room(answer.workers, self._cores, self._memory_mb)
