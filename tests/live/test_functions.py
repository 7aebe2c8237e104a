"""Counts, sums and averages over weighted rows, and what is said of operators behind guards, on a real session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as fn
from pyspark.sql.streaming import StatefulProcessor

import penstock.functions as pf
from live.helpers import actions_of, keep_by_property, load_rows, show, wait_for_batches, wait_until
from live.repay_helpers import shed
from penstock import Goal
from penstock.bench.coverage import cases
from penstock.errors import InvalidGuardError
from penstock.model import ActionKind
from penstock.model.directive import Directive
from penstock.spark.guard import decide, guard_rows
from penstock.spark.plan_check import check_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

GROUPS = 400
KEYS = 300


def backlog(spark: SparkSession, rows_per_batch: int, **options: str) -> DataFrame:
    """Batches of one size, as many as are asked for."""
    return load_rows(spark, "constant:rate=0,backlog=10000000", maxRowsPerBatch=str(rows_per_batch), **options)


def wait_for_batch(query: StreamingQuery, batch_id: int) -> None:
    def reported() -> bool:
        assert query.exception() is None, f"the query died: {query.exception()}"
        return query.lastProgress is not None and query.lastProgress.batchId >= batch_id

    wait_until(reported, f"batch {batch_id}")


def test_columns_of_spark_and_arrays_agree(spark: SparkSession) -> None:
    """Group by group the same estimates, limits and refusals, over rows of two probabilities; and they hold."""
    case = next(each for each in cases() if each.name.startswith("two guards"))
    size = case.probabilities.size
    rows = spark.createDataFrame(
        [
            (index, float(p), float(x))
            for index, (p, x) in enumerate(zip(case.probabilities, case.amounts, strict=True))
        ],
        "place int, probability double, value double",
    )
    kept = (
        rows.crossJoin(spark.range(GROUPS).withColumnRenamed("id", "group"))
        .where(fn.rand(seed=11) < fn.col("probability"))
        .withColumn("weight", 1.0 / fn.col("probability"))
        .cache()
    )
    largest = case.largest_weight
    aggregates = [*pf.count(largest_weight=largest), *pf.sum("value", largest_weight=largest)]
    found = kept.groupBy("group").agg(*aggregates, *pf.avg("value", largest_weight=largest)).collect()
    weights = np.full((GROUPS, size), np.nan)
    for row in kept.select("group", "place", "weight").collect():
        weights[row.group, row.place] = row.weight
    kept.unpersist()
    for aggregate, name in (("count", "count"), ("sum", "sum_value"), ("avg", "avg_value")):
        wanted = case.estimate(aggregate, weights)
        for row in found:
            got = [row[f"{name}{part}"] for part in ("", "_error", "_low", "_high")]
            expected = [wanted.estimate, wanted.error, wanted.low, wanted.high]
            assert got == pytest.approx([float(each[row.group]) for each in expected], rel=1e-9)
        held = np.mean([row[f"{name}_low"] <= case.truth(aggregate) <= row[f"{name}_high"] for row in found])
        show(f"{aggregate}: {held:.1%} of {GROUPS} intervals hold the truth")
        assert held > 0.91


def test_what_is_not_known_is_null(spark: SparkSession) -> None:
    """One row of weight 100, forty zeros, and a stored frame of weights of one: no error of zero, no interval."""
    lone = spark.createDataFrame([(100.0, 7.0)], "weight double, value double")
    row = lone.agg(*pf.count(), *pf.avg("value")).collect()[0]
    assert (row.avg_value, row.avg_value_error, row.avg_value_low) == (7.0, None, None)
    assert (row["count"], row.count_low, row.count_high) == (100.0, None, None)
    zeros = spark.createDataFrame([(10.0, 0.0)] * 40, "weight double, value double")
    row = zeros.agg(*pf.sum("value")).collect()[0]
    assert (row.sum_value, row.sum_value_error, row.sum_value_low) == (0.0, None, None)
    whole = spark.createDataFrame([(1.0, 2.0)] * 5, "weight double, value double")
    row = whole.agg(*pf.count(), *pf.count(name="known", largest_weight=1.0)).collect()[0]
    assert (row["count"], row.count_error, row.count_low) == (5.0, None, None)
    assert (row.known, row.known_error, row.known_low, row.known_high) == (5.0, 0.0, 5.0, 5.0)


def test_a_window_is_exact_only_if_no_batch_of_its_time_dropped_rows(stopping: SparkSession) -> None:
    """Before the first row is dropped groups are exact; from then on a group of weights of one is not."""
    found: dict[int, list[Any]] = {}
    guarded = guard_rows(backlog(stopping, 1000, keys="50"))
    # Key 0 is never dropped here: a group whose every weight is one although its batches dropped rows.
    spared = guarded.withColumn("weight", fn.when(fn.col("key") == 0, 1.0).otherwise(fn.col("weight")))
    counted = spared.groupBy("key").agg(*pf.count(), fn.max("weight").alias("most"))
    query = (
        counted.writeStream.queryName("exactly")
        .outputMode("complete")
        .foreachBatch(lambda frame, batch_id: found.update({batch_id: frame.collect()}))
        .start()
    )
    wait_for_batches(query, 1)
    from_batch = keep_by_property(query, 0.5)
    wait_for_batch(query, from_batch)
    query.stop()
    assert {(row.count_low, row.count_error) for row in found[0]} == {(row["count"], 0.0) for row in found[0]}
    later = next(row for row in found[from_batch] if row.key == 0)
    assert later.most == 1.0
    assert (later.count_low, later.count_error) == (None, None)


def test_a_restart_makes_nothing_exact_that_lost_rows_before(
    stopping: SparkSession,
    attach: Callable[..., Penstock],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Batches that kept everything lie in between, and a goal, observing only or nobody comes after it."""
    found: dict[int, list[Any]] = {}
    goals = {"counts": Goal(latency="3 seconds", minimum_accuracy=0.05)}

    def attempt(until: int, **how: Any) -> tuple[Any, Any]:
        pen = attach(**how)
        if not how.get("settings"):
            shed(pen, monkeypatch, lambda batch_id: 0.5 if batch_id in (1, 2) else 1.0, lambda _: None)
        guarded = pen.guard(backlog(stopping, 1000, keys="50"))
        # Key 0 is never dropped here: a group whose every weight is one although its batches dropped rows.
        spared = guarded.withColumn("weight", fn.when(fn.col("key") == 0, 1.0).otherwise(fn.col("weight")))
        counted = spared.groupBy("key").agg(*pf.count(), fn.max("weight").alias("most"))
        writer = counted.writeStream.queryName("counts").outputMode("complete")
        writer = writer.foreachBatch(lambda frame, batch_id: found.update({batch_id: frame.collect()}))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        wait_for_batch(query, until)
        query.stop()
        pen.detach()
        return next((row.count_low, row.most) for row in found[max(found)] if row.key == 0)

    assert attempt(4, goals=goals) == (None, 1.0)
    assert next(row.count_low == row["count"] for row in found[0] if row.key == 0)
    assert attempt(max(found) + 2) == (None, 1.0)
    assert attempt(max(found) + 2, goals=goals, settings={"observe.only": True}) == (None, 1.0)
    assert attempt(max(found) + 2, goals=goals) == (None, 1.0)


