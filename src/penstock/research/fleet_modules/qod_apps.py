"""Taxi Drives and k nearest neighbours over Kafka, as queries that an engine takes.

Their arithmetic is done over and over until a row has taken the CPU time that it takes in the simulation, so that both
can be held against each other on any machine.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.spark.guard import guard_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_LANDMARKS = 120
_EARTH_RADIUS_KM = 6371.0
_IDENTITY = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Work:
    """Great-circle distances of places to landmarks, until a row has cost what it is to cost.

    By CPU time of the thread, not by the clock: a core that somebody else has for a moment makes no row cheaper.
    """

    core_s_per_row: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows, a while later."""
        landmarks = np.linspace(0.0, np.pi, _LANDMARKS)
        for batch in batches:
            until_s = time.thread_time() + self.core_s_per_row * batch.num_rows
            places = pc.binary_length(batch.column(0)).to_numpy(zero_copy_only=False) % np.pi
            while time.thread_time() < until_s:
                for place in places[:8]:
                    chord = np.sin((landmarks - place) / 2) ** 2
                    (2 * _EARTH_RADIUS_KM * np.arcsin(np.sqrt(chord))).min()
            yield batch


def hand_on(spark: SparkSession, options: dict[str, Any]) -> DataStreamWriter:
    """A source: rows of topics, written to the topic that sinks read."""
    writer = _worked(spark, options).writeStream.format("kafka").option("topic", options["out"])
    return _timed(writer.option("kafka.bootstrap.servers", options["bootstrap"]), options)


def take_in(spark: SparkSession, options: dict[str, Any]) -> DataStreamWriter:
    """A sink: rows of topics, and nothing behind it."""
    return _timed(_worked(spark, options).writeStream.format("noop"), options)


def _worked(spark: SparkSession, options: dict[str, Any]) -> DataFrame:
    streams = [_stream(spark, options, topic) for topic in options["topics"]]
    kept = guard_rows(reduce(lambda one, other: one.unionByName(other), streams), arrival="arrived", identity=_IDENTITY)
    return kept.select(F.col("value").cast("string")).mapInArrow(Work(options["core_s_per_row"]), "value string")


def _stream(spark: SparkSession, options: dict[str, Any], topic: str) -> DataFrame:
    """A topic, or some of its partitions; ``arrived`` is when a row came into the application, not into this topic."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", options["bootstrap"])
    partitions = options.get("partitions")
    if partitions is None:
        reader = reader.option("subscribe", topic)
    else:
        reader = reader.option("assign", json.dumps({topic: partitions}))
    rows = reader.option("startingOffsets", "earliest").load()
    told_us = F.get_json_object(F.col("value").cast("string"), "$.timestamp_us").cast("long")
    return rows.withColumn("arrived", F.timestamp_micros(told_us))


def _timed(writer: DataStreamWriter, options: dict[str, Any]) -> DataStreamWriter:
    return writer.trigger(processingTime=options["trigger"])
