"""Give a query its goal where it is started, and ask Penstock to explain where the query is now."""

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
from penstock.model import QueryName
from penstock.report import explain
from penstock.spark.load import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery


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


def main(scratch: str) -> None:
    """Start through ``govern`` and print what ``penstock explain waves`` would say."""
    spark = small_session()
    with penstock.attach(spark, settings={"store.path": f"{scratch}/penstock.db"}) as pen:
        writer = backlog(spark).writeStream.queryName("waves").format("noop")
        query = pen.govern(writer).with_latency("4 seconds").with_priority(5).start()
        wait_for_batches(query, 8)
        print_batches(query)
        print(explain(pen.store, QueryName("waves")))
        query.stop()
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(scratch)
