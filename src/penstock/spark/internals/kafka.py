"""What a Kafka topic still holds, asked by the client that Spark's connector brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.internals.handles import jvm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

_ANSWERS_WITHIN_S = 30


def earliest_offsets(
    spark: SparkSession, options: Mapping[str, str], partitions: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """The first offset that each partition still holds; ``options`` are those of the client."""
    java, kafka = jvm(spark).java, jvm(spark).org.apache.kafka
    properties, wanted = java.util.Properties(), java.util.HashMap()
    for name, value in options.items():
        properties.put(name, value)
    for topic, partition in partitions:
        wanted.put(kafka.common.TopicPartition(topic, partition), kafka.clients.admin.OffsetSpec.earliest())
    client = kafka.clients.admin.AdminClient.create(properties)
    try:
        found = client.listOffsets(wanted).all().get(_ANSWERS_WITHIN_S, java.util.concurrent.TimeUnit.SECONDS)
        return {(str(each.topic()), int(each.partition())): int(found.get(each).offset()) for each in found.keySet()}
    finally:
        client.close(java.time.Duration.ofSeconds(1))
