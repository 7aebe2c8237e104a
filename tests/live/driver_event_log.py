"""A small Spark run that writes an event log: one stateful query over a few batches, in local mode.

Prints one JSON object with the rows that it read. Arguments: directory for the log.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time


def main(directory: str) -> dict[str, int]:
    """Run half a dozen batches or so, and give what they read."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import
    from pyspark.sql import functions as fn  # noqa: PLC0415 - as above

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("event-log")
        .config("spark.ui.enabled", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", directory)
        .config("spark.executor.processTreeMetrics.enabled", "true")
        # Tasks of a tenth of a second would mostly end between two looks at the heap, which are ten seconds apart.
        .config("spark.executor.metrics.pollingInterval", "50ms")
        .config("spark.executor.heartbeatInterval", "1s")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    counts = spark.readStream.format("rate").option("rowsPerSecond", 2000).load().groupBy(fn.col("value") % 50).count()
    writer = counts.writeStream.format("noop").outputMode("update").queryName("counts")
    query = writer.option("checkpointLocation", tempfile.mkdtemp()).trigger(processingTime="1 second").start()
    deadline_s = time.monotonic() + 240
    while time.monotonic() < deadline_s and (query.lastProgress is None or query.lastProgress.batchId < 6):
        time.sleep(0.3)
    query.stop()
    rows = sum(report.numInputRows for report in query.recentProgress)
    batches = len(query.recentProgress)
    spark.stop()
    return {"rows": rows, "batches": batches}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))  # noqa: T201 - what the test reads
