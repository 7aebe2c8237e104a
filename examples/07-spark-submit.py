"""A governed query for spark-submit; nothing in it knows where it runs.

    penstock.zip is the package: (cd src && zip -qr ../penstock.zip penstock)

    spark-submit --master spark://HOST:7077 --py-files penstock.zip 07-spark-submit.py
    spark-submit --master yarn --deploy-mode cluster --py-files penstock.zip 07-spark-submit.py
    spark-submit --master k8s://... --deploy-mode cluster --py-files s3a://.../penstock.zip ...

What Penstock needs beside Spark (docs/dependencies.md) is in the image or the environment of driver and executors. In
cluster mode the store lies on the driver's disk: point store.path at a volume that outlives it.
"""

# ruff: noqa: INP001, T201 - a numbered script that prints, not a module

from __future__ import annotations

import os
import sys
import time

from pyspark.sql import SparkSession

import penstock
from penstock import Goal


def main(store: str) -> None:
    """Govern a query of the built-in rate source, and say how it is doing."""
    spark = SparkSession.builder.appName("submitted").getOrCreate()
    goals = {"ticks": Goal(latency="10 seconds", minimum_accuracy=0.5)}
    with penstock.attach(spark, goals=goals, settings={"store.path": store}) as pen:
        rows = spark.readStream.format("rate").option("rowsPerSecond", "500").load()
        guarded = pen.guard(rows, key="value", arrival="timestamp")
        query = guarded.writeStream.queryName("ticks").format("noop").start()
        deadline = time.monotonic() + float(os.environ.get("SECONDS", "300"))
        while not sum(each.numInputRows for each in query.recentProgress) and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(5.0)
        print(f"penstock is at {penstock.__file__}")
        print(pen.status())
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "penstock.db")
