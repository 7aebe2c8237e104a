"""A driver whose user made the mistake that the first argument names."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession

import penstock
from penstock import Goal
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable


def main(mistake: str) -> None:
    """Make it."""
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    mistakes: dict[str, Callable[[], object]] = {
        "setting": lambda: penstock.attach(session, settings={"admission.growth_factor": 0.5}),
        "adopt": lambda: penstock.attach(session, store=MemoryStore()).adopt("nobody", Goal(latency=5)),
    }
    mistakes[mistake]()


if __name__ == "__main__":
    main(sys.argv[1])
