"""The operator on a real session: it learns what rows cost, sheds by that, and says what fails."""

from __future__ import annotations

import datetime as dt
import json
import sys
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as fn

import penstock.functions as pf
from live.helpers import compilations, load_rows, show, wait_for_batches, wait_until
from penstock.errors import InvalidGuardError
from penstock.model.directive import Directive
from penstock.spark import guard_spec, internals
from penstock.spark.collector import guard_reports, observed_metrics
from penstock.spark.directives import Answer, DirectiveServer, Question, directive_properties
from penstock.spark.operator import Operator, run_operator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

# Workers have no tests to import: the functions below go to them as they are.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS_PER_BATCH = 1000
CHEAP_S, DEAR_S = 5e-5, 4.5e-4
"""Costs one to nine: of such rows 72 per cent fit into half of the work."""


def spin(row: dict[str, Any]) -> dict[str, Any]:
    """Take a time that depends on whether the key is odd."""
    until_s = time.perf_counter() + (DEAR_S if row["key"] % 2 else CHEAP_S)
    while time.perf_counter() < until_s:
        pass
    return {"offset": row["offset"], "is_dear": row["key"] % 2}


def spin_evenly(row: dict[str, Any]) -> dict[str, Any]:
    """Take the same time for every row, beside which a pause of the machine is nothing."""
    until_s = time.perf_counter() + DEAR_S
    while time.perf_counter() < until_s:
        pass
    return {"offset": row["offset"], "key": row["key"]}


def endless(spark: SparkSession) -> DataFrame:
    """Batches of the same size, as many as are asked for."""
    return load_rows(spark, "constant:rate=0,backlog=1000000", maxRowsPerBatch=str(ROWS_PER_BATCH), keys="100")


