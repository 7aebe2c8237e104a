"""The programs of the repay benchmark, each in a process of its own so that it can be killed.

``python -m penstock.bench.repay_job WHAT FOLDER BOOTSTRAP TOPIC [GOAL_S]`` with one of

- ``capacity``: read a backlog without shedding, and tell rows per second;
- ``shed``: run governed until the file ``end`` appears in the folder, then drain and stop;
- ``repay``: process what was dropped, into the same windows.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.apps.session import local_session
from penstock.kafka import jars
from penstock.model import Goal
from penstock.spark.attach import attach
from penstock.spark.guard import WEIGHT
from penstock.spark.repay import Repay

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

QUERY = "clicks"
KEPT, REPAID, CHECKPOINT, END = "kept", "repaid", "checkpoint", "end"
MEMORY = "1g"
HASHES = 150
"""SHA-256 a row: so much that generator and broker have room on the same cores, beside three times the capacity."""
_WINDOW = "10 seconds"
_CAPACITY_BATCH_ROWS = 60_000
_POLL_S = 0.2


def counts(rows: DataFrame, hashes: int = HASHES) -> DataFrame:
    """Rows by window and key, and a sum over their identities in which no row can stand for another.

    The work of each row is so many SHA-256.
    """
    digest = F.sha2(F.col("value"), 256)
    for _ in range(hashes - 1):
        digest = F.sha2(digest.cast("binary"), 256)
    group = (F.window("timestamp", _WINDOW)["start"].alias("window"), (F.hash("key") % 8).alias("bucket"))
    worked = rows.withColumn("digest", digest).where(F.length("digest") > 0)
    identities = F.bit_xor(F.xxhash64("topic", "partition", "offset")).alias("identities")
    # The largest digest keeps Spark from leaving the work out.
    return worked.groupBy(*group).agg(F.count("*").alias("rows"), identities, F.max("digest").alias("digest"))


def into(folder: Path) -> Callable[[DataFrame, int], None]:
    """A sink that is idempotent by batch: a folder for each, written anew when the batch runs again."""

    def write(frame: DataFrame, batch_id: int) -> None:
        rows = frame.drop(WEIGHT) if WEIGHT in frame.columns else frame
        counts(rows).coalesce(1).write.mode("overwrite").parquet(str(folder / f"batch={batch_id}"))

    return write


def kafka_stream(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """A topic from its beginning."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()


def run_capacity(spark: SparkSession, folder: Path, bootstrap: str, topic: str) -> None:
    """Tell how many rows a second are processed of a backlog, by the faster half of the batches."""
    rows = kafka_stream(spark, bootstrap, topic, maxOffsetsPerTrigger=str(_CAPACITY_BATCH_ROWS))
    writer = rows.writeStream.foreachBatch(into(folder / "capacity")).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "capacity-checkpoint")).start()
    query.awaitTermination()
    rates = sorted(
        report.numInputRows / report.durationMs["triggerExecution"] * 1000
        for report in query.recentProgress
        if report.numInputRows
    )
    fast = rates[len(rates) // 2 :]
    sys.stdout.write(f"{sum(fast) / len(fast)}\n")


def run_shed(spark: SparkSession, folder: Path, bootstrap: str, topic: str, goal_s: float) -> None:
    """Run governed until told to end; then read what is left, and stop."""
    goal = Goal(latency=goal_s, minimum_accuracy=0.02)
    settings = {"store.path": str(folder / "penstock.db")}
    with attach(spark, goals={QUERY: goal}, settings=settings) as pen:
        rows = pen.guard(kafka_stream(spark, bootstrap, topic))
        writer = rows.writeStream.queryName(QUERY).foreachBatch(into(folder / KEPT))
        query = writer.option("checkpointLocation", str(folder / CHECKPOINT)).start()
        while query.isActive and not (folder / END).exists():
            time.sleep(_POLL_S)
        query.processAllAvailable()
        query.stop()


def run_repay(spark: SparkSession, folder: Path) -> None:
    """Process what was dropped."""
    Repay(spark, str(folder / CHECKPOINT)).run(into(folder / REPAID))


def main(what: str, folder: Path, bootstrap: str, topic: str, goal_s: float) -> None:
    """Run one of the programs."""
    with local_session("penstock bench repay", memory=MEMORY, jars=jars()) as spark:
        if what == "capacity":
            run_capacity(spark, folder, bootstrap, topic)
        elif what == "shed":
            run_shed(spark, folder, bootstrap, topic, goal_s)
        else:
            run_repay(spark, folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5]) if len(sys.argv) > 5 else 5.0)  # noqa: PLR2004 - see above
