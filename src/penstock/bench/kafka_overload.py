"""Overload on Kafka: an application at a multiple of its capacity, plain and governed, on a broker of its own.

The load is a multiple of what the application does while nobody writes. What it can do under that load is less, for
generator and broker share the machine with it: that is measured right before and right after the governed run, on a
backlog, while the same load is written to a topic that nobody reads.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.apps.run import run_app
from penstock.apps.session import local_session
from penstock.apps.streams import KafkaStream
from penstock.kafka import jars
from penstock.kafka.broker import running_cluster
from penstock.kafka.broker_config import ClusterSpec
from penstock.kafka.client import KafkaClient
from penstock.kafka.load import run_load
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model.profile import LoadProfile
from penstock.process.ports import free_port
from penstock.spark.attach import attach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from penstock.apps.catalog import App
    from penstock.apps.run import QueryFigures, RunTick
    from penstock.model import Goal

PLAIN, GOVERNED = "plain", "governed"
LEAST_KEPT_OF_CAPACITY = 0.9
_PARTITIONS = 4
_BACKLOG_ROWS = 2_000_000
_BACKLOG_S = 30.0
_CAPACITY_SETTINGS = {"admission.first_batch_rows": 20_000, "admission.growth_factor": 16}
_SEND_LONGER_S = 3.0
_BESIDE_SETTLE_S = 10.0
"""Batches of the first seconds find the length that the goal allows, and are not counted."""
_CALM_SHARE = 0.2
"""Of the full load: below the capacity as long as that is at least a fifth of it."""


@dataclass(frozen=True, slots=True)
class KafkaOverload:
    """Figures of both runs under the same load."""

    goal: Goal
    capacity_rows_per_s: float
    """While nobody writes: the load is a multiple of it."""
    loaded_capacities_rows_per_s: tuple[float, ...]
    """While the load is written, around the governed run."""
    load_rows_per_s: float
    runs: dict[str, QueryFigures]

    @property
    def loaded_capacity_rows_per_s(self) -> float:
        """What the application can do beside generator and broker."""
        return statistics.mean(self.loaded_capacities_rows_per_s)

    @property
    def kept_of_capacity_ratio(self) -> float:
        """Part of the rows that the governed run kept, over the part for which there is capacity under that load."""
        return self._kept_of(self.loaded_capacity_rows_per_s)

    def _kept_of(self, capacity_rows_per_s: float) -> float:
        return self.runs[GOVERNED].kept_fraction / min(1.0, capacity_rows_per_s / self.load_rows_per_s)

    @property
    def is_met(self) -> bool:
        """Whether the governed run kept its goal and what fits, and its lag did not grow while plain Spark's did."""
        governed, plain = self.runs[GOVERNED], self.runs[PLAIN]
        assert self.goal.latency_s is not None
        in_time = governed.latency_p95_s is not None and governed.latency_p95_s <= self.goal.latency_s
        bounded = (governed.lag_end_rows or 0) <= self.goal.latency_s * self.load_rows_per_s
        keeps_up = bounded and (plain.lag_end_rows or 0) > (governed.lag_end_rows or 0)
        return in_time and keeps_up and self.kept_of_capacity_ratio >= LEAST_KEPT_OF_CAPACITY

    def to_dict(self) -> dict[str, object]:
        """As one JSON object."""
        return {
            "bench": "kafka",
            "goal_s": self.goal.latency_s,
            "capacity_rows_per_s": round(self.capacity_rows_per_s, 1),
            "loaded_capacities_rows_per_s": [round(found, 1) for found in self.loaded_capacities_rows_per_s],
            "load_rows_per_s": round(self.load_rows_per_s, 1),
            "kept_of_capacity_ratio": round(self.kept_of_capacity_ratio, 3),
            "kept_of_unloaded_capacity_ratio": round(self._kept_of(self.capacity_rows_per_s), 3),
            "least_kept_of_capacity_ratio": LEAST_KEPT_OF_CAPACITY,
            "is_met": self.is_met,
            "rows": [{"run": name, **figures.to_dict()} for name, figures in self.runs.items()],
        }


