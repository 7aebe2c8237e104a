"""What a guard adds to every micro-batch, whatever its size.

Small batches of a thin query, so that what counts is the time that a batch takes for itself: planning, jobs, commits.
The same query runs plain, with a guard that keeps everything, with one that is told another keep ratio in every batch,
on rows without an identity, and plain and with guards over two sources. Each guarded turn has a plain one right beside
it, before it in one round and behind it in the next: a machine that is slower in one minute than in another must not be
a guard's. Before the first of them every mode has run long enough for Java to have compiled what it runs.

Nobody asks for anything while batches are counted but for their number, some times a second: to fetch whole reports
keeps the interpreter busy in which guarded batches are answered.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import psutil
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
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.spark.directives import Question

PLAIN, PLAIN_OF_TWO = "plain", "plain, two sources"
GUARD, GUARD_CHANGING, TWO_GUARDS = "guard, keeps all", "guard, ratio changes", "two guards"
BY_CHANCE = "guard, rows without identity"
COMPARED = {GUARD: PLAIN, GUARD_CHANGING: PLAIN, BY_CHANCE: PLAIN, TWO_GUARDS: PLAIN_OF_TWO}
"""The plain mode that each guarded one is compared with."""
MOST_MS, MOST_RATIO, MOST_OF_TWO_MS = 40.0, 0.10, 60.0
BATCH_ROWS, BATCHES, WARM_UP_BATCHES = 2_000, 26, 6
FIRST_BATCHES = 60
"""Batches of every mode before the first that counts: Spark's own code is compiled by then, and that of the query."""
_LOOK_EVERY_S = 0.25
_IDENTITY = "value"
_LOOSE_GOAL = Goal(latency="1 hour", minimum_accuracy=0.5)
_DRAWS, _DRAW_SEED, _INTERVAL = 2_000, 20_077, (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Pair:
    """Milliseconds of every batch of a plain turn and of the guarded one beside it."""

    plain_ms: tuple[float, ...]
    guarded_ms: tuple[float, ...]

    @property
    def added_ms(self) -> float:
        """What the guard adds: the difference of the medians."""
        return statistics.median(self.guarded_ms) - statistics.median(self.plain_ms)


@dataclass(frozen=True, slots=True)
class Bustle:
    """How busy the machine was: its load before and after, and the cores that others kept busy meanwhile."""

    load_before: float
    load_after: float
    others_cores: float

    def to_dict(self) -> dict[str, object]:
        """All figures, rounded."""
        return {
            "load_average_before": round(self.load_before, 2),
            "load_average_after": round(self.load_after, 2),
            "cores_busy_with_others": round(self.others_cores, 2),
        }


@dataclass(frozen=True, slots=True)
class BatchOverheadResult:
    """Pairs of every guarded mode, one for each round, and how busy the machine was."""

    pairs: dict[str, tuple[Pair, ...]]
    bustle: Bustle

    def plain_ms(self, mode: str) -> float:
        """The plain batch beside a mode: median over rounds."""
        return statistics.median(statistics.median(pair.plain_ms) for pair in self.pairs[mode])

    def added_ms(self, mode: str) -> float:
        """What a guarded mode adds to a batch: median over rounds.

        Examples
        --------
        >>> pairs = (Pair((200.0,), (230.0,)), Pair((210.0,), (245.0,)), Pair((400.0,), (436.0,)))
        >>> result = BatchOverheadResult({GUARD: pairs}, Bustle(0.1, 0.2, 0.0))
        >>> result.added_ms(GUARD), result.allowed_ms(GUARD), result.is_met(GUARD)
        (35.0, 40.0, True)
        """
        return statistics.median(pair.added_ms for pair in self.pairs[mode])

    def interval_ms(self, mode: str) -> tuple[float, float]:
        """Within what the added time lies in 95 of 100 cases, had other rounds and other batches been drawn.

        Examples
        --------
        >>> steady = BatchOverheadResult({GUARD: (Pair((200.0, 200.0), (230.0, 230.0)),) * 3}, Bustle(0.1, 0.2, 0.0))
        >>> steady.interval_ms(GUARD)
        (30.0, 30.0)
        """
        draw, pairs = np.random.default_rng(_DRAW_SEED), self.pairs[mode]
        added = [
            np.median(_drawn(draw, pair.guarded_ms), axis=1) - np.median(_drawn(draw, pair.plain_ms), axis=1)
            for pair in pairs
        ]
        chosen = draw.integers(len(pairs), size=(_DRAWS, len(pairs)))
        found = np.median(np.take_along_axis(np.stack(added, axis=1), chosen, axis=1), axis=1)
        low, high = np.percentile(found, _INTERVAL)
        return float(low), float(high)

    def allowed_ms(self, mode: str) -> float:
        """What it may add: 40 ms or a tenth of the plain batch, whichever is larger; 60 ms for two guards."""
        return MOST_OF_TWO_MS if mode == TWO_GUARDS else max(MOST_MS, MOST_RATIO * self.plain_ms(mode))

    def is_met(self, mode: str) -> bool:
        """Whether it adds no more than it may."""
        return self.added_ms(mode) <= self.allowed_ms(mode)

    def rows(self) -> list[dict[str, object]]:
        """The figures of every guarded mode, units in the keys."""
        rows: list[dict[str, object]] = []
        for mode, pairs in self.pairs.items():
            low_ms, high_ms = self.interval_ms(mode)
            rows.append(
                {
                    "mode": mode,
                    "plain_ms": round(self.plain_ms(mode), 1),
                    "added_ms": round(self.added_ms(mode), 1),
                    "added_low_ms": round(low_ms, 1),
                    "added_high_ms": round(high_ms, 1),
                    "smallest_ms": round(min(pair.added_ms for pair in pairs), 1),
                    "largest_ms": round(max(pair.added_ms for pair in pairs), 1),
                    "allowed_ms": round(self.allowed_ms(mode), 1),
                    "is_met": self.is_met(mode),
                }
            )
        return rows

    def to_dict(self) -> dict[str, object]:
        """All figures."""
        return {
            "bench": "batch-overhead",
            "rounds": max((len(pairs) for pairs in self.pairs.values()), default=0),
            "batches_per_turn": BATCHES - WARM_UP_BATCHES,
            "rows_per_batch": BATCH_ROWS,
            **self.bustle.to_dict(),
            "rows": self.rows(),
        }


def _drawn(draw: np.random.Generator, values: Sequence[float]) -> np.ndarray:
    """As many values again, drawn from them, in each of many rows."""
    return draw.choice(np.asarray(values), size=(_DRAWS, len(values)))


def bench_batch_overhead(*, rounds: int = 5, say: Callable[[str], None]) -> BatchOverheadResult:
    """Measure every guarded mode beside its plain one, round after round, when all of them are warm."""
    found: dict[str, list[Pair]] = {mode: [] for mode in COMPARED}
    with local_session("penstock bench batch-overhead") as spark:
        for mode in dict.fromkeys([*COMPARED.values(), *COMPARED]):
            say(f"warm-up: {mode}: {statistics.median(_turn(spark, mode, FIRST_BATCHES)):.0f} ms a batch")
        load_before, began = os.getloadavg()[0], _Clocks.now()
        for number in range(1, rounds + 1):
            for mode, plain in COMPARED.items():
                taken = {each: _turn(spark, each) for each in ((plain, mode) if number % 2 else (mode, plain))}
                pair = Pair(taken[plain], taken[mode])
                found[mode].append(pair)
                beside = statistics.median(pair.plain_ms)
                say(f"round {number} of {rounds}: {mode}: {pair.added_ms:+.0f} ms to a batch of {beside:.0f} ms")
        bustle = Bustle(load_before, os.getloadavg()[0], began.others_cores(_Clocks.now()))
    return BatchOverheadResult({mode: tuple(pairs) for mode, pairs in found.items()}, bustle)


@dataclass(frozen=True, slots=True)
class _Clocks:
    """Seconds by the clock, and those that cores were busy with anything and with this program, Java included."""

    at_s: float
    busy_s: float
    own_s: float

    @classmethod
    def now(cls) -> _Clocks:
        machine, process = psutil.cpu_times(), psutil.Process()
        idle_s = machine.idle + getattr(machine, "iowait", 0.0)
        own_s = 0.0
        for each in (process, *process.children(recursive=True)):
            try:
                times = each.cpu_times()
            except psutil.NoSuchProcess:
                continue
            own_s += times.user + times.system + times.children_user + times.children_system
        return cls(time.monotonic(), sum(machine) - idle_s - getattr(machine, "guest", 0.0), own_s)

    def others_cores(self, later: _Clocks) -> float:
        """Cores that others kept busy until later."""
        busy_s = (later.busy_s - self.busy_s) - (later.own_s - self.own_s)
        return max(0.0, busy_s / (later.at_s - self.at_s))


def _turn(spark: SparkSession, mode: str, batches: int = BATCHES) -> tuple[float, ...]:
    """Milliseconds of every batch of a turn but the first ones."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
        if mode in (PLAIN, PLAIN_OF_TWO):
            rows = list(_sources(spark, 1 if mode == PLAIN else 2))
            return _batch_ms(_writer_of(rows, folder).start(), batches)
        if mode == GUARD_CHANGING:
            return _changing_ms(spark, folder, batches)
        with attach(spark, store=SqliteStore(f"{folder}/penstock.db")) as pen:
            identity = None if mode == BY_CHANCE else _IDENTITY
            rows = [pen.guard(each, identity=identity) for each in _sources(spark, 2 if mode == TWO_GUARDS else 1)]
            return _batch_ms(pen.govern(_writer_of(rows, folder), _LOOSE_GOAL).start(), batches)


def _changing_ms(spark: SparkSession, folder: str, batches: int) -> tuple[float, ...]:
    """A query whose batches are each told another ratio, by a driver that does not have to think."""

    def answer(question: Question) -> Answer:
        return Answer(Directive(question.batch_id, 0.5 + question.batch_id % 50 / 100, 0.01, 1_000.0))

    with DirectiveServer.for_session(spark, answer) as server:
        query = _writer_of([guard_rows(each, identity=_IDENTITY) for each in _sources(spark, 1)], folder).start()
        for name, value in directive_properties(server.endpoint, server.token, None):
            internals.send_to_tasks(internals.execution_of(query), name, value)
        return _batch_ms(query, batches)


def _sources(spark: SparkSession, count: int) -> Iterator[DataFrame]:
    for _ in range(count):
        reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS // count)
        yield reader.option("numPartitions", spark.sparkContext.defaultParallelism).load()


def _writer_of(frames: list[DataFrame], folder: str) -> DataStreamWriter:
    rows = frames[0] if len(frames) == 1 else frames[0].union(frames[1])
    counted = rows.groupBy((F.col("value") % 10).alias("group")).count()
    writer = counted.writeStream.format("noop").outputMode("update").queryName("batch_overhead")
    return writer.option("checkpointLocation", f"{folder}/checkpoint")


def _batch_ms(query: StreamingQuery, batches: int) -> tuple[float, ...]:
    while query.isActive:
        newest = internals.last_report(query)
        if newest is not None and json.loads(newest)["batchId"] >= batches:
            break
        time.sleep(_LOOK_EVERY_S)
    query.stop()
    error = query.exception()
    if error is not None:
        raise error
    reports = query.recentProgress[WARM_UP_BATCHES:batches]
    return tuple(float(report.durationMs["triggerExecution"]) for report in reports)
