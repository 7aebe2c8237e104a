"""What the jobs of a query have done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.internals.handles import context_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.internals.handles import JavaObject


def core_seconds(spark: SparkSession, group: str, after_job: int) -> tuple[float | None, int]:
    """Seconds that the finished jobs of a group kept cores busy, of those after one; and the last that was counted.

    The jobs of a streaming query are one group, under the id of its run. Spark forgets the oldest jobs and stages first
    (``spark.ui.retainedJobs``, ``retainedStages``), and sooner the more other queries run: where any of these may be
    gone the seconds are not known, and None.
    """
    store = context_of(spark).statusStore()
    jobs = sorted(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    # As long as Spark remembers the last one that was counted, it remembers all that came after it.
    total_s: float | None = 0.0 if after_job < 0 or after_job in jobs else None
    last = after_job
    for job_id in jobs:
        if job_id <= after_job:
            continue
        is_done, busy_s = _job_core_seconds(store, job_id)
        if not is_done:
            break
        total_s = None if total_s is None or busy_s is None else total_s + busy_s
        last = job_id
    return total_s, last


def _job_core_seconds(store: JavaObject, job_id: int) -> tuple[bool, float | None]:
    """Whether one job is done, and its seconds; None where Spark has forgotten it or one of its stages."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - Spark is imported only where it is used

    try:
        job = store.job(job_id)
        if str(job.status().toString()) == "RUNNING":
            return False, None
        stages = job.stageIds()
        attempts = [store.lastStageAttempt(stages.apply(index)) for index in range(stages.size())]
        return True, sum(attempt.executorRunTime() for attempt in attempts) / 1000.0
    except Py4JJavaError:
        return True, None


def rows_read(spark: SparkSession, group: str) -> int:
    """Rows that all jobs of a group have read so far, those of running tasks as of their last heartbeat."""
    store = context_of(spark).statusStore()
    total = 0
    for job_id in spark.sparkContext.statusTracker().getJobIdsForGroup(group):
        stages = store.job(job_id).stageIds()
        total += sum(store.lastStageAttempt(stages.apply(index)).inputRecords() for index in range(stages.size()))
    return total
