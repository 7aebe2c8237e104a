"""The guard on a real session: who stays, with what weight, and who stays again when a batch is run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as fn

import penstock.functions as pf
from live.driver_guarded import FAILING_BATCH, KEEP_RATIO, KILLED_BATCH
from live.helpers import (
    actions_of,
    batches_of,
    costly,
    keep_by_property,
    load_rows,
    send,
    show,
    wait_for_batches,
    wait_until,
)
from penstock import Goal
from penstock.control.keep_curve import KeepCurve
from penstock.errors import InvalidGuardError
from penstock.model import ActionKind
from penstock.model.directive import Directive
from penstock.spark import internals
from penstock.spark.collector import guard_signal, observed_metrics, parse_timestamp_s
from penstock.spark.directives import (
    FALLBACK_PROPERTY,
    LOOPBACK,
    Answer,
    DirectiveServer,
    Question,
    directive_properties,
)
from penstock.spark.guard import dropped_rows, guard_rows
from penstock.spark.identity import row_identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock
    from penstock.model import GuardSignal, PlannedBatch

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def backlog(spark: SparkSession, rows_per_batch: int, **options: str) -> DataFrame:
    """Batches of one size, as many as are asked for."""
    return load_rows(spark, "constant:rate=0,backlog=10000000", maxRowsPerBatch=str(rows_per_batch), **options)


def wait_for_batch(query: StreamingQuery, batch_id: int) -> None:
    """Wait until a batch is reported."""

    def reported() -> bool:
        assert query.exception() is None, f"the query died: {query.exception()}"
        last = query.lastProgress
        return last is not None and last.batchId >= batch_id

    wait_until(reported, f"batch {batch_id}")


def reports_of(query: StreamingQuery, from_batch: int = 0) -> list[GuardSignal]:
    """What the guard of a query observed, batch by batch; one without rows tells nothing."""
    found = [json.loads(report.json) for report in query.recentProgress if report.batchId >= from_batch]
    return [guard for report in found if (guard := guard_signal(observed_metrics(report))) is not None]


def test_weights_are_one_over_p_and_estimates_hold_the_truth(stopping: SparkSession) -> None:
    """At a ratio of a quarter every weight is four, and count and average are within four errors of the truth."""
    found: dict[int, Any] = {}

    def estimate(frame: DataFrame, batch_id: int) -> None:
        weights = [fn.min("weight").alias("least"), fn.max("weight").alias("most"), fn.count("*").alias("kept")]
        found[batch_id] = frame.agg(*pf.count(), *pf.avg("value"), *weights).collect()[0]

    guarded = guard_rows(backlog(stopping, 20_000))
    query = guarded.writeStream.queryName("weights").foreachBatch(estimate).start()
    wait_for_batches(query, 1)
    from_batch = keep_by_property(query, 0.25)
    wait_for_batch(query, from_batch + 2)
    query.stop()
    shed = [row for batch_id, row in found.items() if batch_id >= from_batch]
    assert len(shed) >= 3
    for row in shed:
        assert (row.least, row.most) == (4.0, 4.0)
        assert row.kept == pytest.approx(5000, abs=300)
        assert abs(row["count"] - 20_000) < 4 * row.count_error
        assert row.count_low < row["count"] < row.count_high
    whole = found[0]
    assert (whole.least, whole.most, whole.kept) == (1.0, 1.0, 20_000)
    for row in shed:
        # The average of a batch that lost nothing stands for the truth: all batches are drawn alike.
        assert abs(row.avg_value - whole.avg_value) < 4 * row.avg_value_error + 0.02 * abs(whole.avg_value)


def test_what_a_batch_takes_and_leaves_is_known_while_it_runs(
    stopping: SparkSession, attach: Callable[..., Penstock]
) -> None:
    """The look at the running batch says what its report says later: rows, lag, and when it was planned."""
    pen = attach()
    goal = Goal(latency="1 minute", minimum_accuracy=0.1)
    guarded = pen.guard(load_rows(stopping, "constant:rate=20000,backlog=100000,seconds=600"))
    query = pen.govern(costly(guarded, 20).writeStream.queryName("seen").format("noop"), goal).start()
    wait_for_batches(query, 3)
    seen: dict[int, PlannedBatch] = {}

    def look() -> bool:
        last = query.lastProgress
        assert last is not None
        planned = pen.watched("seen").planned(last.batchId + 1)
        if planned is not None:
            seen[planned.batch_id] = planned
        return len(seen) >= 3

    wait_until(look, "three batches while they run")
    wait_for_batch(query, max(seen))
    query.stop()
    reports = {report.batchId: report for report in query.recentProgress}
    lags = {batch.batch_id: batch.lag_rows for batch in batches_of(query)}
    for batch_id, planned in seen.items():
        assert (planned.rows, planned.lag_rows) == (reports[batch_id].numInputRows, lags[batch_id])
        assert planned.planned_s == pytest.approx(parse_timestamp_s(reports[batch_id].timestamp), abs=0.01)


def test_a_keyed_guard_keeps_the_same_keys_on_both_sides_of_a_join(stopping: SparkSession) -> None:
    """Half of the keys survive the join of two guarded streams, not a quarter, and each with all of its rows."""
    found: list[Any] = []
    sides = [
        guard_rows(backlog(stopping, 2000, keys="200"), key="key").select("offset", "key", fn.col("weight").alias(name))
        for name in ("left", "right")
    ]
    joined = sides[0].join(sides[1], ["offset", "key"])
    writer = joined.writeStream.queryName("joined").foreachBatch(lambda frame, _: found.extend(frame.collect()))
    query = writer.start()
    wait_until(lambda: query.recentProgress or None, "first batch")
    already = keep_by_property(query, 0.5)
    wait_for_batch(query, already + 2)
    query.stop()
    first = 2000 * already
    rows = [row for row in found if first <= row.offset < first + 2000]
    kept_keys = {row.key for row in rows}
    assert 0.35 < len(kept_keys) / 200 < 0.65
    assert {(row.left, row.right) for row in rows} == {(2.0, 2.0)}
    assert len(rows) == pytest.approx(2000 * len(kept_keys) / 200, rel=0.15)


@pytest.mark.parametrize("shape", ["window", "stateful", "foreach_batch"])
def test_a_guard_stands_before_every_shape_of_query(shape: str, stopping: SparkSession) -> None:
    """Windows, deduplication and foreachBatch run behind a guard, which reports what it kept."""
    guarded = guard_rows(backlog(stopping, 2000))
    if shape == "window":
        counted = guarded.groupBy(fn.window("timestamp", "1 second")).agg(*pf.count())
        writer = counted.writeStream.format("noop").outputMode("update")
    elif shape == "stateful":
        writer = guarded.dropDuplicates(["key"]).writeStream.format("noop")
    else:
        writer = guarded.writeStream.foreachBatch(lambda frame, _: frame.count())
    query = writer.queryName(f"before_{shape}").start()
    wait_for_batches(query, 1)
    from_batch = keep_by_property(query, 0.5)
    wait_for_batch(query, from_batch)
    query.stop()
    reports = reports_of(query, from_batch)
    assert {report.keep_ratio for report in reports} == {0.5}
    assert all(0.42 < report.kept_rows / report.offered_rows < 0.58 for report in reports)


def test_a_dropped_row_is_not_put_through_the_filters_that_follow(stopping: SparkSession) -> None:
    """Spark joins a guard's filter with the query's own: what was dropped must not be paid for there."""
    told, rows = Directive(0, keep_ratio=0.3), 500
    offsets = stopping.range(rows).withColumnRenamed("id", "offset")
    gone = dropped_rows(offsets, told, key=None, arrival=None, utility=None, identity=("offset",)).collect()
    assert 200 < len(gone) < 450
    dropped = fn.col("offset").isin([row.offset for row in gone])
    looked_at = fn.when(dropped, fn.raise_error(fn.lit("a dropped row was looked at"))).otherwise(fn.lit(True))
    stopping.conf.set(FALLBACK_PROPERTY, told.to_json())
    try:
        source = load_rows(stopping, f"constant:rate=0,backlog={rows}")
        query = guard_rows(source).where(looked_at).writeStream.format("noop").start()
        wait_for_batch(query, 0)
    finally:
        stopping.conf.unset(FALLBACK_PROPERTY)
    (report,) = reports_of(query)
    assert report.kept_rows == rows - len(gone)


def test_a_batch_frame_gets_weights_of_one(spark: SparkSession) -> None:
    """Outside a stream a guard drops nothing."""
    guarded = guard_rows(spark.range(100), arrival=None)
    assert guarded.agg(fn.sum("weight"), fn.count("*")).collect()[0][:] == (100.0, 100)


@pytest.mark.slow
def test_the_minimum_accuracy_is_never_broken(stopping: SparkSession, attach: Callable[..., Penstock]) -> None:
    """Under an overload that would ask for far less, every batch is asked to keep the minimum accuracy or more."""
    pen = attach(settings={"admission.first_batch_rows": 200})
    rows = costly(pen.guard(load_rows(stopping, "constant:rate=200000", keys="50")), 60)
    goal = Goal(latency="1 second", minimum_accuracy=0.6)
    query = pen.govern(rows.writeStream.queryName("least").format("noop"), goal).start()
    wait_until(lambda: any(report.keep_ratio < 1.0 for report in reports_of(query)), "shedding", within_s=150)
    wait_for_batch(query, query.lastProgress.batchId + 3)  # type: ignore[union-attr]
    query.stop()
    ratios = [report.keep_ratio for report in reports_of(query)]
    show(f"{len(ratios)} batches, least keep ratio {min(ratios):.3f}")
    assert min(ratios) >= 0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": "client"}, "guard key 'client' is not there; name one of: offset, timestamp, key, value"),
        ({"arrival": "at"}, "arrival column 'at' is not there"),
        ({"arrival": "value"}, "arrival column 'value' is of type double: cast it to timestamp"),
    ],
)
def test_what_cannot_serve_is_refused_at_once(arguments: dict[str, Any], message: str, stopping: SparkSession) -> None:
    """Mistakes show when the guard is built, and name the remedy."""
    with pytest.raises(InvalidGuardError, match=message):
        guard_rows(backlog(stopping, 100), **arguments)


def test_a_null_key_is_named_in_the_query_s_exception(stopping: SparkSession) -> None:
    """A row without a key cannot be kept with its like; the text names the column and what to do."""
    holes = backlog(stopping, 1000).withColumn("client", fn.when(fn.col("key") != 5, fn.col("key")))
    guarded = guard_rows(holes, key="client")
    query = guarded.writeStream.queryName("null_key").format("noop").start()
    with pytest.raises(StreamingQueryException, match="guard key 'client' is null: fill it"):
        query.awaitTermination(60)


@pytest.mark.slow
def test_the_same_rows_stay_after_kill_and_retry(tmp_path: Path) -> None:
    """Killed in mid-batch while shedding, a driver keeps the very same rows when it runs the batch again.

    So does a task whose first attempt failed.
    """
    (tmp_path / "attempts").mkdir()
    first = start_driver(tmp_path, "first")
    try:
        wait_until(lambda: len(attempts(tmp_path, "first", KILLED_BATCH)) == 2, "rows of the batch", within_s=150)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    second = start_driver(tmp_path, "second")
    try:
        wait_until(lambda: len(attempts(tmp_path, "second", KILLED_BATCH)) == 2, "the batch again", within_s=150)
    finally:
        os.killpg(second.pid, signal.SIGKILL)
        second.wait()

    before, after = attempts(tmp_path, "first", KILLED_BATCH), attempts(tmp_path, "second", KILLED_BATCH)
    assert after == before
    kept = sum(len(offsets) for offsets in before.values())
    assert kept / 2000 == pytest.approx(KEEP_RATIO, abs=0.06)
    retried = attempts(tmp_path, "first", FAILING_BATCH)
    assert {attempt for _, attempt in retried} == {0, 1}
    for partition in (0, 1):
        assert retried[partition, 0] == retried[partition, 1]
        assert 0 < len(retried[partition, 0]) < 1000
    counts = json.loads((tmp_path / "counts-first.json").read_text(encoding="utf-8"))
    # What the attempts that failed had counted is not counted again.
    assert counts[str(FAILING_BATCH)] == [2000, len(retried[0, 1]) + len(retried[1, 1])]


def start_driver(folder: Path, run: str) -> subprocess.Popen[bytes]:
    """A driver in a process group of its own, so that its JVM and workers die with it."""
    command = [sys.executable, str(Path(__file__).parent / "driver_guarded.py"), str(folder), run]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=environment
    )


def attempts(folder: Path, run: str, batch_id: int) -> dict[tuple[int, int], list[int]]:
    """Offsets by partition and attempt, of those attempts that have written all of theirs."""
    found = {}
    for path in (folder / "attempts").glob(f"{run}-{batch_id}-*"):
        text = path.read_text(encoding="utf-8")
        if text or time.time() - path.stat().st_mtime > 1:
            partition, attempt = path.name.split("-")[2:]
            found[int(partition), int(attempt)] = [int(word) for word in text.split()]
    return found


@pytest.mark.parametrize(
    ("distinct_offsets", "utility"),
    [
        (None, None),
        (24, "value"),
        pytest.param(24, None, marks=pytest.mark.slow),
        pytest.param(None, "value", marks=pytest.mark.slow),
    ],
)
def test_spark_compiles_nothing_for_another_keep_ratio(
    distinct_offsets: int | None, utility: str | None, stopping: SparkSession
) -> None:
    """Over a dozen batches, each with another keep ratio and another moment for late rows, no class is compiled.

    Nor where rows have a utility, or no identity and are drawn anew in every batch.
    """

    def answer(question: Question) -> Answer:
        late_before_s = 1_000.0 + question.batch_id
        return Answer(Directive(question.batch_id, 0.2 + question.batch_id / 1000, 0.01, late_before_s))

    rows = backlog(stopping, 200)
    rows = rows if distinct_offsets is None else rows.withColumn("offset", fn.col("offset") % distinct_offsets)
    counted = guard_rows(rows, utility=utility).groupBy("key").agg(fn.count("*"), fn.sum("weight"))
    with DirectiveServer(answer, host=LOOPBACK) as server:
        query = counted.writeStream.queryName("compiled").format("noop").outputMode("update").start()
        send(query, directive_properties(server.endpoint, server.token, None))
        wait_for_batch(query, 8)
        first, before = query.lastProgress.batchId, internals.compiled_classes(stopping)  # type: ignore[union-attr]
        wait_for_batch(query, first + 12)
        compiled = internals.compiled_classes(stopping) - before
        query.stop()
    reports = reports_of(query, first + 1)
    assert len({report.keep_ratio for report in reports}) >= 11
    assert len({report.kept_rows for report in reports}) > 1
    assert compiled == 0


def test_rows_without_an_identity_are_drawn_by_chance_and_the_log_says_so(
    stopping: SparkSession, attach: Callable[..., Penstock]
) -> None:
    """Once for each governed query, with the remedy; of rows that have an identity, a name or a key nothing is said."""
    pen = attach()
    goal = Goal(latency="5 seconds", minimum_accuracy=0.1)
    unknown = backlog(stopping, 1000, keys="50").withColumn("offset", fn.col("offset") + 1)
    for name, rows, said in (
        ("unknown", pen.guard(unknown), 1),
        ("numbered", pen.guard(backlog(stopping, 1000)), 0),
        ("named", pen.guard(unknown, identity="offset"), 0),
        ("keyed", pen.guard(unknown, key="key"), 0),
    ):
        query = pen.govern(rows.writeStream.queryName(name).format("noop"), goal).start()
        wait_for_batches(query, 1)
        query.stop()
        told = [action for action in actions_of(pen.store, name, ActionKind.HOLD) if "drawn by chance" in action.reason]
        assert len(told) == said, name
        assert all("identity=" in action.reason for action in told)


def test_a_column_that_merely_is_called_offset_is_no_identity(
    stopping: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Of rows with 24 values of their own offset, half stay of each value; the log says that replay draws anew."""
    found: dict[int, Any] = {}
    rows = backlog(stopping, 4800).withColumn("offset", fn.col("offset") % 24)
    guarded = guard_rows(rows)
    assert "drawn by chance" in caplog.text
    counts = [fn.count("*").alias("kept"), fn.countDistinct("offset").alias("values")]

    def count(frame: DataFrame, batch_id: int) -> None:
        found[batch_id] = frame.agg(*counts).collect()[0]

    query = guarded.writeStream.queryName("called_offset").foreachBatch(count).start()
    wait_for_batches(query, 1)
    from_batch = keep_by_property(query, 0.5)
    wait_for_batch(query, from_batch)
    query.stop()
    assert found[from_batch].values == 24
    assert found[from_batch].kept == pytest.approx(2400, abs=200)


