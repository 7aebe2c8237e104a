"""Records in topics, and queries that read them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.kafka.client import KafkaClient
from penstock.kafka.load_records import json_records
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model.rows import PlainContent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.kafka.broker import Cluster

_numbers = count(1)


def fill(cluster: Cluster, topic: str, rows: int, *, first: int = 0) -> None:
    """Send so many records and wait until all are there."""
    sink = KafkaTarget(cluster.bootstrap, topic, acks="all").open(0)
    for start in range(first, first + rows, 50_000):
        offsets = np.arange(start, min(start + 50_000, first + rows), dtype=np.int64)
        keys, values = json_records(PlainContent(), offsets, offsets)
        sink.send(keys, values)
    assert sink.close() == 0


def new_topic(cluster: Cluster, rows: int = 0, *, partitions: int = 2) -> str:
    """A topic that no other test has, with so many records."""
    name = f"topic-{next(_numbers)}"
    KafkaClient(cluster.bootstrap).create_topic(name, partitions)
    if rows:
        fill(cluster, name, rows)
    return name


def kafka_rows(spark: SparkSession, cluster: Cluster, topic: str, **options: str) -> DataFrame:
    """A stream of a topic from its beginning, as any program reads it."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()


def start(rows: DataFrame, name: str, **trigger: Any) -> StreamingQuery:
    """An ordinary query that writes nothing."""
    return (
        rows.writeStream.format("noop").queryName(name).trigger(**(trigger or {"processingTime": "0 seconds"})).start()
    )