def test_a_guard_with_a_key_counts_its_keys_exactly_and_totals_over_keys(stopping: SparkSession) -> None:
    """Keys that stay are complete with weight one; their total, with keys as what was drawn, holds the truth."""
    found: dict[int, Any] = {}

    def estimate(frame: DataFrame, batch_id: int) -> None:
        by_key = frame.groupBy("key").agg(*pf.count_by_key("key"), *pf.sum_by_key("value", "key")).cache()
        total = by_key.agg(
            *pf.sum("count", "count_weight", name="total"),
            *pf.ratio("sum_value_share", "count_share", "count_share_weight", name="average"),
        )
        truth = {row.key: row.n for row in frame.groupBy("key").agg(fn.count("*").alias("n")).collect()}
        found[batch_id] = by_key.collect(), total.collect()[0], truth
        by_key.unpersist()

    guarded = guard_rows(backlog(stopping, 6000, keys=str(KEYS)), key="key")
    query = guarded.writeStream.queryName("by_key").foreachBatch(estimate).start()
    wait_for_batches(query, 1)
    from_batch = keep_by_property(query, 0.4)
    wait_for_batch(query, from_batch)
    query.stop()
    whole, shed = found[0], found[from_batch]
    assert all(row.count_complete and row.count_weight == 1.0 for row in whole[0])
    assert {row.count_weight for row in shed[0]} == {2.5}
    assert {row.key: row["count"] for row in shed[0]} == shed[2]
    assert 0.3 * KEYS < len(shed[0]) < 0.5 * KEYS
    assert any(row.count_complete for row in shed[0])
    assert shed[1].total_low <= 6000 <= shed[1].total_high
    # Two batches have not the same average: 6,000 values from 0 to 1 differ by 0.0053 (standard error).
    apart = abs(shed[1].average - whole[1].average)
    assert apart < 4 * (shed[1].average_error ** 2 + 0.0053**2) ** 0.5


