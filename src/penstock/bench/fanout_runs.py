"""Single runs of a graph of queries on a broker: under a load in real time, or on a backlog."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.apps.stage_run import StageBatch, StageRun, StageWindow
from penstock.apps.stages import INPUT, StageGraph, StageStart, StageTopics
from penstock.kafka.load import run_load
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model.profile import LoadProfile
from penstock.model.rows import PlainContent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.control.graph_governor import GraphGovernor
    from penstock.kafka.client import KafkaClient

PARTITIONS = 2
_SEND_LONGER_S = 3.0


@dataclass(frozen=True, slots=True)
class GraphRun:
    """What a run did; ``load_began_s`` is when its first row was due."""

    batches: list[StageBatch]
    window: StageWindow
    load_began_s: float


@dataclass(frozen=True, slots=True)
class GraphRuns:
    """Runs of one graph in one session, each with topics of its own."""

    graph: StageGraph
    spark: SparkSession
    client: KafkaClient
    place: Path
    batch_s: float

    def on_load(
        self,
        name: str,
        rows_per_s: float,
        settle_s: float,
        seconds: float,
        first_rows: Mapping[str, int] | None = None,
        governor: GraphGovernor | None = None,
    ) -> GraphRun:
        """Run under a load that comes at a rate; without first limits it is plain Spark."""
        topics = self._topics(name)
        profile = LoadProfile.constant(rows_per_s, seconds=settle_s + seconds + _SEND_LONGER_S)
        began_s: list[float] = []
        sender = threading.Thread(target=lambda: began_s.append(self._send(topics, profile)))
        sender.start()
        try:
            run = StageRun(self.spark, self.graph, topics, self._start(name, first_rows), governor)
            window = run.run(settle_s, seconds)
        finally:
            sender.join()
        return GraphRun(run.batches, window, began_s[0])

    def on_backlog(self, name: str, backlog_rows: int, limit_rows: int, settle_s: float, seconds: float) -> GraphRun:
        """Run with the same limit for every query on rows that all wait when it begins."""
        topics = self._topics(name)
        began_s = self._send(topics, LoadProfile.constant(1.0, seconds=1.0).with_backlog(backlog_rows))
        limits = dict.fromkeys((stage.name for stage in self.graph.stages), limit_rows)
        run = StageRun(self.spark, self.graph, topics, self._start(name, limits))
        window = run.run(settle_s, seconds)
        return GraphRun(run.batches, window, began_s)

    def _topics(self, name: str) -> StageTopics:
        topics = StageTopics(self.client.bootstrap, name)
        for topic in (INPUT, *(stage.name for stage in self.graph.stages)):
            self.client.create_topic(topics.of(topic), PARTITIONS)
        return topics

    def _start(self, name: str, first_rows: Mapping[str, int] | None) -> StageStart:
        return StageStart(self.place / name, self.batch_s, first_rows)

    def _send(self, topics: StageTopics, profile: LoadProfile) -> float:
        target = KafkaTarget(self.client.bootstrap, topics.of(INPUT))
        _, began_s = run_load(profile, PlainContent(), target, processes=1, seconds=None, watch=lambda _: None)
        return began_s
