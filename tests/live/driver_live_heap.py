"""Prints by how much what lives grows with a table of 64 MB, in a JVM with the options that it is given."""

from __future__ import annotations

import json
import os
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from penstock.spark import internals

TABLE_MB = 64


def live_mb(spark: SparkSession) -> float | None:
    """What lives; None where the JVM did not collect."""
    found = internals.living_heaps(internals.heap_question(spark))
    return found[0].live_bytes / 1024 / 1024 if found else None


def main() -> None:
    """Only where this file is run: whoever collects tests imports it."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", sys.argv[1]).config("spark.driver.memory", "1g")
    session = builder.getOrCreate()
    before = live_mb(session)
    numbers = session.range(0, TABLE_MB * 8 * 1024, 1, 4)
    texts = [fn.sha2((fn.col("id") + place).cast("string"), 256).alias(f"text_{place}") for place in (0, 1)]
    numbers.select(*texts).persist(StorageLevel.MEMORY_ONLY).count()
    after = live_mb(session)
    sys.stdout.write(json.dumps({"table_mb": None if before is None or after is None else after - before}) + "\n")
    session.stop()


if __name__ == "__main__":
    main()
