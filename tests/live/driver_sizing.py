"""A driver on a Standalone cluster with too little memory of one kind.

Prints one JSON object with what the policies said. Arguments: directory of the cluster, and what happens: "python",
where Python workers hold on to memory while the heap has room, or "heap", where that of the first executor overflows.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock
from penstock import ExecutorBounds
from penstock.cluster.engine import running_engine
from penstock.cluster.engine_spec import EngineSpec
from penstock.cluster.standalone import require_cluster
from penstock.model import ActionKind
from penstock.spark.load import register
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_S = 240.0
OVERFLOW_AT = 2_000
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.ui.enabled": "false",
    "spark.executor.processTreeMetrics.enabled": "true",
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeout": "1200s",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
SIZING = {"sizing.mode": "recommend", "sizing.window_s": 5.0, "sizing.down_after_s": 3600.0}


def hold_memory(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Pass rows on, and keep 40 MB for every task; on a module, because a worker outlives its tasks."""
    held = sys.__dict__.setdefault("_held_by_the_test", [])
    held.append(bytearray(b"x") * (40 * 1024 * 1024))
    yield from batches


def growing_python(spark: SparkSession) -> StreamingQuery:
    """A query whose Python workers grow."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).option("numPartitions", 1).load()
    held = rows.mapInPandas(hold_memory, rows.schema)
    return held.writeStream.format("noop").trigger(processingTime="1 second").start()


def overflowing_heap(spark: SparkSession, checkpoint: Path) -> StreamingQuery:
    """A query that wants more than the heap for one of its rows, on the first executor that has it and on no other."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - the engine sets the interpreter first

    register(spark)
    rows = spark.readStream.format("penstock.load").option("profile", "constant:rate=200").load()
    command = fn.expr("java_method('java.lang.System', 'getProperty', 'sun.java.command')")
    on_first = command.contains("--executor-id 0 ") & (fn.col("offset") == OVERFLOW_AT)
    size = fn.when(on_first, fn.length(fn.repeat(fn.col("offset").cast("string"), 300_000_000))).otherwise(0)
    counts = rows.withColumn("size", size).groupBy((fn.col("offset") % 10).alias("key"))
    writer = counts.agg(fn.count("*").alias("count"), fn.max("size").alias("size")).writeStream.format("noop")
    writer = writer.outputMode("update").option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="1 second").start()


def counted(spark: SparkSession, query: StreamingQuery, checkpoint: Path) -> dict[str, int]:
    """Rows of the source that were read, and rows in the state."""
    reports = [json.loads(report.json) for report in query.recentProgress if report.numInputRows]
    end = reports[-1]["sources"][0]["endOffset"]
    tree = json.loads(end) if isinstance(end, str) else end
    state = spark.read.format("statestore").load(str(checkpoint))
    rows = state.selectExpr("sum(value.count) AS rows").collect()[0]["rows"]
    return {"offset_rows": int(tree["row"]), "counted_rows": int(rows)}


def main(directory: Path, what: str) -> dict[str, Any]:
    """Wait for the first recommendation."""
    bounds = ExecutorBounds(1, 1)
    spec = EngineSpec("penstock-sizing", bounds, memory="512m", memory_overhead="384m", settings=SETTINGS)
    with running_engine(spec, require_cluster(directory).place) as engine:
        engine.spark.sparkContext.setLogLevel("OFF")
        store = MemoryStore()
        with penstock.attach(engine.spark, settings=SIZING, store=store) as pen:
            checkpoint = directory / "checkpoint-of-the-test"
            query = growing_python(engine.spark) if what == "python" else overflowing_heap(engine.spark, checkpoint)
            deadline_s = time.monotonic() + PATIENCE_S
            while not store.actions(kinds=(ActionKind.RESIZE,)) and time.monotonic() < deadline_s:
                assert query.exception() is None, query.exception()
                time.sleep(0.5)
            sizing = pen.loop.logic.sizing
            found = None if sizing is None or sizing.last_round is None else sizing.last_round
            last = max((report.batchId for report in query.recentProgress), default=-1)
            while max((report.batchId for report in query.recentProgress), default=-1) < last + 2:
                assert query.exception() is None, query.exception()
                assert time.monotonic() < deadline_s
                time.sleep(0.5)
            query.stop()
            # With the hold the store is closed.
            actions = [record.to_dict() for record in store.actions()]
        exact = {} if what == "python" else counted(engine.spark, query, checkpoint)
        return exact | {
            "actions": actions,
            "verdicts": [] if found is None else [verdict.to_dict() for verdict in found.verdicts],
            "batches": len(query.recentProgress),
        }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))  # noqa: T201 - what the test reads