def test_intervals_over_rows_behind_a_guard_with_a_key_are_warned_of(
    stopping: SparkSession, attach: Callable[..., Penstock]
) -> None:
    """On plans as Spark has them, with the remedy; the remedy itself is not warned of, nor a guard without a key."""
    pen = attach()
    rows = backlog(stopping, 2000, keys="50")
    keyed, plain = pen.guard(rows, key="key"), pen.guard(rows)
    by_key = keyed.groupBy("key").agg(*pf.count_by_key("key"), *pf.sum_by_key("value", "key"))
    total = by_key.agg(
        *pf.sum("count", "count_weight"),
        *pf.ratio("sum_value_share", "count_share", "count_share_weight", name="average"),
    )
    renamed = keyed.select("key", fn.col("weight").alias("standing"))
    since = pf.largest_weight(pf.window_start("timestamp", "10 seconds"))
    for frame, warned in (
        (keyed.groupBy().agg(*pf.count()), True),
        (keyed.groupBy("key").agg(*pf.sum("value")), True),
        (keyed.groupBy("key").agg(*pf.avg("value")), True),
        (keyed.groupBy().agg(*pf.ratio("value", "key")), True),
        (keyed.groupBy(fn.window("timestamp", "10 seconds")).agg(*pf.count(largest_weight=since)), True),
        (renamed.groupBy().agg(*pf.count("standing")), True),
        (plain.groupBy("key").agg(*pf.count(), *pf.sum("value"), *pf.avg("value")), False),
        (by_key, False),
        (total, False),
    ):
        findings = check_writer(frame.writeStream).findings
        assert [each.operator for each in findings] == (["count, sum or avg of rows"] if warned else [])
    writer = keyed.groupBy("key").agg(*pf.count()).writeStream.queryName("rows_of_keys").format("noop")
    goal = Goal(latency="5 seconds", minimum_accuracy=0.1)
    query = pen.govern(writer.outputMode("update"), goal).start()
    wait_for_batches(query, 1)
    (told,) = actions_of(pen.store, "rows_of_keys", ActionKind.PLAN_FINDING)
    assert "count_by_key or sum_by_key" in told.reason


