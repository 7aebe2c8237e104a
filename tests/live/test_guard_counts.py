"""What guards count in Spark's compiled loop: the same rows that came out, wherever the guard stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as fn

from live.helpers import keep_by_property, load_rows, wait_for_batches, wait_until
from penstock import Goal
from penstock.spark import guard, internals
from penstock.spark.collector import guard_reports, guard_signal, observed_metrics
from penstock.spark.guard import guard_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
ROWS = 3000


def backlog(spark: SparkSession, **options: str) -> DataFrame:
    """Batches of one size, as many as are asked for."""
    return load_rows(spark, "constant:rate=0,backlog=10000000", maxRowsPerBatch=str(ROWS), **options)


def reports_of(query: StreamingQuery) -> dict[int, list[Mapping[str, Any]]]:
    """What each guard of a query reports, by batch."""
    found = {report.batchId: json.loads(report.json) for report in query.recentProgress if report.numInputRows}
    return {batch_id: guard_reports(observed_metrics(report)) for batch_id, report in found.items()}


def shed(query: StreamingQuery, keep_ratio: float = 0.3) -> tuple[int, list[Mapping[str, Any]]]:
    """Let a query shed, stop it, and give the first batch that is sure to have shed, with what its guards report."""
    wait_for_batches(query, 1)
    batch_id = keep_by_property(query, keep_ratio)
    wait_until(lambda: max(reports_of(query), default=0) > batch_id, "a batch that sheds")
    query.stop()
    return batch_id, reports_of(query)[batch_id]


def counting(found: dict[int, int]) -> Callable[[DataFrame, int], None]:
    """A sink that counts the rows of each batch."""

    def count(frame: DataFrame, batch_id: int) -> None:
        found[batch_id] = frame.count()

    return count


def test_nothing_is_observed_and_all_is_counted(stopping: SparkSession) -> None:
    """The plan has no observation; rows offered and kept are exactly those that came in and out."""
    came: dict[int, int] = {}
    guarded = guard_rows(backlog(stopping))
    query = guarded.writeStream.queryName("counted").foreachBatch(counting(came)).start()
    batch_id, (report,) = shed(query)
    assert "CollectMetrics" not in internals.plan_text(internals.execution_of(query))
    assert (report["offered_rows"], report["kept_rows"]) == (ROWS, came[batch_id])
    assert 0.2 * ROWS < report["kept_rows"] < 0.4 * ROWS
    assert report["late_rows"] == 0


def test_the_query_s_own_filters_are_not_counted(stopping: SparkSession) -> None:
    """A filter before a guard takes from what it is offered; one behind it takes nothing from what it kept."""
    came: dict[int, int] = {}
    rows = backlog(stopping).where(fn.col("offset") % 2 == 0)
    guarded = guard_rows(rows).where(fn.col("offset") % 3 == 0)
    query = guarded.writeStream.queryName("filtered").foreachBatch(counting(came)).start()
    batch_id, (report,) = shed(query)
    assert report["offered_rows"] == ROWS // 2
    assert report["kept_rows"] == pytest.approx(3 * came[batch_id], rel=0.25)


@pytest.mark.parametrize("shape", ["shuffled", "stateful", "joined", "twice"])
def test_guards_are_counted_wherever_they_stand(shape: str, stopping: SparkSession) -> None:
    """Before a shuffle, before state, on both sides of a join of streams, and where a frame is read twice."""
    guarded = guard_rows(backlog(stopping, keys="200"), key="key")
    frame, guards, read = guarded, 1, ROWS
    if shape == "shuffled":
        frame = guarded.repartition(3, "key")
    elif shape == "stateful":
        frame = guarded.groupBy("key").agg(fn.sum("weight"))
    elif shape == "joined":
        other = guard_rows(backlog(stopping, keys="200"), key="key").drop("weight", "timestamp", "value")
        frame, guards = guarded.join(other, ["offset", "key"]), 2
    else:
        frame = guarded.union(guarded)
    writer = frame.writeStream.format("noop").queryName(f"counted_{shape}")
    query = writer.outputMode("update" if shape == "stateful" else "append").start()
    _, reports = shed(query)
    assert len(reports) == guards
    assert {report["offered_rows"] for report in reports} == {read}
    assert all(0.15 * read < report["kept_rows"] < 0.45 * read for report in reports)


def test_queries_that_share_a_guard_are_counted_apart(stopping: SparkSession) -> None:
    """Two queries of one guarded frame, of which one sheds."""
    guarded = guard_rows(backlog(stopping))
    whole = guarded.writeStream.format("noop").queryName("whole").start()
    part = guarded.writeStream.format("noop").queryName("part").start()
    wait_for_batches(whole, 2)
    _, (report,) = shed(part)
    whole.stop()
    assert report["offered_rows"] == ROWS
    assert report["kept_rows"] < 0.4 * ROWS
    kept = [each["kept_rows"] for reports in reports_of(whole).values() for each in reports]
    assert kept
    assert set(kept) == {ROWS}


def test_a_sample_tells_how_old_rows_are(stopping: SparkSession, attach: Callable[..., Penstock]) -> None:
    """Oldest and newest arrival of a governed batch are those of its rows, to within a part of its span."""
    ends: dict[int, tuple[float, float]] = {}
    pen = attach()
    moment = fn.col("timestamp").cast("double")

    def note(frame: DataFrame, batch_id: int) -> None:
        ends[batch_id] = tuple(frame.agg(fn.min(moment), fn.max(moment)).collect()[0])

    guarded = pen.guard(load_rows(stopping, "constant:rate=2000,seconds=600"))
    goal = Goal(latency="1 minute", minimum_accuracy=0.1)
    query = pen.govern(guarded.writeStream.queryName("aged").foreachBatch(note), goal).start()
    wait_for_batches(query, 6)
    query.stop()
    signals = {
        report.batchId: guard_signal(observed_metrics(json.loads(report.json)))
        for report in query.recentProgress
        if report.numInputRows
    }
    compared = 0
    for batch_id, signal in signals.items():
        # Of a handful of rows, as a first batch may have, a sample is a single one.
        if signal is None or signal.offered_rows < 200:
            continue
        if signal.oldest_arrival_s is not None and signal.newest_arrival_s is not None:
            oldest_s, newest_s = ends[batch_id]
            slack_s = 0.02 * (newest_s - oldest_s) + 0.002
            assert oldest_s - 0.001 <= signal.oldest_arrival_s <= oldest_s + slack_s
            assert newest_s - slack_s <= signal.newest_arrival_s <= newest_s + 0.001
            compared += 1
    assert compared >= 3


def test_without_the_members_a_guard_observes(stopping: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark that lacks what the counts need has the same figures, by an observation."""
    monkeypatch.setattr(guard.internals, "counts_rows", lambda _: False)
    came: dict[int, int] = {}
    guarded = guard_rows(backlog(stopping))
    query = guarded.writeStream.queryName("observed").foreachBatch(counting(came)).start()
    batch_id, (report,) = shed(query)
    assert "CollectMetrics" in internals.plan_text(internals.execution_of(query))
    assert (report["offered_rows"], report["kept_rows"]) == (ROWS, came[batch_id])