def bench_kafka_overload(
    app: App,
    goal: Goal,
    *,
    times: float,
    seconds: float,
    calm_s: float,
    store: Path | None = None,
    say: Callable[[str], None],
) -> KafkaOverload:
    """Find the capacity on a standing backlog, then run plain and governed at a multiple of it.

    Each run has ``calm_s`` seconds of a fifth of the load before that, which are left out of its figures; the step to
    the full load is not. The action log goes to ``store``, where that is given.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-kafka-bench-") as scratch:
        place = Path(scratch)
        spec = ClusterSpec(place / "cluster", port=free_port())
        with running_cluster(spec) as cluster, local_session("penstock bench kafka", memory="1g", jars=jars()) as spark:
            runner = _Runner(app, spark, KafkaClient(cluster.bootstrap), goal, place, store, say)
            capacity = runner.capacity("capacity", settle_s=0.0)
            say(f"capacity: {capacity:,.0f} rows/s")
            rate = times * capacity
            plain = runner.run(PLAIN, rate, seconds, calm_s)
            before = runner.loaded_capacity("before", rate)
            governed = runner.run(GOVERNED, rate, seconds, calm_s)
            loaded = (before, runner.loaded_capacity("after", rate))
            say(f"capacity while {rate:,.0f} rows/s are written: {before:,.0f} before and {loaded[1]:,.0f} after")
        return KafkaOverload(goal, capacity, loaded, rate, {PLAIN: plain, GOVERNED: governed})


@dataclass(frozen=True, slots=True)
class _Runner:
    app: App
    spark: SparkSession
    client: KafkaClient
    goal: Goal
    place: Path
    store: Path | None
    say: Callable[[str], None]

    def capacity(self, name: str, *, settle_s: float) -> float:
        """Rows per second of batch time that the application processes of a backlog, without shedding.

        What Penstock learns meanwhile is recorded under the name of the query, and the governed run begins with it.
        """
        stream = self._topic(name)
        self._send(LoadProfile.constant(1.0, seconds=1.0).with_backlog(_BACKLOG_ROWS), stream)
        return self._work_off(name, stream, settle_s)

    def loaded_capacity(self, name: str, rate: float) -> float:
        """The same while rows are written at a rate, to a topic that nobody reads."""
        stream, beside = self._topic(name), self._topic(f"{name}-beside")
        self._send(LoadProfile.constant(1.0, seconds=1.0).with_backlog(_BACKLOG_ROWS), stream)
        profile = LoadProfile.constant(rate, seconds=_BACKLOG_S + _SEND_LONGER_S)
        with self._sending(profile, beside):
            return self._work_off(name, stream, _BESIDE_SETTLE_S)

    def _work_off(self, name: str, stream: KafkaStream, settle_s: float) -> float:
        goal = self.goal.with_(minimum_accuracy=1.0)
        found = self._run(name, stream, goal, _BACKLOG_S, settle_s=settle_s, governed=True, settings=_CAPACITY_SETTINGS)
        return found.busy_rows_per_s

    @contextlib.contextmanager
    def _sending(self, profile: LoadProfile, stream: KafkaStream) -> Iterator[None]:
        sender = threading.Thread(target=self._send, args=(profile, stream))
        sender.start()
        try:
            yield
        finally:
            sender.join()

    def run(self, mode: str, rate: float, seconds: float, calm_s: float) -> QueryFigures:
        """One run under the load, after calm seconds in which engine and controller warm up."""
        stream = self._topic(mode)
        profile = LoadProfile.step(_CALM_SHARE * rate, rate, calm_s, calm_s + seconds + _SEND_LONGER_S)
        with self._sending(profile, stream):
            return self._run(mode, stream, self.goal, calm_s + seconds, settle_s=calm_s, governed=mode == GOVERNED)

    def _run(
        self,
        mode: str,
        stream: KafkaStream,
        goal: Goal,
        seconds: float,
        *,
        settle_s: float,
        governed: bool,
        settings: Mapping[str, float] = MappingProxyType({}),
    ) -> QueryFigures:
        store = {"store.path": str(self.store or self.place / "penstock.db")}
        pen = attach(self.spark, settings={**store, **settings}) if governed else None
        try:
            return run_app(
                self.app, self.spark, [stream], pen=pen, goal=goal, instances=1, seconds=seconds, settle_s=settle_s,
                checkpoints=self.place / mode, client=self.client, watch=lambda tick: self._show(mode, tick),
            )[0]  # fmt: skip
        finally:
            if pen is not None:
                pen.detach()

    def _send(self, profile: LoadProfile, stream: KafkaStream) -> None:
        target = KafkaTarget(self.client.bootstrap, stream.topic)
        processes = 2 if profile.backlog_rows else 1
        run_load(profile, self.app.content(), target, processes=processes, seconds=None, watch=lambda _: None)

    def _topic(self, mode: str) -> KafkaStream:
        self.client.create_topic(mode, _PARTITIONS)
        return KafkaStream(self.client.bootstrap, mode, self.app.content)

    def _show(self, mode: str, tick: RunTick) -> None:
        (rows,), (lag,) = tick.rows.values(), tick.lag_rows.values()
        self.say(f"{mode}: {tick.elapsed_s:.0f} of {tick.seconds:.0f} s, {rows:,} rows, lag {lag:,}")
