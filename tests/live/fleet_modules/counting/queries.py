"""Queries that write every row of a load once, so that each that is lost or doubled can be counted."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from penstock.spark.guard import guard_rows
from penstock.spark.load import register

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def offsets(spark: SparkSession, options: dict[str, Any]) -> DataStreamWriter:
    """The number of every row, into files of JSON."""
    register(spark)
    reader = spark.readStream.format("penstock.load").option("profile", options["profile"]).option("partitions", 1)
    rows = reader.option("startEpochSeconds", options["epoch"]).load()
    if options.get("fail"):
        rows = rows.where(fn.raise_error(fn.lit("this query fails")).isNull())
    writer = rows.select("offset").writeStream.format("json").option("path", options["out"])
    return writer.trigger(processingTime=options.get("trigger", "500 milliseconds"))


def busy(spark: SparkSession, options: dict[str, Any]) -> DataStreamWriter:
    """Rows that take some CPU time each, behind a guard."""
    register(spark)
    reader = spark.readStream.format("penstock.load").option("profile", options["profile"]).option("partitions", 1)
    rows = guard_rows(reader.option("startEpochSeconds", options["epoch"]).load())
    worked = rows.select("offset").mapInArrow(partial(_work, core_s=options["core_s_per_row"]), "offset long")
    return worked.writeStream.format("noop").trigger(processingTime="4 seconds")


def _work(batches: Iterator[pa.RecordBatch], *, core_s: float) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        until_s = time.thread_time() + core_s * batch.num_rows
        while time.thread_time() < until_s:
            sum(range(1000))
        yield batch


def nothing(spark: SparkSession, options: dict[str, Any]) -> int:
    """No query at all."""
    return 7
