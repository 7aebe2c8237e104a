"""What Spark itself knows of the memory, garbage collection and work of executors, and of their shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.spark.internals.handles import backend_of, context_of, is_local

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from penstock.spark.internals.handles import JavaObject

MEMORY_METRICS = (
    "JVMHeapMemory", "JVMOffHeapMemory", "ProcessTreeJVMRSSMemory", "ProcessTreePythonRSSMemory",
    "ProcessTreePythonVMemory", "MinorGCCount", "MajorGCCount", "ConcurrentGCCount", "TotalGCTime",
)  # fmt: skip
"""Names of Spark's executor metrics that sizes go by; the store keeps the peak of each since the executor began."""


@dataclass(frozen=True, slots=True)
class ExecutorUsage:
    """One executor since it began; ``metrics`` has what is above zero, ``ended`` why it is gone (empty: it is not)."""

    executor_id: str
    profile_id: int
    cores: int
    task_s: float
    added_s: float
    is_active: bool
    ended: str = ""
    metrics: Mapping[str, int] = field(default_factory=dict)


def executor_usage(spark: SparkSession) -> list[ExecutorUsage]:
    """All executors that the application ever had, as far as Spark remembers them; the driver where it is its own."""
    found = context_of(spark).statusStore().executorList(False)
    local = is_local(spark)
    summaries = [found.apply(index) for index in range(found.size())]
    return [_usage(spark, summary, local=local) for summary in summaries if local or summary.id() != "driver"]


def _usage(spark: SparkSession, summary: JavaObject, *, local: bool) -> ExecutorUsage:
    peaks, reason = summary.peakMemoryMetrics(), summary.removeReason()
    values = {name: int(peaks.get().getMetricValue(name)) for name in MEMORY_METRICS} if peaks.isDefined() else {}
    is_alive = bool(summary.isActive())
    return ExecutorUsage(
        executor_id=str(summary.id()),
        profile_id=int(summary.resourceProfileId()),
        cores=int(summary.totalCores()),
        task_s=summary.totalDuration() / 1000.0,
        added_s=summary.addTime().getTime() / 1000.0,
        is_active=is_alive and (local or bool(backend_of(spark).isExecutorActive(summary.id()))),
        ended="" if is_alive else (str(reason.get()) if reason.isDefined() else "ended"),
        metrics={name: value for name, value in values.items() if value > 0},
    )


def profile_memory(spark: SparkSession, profile_id: int) -> dict[str, int]:
    """Resources that executors of a profile were asked for, in megabytes and cores, by Spark's names."""
    profile = context_of(spark).resourceProfileManager().resourceProfileFromId(profile_id)
    resources = profile.executorResourcesJMap()
    return {str(name): int(resources.get(name).amount()) for name in list(resources.keySet())}


def task_cpus(spark: SparkSession) -> int:
    """Cores that a task takes which asks for nothing else."""
    manager = context_of(spark).resourceProfileManager()
    resources = manager.resourceProfileFromId(manager.defaultResourceProfile().id()).taskResourcesJMap()
    cpus = resources.get("cpus")
    return 1 if cpus is None else int(cpus.amount())


@dataclass(frozen=True, slots=True)
class JobWork:
    """What the finished jobs of a group did: CPU time, task time and bytes that were spilled to disk.

    ``heap_low_bytes`` is the least heap that was in use at a heartbeat while a stage of these ran; None where there was
    none. Spark keeps the peak of each stage, and of a short one that is the one sample that fell into it.
    """

    cpu_s: float
    run_s: float
    spilled_bytes: int
    last_job: int
    heap_low_bytes: int | None = None


def job_work(spark: SparkSession, group: str, after_job: int) -> JobWork:
    """Work of the finished jobs of a group after one, of which Spark may have forgotten some."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - Spark is imported only where it is used

    store = context_of(spark).statusStore()
    cpu_s, run_s, spilled, last = 0.0, 0.0, 0, after_job
    heaps: list[int] = []
    for job_id in sorted(spark.sparkContext.statusTracker().getJobIdsForGroup(group)):
        if job_id <= after_job:
            continue
        try:
            job = store.job(job_id)
            if str(job.status().toString()) == "RUNNING":
                break
            stages = job.stageIds()
            attempts = [store.lastStageAttempt(stages.apply(index)) for index in range(stages.size())]
        except Py4JJavaError:
            continue
        cpu_s += sum(attempt.executorCpuTime() for attempt in attempts) / 1e9
        run_s += sum(attempt.executorRunTime() for attempt in attempts) / 1000.0
        spilled += sum(int(attempt.diskBytesSpilled()) for attempt in attempts)
        heaps += [heap for attempt in attempts if (heap := _sampled_heap(attempt))]
        last = job_id
    return JobWork(cpu_s, run_s, spilled, last, min(heaps, default=None))


def _sampled_heap(attempt: JavaObject) -> int:
    """Heap of the fullest executor at the heartbeats of a stage, in bytes; 0 where none fell into it."""
    peaks = attempt.peakExecutorMetrics()
    return int(peaks.get().getMetricValue("JVMHeapMemory")) if peaks.isDefined() else 0
