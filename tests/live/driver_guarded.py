"""A driver to be killed in mid-batch: a guarded query whose tasks write down, attempt by attempt, which rows they got.

From batch 2 on a share of 0.4 is recorded and kept. In batch 4 the first attempt of every task fails after its rows. In
batch 6 of the run ``first`` the tasks wait, once they have written their rows, until the process is killed; the run
``second`` goes on from the checkpoint and ends after batch 7.

Arguments: folder, ``first`` or ``second``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark import TaskContext
from pyspark.sql import SparkSession

import penstock
from penstock import Goal
from penstock.control.schedule import KeepSchedule
from penstock.model import Action, ActionKind, QueryName
from penstock.spark.load import register
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

SHARE, FROM_BATCH, FAILING_BATCH, KILLED_BATCH, LAST_BATCH = 0.4, 2, 4, 6, 7


def noting(folder: str, run: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A stage that writes down the offsets which pass through it."""

    def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        batch_id = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        offsets: list[int] = []
        for batch in batches:
            offsets += batch.column("offset").to_pylist()
            yield batch
        name = f"{run}-{batch_id}-{context.partitionId()}-{context.attemptNumber()}"
        Path(folder, name).write_text(" ".join(map(str, offsets)), encoding="utf-8")
        if batch_id == FAILING_BATCH and context.attemptNumber() == 0:
            raise RuntimeError("this attempt fails on purpose")
        if batch_id == KILLED_BATCH and run == "first":
            time.sleep(300)

    return note


def main(folder: Path, run: str) -> None:
    """Run until killed, or for the batches that are left."""
    session = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    # Without a latency goal nothing is decided here but what is recorded below.
    goals = {"guarded": Goal(minimum_accuracy=0.1)}
    pen = penstock.attach(session, goals=goals, store=SqliteStore(folder / "penstock.db"))
    load = session.readStream.format("penstock.load").option("profile", "constant:rate=0,backlog=1000000")
    rows = pen.guard(load.option("maxRowsPerBatch", "2000").load())
    noted = rows.mapInArrow(noting(str(folder / "attempts"), run), rows.schema)
    writer = noted.writeStream.format("noop").queryName("guarded").trigger(processingTime="1 second")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    if run == "first":
        record_share(pen)
    while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < LAST_BATCH):
        time.sleep(0.1)
    query.stop()
    session.stop()


def record_share(pen: penstock.Penstock) -> None:
    """Record and send a share as a controller would."""
    watched = pen.watched("guarded")
    assert watched.controller is not None
    watched.controller.resume_keep(KeepSchedule().with_entry(FROM_BATCH, SHARE))
    expected = {"from_batch": float(FROM_BATCH), "told": SHARE}
    action = Action(ActionKind.KEEP_RATIO, QueryName("guarded"), "test", "asked for", value=SHARE, expected=expected)
    pen.store.append(action, time_s=time.time(), mode=pen.mode)
    watched.carry_out(action)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
