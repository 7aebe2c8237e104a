"""What a guard adds to every micro-batch, whatever its size.

Small batches of a thin query, so that what counts is the time that a batch takes for itself: planning, jobs, commits.
The same query runs plain, with a guard that keeps everything, with one that is told another keep ratio in every batch,
on rows without an identity, and plain and with guards over two sources; one after another, in turns. A turn counts with
the median of its batches after the first ones, and each guarded turn is compared with the plain one of its own round.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.apps.session import local_session
from penstock.model import Goal
from penstock.model.directive import Directive
from penstock.spark import internals
from penstock.spark.attach import attach
from penstock.spark.directives import Answer, DirectiveServer, directive_properties
from penstock.spark.guard import guard_rows
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.spark.directives import Question

PLAIN, PLAIN_OF_TWO = "plain", "plain, two sources"
GUARD, GUARD_CHANGING, TWO_GUARDS = "guard, keeps all", "guard, ratio changes", "two guards"
BY_CHANCE = "guard, rows without identity"
MODES = (PLAIN, GUARD, GUARD_CHANGING, BY_CHANCE, PLAIN_OF_TWO, TWO_GUARDS)
MOST_MS, MOST_RATIO, MOST_OF_TWO_MS = 40.0, 0.10, 60.0
BATCH_ROWS, BATCHES, WARM_UP_BATCHES = 2_000, 16, 6
_COMPARED = {GUARD: PLAIN, GUARD_CHANGING: PLAIN, BY_CHANCE: PLAIN, TWO_GUARDS: PLAIN_OF_TWO}
_IDENTITY = "value"
_LOOSE_GOAL = Goal(latency="1 hour", minimum_accuracy=0.5)


@dataclass(frozen=True, slots=True)
class BatchOverheadResult:
    """Milliseconds a batch of every mode, one median for each round, and how busy the machine was."""

    batch_ms: dict[str, tuple[float, ...]]
    load_average: float

    def added_ms(self, mode: str) -> float:
        """What a guarded mode adds to a batch: median over rounds of the difference to the plain turn of the round.

        Examples
        --------
        >>> result = BatchOverheadResult({PLAIN: (200.0, 210.0, 400.0), GUARD: (230.0, 245.0, 436.0)}, 0.2)
        >>> result.added_ms(GUARD), result.allowed_ms(GUARD), result.is_met(GUARD)
        (35.0, 40.0, True)
        """
        plain = self.batch_ms[_COMPARED[mode]]
        return statistics.median(own - other for own, other in zip(self.batch_ms[mode], plain, strict=True))

    def allowed_ms(self, mode: str) -> float:
        """What it may add: 40 ms or a tenth of the plain batch, whichever is larger; 60 ms for two guards."""
        if mode == TWO_GUARDS:
            return MOST_OF_TWO_MS
        return max(MOST_MS, MOST_RATIO * statistics.median(self.batch_ms[_COMPARED[mode]]))

    def is_met(self, mode: str) -> bool:
        """Whether it adds no more than it may."""
        return self.added_ms(mode) <= self.allowed_ms(mode)

    def rows(self) -> list[dict[str, object]]:
        """The figures of every mode, units in the keys."""
        rows: list[dict[str, object]] = []
        for mode, found in self.batch_ms.items():
            compared = mode in _COMPARED
            rows.append(
                {
                    "mode": mode,
                    "median_ms": round(statistics.median(found), 1),
                    "smallest_ms": round(min(found), 1),
                    "largest_ms": round(max(found), 1),
                    "added_ms": round(self.added_ms(mode), 1) if compared else None,
                    "allowed_ms": round(self.allowed_ms(mode), 1) if compared else None,
                    "is_met": self.is_met(mode) if compared else None,
                }
            )
        return rows

    def to_dict(self) -> dict[str, object]:
        """All figures."""
        return {
            "bench": "batch-overhead",
            "rounds": len(self.batch_ms[PLAIN]),
            "batches_per_turn": BATCHES - WARM_UP_BATCHES,
            "rows_per_batch": BATCH_ROWS,
            "load_average": round(self.load_average, 2),
            "rows": self.rows(),
        }


def bench_batch_overhead(*, rounds: int = 5, say: Callable[[str], None]) -> BatchOverheadResult:
    """Measure all modes in turns; a first round only warms up."""
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    with local_session("penstock bench batch-overhead") as spark:
        for number in range(rounds + 1):
            # Every other round runs backwards: what drifts during a round must not be a guard's.
            for mode in MODES if number % 2 else reversed(MODES):
                taken_ms = _turn(spark, mode)
                if number:
                    found[mode].append(taken_ms)
                say(f"round {number} of {rounds}: {mode}: {taken_ms:.0f} ms a batch")
    return BatchOverheadResult({mode: tuple(values) for mode, values in found.items()}, os.getloadavg()[0])


def _turn(spark: SparkSession, mode: str) -> float:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
        if mode in (PLAIN, PLAIN_OF_TWO):
            rows = list(_sources(spark, 1 if mode == PLAIN else 2))
            return _batch_ms(_writer_of(rows, folder).start())
        if mode == GUARD_CHANGING:
            return _changing_ms(spark, folder)
        with attach(spark, store=SqliteStore(f"{folder}/penstock.db")) as pen:
            identity = None if mode == BY_CHANCE else _IDENTITY
            rows = [pen.guard(each, identity=identity) for each in _sources(spark, 2 if mode == TWO_GUARDS else 1)]
            return _batch_ms(pen.govern(_writer_of(rows, folder), _LOOSE_GOAL).start())


def _changing_ms(spark: SparkSession, folder: str) -> float:
    """A query whose batches are each told another ratio, by a driver that does not have to think."""

    def answer(question: Question) -> Answer:
        return Answer(Directive(question.batch_id, 0.5 + question.batch_id % 50 / 100, 0.01, 1_000.0))

    with DirectiveServer.for_session(spark, answer) as server:
        query = _writer_of([guard_rows(each, identity=_IDENTITY) for each in _sources(spark, 1)], folder).start()
        for name, value in directive_properties(server.endpoint, server.token, None):
            internals.send_to_tasks(internals.execution_of(query), name, value)
        return _batch_ms(query)


def _sources(spark: SparkSession, count: int) -> Iterator[DataFrame]:
    for _ in range(count):
        reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS // count)
        yield reader.option("numPartitions", spark.sparkContext.defaultParallelism).load()


def _writer_of(frames: list[DataFrame], folder: str) -> DataStreamWriter:
    rows = frames[0] if len(frames) == 1 else frames[0].union(frames[1])
    counted = rows.groupBy((F.col("value") % 10).alias("group")).count()
    writer = counted.writeStream.format("noop").outputMode("update").queryName("batch_overhead")
    return writer.option("checkpointLocation", f"{folder}/checkpoint")


def _batch_ms(query: StreamingQuery) -> float:
    while len(query.recentProgress) < BATCHES and query.isActive:
        time.sleep(0.1)
    reports = query.recentProgress[WARM_UP_BATCHES:BATCHES]
    query.stop()
    error = query.exception()
    if error is not None:
        raise error
    return statistics.median(report.durationMs["triggerExecution"] for report in reports)
