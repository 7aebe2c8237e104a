"""Queries joined by Kafka topics: chains and fan-outs whose every query does a known amount of work for each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.errors import PenstockError
from penstock.model.application import Application, QueryDeclaration
from penstock.model.goal import Goal
from penstock.model.query import QueryName
from penstock.spark.guard import guard_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INPUT = "rows"
ARRIVAL = "arrival"
OBSERVED = "penstock_stage"


@dataclass(frozen=True, slots=True)
class Stage:
    """One query: what it reads, rounds of hashing for each row, and what a row of its result is worth.

    A stage with readers writes to a topic, one without has its result counted and thrown away. The moment at which a
    row came into the input travels with it, as the key of its record, so that ages are from end to end.
    """

    name: str
    reads: str
    rounds: int
    weight: float | None = None
    minimum_accuracy: float = 0.0


@dataclass(frozen=True, slots=True)
class StageGraph:
    """Stages by name; the first ones read :data:`INPUT`."""

    name: str
    about: str
    stages: tuple[Stage, ...]

    def application(self, latency_s: float | None = None) -> Application:
        """The queries as a user declares them: what each reads and writes, and what its results are worth.

        With a latency goal, a stage whose rows others read has half of it: the other half is theirs.

        Examples
        --------
        >>> application = CHAIN.application()
        >>> application.readers(QueryName("parse")), application.queries[QueryName("score")].reads
        (('enrich',), ('topic:enrich',))
        """
        return Application(
            {
                QueryName(stage.name): QueryDeclaration(
                    Goal(
                        latency=None if latency_s is None else latency_s / (2.0 if self.is_read(stage) else 1.0),
                        weight=stage.weight or 1.0,
                        minimum_accuracy=stage.minimum_accuracy,
                    ),
                    reads=(f"topic:{stage.reads}",),
                    writes=(f"topic:{stage.name}",) if self.is_read(stage) else (),
                )
                for stage in self.stages
            }
        )

    def is_read(self, stage: Stage) -> bool:
        """Whether another stage reads what this one puts out."""
        return any(other.reads == stage.name for other in self.stages)


FANOUT = StageGraph(
    "fanout",
    "one producer, three readers of different speed and weight",
    (
        Stage("parse", INPUT, 40, minimum_accuracy=0.02),
        Stage("fast", "parse", 40, weight=5.0, minimum_accuracy=0.02),
        Stage("medium", "parse", 120, weight=2.0, minimum_accuracy=0.02),
        Stage("slow", "parse", 320, weight=1.0, minimum_accuracy=0.02),
    ),
)
CHAIN = StageGraph(
    "chain",
    "three queries in a row, the last one the slowest",
    (
        Stage("parse", INPUT, 40, minimum_accuracy=0.02),
        Stage("enrich", "parse", 80, minimum_accuracy=0.02),
        Stage("score", "enrich", 160, weight=1.0, minimum_accuracy=0.02),
    ),
)
SHAPES = {shape.name: shape for shape in (FANOUT, CHAIN)}


def shape_named(name: str) -> StageGraph:
    """The graph of that name."""
    if name not in SHAPES:
        raise PenstockError(f"no graph of queries {name!r}; there are: {', '.join(SHAPES)}")
    return SHAPES[name]


@dataclass(frozen=True, slots=True)
class StageTopics:
    """Topics of one run of a graph: its input, and one for each stage that is read."""

    bootstrap: str
    run: str

    def of(self, name: str) -> str:
        """The topic with the rows of a stage, or of the input."""
        return f"{self.run}-{name}"


@dataclass(frozen=True, slots=True)
class StageStart:
    """How the queries of a run start: where their checkpoints are, how often they look, what a batch reads at most.

    ``most_rows`` is Spark's own option of the reader; None reads whatever is there. With guards, rows may be dropped.
    """

    checkpoints: Path
    batch_s: float
    most_rows: int | None = None
    has_guard: bool = False


def start_stage(
    spark: SparkSession, graph: StageGraph, stage: Stage, topics: StageTopics, start: StageStart
) -> StreamingQuery:
    """Start the query of a stage, under the name of the stage."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap)
    reader = reader.option("subscribe", topics.of(stage.reads)).option("startingOffsets", "earliest")
    if start.most_rows is not None:
        reader = reader.option("maxOffsetsPerTrigger", start.most_rows)
    rows = with_arrival(reader.load(), is_input=stage.reads == INPUT)
    rows = guard_rows(rows, arrival=ARRIVAL) if start.has_guard else rows
    writer = work(observed(rows), stage.rounds).writeStream.queryName(stage.name)
    writer = writer.trigger(processingTime=f"{start.batch_s} seconds")
    writer = writer.option("checkpointLocation", str(start.checkpoints / stage.name))
    if graph.is_read(stage):
        writer = writer.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap)
        return writer.option("topic", topics.of(stage.name)).start()
    return writer.format("noop").start()


def with_arrival(records: DataFrame, *, is_input: bool) -> DataFrame:
    """Records with the moment at which their row came into the input: their own time there, their key later on."""
    moment = F.col("timestamp") if is_input else F.timestamp_millis(F.col("key").cast("string").cast("long"))
    return records.withColumn(ARRIVAL, moment)


def observed(rows: DataFrame) -> DataFrame:
    """Rows of which every batch reports how many they are, and the first and last moment at which they arrived."""
    arrival_s = F.unix_millis(F.col(ARRIVAL)) / 1000.0
    return rows.observe(
        OBSERVED,
        F.count(F.lit(1)).alias("rows"),
        F.min(arrival_s).alias("oldest_s"),
        F.max(arrival_s).alias("newest_s"),
    )


def work(rows: DataFrame, rounds: int) -> DataFrame:
    """One record for each row, after so many rounds of SHA-256 over its value, all of it inside the JVM."""
    value = F.col("value").cast("string")
    hashed = F.aggregate(F.sequence(F.lit(1), F.lit(rounds)), value, lambda text, _: F.sha2(text, 256))
    return rows.select(F.unix_millis(F.col(ARRIVAL)).cast("string").alias("key"), hashed.alias("value"))