class Kept:
    """What came out of a query, batch by batch."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Any]] = defaultdict(list)

    def take(self, frame: DataFrame, batch_id: int) -> None:
        """Remember a batch."""
        self.rows[batch_id] = frame.collect()


class Driver:
    """Tells batches what to keep, with what the operator has learned by then; never two things to the same batch."""

    def __init__(self) -> None:
        self.operator: Operator | None = None
        self.keep_ratio = 1.0
        self.told: dict[int, Answer] = {}
        self.questions: list[Question] = []
        self._lock = threading.Lock()

    def answer(self, question: Question) -> Answer:
        """What was told before, or what holds now."""
        with self._lock:
            self.questions.append(question)
            if question.batch_id not in self.told:
                assert self.operator is not None
                assert question.operator == self.operator.costs_name
                self.operator.absorb()
                directive = Directive(question.batch_id, self.keep_ratio, 0.1)
                self.told[question.batch_id] = Answer(directive, self.operator.costs())
            return self.told[question.batch_id]

    def keep(self, keep_ratio: float) -> int:
        """Tell batches to keep a part of the work; gives the first of them."""
        with self._lock:
            self.keep_ratio = keep_ratio
            return max(self.told) + 1


@pytest.fixture
def driver(stopping: SparkSession) -> Iterator[Driver]:
    """A driver that all queries of the test ask, from their first batch on."""
    answering = Driver()
    with DirectiveServer(answering.answer, host="127.0.0.1") as server:
        properties = directive_properties(server.endpoint, server.token, None)
        for name, value in properties:
            stopping.conf.set(name, value)
        yield answering
        for query in stopping.streams.active:
            query.stop()
        for name, _ in properties:
            stopping.conf.unset(name)


def start(rows: DataFrame, kept: Kept, name: str) -> StreamingQuery:
    """Start a query whose rows are remembered."""
    return rows.writeStream.queryName(name).foreachBatch(kept.take).start()


def wait_for_batch(query: StreamingQuery, batch_id: int) -> None:
    """Wait until a batch is reported."""

    def reported() -> bool:
        assert query.exception() is None, f"the query died: {query.exception()}"
        last = query.lastProgress
        return last is not None and last.batchId >= batch_id

    wait_until(reported, f"batch {batch_id}")


@pytest.mark.slow
def test_learns_what_rows_cost_and_sheds_the_dear_ones(stopping: SparkSession, driver: Driver) -> None:
    """Costs by key are near the real ones, half the work keeps most cheap rows, and weights add up to all rows."""
    kept = Kept()
    rows, driver.operator = run_operator(endless(stopping), spin, "offset bigint, is_dear bigint", "key")
    query = start(rows, kept, "learning")
    wait_for_batches(query, 4)
    from_batch = driver.keep(0.5)
    wait_for_batch(query, from_batch + 2)
    query.stop()

    costs_s = driver.operator.costs_s(list(range(100)))
    cheap_s, dear_s = sorted(costs_s[0::2])[25], sorted(costs_s[1::2])[25]
    # A busy machine adds to every row what others take; no row takes less than it spins.
    assert cheap_s >= CHEAP_S
    assert dear_s >= DEAR_S
    assert dear_s > cheap_s

    shed = [row for batch_id, found in kept.rows.items() if batch_id >= from_batch for row in found]
    reports = [report for report in query.recentProgress if report.batchId >= from_batch]
    observed = [guard for report in reports for guard in guard_reports(observed_metrics(json.loads(report.json)))]
    offered = sum(metrics["offered_rows"] for metrics in observed)
    work = sum(metrics["kept_work"] for metrics in observed) / sum(metrics["offered_work"] for metrics in observed)
    cheap = sum(not row.is_dear for row in shed) / offered
    dear = sum(row.is_dear for row in shed) / offered
    show(f"kept {cheap + dear:.2f} of the rows with {work:.2f} of the work; cheap {cheap_s:.1e} s, dear {dear_s:.1e} s")
    assert work == pytest.approx(0.5, abs=0.08)
    assert cheap > 1.3 * dear
    assert sum(row.weight for row in shed) == pytest.approx(offered, rel=0.1)


@pytest.mark.parametrize("strategy", ["uniform", "las", "semantic"])
def test_sheds_by_strategy(strategy: str, stopping: SparkSession, driver: Driver) -> None:
    """Every strategy drops about half of the rows when told half, and reports what it kept."""
    kept = Kept()
    utility = "1 + key % 2" if strategy == "semantic" else None
    rows, driver.operator = run_operator(
        endless(stopping), spin_evenly, "offset bigint, key bigint", "key", strategy=strategy, utility=utility
    )
    query = start(rows, kept, f"by_{strategy}")
    wait_for_batches(query, 2)
    from_batch = driver.keep(0.5)
    wait_for_batch(query, from_batch + 1)
    query.stop()
    found = [row for batch_id, batch in kept.rows.items() if batch_id >= from_batch for row in batch]
    reports = [report for report in query.recentProgress if report.batchId >= from_batch]
    observed = [guard for report in reports for guard in guard_reports(observed_metrics(json.loads(report.json)))]
    offered = sum(metrics["offered_rows"] for metrics in observed)
    assert {(metrics["keep_ratio"], metrics["answered"]) for metrics in observed} == {(0.5, 1.0)}
    assert sum(metrics["kept_rows"] for metrics in observed) / offered == pytest.approx(0.5, abs=0.15)
    assert sum(row.weight for row in found) == pytest.approx(offered, rel=0.15)
    if strategy == "semantic":
        assert sum(row.key % 2 for row in found) > 0.55 * len(found)


def same_row(row: dict[str, Any]) -> dict[str, Any]:
    """Give offset and key."""
    return {"offset": row["offset"], "key": row["key"]}


def offered_by_batch(query: StreamingQuery) -> dict[int, float]:
    """Rows that the operators of a query were offered, by batch."""
    reports = {report.batchId: observed_metrics(json.loads(report.json)) for report in query.recentProgress}
    return {batch_id: sum(each["offered_rows"] for each in guard_reports(found)) for batch_id, found in reports.items()}


@pytest.mark.parametrize("drawn", ["by_identity", "by_chance"])
def test_nothing_is_compiled_anew_for_an_operator(drawn: str, stopping: SparkSession, driver: Driver) -> None:
    """Spark compiles no class for batches that keep other parts of their rows, drawn by identity or by chance."""
    rows = endless(stopping)
    if drawn == "by_chance":
        rows = rows.withColumn("offset", fn.lit(0))
    scored, driver.operator = run_operator(rows, same_row, "offset bigint, key bigint", "key", strategy="uniform")
    assert ("by_chance" in driver.operator.mark) == (drawn == "by_chance")
    query = scored.writeStream.queryName("scored").format("noop").start()
    wait_for_batches(query, 4)
    from_batch = driver.keep(0.9)
    wait_for_batch(query, from_batch + 2)
    before = compilations(stopping)
    for keep_ratio in (0.8, 0.7, 0.6, 0.5, 0.4):
        from_batch = driver.keep(keep_ratio)
        wait_for_batch(query, from_batch + 1)
    assert compilations(stopping) == before
    query.stop()
    told = [guard_reports(observed_metrics(json.loads(report.json))) for report in query.recentProgress]
    assert {0.9, 0.8, 0.7, 0.6, 0.5, 0.4} <= {each["keep_ratio"] for found in told for each in found}


def test_an_operator_whose_frame_is_read_twice_reports_its_rows_once(stopping: SparkSession, driver: Driver) -> None:
    """A batch that is counted and then collected runs the function twice, over the same rows."""
    rows, driver.operator = run_operator(endless(stopping), same_row, "offset bigint, key bigint", "key")

    def read_twice(frame: DataFrame, _: int) -> None:
        assert frame.count() == len(frame.collect()) == ROWS_PER_BATCH

    query = rows.writeStream.queryName("twice").foreachBatch(read_twice).start()
    wait_for_batches(query, 3)
    query.stop()
    assert set(offered_by_batch(query).values()) == {ROWS_PER_BATCH}


def test_a_frame_that_is_kept_after_a_look_at_it_reports_all_rows(stopping: SparkSession, driver: Driver) -> None:
    """The first partition is run for the look, the others for what follows; one task may read all of them."""
    rows, driver.operator = run_operator(endless(stopping), same_row, "offset bigint, key bigint", "key")

    def look_and_write(frame: DataFrame, _: int) -> None:
        kept = frame.persist()
        assert not kept.isEmpty()
        assert kept.coalesce(1).count() == ROWS_PER_BATCH
        kept.unpersist()

    queries = [
        rows.writeStream.queryName("looked").foreachBatch(look_and_write).start(),
        rows.coalesce(1).writeStream.queryName("coalesced").format("noop").start(),
    ]
    for query in queries:
        wait_for_batches(query, 3)
        query.stop()
        assert set(offered_by_batch(query).values()) == {ROWS_PER_BATCH}


def give_value(row: dict[str, Any]) -> dict[str, Any]:
    """Give the value."""
    return {"value": row["value"]}


def test_rows_drawn_by_chance_are_the_same_for_both_who_read_a_batch(stopping: SparkSession, driver: Driver) -> None:
    """A batch that goes to two places must not have kept other rows in each."""
    unnamed = endless(stopping).withColumn("offset", fn.lit(0))
    rows, driver.operator = run_operator(unnamed, give_value, "value double", "key", strategy="uniform")
    kept: list[tuple[list[Any], list[Any]]] = []

    def read_twice(frame: DataFrame, _: int) -> None:
        kept.append((sorted(frame.collect()), sorted(frame.collect())))

    query = rows.writeStream.queryName("both").foreachBatch(read_twice).start()
    wait_for_batches(query, 2)
    from_batch = driver.keep(0.5)
    wait_for_batch(query, from_batch + 2)
    query.stop()
    assert all(first == second for first, second in kept)
    assert sum(len(first) < ROWS_PER_BATCH for first, _ in kept) >= 2


def give_many(row: dict[str, Any]) -> dict[str, Any]:
    """Forty columns."""
    return {f"c{number}": row["offset"] for number in range(40)}


def test_an_operator_with_many_columns_is_found_in_the_plan(stopping: SparkSession) -> None:
    """Spark leaves out what comes after the first 25 columns where it writes a plan."""
    wide = ", ".join(f"c{number} bigint" for number in range(40))
    rows, operator = run_operator(endless(stopping), give_many, wide, "key")
    query = rows.select("c1").writeStream.queryName("wide").format("noop").start()
    try:
        execution = internals.execution_of(query)
        wait_until(lambda: internals.is_planned(execution), "a plan")
        assert internals.plan_mentions(execution, operator.mark)
        found = guard_spec.book.in_plan(internals.plan_text(execution))
        assert found is not None
        assert found.operators == ("give_many (economic)",)
    finally:
        query.stop()


@pytest.mark.slow
def test_estimates_over_an_operator_hold_the_truth(stopping: SparkSession, driver: Driver) -> None:
    """A weighted count over kept rows has the true count inside its interval, widened to three errors in five."""
    found: dict[int, Any] = {}
    schema = "offset bigint, key bigint"
    rows, driver.operator = run_operator(endless(stopping), same_row, schema, "key", strategy="uniform")

    def estimate(frame: DataFrame, batch_id: int) -> None:
        found[batch_id] = frame.agg(*pf.count(), *pf.avg("key"), fn.count("*").alias("kept")).collect()[0]

    query = rows.writeStream.queryName("estimates").foreachBatch(estimate).start()
    wait_for_batches(query, 2)
    from_batch = driver.keep(0.3)
    wait_for_batch(query, from_batch + 3)
    query.stop()
    shed = {batch_id: row for batch_id, row in found.items() if batch_id >= from_batch}
    offered = {report.batchId: report.numInputRows for report in query.recentProgress}
    for batch_id, row in shed.items():
        assert row.kept < 0.5 * offered.get(batch_id, ROWS_PER_BATCH)
        assert abs(row["count"] - offered.get(batch_id, ROWS_PER_BATCH)) < 4 * row.count_error
        assert row.avg_key_low < row.avg_key < row.avg_key_high


def test_a_batch_frame_is_run_whole(spark: SparkSession) -> None:
    """Outside a stream there is nothing to shed for; the function runs on every row, with weights of one."""
    frame = spark.range(50).withColumn("key", fn.col("id") % 3).withColumn("offset", fn.col("id"))
    result, _ = run_operator(frame, same_row, "offset bigint, key bigint", "key", arrival=None)
    assert result.columns == ["offset", "key", "weight"]
    assert sorted(row.offset for row in result.collect()) == list(range(50))
    assert result.where("weight != 1").count() == 0


def fails_on_five(row: dict[str, Any]) -> dict[str, Any]:
    """A function with a mistake."""
    if row["key"] == 5:
        raise LookupError("no such client")
    return same_row(row)


def test_a_failing_function_is_named_in_the_query_s_exception(stopping: SparkSession) -> None:
    """The query's own exception tells the function, the row's key and the original error."""
    rows, _ = run_operator(endless(stopping), fails_on_five, "offset bigint, key bigint", "key")
    query = rows.writeStream.queryName("failing").format("noop").start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(60)
    expected = "operator fails_on_five: the function failed on a row with key = 5: LookupError: no such client"
    assert expected in str(caught.value)


def test_a_null_key_is_named_in_the_query_s_exception(stopping: SparkSession) -> None:
    """A row without a key has no cost; the text names the column and what to do."""
    holes = endless(stopping).withColumn("client", fn.when(fn.col("key") != 5, fn.col("key").cast("string")))
    rows, _ = run_operator(holes, same_row, "offset bigint, key bigint", "client")
    query = rows.writeStream.queryName("holes").format("noop").start()
    with pytest.raises(StreamingQueryException, match="operator key 'client' is null: fill it"):
        query.awaitTermination(60)


@pytest.mark.parametrize(
    "key", ["'text'", "X'00FF'", "true", "DATE'2026-02-03'", "CAST(7 AS tinyint)", "CAST(7 AS bigint)"]
)
def test_keys_of_every_allowed_type_are_learned(key: str, spark: SparkSession) -> None:
    """Whole numbers, text, bytes, booleans and dates serve as keys, and their costs can be asked for."""
    frame = spark.range(40).withColumn("key", fn.expr(key))
    rows, operator = run_operator(frame, give_id, "id bigint", "key", arrival=None)
    assert operator.costs() is None
    rows.collect()
    operator.absorb()
    assert operator.costs() is not None
    value = frame.first()["key"]  # type: ignore[index]
    value = bytes(value) if isinstance(value, bytearray) else value
    assert isinstance(value, str | bytes | bool | dt.date | int)
    assert 0 < operator.costs_s([value])[0] < 0.01


def give_id(row: dict[str, Any]) -> dict[str, Any]:
    """Give the id."""
    return {"id": row["id"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": "client"}, "operator key 'client' is not there; name one of: offset, timestamp, key, value"),
        ({"key": "value"}, "operator key 'value' is of type double: it must be a whole number, text"),
        ({"arrival": "at"}, "arrival column 'at' is not there"),
        ({"arrival": "key"}, "arrival column 'key' is of type bigint: cast it to timestamp"),
        ({"strategy": "best"}, "operator strategy 'best' is not known: use one of uniform, economic, semantic, las"),
        ({"strategy": "semantic"}, "operator strategy 'semantic' needs utility="),
        ({"strategy": "las", "utility": "key"}, "operator strategy 'las' takes no utility"),
        ({"schema": "id bigint, weight double"}, "operator schema has the column 'weight'"),
        ({"schema": "bigint"}, "operator schema 'bigint' names no columns"),
    ],
)
def test_what_cannot_serve_is_refused_at_once(arguments: dict[str, Any], message: str, stopping: SparkSession) -> None:
    """Mistakes show when the operator is built, not in a task, and name the remedy."""
    chosen = {"schema": "offset bigint, key bigint", "key": "key", **arguments}
    with pytest.raises(InvalidGuardError, match=message):
        run_operator(endless(stopping), same_row, **chosen)


@pytest.mark.slow
def test_a_batch_that_runs_again_finds_the_costs_of_the_first_time(
    stopping: SparkSession, driver: Driver, tmp_path: Path
) -> None:
    """A batch that was not committed keeps the same rows after a restart, though more is known of costs by then."""
    kept = [Kept(), Kept()]
    last = -1
    for run in range(2):
        rows, driver.operator = run_operator(endless(stopping), spin, "offset bigint, is_dear bigint", "key")
        writer = rows.writeStream.queryName("again").foreachBatch(kept[run].take)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        wait_for_batches(query, 4 if run == 0 else 1)
        if run == 0:
            from_batch = driver.keep(0.5)
            wait_for_batch(query, from_batch + 2)
        query.stop()
        if run == 0:
            commits = sorted((int(path.name), path) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
            last, path = commits[-1]
            # As if the driver had died between the end of the batch and its commit. The next may be planned already.
            offsets = (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")
            planned = [entry for entry in offsets if int(entry.name) > last]
            for entry in (path, *planned):
                entry.unlink()
                (entry.parent / f".{entry.name}.crc").unlink(missing_ok=True)
    assert last >= from_batch
    first, again = ({row["offset"] for row in found.rows[last]} for found in kept)
    assert 0 < len(first) < ROWS_PER_BATCH
    assert again == first