def test_counts_by_key_where_they_do_not_apply_are_refused(
    stopping: SparkSession, attach: Callable[..., Penstock]
) -> None:
    """On plans as Spark has them: without a key, in other groups, and of a key whose type was changed."""
    pen = attach()
    rows = backlog(stopping, 2000, keys="50")
    keyed, plain = pen.guard(rows, key="key"), pen.guard(rows)
    spaced = pen.guard(rows.withColumnRenamed("key", "user (id)"), key="user (id)")
    mapped = keyed.mapInPandas(lambda frames: frames, "key long, value double, weight double")
    counts, text = pf.count_by_key("key"), fn.col("key").cast("string")
    for frame, refused in (
        (keyed.groupBy(fn.window("timestamp", "10 seconds"), "key").agg(*counts), None),
        (keyed.select(fn.col("key").alias("k"), "weight").groupBy("k").agg(*pf.count_by_key("k")), None),
        (keyed.groupBy("key", "value").agg(*pf.sum_by_key("value", "key")), None),
        (spaced.groupBy("user (id)").agg(*pf.count_by_key("user (id)")), None),
        (mapped.groupBy("key").agg(*counts), None),
        (plain.groupBy("key").agg(*counts), "no keys were drawn"),
        (keyed.groupBy("value").agg(*counts), "a group of other columns"),
        (keyed.groupBy(text.alias("name")).agg(*counts), "a group of other columns"),
        (keyed.rollup("key", "value").agg(*counts), "a group of other columns"),
        (keyed.withColumn("key", text).groupBy("key").agg(*counts), "as every guard on the way has drawn it"),
        (keyed.withColumn("key", fn.col("key").cast("int")).groupBy("key").agg(*counts), "as every guard on the way"),
    ):
        findings = check_writer(frame.writeStream).findings
        assert [each.verdict for each in findings] == ([] if refused is None else ["refuse"])
        assert refused is None or refused in findings[0].problem
    goal = Goal(latency="5 seconds", minimum_accuracy=0.1)
    wrong = plain.groupBy("key").agg(*counts).writeStream.queryName("no_key").format("noop").outputMode("update")
    with pytest.raises(InvalidGuardError, match=r"count_by_key or sum_by_key behind a guard.*give the guard the key"):
        pen.govern(wrong, goal).start()
    right = keyed.groupBy("key").agg(*counts).writeStream.queryName("with_key").format("noop").outputMode("update")
    query = pen.govern(right, goal).start()
    wait_for_batches(query, 1)
    assert not actions_of(pen.store, "with_key", ActionKind.PLAN_FINDING)


def test_totals_over_keys_hold_with_several_ratios_and_signs(spark: SparkSession) -> None:
    """A key of +10 at weight 1 and -9 at weight 2.5 stands for -12.5; totals and averages of many hold the truth.

    Values are tied to the ratio of their batch, and draws are hashes, so that the same rows stay in every run.
    """
    rows = spark.createDataFrame(
        [(1, 10.0, 1.0), (1, -9.0, 2.5), (2, 4.0, 1.0), (3, 5.0, 2.5), (3, -5.0, 1.0), (3, None, 2.5)],
        "key long, value double, weight double",
    )
    by_key = (*pf.count_by_key("key", largest_weight=2.5), *pf.sum_by_key("value", "key", largest_weight=2.5))
    found = {row.key: row for row in rows.groupBy("key").agg(*by_key).collect()}
    sums = {key: (row.sum_value, row.sum_value_share * row.sum_value_share_weight) for key, row in found.items()}
    assert sums == {1: (1.0, -12.5), 2: (4.0, 4.0), 3: (0.0, 7.5)}
    counts = {key: row.count_share * row.count_share_weight for key, row in found.items()}
    assert counts == pytest.approx({1: 3.5, 2: 1.0, 3: 6.0})
    weights = [(row.count_weight, row.count_share_weight, row.sum_value_share_weight) for row in found.values()]
    assert all(1.0 <= mean <= largest == same for mean, largest, same in weights)

    keys, rows_per_batch = 2000, 6000
    parts = []
    for batch, ratio in enumerate((0.8, 0.4)):
        part = spark.range(rows_per_batch).select((fn.col("id") % keys).alias("key"), fn.lit(batch).alias("batch"))
        part = part.withColumn("value", fn.pmod(fn.xxhash64("key", "batch"), fn.lit(7)) - (2.0 if batch else 0.0))
        told = fn.array(*(fn.lit(value) for value in Directive(0, ratio).to_array(answered=True)))
        decided = decide(part, told, key="key", arrival=None, utility=None, identity=())
        parts.append(decided.select("key", "value", "weight"))
    offered = parts[0].union(parts[1])
    truth = offered.agg(fn.sum("value").alias("total"), fn.avg("value").alias("average")).collect()[0]
    of_keys = offered.where("weight > 0").groupBy("key").agg(*by_key)
    row = of_keys.agg(
        *pf.sum("sum_value_share", "sum_value_share_weight", name="total", largest_weight=2.5),
        *pf.ratio("sum_value_share", "count_share", "count_share_weight", name="average", largest_weight=2.5),
        *pf.ratio("sum_value", "count", "count_weight", name="seen", largest_weight=2.5),
    ).collect()[0]
    apart = {
        "total": abs(row.total - truth.total) / row.total_error,
        "average": abs(row.average - truth.average) / row.average_error,
        "average of what was seen": abs(row.seen - truth.average) / row.seen_error,
    }
    show(f"standard errors from the truth: {apart}")
    assert max(apart["total"], apart["average"]) < 3.0
    assert apart["average of what was seen"] > 5.0


