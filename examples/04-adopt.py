"""Govern a query that runs already, then let it go again.

The query is started without Penstock and reads its backlog in its first batch. It is adopted while it runs. Its later
batches obey a limit, which rests on the batches that it finished before. Released, it has its own limit again.
"""

# ruff: noqa: INP001, T201 - a numbered script that prints, not a module

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors must run the driver's Python

from pyspark.sql import SparkSession

import penstock
from penstock import Goal
from penstock.spark.load import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock


def small_session() -> SparkSession:
    """Two cores, one gigabyte, no web interface."""
    session = (
        SparkSession.builder.master("local[2]")
        .appName("penstock-example")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    return session


def backlog(spark: SparkSession) -> DataFrame:
    """300,000 rows that wait already and 2,000 more a second, with some arithmetic to do for each."""
    rows = spark.readStream.format("penstock.load").option("profile", "constant:rate=2000,backlog=300000").load()
    return rows.selectExpr("key", "aggregate(sequence(1, 60), value, (sum, step) -> sum + sin(step + sum)) AS result")


def wait_for_batches(query: StreamingQuery, count: int, at_most_s: float = 60.0) -> None:
    """Wait until a query has finished so many batches with rows."""
    deadline = time.monotonic() + at_most_s
    while len(batches(query)) < count and time.monotonic() < deadline and query.isActive:
        time.sleep(0.2)


def batches(query: StreamingQuery) -> list[StreamingQueryProgress]:
    """Progress of the batches that had rows."""
    return [progress for progress in query.recentProgress if progress.numInputRows > 0]


def print_batches(query: StreamingQuery) -> None:
    """Rows and seconds of every batch."""
    for progress in batches(query):
        seconds = progress.durationMs["triggerExecution"] / 1000
        print(f"batch {progress.batchId}: {progress.numInputRows:,} rows in {seconds:.2f} s")


def print_log(pen: Penstock) -> None:
    """What was decided and why, as ``penstock log`` shows it."""
    for entry in pen.store.actions():
        action = entry.action
        value = "" if action.value is None else f" {action.value:,.0f} {action.unit}"
        print(f"[{entry.mode}] {action.kind}{value}, {action.cause}: {action.reason}")


def main(scratch: str) -> None:
    """Start, adopt, release; show the batches and the log."""
    spark = small_session()
    query = backlog(spark).writeStream.queryName("waves").format("noop").start()
    wait_for_batches(query, 3)
    with penstock.attach(spark, settings={"store.path": f"{scratch}/penstock.db"}) as pen:
        pen.adopt("waves", Goal(latency="4 seconds"))
        wait_for_batches(query, len(batches(query)) + 4)
        pen.release("waves")
        print_batches(query)
        print_log(pen)
        query.stop()
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(scratch)
