"""Runs a graph of queries joined by topics for a while, with read limits from a governor or as plain Spark."""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.apps.stages import StageGraph, StageStart, StageTopics, start_stage
from penstock.control.graph_flow import BatchDone
from penstock.control.graph_governor import BatchCost, GraphGovernor
from penstock.spark import internals
from penstock.spark.collector import offset_distance, parse_progress, parse_timestamp_s
from penstock.spark.listener import Listener
from penstock.spark.sources import LiveSource, build_limit, describe_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent
    from pyspark.sql.streaming.query import StreamingQuery

_TICK_S = 0.2
# Spark may tell that a batch is done before it has counted its job's tasks, by a moment.
_COST_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class StageBatch:
    """One finished batch with rows; ``limit_rows`` is what the next one was allowed, None for plain Spark."""

    stage: str
    started_s: float
    duration_s: float
    rows: int
    lag_rows: float
    core_s: float
    limit_rows: int | None

    @property
    def ended_s(self) -> float:
        """When it was done."""
        return self.started_s + self.duration_s


@dataclass(frozen=True, slots=True)
class StageWindow:
    """Rows that each stage processed between two moments, those of batches that were not done yet included."""

    from_s: float
    until_s: float
    rows: dict[str, int]

    def rows_per_s(self, stage: str) -> float:
        """Throughput of a stage."""
        return self.rows[stage] / (self.until_s - self.from_s)


@dataclass(slots=True)
class _Running:
    query: StreamingQuery
    sources: tuple[LiveSource, ...] = ()
    last_job: int = -1
    started_s: float | None = None


class StageRun:
    """The queries of a graph while they run; ends with all of them stopped."""

    def __init__(
        self,
        spark: SparkSession,
        graph: StageGraph,
        topics: StageTopics,
        start: StageStart,
        governor: GraphGovernor | None = None,
    ) -> None:
        self._spark = spark
        self._topics = topics
        self._governor = governor
        self._reports: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._listener = Listener(self, internals.probe(spark))
        self._spark.streams.addListener(self._listener)
        self.batches: list[StageBatch] = []
        self._running = {
            stage.name: _Running(start_stage(spark, graph, stage, topics, start)) for stage in graph.stages
        }

    def on_started(self, event: QueryStartedEvent) -> None:
        """Nothing to do: first limits are options of the readers."""

    def on_progress(self, text: str) -> None:
        """A batch is done; told on a thread of Spark's, so it is only put aside."""
        self._reports.put(text)

    def on_terminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing to do: a failure is found by :meth:`run`."""

    def run(self, settle_s: float, seconds: float) -> StageWindow:
        """Let the queries run and answer every batch with a limit; counts the rows after so many seconds to settle.

        A batch counts with what its tasks have read by then, not when it is done: batches of plain Spark under overload
        last longer than any window.
        """
        try:
            self._answer_until(time.time() + settle_s)
            from_s, before = time.time(), self._rows_read()
            self._answer_until(from_s + seconds)
            until_s, after = time.time(), self._rows_read()
            return StageWindow(from_s, until_s, {stage: after[stage] - before[stage] for stage in after})
        finally:
            self.stop()

    def _answer_until(self, until_s: float) -> None:
        while time.time() < until_s:
            time.sleep(_TICK_S)
            for _ in range(self._reports.qsize()):
                self._on_report(self._reports.get())
            for running in self._running.values():
                failure = running.query.exception()
                if failure is not None:
                    raise failure

    def _rows_read(self) -> dict[str, int]:
        return {
            stage: internals.rows_read(self._spark, str(running.query.runId))
            for stage, running in self._running.items()
        }

    def stop(self) -> None:
        """Stop all queries, those that read others first."""
        for running in reversed(self._running.values()):
            running.query.stop()
        self._spark.streams.removeListener(self._listener)

    def _on_report(self, text: str) -> None:
        progress = parse_progress(text)
        stage = str(progress.get("name") or "").removeprefix(f"{self._topics.run}-")
        running = self._running.get(stage)
        rows = int(progress["numInputRows"])
        if running is None or not rows:
            return
        started_s = parse_timestamp_s(progress["timestamp"])
        duration_s = progress["durationMs"]["triggerExecution"] / 1000.0
        core_s, running.last_job = internals.core_seconds(self._spark, str(running.query.runId), running.last_job)
        if core_s == 0.0 and time.time() < started_s + duration_s + _COST_WITHIN_S:
            self._reports.put(text)
            return
        period_s = duration_s if running.started_s is None else max(duration_s, started_s - running.started_s)
        running.started_s = started_s
        lag_rows = waiting_rows(progress)
        limit_rows = None
        if self._governor is not None:
            done = BatchDone(stage, started_s + duration_s, lag_rows, period_s)
            limit_rows = self._governor.on_batch(done, BatchCost(rows, core_s))
            self._limit(running, limit_rows)
        self.batches.append(StageBatch(stage, started_s, duration_s, rows, lag_rows, core_s, limit_rows))

    def _limit(self, running: _Running, rows: int) -> None:
        execution = internals.execution_of(running.query)
        if not running.sources:
            running.sources = describe_sources(execution, ())
        for source in running.sources:
            internals.set_read_limit(execution, source.java_source, build_limit(self._spark, source, rows))


def waiting_rows(progress: dict[str, Any]) -> float:
    """Rows that a batch found waiting beyond those that it read.

    Examples
    --------
    >>> waiting_rows({"sources": [{"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 9, "1": 7}}}]})
    4.0
    """
    distances = [offset_distance(source["endOffset"], source["latestOffset"]) for source in progress["sources"]]
    return max(0.0, sum(distance for distance in distances if distance is not None))
