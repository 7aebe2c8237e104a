"""Single runs of a graph of queries on a broker, under a load in real time or on a backlog, and what was read."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import penstock
from penstock.apps.stages import INPUT, OBSERVED, StageGraph, StageStart, StageTopics, start_stage
from penstock.kafka.load import run_load
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model.profile import LoadProfile
from penstock.model.rows import PlainContent
from penstock.spark import internals
from penstock.spark.collector import offset_distance, parse_progress, parse_timestamp_s
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.kafka.client import KafkaClient

PARTITIONS = 2
_LOOK_EVERY_S = 0.5
_SEND_LONGER_S = 3.0


@dataclass(frozen=True, slots=True)
class StageBatch:
    """One finished batch with rows; how many it kept, and when the first and last of these came into the input."""

    stage: str
    started_s: float
    duration_s: float
    rows: int
    lag_rows: float
    core_s: float
    kept_rows: int = 0
    oldest_s: float | None = None
    newest_s: float | None = None

    @property
    def ended_s(self) -> float:
        """When it was done."""
        return self.started_s + self.duration_s

    @property
    def oldest_age_s(self) -> float | None:
        """Age of its oldest row when it was done; None where it kept none."""
        return None if self.oldest_s is None else max(0.0, self.ended_s - self.oldest_s)

    def young_rows(self, goal_s: float) -> float:
        """Rows that were younger than a goal when it was done; they arrived evenly from the first to the last.

        Examples
        --------
        Rows of 10 to 20 seconds:

        >>> batch = StageBatch("fast", 0.0, 30.0, 100, 0.0, 1.0, kept_rows=100, oldest_s=10.0, newest_s=20.0)
        >>> batch.young_rows(20.0), batch.young_rows(15.0), batch.young_rows(5.0)
        (100.0, 50.0, 0.0)
        """
        if self.oldest_s is None or self.newest_s is None:
            return 0.0
        since_s, span_s = self.ended_s - goal_s, self.newest_s - self.oldest_s
        if span_s <= 0:
            return float(self.kept_rows) if self.newest_s >= since_s else 0.0
        return self.kept_rows * min(1.0, max(0.0, (self.newest_s - since_s) / span_s))


@dataclass(frozen=True, slots=True)
class StageWindow:
    """Rows that each stage processed between two moments, those of batches that were not done yet included."""

    from_s: float
    until_s: float
    rows: dict[str, int]

    def rows_per_s(self, stage: str) -> float:
        """Throughput of a stage."""
        return self.rows[stage] / (self.until_s - self.from_s)


@dataclass(frozen=True, slots=True)
class GraphRun:
    """What a run did; ``load_began_s`` is when its first row was due, ``load_average`` the machine's at its end."""

    batches: list[StageBatch]
    window: StageWindow
    load_began_s: float
    load_average: float | None = None