def executed_plan(query: StreamingQuery) -> str:
    """The plan of the last batch, as Spark writes it."""
    return str(internals.execution_of(query).lastExecution().executedPlan().toString())


def test_nothing_of_the_question_is_left_in_the_plan(stopping: SparkSession) -> None:
    """What a batch of two guards is told stands in its plan as numbers, the same in both, and no subquery is run."""
    first, second = (guard_rows(backlog(stopping)) for _ in range(2))
    query = first.union(second).writeStream.format("noop").queryName("folded").start()
    _, reports = shed(query)
    assert [report["offered_rows"] for report in reports] == [ROWS, ROWS]
    assert all(0.2 * ROWS < report["kept_rows"] < 0.4 * ROWS for report in reports)
    assert "ubquery" not in executed_plan(query)
    assert executed_plan(query).count("THEN [0.3,") == 2


def test_where_nothing_is_folded_a_subquery_asks(stopping: SparkSession) -> None:
    """A session without the rule that works constants out has the same guards, by a subquery."""
    name = "spark.sql.optimizer.excludedRules"
    stopping.conf.set(name, "org.apache.spark.sql.catalyst.optimizer.ConstantFolding")
    try:
        came: dict[int, int] = {}
        query = guard_rows(backlog(stopping)).writeStream.queryName("asked").foreachBatch(counting(came)).start()
        batch_id, (report,) = shed(query)
    finally:
        stopping.conf.unset(name)
    assert "ubquery" in executed_plan(query)
    assert (report["offered_rows"], report["kept_rows"]) == (ROWS, came[batch_id])


def test_counts_that_cannot_be_read_are_what_was_told(stopping: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard whose plan cannot be read counts as having kept what it was told, and the query goes on."""

    def broken(_: object) -> None:
        raise ValueError("no such plan")

    monkeypatch.setattr(internals, "counted_plan", broken)
    query = guard_rows(backlog(stopping)).writeStream.format("noop").queryName("unread").start()
    _, (report,) = shed(query)
    assert (report["offered_rows"], report["kept_rows"]) == (ROWS, round(0.3 * ROWS))
