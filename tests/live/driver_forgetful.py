"""Governs two queries in a JVM that forgets every job and stage but the last; tells what came of it as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

os.environ["PYSPARK_PYTHON"] = sys.executable
sys.path.insert(0, str(Path(__file__).parent.parent))

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

import penstock
from live.helpers import load_rows
from penstock import Goal
from penstock.model import ActionKind, Metric, QueryName
from penstock.spark.watched import WatchedQuery
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("plain", "guarded")
WITHIN_S = 240.0


class Complaints(logging.Handler):
    """Keeps what Penstock warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage())


def listening_to_core_seconds(told: list[float | None]) -> Callable[[WatchedQuery], float | None]:
    """The way in which the work of a batch is asked for, with what was answered put down."""
    ask = WatchedQuery.core_seconds

    def listen(watched: WatchedQuery) -> float | None:
        told.append(ask(watched))
        return told[-1]

    return listen


def main() -> None:
    """Only where this file is run: whoever collects tests imports it."""
    batches = int(sys.argv[1])
    complaints, told = Complaints(), list[float | None]()
    logging.getLogger("penstock").addHandler(complaints)
    WatchedQuery.core_seconds = listening_to_core_seconds(told)  # type: ignore[method-assign]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for limit in ("retainedJobs", "retainedStages", "retainedTasks"):
        builder = builder.config(f"spark.ui.{limit}", "1")
    builder = builder.config("spark.sql.ui.retainedExecutions", "1").config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.driver.memory", "1g").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    goal = Goal(latency="2 seconds", minimum_accuracy=0.2)
    store = MemoryStore()
    pen = penstock.attach(session, goals=dict.fromkeys(NAMES, goal), store=store)
    plain = load_rows(session, "constant:rate=500").groupBy((fn.col("key") % 5).alias("k")).count()
    guarded = pen.guard(load_rows(session, "constant:rate=500"))
    queries = [
        plain.writeStream.outputMode("complete").format("noop").queryName("plain").start(),
        guarded.writeStream.format("noop").queryName("guarded").start(),
    ]
    deadline_s = time.monotonic() + WITHIN_S
    done = dict.fromkeys(NAMES, 0)
    while time.monotonic() < deadline_s and min(done.values()) < batches:
        time.sleep(0.2)
        done = {name: len(store.points(QueryName(name), Metric.BATCH_ROWS)) for name in NAMES}
    found = {
        "batches": done,
        "alive": [query.isActive for query in queries],
        "governed": sorted(pen.loop.logic.governed),
        "limits": {name: len(store.actions(query=QueryName(name), kinds=[ActionKind.READ_LIMIT])) for name in NAMES},
        "faults": [record.action.reason for record in store.actions(kinds=[ActionKind.FAULT])],
        "ungoverned": [
            record.action.reason for record in store.actions(kinds=[ActionKind.RELEASE, ActionKind.UNMANAGED])
        ],
        "complaints": complaints.lines,
        "core_seconds": {
            "known": sum(each is not None for each in told),
            "unknown": sum(each is None for each in told),
        },
        "remembered_jobs": session.sparkContext._jsc.sc().statusStore().jobsList(None).size(),  # type: ignore[union-attr]
    }
    for query in queries:
        query.stop()
    pen.detach()
    sys.stdout.write(json.dumps(found) + "\n")
    session.stop()


if __name__ == "__main__":
    main()