@dataclass(slots=True)
class _Watched:
    """A query that runs, and up to where its reports and jobs are known."""

    query: StreamingQuery
    batch_id: int | None = None
    last_job: int = -1
    batches: list[StageBatch] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GraphRuns:
    """Runs of one graph in one session, each with topics of its own.

    The queries are ordinary ones, started under the names that the application declares. A governed run differs from a
    plain one by a call of :func:`penstock.attach` and a guard after each source.
    """

    graph: StageGraph
    spark: SparkSession
    client: KafkaClient
    place: Path
    batch_s: float
    goal_s: float

    def on_load(
        self,
        name: str,
        rows_per_s: float,
        settle_s: float,
        seconds: float,
        settings: Mapping[str, object] | None = None,
        most_rows: int | None = None,
    ) -> GraphRun:
        """Run under a load that comes at a rate; attached with these settings, plain Spark without.

        ``most_rows`` is a limit of Spark's own for every query.
        """
        topics = self._topics(name)
        profile = LoadProfile.constant(rows_per_s, seconds=settle_s + seconds + _SEND_LONGER_S)
        began_s: list[float] = []
        sender = threading.Thread(target=lambda: began_s.append(self._send(topics, profile)))
        sender.start()
        start = StageStart(self.place / name, self.batch_s, most_rows, has_guard=settings is not None)
        try:
            if settings is None:
                batches, window = self._run(topics, start, settle_s, seconds)
            else:
                application = self.graph.application(self.goal_s)
                with penstock.attach(self.spark, application, settings=settings, store=MemoryStore()):
                    batches, window = self._run(topics, start, settle_s, seconds)
            load_average = os.getloadavg()[0]
        finally:
            sender.join()
        return GraphRun(batches, window, began_s[0], load_average)

    def on_backlog(self, name: str, backlog_rows: int, most_rows: int, settle_s: float, seconds: float) -> GraphRun:
        """Run plain Spark with the same limit of its own for every query, on rows that all wait when it begins."""
        topics = self._topics(name)
        began_s = self._send(topics, LoadProfile.constant(1.0, seconds=1.0).with_backlog(backlog_rows))
        start = StageStart(self.place / name, self.batch_s, most_rows)
        batches, window = self._run(topics, start, settle_s, seconds)
        return GraphRun(batches, window, began_s)

    def _run(
        self, topics: StageTopics, start: StageStart, settle_s: float, seconds: float
    ) -> tuple[list[StageBatch], StageWindow]:
        """Let the queries run; counts the rows after so many seconds to settle.

        A batch counts with what its tasks have read by then, not when it is done: batches of plain Spark under overload
        last longer than any window.
        """
        watched: dict[str, _Watched] = {}
        try:
            for stage in self.graph.stages:
                watched[stage.name] = _Watched(start_stage(self.spark, self.graph, stage, topics, start))
            self._look_until(time.time() + settle_s, watched)
            from_s, before = time.time(), self._rows_read(watched)
            self._look_until(from_s + seconds, watched)
            until_s, after = time.time(), self._rows_read(watched)
        finally:
            # Those that read others first.
            for each in reversed(watched.values()):
                each.query.stop()
        rows = {stage: after[stage] - before[stage] for stage in after}
        return [batch for each in watched.values() for batch in each.batches], StageWindow(from_s, until_s, rows)

    def _look_until(self, until_s: float, watched: Mapping[str, _Watched]) -> None:
        while time.time() < until_s:
            time.sleep(_LOOK_EVERY_S)
            for stage, each in watched.items():
                failure = each.query.exception()
                if failure is not None:
                    raise failure
                for text in internals.reports_after(each.query, each.batch_id):
                    self._note(stage, each, parse_progress(text))

    def _note(self, stage: str, watched: _Watched, progress: Mapping[str, Any]) -> None:
        watched.batch_id = int(progress["batchId"])
        rows = int(progress["numInputRows"])
        if not rows:
            return
        core_s, watched.last_job = internals.core_seconds(self.spark, str(watched.query.runId), watched.last_job)
        started_s = parse_timestamp_s(progress["timestamp"])
        duration_s = progress["durationMs"]["triggerExecution"] / 1000.0
        kept_rows, oldest_s, newest_s = kept(progress)
        watched.batches.append(
            StageBatch(
                stage, started_s, duration_s, rows, waiting_rows(progress), core_s or 0.0, kept_rows, oldest_s, newest_s
            )
        )

    def _rows_read(self, watched: Mapping[str, _Watched]) -> dict[str, int]:
        return {stage: internals.rows_read(self.spark, str(each.query.runId)) for stage, each in watched.items()}

    def _topics(self, name: str) -> StageTopics:
        topics = StageTopics(self.client.bootstrap, name)
        for topic in (INPUT, *(stage.name for stage in self.graph.stages)):
            self.client.create_topic(topics.of(topic), PARTITIONS)
        return topics

    def _send(self, topics: StageTopics, profile: LoadProfile) -> float:
        target = KafkaTarget(self.client.bootstrap, topics.of(INPUT))
        _, began_s = run_load(profile, PlainContent(), target, processes=1, seconds=None, watch=lambda _: None)
        return began_s


def waiting_rows(progress: Mapping[str, Any]) -> float:
    """Rows that a batch found waiting beyond those that it read.

    Examples
    --------
    >>> waiting_rows({"sources": [{"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 9, "1": 7}}}]})
    4.0
    """
    distances = [offset_distance(source["endOffset"], source["latestOffset"]) for source in progress["sources"]]
    return max(0.0, sum(distance for distance in distances if distance is not None))


def kept(progress: Mapping[str, Any]) -> tuple[int, float | None, float | None]:
    """Rows that a batch kept, and when the first and last of them came into the input.

    Examples
    --------
    >>> kept({"observedMetrics": {"penstock_stage": {"rows": 3, "oldest_s": 1.5, "newest_s": 2.5}}})
    (3, 1.5, 2.5)
    >>> kept({"observedMetrics": {}})
    (0, None, None)
    """
    found = (progress.get("observedMetrics") or {}).get(OBSERVED) or {}
    oldest_s, newest_s = found.get("oldest_s"), found.get("newest_s")
    return (
        int(found.get("rows", 0)),
        None if oldest_s is None else float(oldest_s),
        None if newest_s is None else float(newest_s),
    )