@dataclass(frozen=True)
class Behind:
    """What may be put behind guards: without a key, with one, and with one of which every column has another name."""

    plain: DataFrame
    keyed: DataFrame
    other: DataFrame
    rows: DataFrame
    table: DataFrame

    def pair(self, kind: str, on: str = "key = key_2") -> DataFrame:
        """Both guarded sides with a key, joined."""
        return self.keyed.join(self.other, fn.expr(on), kind)

    def sql(self, text: str) -> DataFrame:
        """A query of the rows behind the guard without a key, as ``kept``, and of a table."""
        return self.plain.sparkSession.sql(text, kept=self.plain, prices=self.table)


class Nothing(StatefulProcessor):
    """A function with state that gives nothing."""

    def init(self, handle: Any) -> None:
        """It has no state."""

    def handleInputRows(self, *_: Any) -> Iterator[Any]:  # noqa: N802 - Spark's name
        """Nothing for any row."""
        yield from ()

    def close(self) -> None:
        """Nothing is open."""


def with_state(_key: Any, frames: Iterator[Any], _state: Any) -> Iterator[Any]:
    """Give all rows back."""
    yield from frames


RIGHT: list[str] = []
KINDS: list[tuple[str, Callable[[Behind], DataFrame], list[str]]] = [
    (
        "row by row",
        lambda b: b.plain.where("key > 1").select("key", "weight").alias("a").withColumn("b", fn.rand()),
        RIGHT,
    ),
    ("watermark", lambda b: b.plain.withWatermark("timestamp", "5 seconds"), RIGHT),
    ("partitions", lambda b: b.plain.repartition(2).coalesce(1).repartition("key").hint("rebalance"), RIGHT),
    ("observed", lambda b: b.plain.observe("seen", fn.count("*")), RIGHT),
    ("mapInArrow", lambda b: b.plain.mapInArrow(lambda each: each, b.plain.schema), RIGHT),
    ("mapInPandas", lambda b: b.plain.mapInPandas(lambda each: each, b.plain.schema), RIGHT),
    ("named query", lambda b: b.sql("WITH few AS (SELECT key, weight FROM {kept}) SELECT * FROM few"), RIGHT),
    (
        "windows",
        lambda b: b.plain.groupBy(fn.window("timestamp", "9 seconds", "3 seconds")).agg(fn.sum("weight")),
        RIGHT,
    ),
    ("sorted counts", lambda b: b.plain.groupBy("key").agg(*pf.count()).sort("key"), RIGHT),
    ("any aggregate", lambda b: b.plain.groupBy("key").agg(fn.count("*")), ["warn count()"]),
    ("dropDuplicates", lambda b: b.plain.dropDuplicates(["key"]), ["refuse dropDuplicates"]),
    ("distinct", lambda b: b.plain.select("key").distinct(), ["refuse dropDuplicates"]),
    ("SELECT DISTINCT", lambda b: b.sql("SELECT DISTINCT key FROM {kept}"), ["refuse dropDuplicates"]),
    (
        "a named query twice",
        lambda b: b.sql("WITH few AS (SELECT key FROM {kept}) SELECT DISTINCT key FROM few"),
        ["refuse dropDuplicates"],
    ),
    ("distinct by key", lambda b: b.keyed.select("key").distinct(), ["warn dropDuplicates"]),
    ("distinct count", lambda b: b.plain.agg(fn.approx_count_distinct("key")), ["warn distinct count"]),
    ("subtract", lambda b: b.plain.select("key").subtract(b.table.select("key")), ["refuse subtract"]),
    ("subtract by key", lambda b: b.keyed.select("key").subtract(b.table.select("key")), ["warn subtract"]),
    ("exceptAll", lambda b: b.plain.select("key").exceptAll(b.table.select("key")), ["warn exceptAll"]),
    ("intersect", lambda b: b.plain.select("key").intersect(b.table.select("key")), ["refuse intersect"]),
    ("intersectAll", lambda b: b.plain.select("key").intersectAll(b.table.select("key")), ["warn intersectAll"]),
    ("table", lambda b: b.plain.join(fn.broadcast(b.table), "key"), RIGHT),
    ("table or null", lambda b: b.plain.join(b.table, "key", "left"), RIGHT),
    ("in table", lambda b: b.plain.join(b.table, "key", "leftsemi"), RIGHT),
    ("not in table", lambda b: b.plain.join(b.table, "key", "leftanti"), RIGHT),
    ("IN", lambda b: b.sql("SELECT * FROM {kept} WHERE key IN (SELECT key FROM {prices})"), RIGHT),
    ("all pairs", lambda b: b.plain.crossJoin(b.table), RIGHT),
    ("all of table", lambda b: b.plain.join(b.table, "key", "right"), ["refuse RightOuter join"]),
    ("all of both", lambda b: b.plain.join(b.table, "key", "full"), ["refuse FullOuter join"]),
    ("table in rows", lambda b: b.table.join(b.plain, "key", "leftsemi"), ["refuse LeftSemi join"]),
    ("unguarded rows", lambda b: b.plain.join(b.rows.select("key"), "key"), RIGHT),
    ("two sides", lambda b: b.pair("inner"), RIGHT),
    ("two sides and more", lambda b: b.pair("inner", "key = key_2 AND value > value_2"), RIGHT),
    ("two sides, half", lambda b: b.pair("leftsemi"), RIGHT),
    ("two sides or nulls", lambda b: b.pair("left"), ["warn LeftOuter join"]),
    (
        "two sides by or",
        lambda b: b.pair("inner", "key = key_2 OR value = value_2"),
        ["refuse join of two guarded sides"],
    ),
    ("two sides by not", lambda b: b.pair("inner", "NOT (key = key_2)"), ["refuse join of two guarded sides"]),
    ("two sides by others", lambda b: b.pair("inner", "value = value_2"), ["refuse join of two guarded sides"]),
    ("two plain sides", lambda b: b.plain.join(b.other, fn.expr("key = key_2")), ["refuse join of two guarded sides"]),
    (
        "applyInPandas",
        lambda b: b.plain.groupBy("key").applyInPandas(lambda each: each, b.plain.schema),
        ["warn FlatMapGroupsInPandas"],
    ),
    ("by key in pandas", lambda b: b.keyed.groupBy("key").applyInPandas(lambda each: each, b.keyed.schema), RIGHT),
    (
        "applyInPandasWithState",
        lambda b: b.plain.groupBy("key").applyInPandasWithState(
            with_state, "key long", "n long", "update", "NoTimeout"
        ),
        ["warn FlatMapGroupsInPandasWithState"],
    ),
    (
        "by key with state",
        lambda b: b.keyed.groupBy("key").applyInPandasWithState(
            with_state, "key long", "n long", "update", "NoTimeout"
        ),
        RIGHT,
    ),
    (
        "transformWithStateInPandas",
        lambda b: b.plain.groupBy("key").transformWithStateInPandas(Nothing(), "n long", "update", "None"),
        ["warn TransformWithStateInPySpark"],
    ),
    (
        "by key with a processor",
        lambda b: b.keyed.groupBy("key").transformWithStateInPandas(Nothing(), "n long", "update", "None"),
        RIGHT,
    ),
    ("explode", lambda b: b.plain.withColumn("each", fn.explode(fn.array("key", "value"))), ["warn explode"]),
    (
        "lateral",
        lambda b: b.sql("SELECT * FROM {kept} AS k, LATERAL (SELECT k.key + 1 AS next)"),
        ["warn lateral join"],
    ),
    ("limit", lambda b: b.plain.limit(5), ["warn limit"]),
    (
        "window function",
        lambda b: b.plain.withColumn("place", fn.row_number().over(Window.partitionBy("key").orderBy("offset"))),
        ["refuse window function"],
    ),
    ("union with ones", lambda b: b.plain.union(b.rows.withColumn("weight", fn.lit(1.0))), RIGHT),
    ("union", lambda b: b.plain.unionByName(b.rows, allowMissingColumns=True), ["warn union"]),
    ("union of guards", lambda b: b.plain.union(b.keyed), RIGHT),
    ("script", lambda b: b.sql("SELECT TRANSFORM(key) USING 'cat' AS (k) FROM {kept}"), ["warn ScriptTransformation"]),
]