def test_identity_is_the_source_s_own_under_any_name_or_what_is_named(stopping: SparkSession) -> None:
    """Renamed and filtered, the source's offset still tells rows apart; computed, exploded or united it does not."""
    rows = backlog(stopping, 100)
    renamed = rows.where("key > 3").select(fn.col("offset").alias("place"), "timestamp", fn.col("key").alias("offset"))
    assert row_identity(renamed) == ("place",)
    assert row_identity(rows.withWatermark("timestamp", "1 second")) == ("offset",)
    assert row_identity(rows.withColumn("offset", fn.col("offset") % 24)) == ()
    assert row_identity(rows.withColumn("part", fn.explode(fn.array(fn.lit(1), fn.lit(2))))) == ()
    assert row_identity(rows.union(rows)) == ()
    assert row_identity(rows.drop("offset")) == ()
    assert row_identity(rows, "key") == ("key",)
    assert row_identity(rows, ["key", "value"]) == ("key", "value")
    with pytest.raises(InvalidGuardError, match="identity column 'client' is not there; name some of: offset"):
        row_identity(rows, ["client"])


def test_kafka_s_identity_is_topic_partition_and_offset(stopping: SparkSession) -> None:
    """All three or nothing: offsets of one partition are those of another too."""
    reader = stopping.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9")
    rows = reader.option("subscribe", "clicks").load()
    assert row_identity(rows.select("value", "topic", "partition", "offset")) == ("topic", "partition", "offset")
    assert row_identity(rows.select("value", "topic", "offset")) == ()


