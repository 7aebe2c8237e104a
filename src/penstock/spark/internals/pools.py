"""Pools of Spark's fair scheduler: made with a weight while an application runs, joined by the thread of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

    from penstock.spark.internals.handles import JavaObject

POOL_PROPERTY = "spark.scheduler.pool"
_MODE, _FAIR = "spark.scheduler.mode", "FAIR"


def make_pool(context: SparkContext, name: str, weight: int) -> None:
    """A pool of that weight, unless there is one of that name; Spark itself makes them with a weight of one."""
    root = context._jsc.sc().taskScheduler().rootPool()  # noqa: SLF001 - what this package is for
    if root.getSchedulableByName(name) is None:
        packages: JavaObject = context._jvm  # noqa: SLF001 - as above
        scheduler = packages.org.apache.spark.scheduler
        root.addSchedulable(scheduler.Pool(name, scheduler.SchedulingMode.FAIR(), 0, weight))


def leave_pool(name: str) -> None:
    """Take the JVM's side of this thread out of a pool, where it still is."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used

    context = SparkContext._active_spark_context  # noqa: SLF001 - as above
    if context is not None and context.getLocalProperty(POOL_PROPERTY) == name:
        context.setLocalProperty(POOL_PROPERTY, None)  # type: ignore[arg-type]


def join_pool(name: str, weight: int, *, leaving: str | None) -> bool:
    """Let the tasks of the JVM's side of this thread go into a pool; False where Spark or somebody else decides that.

    ``leaving`` is the pool that it was brought into before: any other was chosen by somebody else.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used

    context = SparkContext._active_spark_context  # noqa: SLF001 - as above
    if context is None or context.getConf().get(_MODE, "").upper() != _FAIR:
        return False
    if context.getLocalProperty(POOL_PROPERTY) != leaving:
        return False
    make_pool(context, name, weight)
    context.setLocalProperty(POOL_PROPERTY, name)
    return True
