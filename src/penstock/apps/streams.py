"""Where the rows of an application come from: a Kafka topic, or the embedded source; both give the same columns."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.kafka.load_records import SCHEMAS
from penstock.model.rows import ClicksContent, PlainContent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from penstock.model.profile import LoadProfile
    from penstock.spark.attach import Penstock

_FORMATS = {ClicksContent: "clicks", PlainContent: "plain"}


@dataclass(frozen=True, slots=True)
class KafkaStream:
    """A topic, or some of its partitions; from the beginning unless the checkpoint knows better."""

    bootstrap: str
    topic: str
    content: type[ClicksContent | PlainContent]
    partitions: tuple[int, ...] | None = None
    starting: str = "earliest"

    def rows(self, spark: SparkSession, pen: Penstock | None = None) -> DataFrame:
        """The stream; with a Penstock there is a guard right behind the source, before anything is parsed."""
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        if self.partitions is None:
            reader = reader.option("subscribe", self.topic)
        else:
            reader = reader.option("assign", json.dumps({self.topic: list(self.partitions)}))
        records = reader.option("startingOffsets", self.starting).load()
        return parsed(records if pen is None else pen.guard(records), self.content)

    def mine(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Those of a topic's offsets that this stream reads."""
        return {
            place: offset for place, offset in offsets.items() if self.partitions is None or place in self.partitions
        }

    def of_partitions(self, partitions: tuple[int, ...]) -> KafkaStream:
        """The same topic, but some of its partitions only."""
        return replace(self, partitions=partitions)


@dataclass(frozen=True, slots=True)
class EmbeddedStream:
    """Rows that arrive along a load profile from a moment on, with no broker at all."""

    profile: LoadProfile
    epoch_s: float
    content: type[ClicksContent | PlainContent]
    seed: int = 1
    share: tuple[int, int] = (0, 1)

    def rows(self, spark: SparkSession, pen: Penstock | None = None) -> DataFrame:
        """The stream; with a Penstock there is a guard right behind the source."""
        reader = spark.readStream.format("penstock.load").option("content", _FORMATS[self.content])
        reader = reader.option("seed", str(self.seed)).option("startEpochSeconds", f"{self.epoch_s:.3f}")
        rows = reader.option("profile", self.profile.to_json()).load()
        place, places = self.share
        mine = rows if places == 1 else rows.where(F.pmod("offset", F.lit(places)) == place)
        return mine if pen is None else pen.guard(mine)


Stream = KafkaStream | EmbeddedStream


def parsed(records: DataFrame, content: type[ClicksContent | PlainContent]) -> DataFrame:
    """Rows out of the JSON in Kafka's records; ``timestamp`` is when the row was due, a guard's ``weight`` stays."""
    fields = F.from_json(F.col("value").cast("string"), SCHEMAS[content])
    kept = [F.col("weight")] if "weight" in records.columns else []
    rows = records.select(fields.alias("row"), *kept).select("row.*", *kept)
    return rows.withColumn("timestamp", F.timestamp_micros("timestamp_us")).drop("timestamp_us")


def instances_of(stream: Stream, instances: int, partitions: int) -> list[Stream]:
    """Disjoint parts of a stream, one for each instance of a query; together they are the whole.

    Partitions of a topic are dealt out in turn; rows of the embedded source by their offset.

    Examples
    --------
    >>> topic = KafkaStream("127.0.0.1:9092", "clicks", ClicksContent)
    >>> [part.partitions for part in instances_of(topic, 2, partitions=5)]
    [(0, 2, 4), (1, 3)]
    """
    if instances == 1:
        return [stream]
    if isinstance(stream, EmbeddedStream):
        return [replace(stream, share=(number, instances)) for number in range(instances)]
    return [stream.of_partitions(tuple(range(number, partitions, instances))) for number in range(instances)]
