"""A batch is run once more on a real session, and the query does not notice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as fn

from live.helpers import batches_of, load_rows, wait_for_batches, wait_until
from penstock.spark import internals
from penstock.spark.rehearsal import rehearse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

ROWS = 400


def start(rows: DataFrame, kind: str, checkpoint: Path) -> StreamingQuery:
    """A query with state of one kind or another, or with none."""
    keyed = rows.withColumn("number", fn.col("offset") % 50)
    changed = {
        "counts": keyed.groupBy("number").count(),
        "distinct": rows.dropDuplicates(["offset"]),
        "rows": rows.where("offset % 2 = 0"),
    }[kind]
    mode = "update" if kind == "counts" else "append"
    writer = changed.writeStream.format("noop").outputMode(mode).queryName(kind)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="1 second").start()


@pytest.mark.parametrize(("kind", "out"), [("counts", [50, 50]), ("distinct", [ROWS, 0]), ("rows", [ROWS // 2] * 2)])
def test_a_batch_is_run_again_with_a_state_of_its_own(
    stopping: SparkSession, tmp_path: Path, kind: str, out: list[int]
) -> None:
    """Each round gives the same rows, but for what the state of the one before holds back; the query's own stays."""
    profile = "constant:rate=0,backlog=1000000"
    query = start(load_rows(stopping, profile, maxRowsPerBatch=str(ROWS)), kind, tmp_path / "checkpoint")
    wait_for_batches(query, 3)
    execution = internals.execution_of(query)
    batch = internals.newest_batch(execution)
    assert batch is not None
    wait_until(lambda: internals.is_batch_over(execution, batch), "the next batch")
    rehearsal = internals.BatchRehearsal(stopping, batch, str(tmp_path / "rehearsal"))
    assert [rehearsal.run(None) for _ in out] == out
    rehearsal.close()
    assert {path.name for path in (tmp_path / "checkpoint").iterdir()} <= {
        "commits", "metadata", ".metadata.crc", "offsets", "sources", "state",
    }  # fmt: skip
    wait_for_batches(query, len(batches_of(query)) + 2)
    query.stop()
    read = [json.loads(report.json)["numInputRows"] for report in query.recentProgress if report.numInputRows]
    assert set(read) == {ROWS}
    if kind == "counts":
        state = stopping.read.format("statestore").load(str(tmp_path / "checkpoint"))
        assert state.selectExpr("sum(value.count)").collect()[0][0] == sum(read)


def test_a_query_that_cannot_be_rehearsed_is_told_and_left_alone(stopping: SparkSession, tmp_path: Path) -> None:
    """Where there are no executors of the profile, the reason is given, the folder is gone and the query runs on."""
    checkpoint = tmp_path / "checkpoint"
    query = start(load_rows(stopping, "constant:rate=100"), "counts", checkpoint)
    wait_for_batches(query, 2)
    (why,) = rehearse(stopping, 12_345, within_s=60)
    assert why.startswith("counts: ")
    assert "12345" in why
    assert not list(checkpoint.glob("penstock-rehearsal-*"))
    wait_for_batches(query, len(batches_of(query)) + 1)