@pytest.mark.parametrize(("make", "told"), [each[1:] for each in KINDS], ids=[each[0] for each in KINDS])
def test_every_kind_of_operator_has_its_verdict_on_plans_of_spark(
    spark: SparkSession, make: Callable[[Behind], DataFrame], told: list[str]
) -> None:
    """As the guide's table says it, on plans as Spark has them; nothing that is ordinary is warned of as unknown."""
    rows = backlog(spark, 2000, keys="50")
    keyed = guard_rows(rows, key="key")
    other = guard_rows(rows, key="key").select(*(fn.col(name).alias(f"{name}_2") for name in keyed.columns))
    table = spark.createDataFrame([(1, 2.0)], "key long, price double")
    frame = make(Behind(guard_rows(rows), keyed, other, rows, table))
    findings = check_writer(frame.writeStream).findings
    assert [f"{each.verdict} {each.operator}" for each in findings] == told


def test_counts_by_key_that_are_refused_would_call_thinned_keys_complete(spark: SparkSession) -> None:
    """Of a batch that was kept whole and one at 0.4: behind a guard with the key no complete count lacks a row.

    Draws are hashes, so that the same rows stay in every run of this test.
    """
    keys, rows_per_key = 300, 20

    def kept(key: str | None) -> DataFrame:
        parts = []
        for batch, ratio in enumerate((1.0, 0.4)):
            half = keys * rows_per_key // 2
            rows = spark.range(batch * half, (batch + 1) * half).withColumnRenamed("id", "offset")
            told = fn.array(*(fn.lit(value) for value in Directive(0, ratio).to_array(answered=True)))
            rows = rows.withColumn("key", fn.col("offset") % keys)
            decided = decide(rows, told, key=key, arrival=None, utility=None, identity=("offset",))
            parts.append(decided.where("weight > 0").select("key", "weight"))
        return parts[0].union(parts[1])

    complete, thinned = {}, {}
    for name, frame in (
        ("key", kept("key")),
        ("no key", kept(None)),
        ("text", kept("key").withColumn("key", fn.col("key").cast("string"))),
        ("int", kept("key").withColumn("key", fn.col("key").cast("int"))),
    ):
        counted = (
            frame.groupBy("key").agg(*pf.count_by_key("key", largest_weight=2.5)).where("count_complete").collect()
        )
        complete[name] = len(counted)
        thinned[name] = len([row for row in counted if row["count"] < rows_per_key])
    show(f"keys that are called complete: {complete}, of which rows were dropped: {thinned}")
    assert complete["key"] > 0.2 * keys
    assert thinned["key"] == 0
    assert min(thinned["no key"], thinned["text"], thinned["int"]) > 20


