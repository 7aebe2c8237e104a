"""A driver to be killed: one governed query from ``penstock.load`` into Parquet files, with its log in SQLite.

Prints ``action ID {json}`` as soon as an action is recorded, ``batch ID`` after every batch, and ``done`` at the end of
a run that reads all of the profile.

Arguments: folder, rows in all, ``until-killed`` or ``to-the-end``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession

import penstock
from penstock import Goal
from penstock.spark.load import register
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model import Action, Mode, RecordedAction


class TellingStore(SqliteStore):
    """Tells every action that it has recorded, once it has."""

    def append_all(self, actions: Sequence[Action], *, time_s: float, mode: Mode) -> list[RecordedAction]:
        """Record, then tell."""
        recorded = super().append_all(actions, time_s=time_s, mode=mode)
        for each in recorded:
            tell("action", each.action_id, json.dumps(each.to_dict()))
        return recorded


def tell(*words: object) -> None:
    """Write one line in one go: the process may die between two writes."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(folder: Path, rows: int, mode: str) -> None:
    """Run the query until it is killed, or until all rows are through."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # Spark takes the torn file that a kill leaves beside its first offset for another query's checkpoint.
        .config("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        # A short life: what the compiler would gain later is not worth the start.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    store = TellingStore(folder / "penstock.db")
    goals = {"crashing": Goal(latency="6 seconds")}
    # Slow growth leaves rows over for the runs to come.
    growth = 1.5 if mode == "until-killed" else 8.0
    settings = {"admission.first_batch_rows": 100, "admission.growth_factor": growth, "admission.dead_band": 0}
    penstock.attach(session, goals=goals, store=store, settings=settings)
    tell("attached")
    load = session.readStream.format("penstock.load").option("profile", f"constant:rate=0,backlog={rows}")
    writer = load.load().select("offset").writeStream.format("parquet").queryName("crashing")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if mode == "to-the-end":
        writer = writer.trigger(availableNow=True)
    query = writer.start(str(folder / "rows"))
    told = -1
    while not query.awaitTermination(0.05):
        last = query.lastProgress
        if last is not None and last.batchId > told:
            told = last.batchId
            tell("batch", told)
    for report in query.recentProgress:
        tell("batch", report.batchId)
    tell("done")
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
