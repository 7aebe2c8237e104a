"""Whose tasks Spark's fair scheduler takes first: pools by priority, on live Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from live.helpers import load_rows, wait_until
from penstock import Goal
from penstock.spark.internals import POOL_PROPERTY
from penstock.spark.pools import pool_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


def newest_pool(spark: SparkSession, query: StreamingQuery) -> str | None:
    """The pool of the newest stage of a query; None before its first."""
    store = spark._jsparkSession.sparkContext().statusStore()
    jobs = list(spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))
    if not jobs:
        return None
    stages = store.job(max(jobs)).stageIds()
    return str(store.lastStageAttempt(stages.apply(stages.size() - 1)).schedulingPool())


def weight_of(spark: SparkSession, pool: str) -> int:
    return int(spark.sparkContext._jsc.sc().taskScheduler().rootPool().getSchedulableByName(pool).weight())


def test_a_governed_query_goes_into_the_pool_of_its_priority_and_follows_it(
    stopping: SparkSession, attach: Callable[..., Penstock]
) -> None:
    """Its tasks weigh what its goal says, also a new one, until it is released; a pool that somebody chose stays."""
    goals = {name: Goal(latency=10, priority=3, minimum_accuracy=0.5) for name in ("clicks", "ads", "watched")}
    pen = attach(goals={name: goals[name] for name in ("clicks", "ads")})

    def start(name: str) -> StreamingQuery:
        rows = pen.guard(load_rows(stopping, "constant:rate=50"))
        return rows.writeStream.format("noop").queryName(name).trigger(processingTime="500 milliseconds").start()

    clicks, watched = start("clicks"), start("watched")
    stopping.sparkContext.setLocalProperty(POOL_PROPERTY, "own")
    try:
        ads = start("ads")
    finally:
        stopping.sparkContext.setLocalProperty(POOL_PROPERTY, None)
    wait_until(lambda: newest_pool(stopping, clicks) == pool_of(3), "the pool of its priority")
    assert weight_of(stopping, pool_of(3)) == 3
    pen.set_goal("clicks", Goal(latency=10, priority=7, minimum_accuracy=0.5))
    wait_until(lambda: newest_pool(stopping, clicks) == pool_of(7), "the pool of its new priority")
    assert weight_of(stopping, pool_of(7)) == 7
    pen.release("clicks")
    wait_until(lambda: newest_pool(stopping, clicks) == "default", "the pool that it came with")
    wait_until(lambda: newest_pool(stopping, watched) is not None, "a batch of the one without a goal")
    assert newest_pool(stopping, watched) == "default", "nobody governs it"
    wait_until(lambda: newest_pool(stopping, ads) is not None, "a batch of the one with a pool")
    assert newest_pool(stopping, ads) == "own"
