"""A driver to be killed while it sheds: an overloaded, guarded, governed query whose tasks write down what they got.

Every task writes the offsets that passed the guard into one file, named by run, batch, partition and attempt, when it
is done. The driver tells every batch that it has finished, with the ratio that the batch kept to.

Arguments: folder, name of the run, and how many batches to finish (0: until killed).
"""

from __future__ import annotations

import json
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
from penstock.model.directive import Directive
from penstock.spark.collector import REQUESTED, observed_metrics
from penstock.spark.load import register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

ROW_S = 100e-6
RATE_ROWS_PER_S = 60_000
"""More than three times what two cores do at that cost of a row."""


def noting(folder: str, run: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A stage that takes its time for every row, and writes down the offsets which pass through it."""

    def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        offsets: list[int] = []
        for batch in batches:
            offsets += batch.column("offset").to_pylist()
            # The second task takes longer: there is a time in which one has written and the batch is not done.
            time.sleep(ROW_S * batch.num_rows * (1 + context.partitionId()))
            yield batch
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        name = f"{run}-{batch_id}-{context.partitionId()}-{context.attemptNumber()}"
        written = Path(folder, f".{name}")
        written.write_text(" ".join(map(str, offsets)), encoding="utf-8")
        # Whole or not at all: death may come in the middle of it.
        written.rename(Path(folder, name))

    return note


def main(folder: Path, run: str, batches: int) -> None:
    """Run until killed, or for so many batches."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    settings = {"store.path": str(folder / "penstock.db"), "admission.first_batch_rows": 10_000}
    goal = Goal(latency="3 seconds", minimum_accuracy=0.05)
    pen = penstock.attach(session, goals={"shedding": goal}, settings=settings)
    epoch = (folder / "epoch").read_text(encoding="utf-8")
    load = session.readStream.format("penstock.load").option("profile", f"constant:rate={RATE_ROWS_PER_S}")
    rows = pen.guard(load.option("startEpochSeconds", epoch).option("partitions", "2").load())
    noted = rows.mapInArrow(noting(str(folder / "attempts"), run), rows.schema)
    writer = noted.writeStream.format("noop").queryName("shedding")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    told, done = -1, 0
    while query.isActive and (batches == 0 or done < batches):
        last = query.lastProgress
        if last is not None and last.batchId > told and last.numInputRows:
            told, done = last.batchId, done + 1
            requested = observed_metrics(json.loads(last.json)).get(REQUESTED)
            directive = None if requested is None else Directive.from_array(told, requested["directive"])
            sheds = directive is not None and directive.sheds
            sys.stdout.write(f"batch {told} {directive.keep_ratio if directive and sheds else 1.0}\n")
            sys.stdout.flush()
        time.sleep(0.02)
    query.stop()
    pen.detach()
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