def test_a_joined_row_has_the_larger_weight(spark: SparkSession) -> None:
    """Also where an outer join has left one side empty."""
    sides = spark.createDataFrame([(2.0, 5.0), (4.0, None), (None, 3.0)], "left double, right double")
    assert [row[0] for row in sides.select(pf.joined_weight("left", "right")).collect()] == [5.0, 4.0, 3.0]


def test_joined_weights_add_up_to_all_pairs(spark: SparkSession) -> None:
    """Two guards with the same key that keep 0.3 and 0.6 of it, many sets of keys: in the mean they give all pairs.

    Draws are hashes of keys, so that the same keys stay in every run of this test.
    """
    sets, keys, rows_per_key = 300, 40, (3, 2)

    def guarded(side: int, keep_ratio: float) -> DataFrame:
        rows = spark.range(sets * keys * rows_per_key[side]).select((fn.col("id") % (sets * keys)).alias("key"))
        told = fn.array(*(fn.lit(value) for value in Directive(0, keep_ratio).to_array(answered=True)))
        decided = decide(rows, told, key="key", arrival=None, utility=None, identity=())
        return decided.where("weight > 0").select("key", fn.col("weight").alias(f"weight_{side}"))

    joined = guarded(0, 0.3).join(guarded(1, 0.6), "key")
    weights = {
        "joined": pf.joined_weight("weight_0", "weight_1"),
        "product": fn.col("weight_0") * fn.col("weight_1"),
        "other side": fn.col("weight_1"),
    }
    sums = [fn.sum(weight).alias(name) for name, weight in weights.items()]
    by_set = joined.groupBy((fn.col("key") / keys).cast("int").alias("set")).agg(*sums).collect()
    assert len(by_set) == sets
    truth = keys * rows_per_key[0] * rows_per_key[1]
    apart = {}
    for name in weights:
        found = np.array([row[name] for row in by_set])
        apart[name] = abs(found.mean() - truth) / (found.std(ddof=1) / sets**0.5)
    show(f"standard errors from the truth: {apart}")
    assert apart["joined"] < 3.0
    assert min(apart["product"], apart["other side"]) > 10.0


