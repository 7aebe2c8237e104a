"""Directives on a real session: every batch asks once, is told its own, and goes on when nobody answers."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as fn

import penstock.functions as pf
from live.helpers import compilations, load_rows, send, show, wait_for_batches, wait_until
from penstock.model.directive import LATE_PART, Directive
from penstock.spark import directives, internals
from penstock.spark.collector import guard_signal, observed_metrics
from penstock.spark.directives import TIMEOUT_PROPERTY, Answer, DirectiveServer, Question, directive_properties
from penstock.spark.guard import guard_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.model import GuardSignal
    from penstock.spark.internals import RunningBatch

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

ROWS_PER_BATCH = 4000
PATIENT = (TIMEOUT_PROPERTY, repr(60.0))
"""How long batches of these tests wait for an answer: none of them is about the bound, which a busy machine exceeds."""


def ratio_of(batch_id: int) -> float:
    """A keep ratio that is another in every batch."""
    return 0.2 + 0.05 * (batch_id % 11)


@dataclass
class Driver:
    """Answers, and writes down who asked, when, and what was known of the batch then."""

    query: StreamingQuery | None = None
    late_before_s: float | None = None
    questions: list[Question] = field(default_factory=list)
    seen: dict[int, RunningBatch | None] = field(default_factory=dict)
    took_s: list[float] = field(default_factory=list)

    def answer(self, question: Question) -> Answer:
        """The batch's own ratio."""
        began_s = time.perf_counter()
        self.questions.append(question)
        if self.query is not None:
            execution = internals.execution_of(self.query)
            sources = internals.sources_of(execution)
            self.seen[question.batch_id] = internals.running_batch(execution, question.batch_id, sources)
        directive = Directive(question.batch_id, ratio_of(question.batch_id), 0.01, self.late_before_s)
        self.took_s.append(time.perf_counter() - began_s)
        return Answer(directive)


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def server(driver: Driver) -> Iterator[DirectiveServer]:
    with DirectiveServer(driver.answer, host="127.0.0.1") as running:
        yield running


def rows_of(spark: SparkSession, **options: str) -> DataFrame:
    """Batches of one size, as many as are asked for."""
    chosen = {"maxRowsPerBatch": str(ROWS_PER_BATCH), **options}
    return load_rows(spark, "constant:rate=0,backlog=10000000", **chosen)


def start(frame: DataFrame, name: str) -> StreamingQuery:
    """A query that does nothing with its rows."""
    return frame.writeStream.queryName(name).format("noop").start()


def guards_of(query: StreamingQuery) -> dict[int, GuardSignal]:
    """What the guards of a query reported, by batch."""
    found = {report.batchId: observed_metrics(json.loads(report.json)) for report in query.recentProgress}
    signals = {batch_id: guard_signal(observed) for batch_id, observed in found.items()}
    return {batch_id: guard for batch_id, guard in signals.items() if guard is not None}


def asked_batches(driver: Driver, query: StreamingQuery) -> list[int]:
    """Batches that asked and are reported, in the order in which they asked."""
    reported = guards_of(query)
    return [question.batch_id for question in driver.questions if question.batch_id in reported]


def wait_for_answers(query: StreamingQuery, count: int) -> None:
    """Wait until so many batches are reported that had an answer."""
    wait_until(lambda: sum(guard.answered for guard in guards_of(query).values()) >= count, f"{count} answered batches")


def test_every_batch_asks_once_and_obeys(stopping: SparkSession, driver: Driver, server: DirectiveServer) -> None:
    """One question a batch, with the ids of query and run; the offsets of the batch are known while it asks.

    The very batch that asks keeps what it was told, though that is another ratio each time.
    """
    query = start(guard_rows(rows_of(stopping)), "asking")
    wait_for_batches(query, 1)
    driver.query = query
    send(query, [PATIENT, *directive_properties(server.endpoint, server.token, None)])
    wait_for_answers(query, 10)
    query.stop()

    asked = asked_batches(driver, query)
    assert len(asked) == len(set(asked)) >= 10
    assert {(each.query_id, each.run_id, each.operator) for each in driver.questions} == {
        (str(query.id), str(query.runId), None)
    }
    guards = guards_of(query)
    reports = {report.batchId: report for report in query.recentProgress}
    for batch_id in asked:
        guard, running = guards[batch_id], driver.seen[batch_id]
        assert guard.answered
        assert guard.keep_ratio == ratio_of(batch_id)
        assert guard.kept_ratio == pytest.approx(ratio_of(batch_id), abs=0.04)
        assert running is not None
        assert running.offsets[0].end == reports[batch_id].sources[0].endOffset
    assert not any(guard.answered for batch_id, guard in guards.items() if batch_id < min(asked))
    took = sorted(driver.took_s)
    show(
        f"{len(asked)} batches asked; median {1000 * took[len(took) // 2]:.1f} ms to answer, most {1000 * took[-1]:.0f}"
    )


