"""Executors: what they did, and how they come, go and stand by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.internals.handles import backend_of, context_of, is_local, jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STANDBY_MESSAGE = "on standby by Penstock"


@dataclass(frozen=True, slots=True)
class ExecutorTotals:
    """Totals of one executor since it started."""

    executor_id: str
    cores: int
    task_s: float
    gc_s: float
    heap_peak_bytes: int | None


def executor_totals(spark: SparkSession) -> list[ExecutorTotals]:
    """Work, garbage collection and heap of all live executors."""
    summaries = context_of(spark).statusStore().executorList(True)
    local = is_local(spark)
    totals = []
    for index in range(summaries.size()):
        summary = summaries.apply(index)
        if summary.id() == "driver" and not local:
            continue
        peaks = summary.peakMemoryMetrics()
        heap = int(peaks.get().getMetricValue("JVMHeapMemory")) if peaks.isDefined() else 0
        totals.append(
            ExecutorTotals(
                executor_id=str(summary.id()),
                cores=int(summary.totalCores()),
                task_s=summary.totalDuration() / 1000.0,
                gc_s=summary.totalGCTime() / 1000.0,
                heap_peak_bytes=heap or None,
            )
        )
    return totals


def executor_heap_max_bytes(spark: SparkSession) -> int | None:
    """Largest heap an executor may have: the driver's own in local mode, else what was configured."""
    if is_local(spark):
        return int(jvm(spark).java.lang.Runtime.getRuntime().maxMemory())
    return int(context_of(spark).executorMemory()) * 1024 * 1024


def engine_cores(spark: SparkSession) -> int:
    """Cores over all executors that are given work; at least one."""
    totals = executor_totals(spark)
    if not is_local(spark):
        totals = [executor for executor in totals if backend_of(spark).isExecutorActive(executor.executor_id)]
    return max(1, sum(executor.cores for executor in totals))


@dataclass(frozen=True, slots=True)
class LiveExecutor:
    """One registered executor.

    ``is_active`` says whether the scheduler gives it work: not once it leaves, and not while it is on standby.
    """

    executor_id: str
    added_s: float
    active_tasks: int
    total_tasks: int
    failed_tasks: int
    task_s: float
    is_active: bool


def live_executors(spark: SparkSession) -> list[LiveExecutor]:
    """All executors that are registered with the driver; none in local mode, whose only one cannot be changed."""
    if is_local(spark):
        return []
    registered = backend_of(spark).getExecutorIds()
    known = {registered.apply(index) for index in range(registered.size())}
    found = context_of(spark).statusStore().executorList(True)
    summaries = [found.apply(index) for index in range(found.size())]
    return [
        LiveExecutor(
            executor_id=str(summary.id()),
            added_s=summary.addTime().getTime() / 1000.0,
            active_tasks=int(summary.activeTasks()),
            total_tasks=int(summary.totalTasks()),
            failed_tasks=int(summary.failedTasks()),
            task_s=summary.totalDuration() / 1000.0,
            is_active=bool(backend_of(spark).isExecutorActive(summary.id())),
        )
        for summary in summaries
        if summary.id() in known
    ]


def failed_tasks(spark: SparkSession) -> int:
    """Tasks that failed since the application began, on executors that are gone as well."""
    found = context_of(spark).statusStore().executorList(False)
    return sum(int(found.apply(index).failedTasks()) for index in range(found.size()))


def request_executors(spark: SparkSession, total: int) -> bool:
    """Ask the cluster for so many executors in all; those beyond them stay until they are released.

    Says whether the cluster's manager took note, not whether it has them.
    """
    none = jvm(spark).scala.collection.immutable.HashMap()
    return bool(context_of(spark).requestTotalExecutors(total, 0, none))


def release_executor(spark: SparkSession, executor_id: str) -> bool:
    """Let an executor finish its tasks, pass its blocks on and end; False for one that is gone or going already.

    The number asked for is left as it is: lower it before, or another executor comes in its place.
    """
    none = getattr(getattr(jvm(spark).scala, "None$"), "MODULE$")
    info = jvm(spark).org.apache.spark.scheduler.ExecutorDecommissionInfo("released by Penstock", none)
    return bool(backend_of(spark).decommissionExecutor(executor_id, info, False, False))


def put_on_standby(spark: SparkSession, executor_id: str) -> None:
    """Give an executor no more work until it is called; what it runs it finishes.

    The scheduler offers no work to executors that it takes for leaving. Nobody tells the executor, so it stays.
    """
    none = getattr(getattr(jvm(spark).scala, "None$"), "MODULE$")
    info = jvm(spark).org.apache.spark.scheduler.ExecutorDecommissionInfo(_STANDBY_MESSAGE, none)
    backend_of(spark).executorsPendingDecommission().put(executor_id, info)


def call_from_standby(spark: SparkSession, executor_id: str) -> None:
    """Give an executor on standby work from the next task on."""
    if is_on_standby(spark, executor_id):
        backend_of(spark).executorsPendingDecommission().remove(executor_id)
        backend_of(spark).reviveOffers()


def is_on_standby(spark: SparkSession, executor_id: str) -> bool:
    """Whether an executor that is given no work is on standby, and does not leave."""
    found = backend_of(spark).executorsPendingDecommission().get(executor_id)
    return bool(found.isDefined()) and str(found.get().message()) == _STANDBY_MESSAGE


def is_graceful(spark: SparkSession) -> bool:
    """Whether executors of this application end on their own when they are released: Spark asks for settings."""
    conf = context_of(spark).getConf()
    names = ("spark.decommission.enabled", "spark.storage.decommission.enabled")
    return all(str(conf.get(name, "false")).lower() == "true" for name in names)


def is_allocated_by_spark(spark: SparkSession) -> bool:
    """Whether Spark's own dynamic allocation has its hand on the executors."""
    return bool(context_of(spark).executorAllocationManager().isDefined())