def test_duplicates_behind_a_guard_are_refused_at_the_start(
    stopping: SparkSession, attach: Callable[..., Penstock]
) -> None:
    """The error names operator and remedy, and nothing runs; behind a guard of that key the query starts, warned."""
    pen = attach()
    goal = Goal(latency="5 seconds", minimum_accuracy=0.1)
    plain = pen.guard(backlog(stopping, 2000, keys="2000")).dropDuplicates(["key"])
    writer = pen.govern(plain.writeStream.queryName("twice").format("noop"), goal)
    with pytest.raises(InvalidGuardError, match=r"dropDuplicates behind a guard.*give the guard the key"):
        writer.start()
    assert not stopping.streams.active
    keyed = pen.guard(backlog(stopping, 2000, keys="2000"), key="key").dropDuplicates(["key"])
    query = pen.govern(keyed.writeStream.queryName("once").format("noop"), goal).start()
    wait_for_batches(query, 1)
    told = actions_of(pen.store, "once", ActionKind.PLAN_FINDING)
    assert [action.target for action in told] == ["dropDuplicates"]
    assert "dropDuplicates" in str(pen.explain("once"))


def test_unchanged_code_with_duplicates_keeps_everything(
    stopping: SparkSession, attach: Callable[..., Penstock]
) -> None:
    """A query that is governed by its name cannot be refused: its guards keep all rows, and the log says why.

    At the load of which 3,012 values were once reported for 2,000, it reports 2,000.
    """
    pen = attach(
        goals={"values": Goal(latency="1 second", minimum_accuracy=0.01)}, settings={"admission.first_batch_rows": 4000}
    )
    rows = pen.guard(backlog(stopping, 4000, keys="200")).dropDuplicates(["key"]).groupBy().agg(*pf.count())
    found: list[Any] = []
    query = (
        rows.writeStream.queryName("values")
        .outputMode("complete")
        .foreachBatch(lambda frame, _: found.extend(frame.collect()))
        .start()
    )
    wait_for_batches(query, 3)
    query.stop()
    told = actions_of(pen.store, "values", ActionKind.PLAN_FINDING)
    assert any("the guards keep everything: dropDuplicates behind a guard" in action.reason for action in told)
    assert not actions_of(pen.store, "values", ActionKind.KEEP_RATIO)
    assert found[-1]["count"] == 200.0
