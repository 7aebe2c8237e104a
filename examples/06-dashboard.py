"""Serve the dashboard of an application, ask its HTTP API how the query is doing, and change the goal through it.

Open the printed address in a browser while it runs; set SECONDS to watch for longer.
"""

# ruff: noqa: INP001, T201 - a numbered script that prints, not a module

from __future__ import annotations

import os
import sys
import tempfile
import time

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors must run the driver's Python

import httpx
from pyspark.sql import SparkSession

import penstock
from penstock import Goal
from penstock.spark.load import register


def main(scratch: str) -> None:
    """Attach, serve, ask, change."""
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("shop")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    goals = {"waves": Goal(latency="10 seconds")}
    with penstock.attach(spark, goals=goals, settings={"store.path": f"{scratch}/penstock.db"}) as pen:
        rows = spark.readStream.format("penstock.load").option("profile", "constant:rate=2000").load()
        query = rows.writeStream.queryName("waves").format("noop").start()
        service = pen.serve()
        print(f"dashboard: {service.url}")
        time.sleep(8.0 + float(os.environ.get("SECONDS", "0")))
        (row,) = httpx.get(f"{service.url}/api/fleet").json()["queries"]
        print(f"{row['query']} {row['sentence']}; goal {row['goal_latency_s']:g} s")
        httpx.put(
            f"{service.url}/api/goal",
            json={"engine": "shop", "query": "waves", "latency_s": 5.0},
            headers={"authorization": f"Bearer {service.token}"},
        ).raise_for_status()
        print(pen.explain("waves").sentences[1])
        query.stop()
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(scratch)
