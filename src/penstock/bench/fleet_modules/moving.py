"""A query that writes every row of a load once, so that each that is lost or doubled can be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.spark.load import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def offsets(spark: SparkSession, options: dict[str, Any]) -> DataStreamWriter:
    """The number of every row, into files of JSON."""
    register(spark)
    reader = spark.readStream.format("penstock.load").option("profile", options["profile"]).option("partitions", 1)
    rows = reader.option("startEpochSeconds", options["epoch"]).load()
    writer = rows.select("offset").writeStream.format("json").option("path", options["out"])
    return writer.trigger(processingTime=options["trigger"])