def test_a_utility_may_be_asked_for_more_than_one_and_may_be_null(stopping: SparkSession) -> None:
    """Asked for 2.5 of an even utility the guard keeps four fifths, and an eighth of rows without one."""
    kept: dict[int, list[Any]] = {}
    rows = backlog(stopping, 8000).withColumn("worth", (fn.xxhash64("offset") % 1000 + 999) / 1998)
    rows = rows.withColumn("worth", fn.when(fn.col("offset") % 4 == 0, fn.lit(None)).otherwise(fn.col("worth")))
    guarded = guard_rows(rows, utility="worth").select("offset", "worth", "weight")

    def take(frame: DataFrame, batch_id: int) -> None:
        kept[batch_id] = frame.collect()

    query = guarded.writeStream.queryName("worth").foreachBatch(take).start()
    wait_for_batches(query, 1)
    whole = query.recentProgress[0].batchId
    last = query.lastProgress.batchId + 3  # type: ignore[union-attr]
    send(query, directive_properties("", "", Directive(last, 2.5, 0.1)))
    wait_for_batch(query, last)
    query.stop()
    assert len(kept[whole]) == 8000
    holes = [row for row in kept[last] if row.worth is None]
    assert len(holes) == pytest.approx(250, abs=60)
    assert {row.weight for row in holes} == {8.0}
    assert len(kept[last]) - len(holes) == pytest.approx(0.8 * 6000, abs=250)
    curve = KeepCurve().learned(reports_of(query, last)[0].utilities)
    assert curve.kept(2.5, 0.1) == pytest.approx(len(kept[last]) / 8000, abs=0.06)