def test_two_guards_share_one_question(stopping: SparkSession, driver: Driver, server: DirectiveServer) -> None:
    """Both sides of a join are told the same, by one question a batch."""
    sides = [
        guard_rows(rows_of(stopping, keys="200", maxRowsPerBatch="500"), key="key").select(
            "offset", "key", fn.col("weight").alias(name)
        )
        for name in ("left", "right")
    ]
    weights: list[Any] = []
    writer = sides[0].join(sides[1], ["offset", "key"]).writeStream.queryName("two_guards")
    query = writer.foreachBatch(
        lambda frame, batch_id: weights.append((batch_id, frame.select("left", "right").distinct().collect()))
    ).start()
    wait_for_batches(query, 1)
    send(query, [PATIENT, *directive_properties(server.endpoint, server.token, None)])
    wait_for_answers(query, 4)
    query.stop()
    asked = asked_batches(driver, query)
    assert len(asked) == len(set(asked)) >= 4
    found = dict(weights)
    for batch_id in asked:
        expected = pytest.approx(1 / ratio_of(batch_id))
        assert [(row.left, row.right) for row in found[batch_id]] == [(expected, expected)]


def test_a_stopped_server_costs_one_batch_nothing_more(
    stopping: SparkSession, driver: Driver, server: DirectiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the server the query goes on with what it falls back on, and asks no more."""
    # However long the batches take, it is not yet time to ask again.
    monkeypatch.setattr(directives, "ASK_AGAIN_AFTER_S", 3600.0)
    query = start(guard_rows(rows_of(stopping)), "left_alone")
    wait_for_batches(query, 1)
    send(query, [PATIENT, *directive_properties(server.endpoint, server.token, Directive(0, 0.9, 0.05))])
    wait_for_answers(query, 3)
    server.close()
    last = query.lastProgress
    assert last is not None
    before, attempts = last.batchId, []
    wait_until(lambda: max(guards_of(query)) >= before + 3, "batches without an answer")
    # Somebody listens there again: whoever still asks would be heard.
    host, _, port = server.endpoint.rpartition(":")
    with socket.create_server((host, int(port))) as listener:
        listener.settimeout(0.2)
        seen = max(guards_of(query))
        while max(guards_of(query)) < seen + 6:
            try:
                attempts.append(listener.accept())
            except TimeoutError:
                continue
    query.stop()
    guards = guards_of(query)
    without = [guard for batch_id, guard in guards.items() if batch_id > before + 1]
    assert len(without) >= 6
    assert {(guard.answered, guard.keep_ratio) for guard in without} == {(False, 0.9)}
    assert all(guard.kept_ratio == pytest.approx(0.9, abs=0.03) for guard in without)
    assert attempts == []


def test_nothing_is_compiled_anew(stopping: SparkSession, driver: Driver, server: DirectiveServer) -> None:
    """Over thirty batches, each with another keep ratio and moment, Spark compiles no class."""
    driver.late_before_s = time.time()
    query = start(guard_rows(rows_of(stopping)), "compiled")
    wait_for_batches(query, 1)
    send(query, [PATIENT, *directive_properties(server.endpoint, server.token, None)])
    wait_for_answers(query, 4)
    before = compilations(stopping)
    asked = len(driver.questions)
    driver.late_before_s += 1.0
    wait_for_answers(query, 35)
    assert len(driver.questions) - asked >= 30
    assert compilations(stopping) == before
    query.stop()


def test_nothing_is_compiled_anew_for_what_results_are_told(
    stopping: SparkSession, driver: Driver, server: DirectiveServer
) -> None:
    """Results of windows and of whole lives are told another moment in every batch, which no code is made of."""
    since = pf.window_start("timestamp", "10 seconds")
    told = pf.count(largest_weight=pf.largest_weight(since)) + pf.count(name="ever")
    counted = guard_rows(rows_of(stopping)).groupBy(fn.window("timestamp", "10 seconds")).agg(*told)
    query = counted.writeStream.format("memory").outputMode("complete").queryName("told").start()
    wait_for_batches(query, 1)
    send(query, [PATIENT, *directive_properties(server.endpoint, server.token, None)])
    wait_for_answers(query, 6)
    before = compilations(stopping)
    for answers in range(7, 15):
        driver.late_before_s = time.time() - 3600.0
        wait_for_answers(query, answers)
    assert compilations(stopping) == before
    query.stop()
    for row in stopping.table("told").collect():
        assert row.count_low < row["count"] < row.count_high
        assert row.ever_low < row["ever"] < row.ever_high


def test_rows_before_the_moment_go_first(stopping: SparkSession, driver: Driver, server: DirectiveServer) -> None:
    """Rows that arrived before the moment in the directive stay with an eighth of the ratio; after it none is late."""
    query = start(guard_rows(rows_of(stopping)), "late")
    wait_for_batches(query, 1)
    driver.late_before_s = time.time() + 3600.0
    send(query, [PATIENT, *directive_properties(server.endpoint, server.token, None)])
    wait_for_answers(query, 3)
    all_late = guards_of(query)
    driver.late_before_s = 1000.0
    wait_for_answers(query, 6)
    query.stop()
    late = [guard for guard in all_late.values() if guard.answered]
    assert all(guard.late_rows == guard.offered_rows for guard in late)
    assert all(guard.kept_ratio == pytest.approx(guard.keep_ratio * LATE_PART, abs=0.03) for guard in late)
    last = guards_of(query)[max(guards_of(query))]
    assert last.late_rows == 0
    assert last.kept_ratio == pytest.approx(last.keep_ratio, abs=0.04)
