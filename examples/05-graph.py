"""Govern a graph of queries from a file: one producer, three readers worth 5, 2 and 1 a row.

The queries are ordinary ones, joined by a directory of files; with Kafka they would be joined by a topic. What each
reads and writes stands in ``05-graph/penstock.toml``, and so does what a row of each result is worth. Penstock learns
what their batches cost and plans, as often as the file says, how many rows a second each is to read.
"""

# ruff: noqa: INP001, T201 - a numbered script that prints, not a module

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors must run the driver's Python

from pyspark.sql import SparkSession

import penstock
from penstock.spark.load import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock

DECLARATION = Path(__file__).parent / "05-graph" / "penstock.toml"
# Rounds of arithmetic for each row: the reader that is worth least is the dearest.
ROUNDS = {"alerts": 50, "counts": 150, "archive": 400}
RUN_S = 45.0


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


def worked(rows: DataFrame, rounds: int) -> DataFrame:
    """Some arithmetic for each row."""
    return rows.selectExpr(
        "key", f"aggregate(sequence(1, {rounds}), value, (sum, step) -> sum + sin(step + sum)) AS value"
    )


def start(spark: SparkSession, directory: Path) -> dict[str, StreamingQuery]:
    """The producer writes files, and every reader reads all of them; the names are those of the declaration."""
    (directory / "parsed").mkdir()
    arriving = spark.readStream.format("penstock.load").option("profile", "constant:rate=20000").load()
    parsed = worked(arriving, 20)
    parse = parsed.writeStream.queryName("parse").trigger(processingTime="2 seconds").format("parquet")
    parse = parse.option("path", str(directory / "parsed")).option("checkpointLocation", str(directory / "parse"))
    queries = {"parse": parse.start()}
    for name, rounds in ROUNDS.items():
        rows = worked(spark.readStream.schema(parsed.schema).parquet(str(directory / "parsed")), rounds)
        writer = rows.writeStream.queryName(name).trigger(processingTime="2 seconds").format("noop")
        queries[name] = writer.option("checkpointLocation", str(directory / name)).start()
    return queries


def print_plans(pen: Penstock) -> None:
    """Every plan of the graph, and why, as ``penstock log`` shows it."""
    for entry in pen.store.actions():
        if entry.action.kind in {"graph_plan", "infeasible", "hold", "fault"}:
            print(f"[{entry.mode}] {entry.action.kind}, {entry.action.cause}: {entry.action.reason}")


def main(scratch: Path) -> None:
    """Attach with the file, start the queries, show what each read and what was planned."""
    spark = small_session()
    with penstock.attach(spark, DECLARATION, settings={"store.path": str(scratch / "penstock.db")}) as pen:
        queries = start(spark, scratch)
        time.sleep(RUN_S)
        for name, query in queries.items():
            rows = sum(progress.numInputRows for progress in query.recentProgress)
            print(f"{name}: {rows:,} rows in {len(query.recentProgress)} batches")
        print_plans(pen)
        for query in reversed(queries.values()):
            query.stop()
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
