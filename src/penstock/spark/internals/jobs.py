"""What the jobs of a query have done."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.spark.internals.handles import context_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.internals.handles import JavaObject


def core_seconds(spark: SparkSession, group: str, after_job: int) -> tuple[float, int]:
    """Seconds that the finished jobs of a group kept cores busy, of those after one; and the last that was counted.

    The jobs of a streaming query are one group, under the id of its run. Spark forgets old jobs and stages
    (``spark.ui.retainedJobs``, ``retainedStages``); those are left out.
    """
    store = context_of(spark).statusStore()
    total_s, last = 0.0, after_job
    for job_id in sorted(spark.sparkContext.statusTracker().getJobIdsForGroup(group)):
        if job_id <= after_job:
            continue
        busy_s = _job_core_seconds(store, job_id)
        if busy_s is None:
            break
        total_s += busy_s
        last = job_id
    return total_s, last


def _job_core_seconds(store: JavaObject, job_id: int) -> float | None:
    """Of one job; None while it runs, nothing for one that Spark has forgotten."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - Spark is imported only where it is used

    try:
        job = store.job(job_id)
        if str(job.status().toString()) == "RUNNING":
            return None
        stages = job.stageIds()
    except Py4JJavaError:
        return 0.0
    total_s = 0.0
    for index in range(stages.size()):
        with suppress(Py4JJavaError):
            total_s += store.lastStageAttempt(stages.apply(index)).executorRunTime() / 1000.0
    return total_s


def rows_read(spark: SparkSession, group: str) -> int:
    """Rows that all jobs of a group have read so far, those of running tasks as of their last heartbeat."""
    store = context_of(spark).statusStore()
    total = 0
    for job_id in spark.sparkContext.statusTracker().getJobIdsForGroup(group):
        stages = store.job(job_id).stageIds()
        total += sum(store.lastStageAttempt(stages.apply(index)).inputRecords() for index in range(stages.size()))
    return total
