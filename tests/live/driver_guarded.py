"""A driver to be killed in mid-batch: a guarded query whose tasks write down, attempt by attempt, which rows they got.

From batch 2 on the run ``first`` decides for a keep ratio of 0.4, and records it before a batch is told. In batch 4 the
first attempt of every task fails after its rows. In batch 6 of that run the tasks wait, once they have written their
rows, until the process is killed. The run ``second`` goes on from the checkpoint and ends after batch 7; what is not
recorded it would decide otherwise.

Arguments: folder, ``first`` or ``second``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark import TaskContext
from pyspark.sql import SparkSession

from penstock.model.directive import Directive
from penstock.spark.collector import guard_signal, observed_metrics
from penstock.spark.directives import Answer, DirectiveServer, Question, directive_properties
from penstock.spark.guard import guard_rows
from penstock.spark.load import register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

KEEP_RATIO, FROM_BATCH, FAILING_BATCH, KILLED_BATCH, LAST_BATCH = 0.4, 2, 4, 6, 7


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
    server = DirectiveServer(Log(folder / "directives.json", run).answer, host="127.0.0.1")
    for name, value in directive_properties(server.endpoint, server.token, None):
        # Queries take their settings from the session that they start in: so the very first batch asks too.
        session.conf.set(name, value)
    load = session.readStream.format("penstock.load").option("profile", "constant:rate=0,backlog=1000000")
    rows = guard_rows(load.option("maxRowsPerBatch", "2000").load())
    noted = rows.mapInArrow(noting(str(folder / "attempts"), run), rows.schema)
    writer = noted.writeStream.format("noop").queryName("guarded").trigger(processingTime="1 second")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < LAST_BATCH):
        time.sleep(0.1)
        write_counts(query, folder / f"counts-{run}.json")
    query.stop()
    session.stop()


def write_counts(query: StreamingQuery, path: Path) -> None:
    """Write down how many rows the guard was offered and kept, by batch."""
    reports = [json.loads(report.json) for report in query.recentProgress if report.numInputRows]
    guards = {report["batchId"]: guard_signal(observed_metrics(report)) for report in reports}
    counts = {batch: (guard.offered_rows, guard.kept_rows) for batch, guard in guards.items() if guard is not None}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(counts), encoding="utf-8")
    partial.replace(path)


class Log:
    """Records what each batch is told, in a file, before it is told."""

    def __init__(self, path: Path, run: str) -> None:
        self._path, self._run = path, run
        self._lock = threading.Lock()

    def answer(self, question: Question) -> Answer:
        """What is recorded for the batch."""
        with self._lock:
            records = json.loads(self._path.read_text(encoding="utf-8")) if self._path.exists() else {}
            decided = (KEEP_RATIO if question.batch_id >= FROM_BATCH else 1.0) if self._run == "first" else 0.9
            keep_ratio = records.setdefault(str(question.batch_id), decided)
            self._path.write_text(json.dumps(records), encoding="utf-8")
        return Answer(Directive(question.batch_id, keep_ratio))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
