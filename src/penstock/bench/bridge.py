"""Shedding bridges the time until executors serve, live: Kafka, a Standalone cluster, one declared file.

The load steps to three times what the first size of the engine can do. In the same run, on the same engine: both tiers
joined, scaling alone (nothing may be dropped) and shedding alone (the size stays). Rows wait for a service that is not
there (:mod:`penstock.bench.waiting_work`), so that executors add capacity on a machine with two cores.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.apps.ages import aged
from penstock.apps.run import figures_of
from penstock.apps.streams import KafkaStream
from penstock.apps.waiting import raise_failure
from penstock.bench.bridge_result import MODES, SCALING, SHEDDING, Answered, Bridge, BridgeRun
from penstock.bench.waiting_work import wait_for_each_row
from penstock.cluster import standalone
from penstock.cluster.engine import running_engine
from penstock.cluster.engine_spec import EngineSpec
from penstock.cluster.standalone_config import StandaloneSpec
from penstock.errors import ClusterError
from penstock.kafka import broker, jars
from penstock.kafka.broker_config import ClusterSpec
from penstock.kafka.client import KafkaClient
from penstock.kafka.load import run_load
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model import APPLICATION, ActionKind, ExecutorBounds, Metric
from penstock.model.profile import LoadProfile
from penstock.model.rows import PlainContent
from penstock.process.ports import free_port
from penstock.spark.attach import attach
from penstock.spark.collector import guard_signal, observed_metrics, parse_progress, parse_timestamp_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.attach import Penstock

QUERY = "bridged"
_WORKERS = 2
_PARTITIONS = 12
"""A multiple of every size from one to four: tasks divide evenly, whatever the number of executors."""
_ROW_S = 0.01
_PATIENCE_S = 180.0
_CALM_LOAD = 0.4
_TRIGGER_S = 2.0
_TOLD_EVERY_S = 10.0
_CAPACITY_BATCHES = 6
_LOOK_EVERY_S = 0.5
_SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.ui.enabled": "false",
    "spark.locality.wait": "0s",
    # Short lives: what the compiler would gain later is not worth the start.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_DECLARATION = """\
[queries.{query}]
latency = "{goal_s:g} seconds"
minimum_accuracy = {minimum_accuracy}
reads = ["topic:{topic}"]

[executors]
minimum = 1
maximum = {maximum}
policy = "proactive"

[scaling]
interval_s = 5
start_s = 6

[store]
path = "{store}"
"""


@dataclass(frozen=True, slots=True)
class BridgeSetting:
    """One run; ``times`` is the high load in multiples of what the first size can do."""

    goal_s: float = 10.0
    minimum_accuracy: float = 0.2
    times: float = 3.0
    maximum: int = 4
    calm_s: float = 75.0
    high_s: float = 90.0
    modes: tuple[str, ...] = MODES
    keep: Path | None = None


def bench_bridge(setting: BridgeSetting, *, say: Callable[[str], None]) -> Bridge:
    """Start a broker and a cluster, find what one executor does, and run every mode under the same load."""
    with tempfile.TemporaryDirectory(prefix="penstock-bridge-") as scratch:
        place = Path(scratch)
        cores = -(-setting.maximum // _WORKERS)
        spark_spec = StandaloneSpec(place / "spark", workers=_WORKERS, cores=cores, memory=f"{512 * cores}m")
        kafka_spec = ClusterSpec(place / "kafka", port=free_port(), heap="512m")
        bounds = ExecutorBounds(1, setting.maximum)
        engine_spec = EngineSpec("penstock-bench-bridge", bounds, memory="512m", jars=tuple(jars()), settings=_SETTINGS)
        say("starting a broker and a Standalone cluster")
        with broker.running_cluster(kafka_spec) as kafka, standalone.running_cluster(spark_spec) as cluster:
            page = cluster.place
            with running_engine(engine_spec, page) as engine:
                return _Bench(setting, engine.spark, kafka.bootstrap, place, say).run()


@dataclass(slots=True)
class _Bench:
    setting: BridgeSetting
    spark: SparkSession
    bootstrap: str
    place: Path
    say: Callable[[str], None]

    def run(self) -> Bridge:
        """Capacity first, then every mode."""
        setting = self.setting
        capacity = self._capacity()
        self.say(f"one executor does {capacity:,.0f} rows/s; the load steps to {setting.times:g} times that")
        calm, high = _CALM_LOAD * capacity, setting.times * capacity
        runs = []
        for mode in setting.modes:
            runs.append(self._mode(mode, calm, high))
            run = runs[-1]
            self.say(
                f"{mode}: p95 {run.figures.latency_p95_s} s, accuracy {run.accuracy:.3f}, back after "
                f"{run.back_after_s:.0f} s, {run.executor_s:.0f} executor-seconds"
            )
        return Bridge(setting.goal_s, setting.minimum_accuracy, capacity, calm, high, tuple(runs), os.getloadavg()[0])

    def _declared(self, name: str, topic: str, *, minimum_accuracy: float, maximum: int) -> Path:
        path = self.place / f"{name}.toml"
        path.write_text(
            _DECLARATION.format(
                query=QUERY,
                goal_s=self.setting.goal_s,
                minimum_accuracy=minimum_accuracy,
                topic=topic,
                maximum=maximum,
                store=(self.setting.keep or self.place) / f"{name}.db",
            ),
            encoding="utf-8",
        )
        return path

    def _start(self, pen: Penstock, topic: str, *, guarded: bool) -> StreamingQuery:
        rows = aged(KafkaStream(self.bootstrap, topic, PlainContent).rows(self.spark, pen if guarded else None))
        slow = rows.mapInArrow(wait_for_each_row(_ROW_S), rows.schema)
        writer = slow.writeStream.format("noop").queryName(QUERY).trigger(processingTime=f"{_TRIGGER_S:g} seconds")
        return writer.option("checkpointLocation", str(self.place / f"checkpoint-{topic}")).start()

    def _capacity(self) -> float:
        """Rows a second of one executor on a backlog, in batches of the length that the goal allows."""
        topic = "capacity"
        KafkaClient(self.bootstrap).create_topic(topic, _PARTITIONS)
        self._send(topic, LoadProfile.constant(1.0, seconds=1.0).with_backlog(20_000))
        with attach(self.spark, self._declared(topic, topic, minimum_accuracy=1.0, maximum=1)) as pen:
            query = self._start(pen, topic, guarded=True)
            self._await(query, lambda: _serving(pen) == 1, "the engine at one executor")
            target_s = self.setting.goal_s * pen.settings.admission.batch_share_of_goal

            def long_enough() -> list[dict[str, object]]:
                reports = [parse_progress(report.json) for report in query.recentProgress if report.numInputRows]
                return [each for each in reports if _seconds(each) > 0.7 * target_s]

            self._await(query, lambda: len(long_enough()) >= _CAPACITY_BATCHES, "batches of the wanted length")
            measured = long_enough()[2:_CAPACITY_BATCHES]
            query.stop()
        return sum(int(str(each["numInputRows"])) for each in measured) / sum(_seconds(each) for each in measured)

    def _mode(self, mode: str, calm: float, high: float) -> BridgeRun:
        setting, topic = self.setting, mode.replace(" ", "-")
        client = KafkaClient(self.bootstrap)
        client.create_topic(topic, _PARTITIONS)
        guarded = mode != SCALING
        path = self._declared(
            topic,
            topic,
            minimum_accuracy=setting.minimum_accuracy if guarded else 1.0,
            maximum=1 if mode == SHEDDING else setting.maximum,
        )
        profile = LoadProfile.step(calm, high, setting.calm_s, setting.calm_s + setting.high_s)
        with attach(self.spark, path) as pen:
            query = self._start(pen, topic, guarded=guarded)
            self._await(query, lambda: _serving(pen) == 1, "the engine at its first size")
            began_s = time.time()
            sender = threading.Thread(target=self._send, args=(topic, profile), name="penstock-bench-load")
            sender.start()
            sizes = self._watch(mode, pen, query, sender, began_s)
            ended_s = time.time()
            lag = sum(client.end_offsets([topic])[topic].values()) - _rows(query)
            figures = figures_of(QUERY, query, [lag], began_s)
            run = BridgeRun(
                mode=mode,
                figures=figures,
                batches=tuple(_answered(query, began_s)),
                sizes=tuple(sizes),
                start_s=_median_start_s(pen),
                faults=tuple(each.action.reason for each in pen.store.actions(kinds=(ActionKind.FAULT,))),
                began_s=began_s,
                step_s=began_s + setting.calm_s,
                ended_s=ended_s,
            )
            query.stop()
        return run

    def _watch(
        self, mode: str, pen: Penstock, query: StreamingQuery, sender: threading.Thread, began_s: float
    ) -> list[tuple[float, int]]:
        sizes: list[tuple[float, int]] = []
        told_s = 0.0
        while sender.is_alive():
            raise_failure(query)
            sender.join(timeout=_LOOK_EVERY_S)
            now_s = time.time()
            sizes.append((now_s, len(pen.plant.view.executors)))
            if now_s - told_s > _TOLD_EVERY_S:
                told_s = now_s
                state = pen.status().queries[0].state.value if pen.status().queries else "-"
                self.say(f"{mode}, second {now_s - began_s:.0f}: {sizes[-1][1]} executors, {state}")
        return sizes

    def _send(self, topic: str, profile: LoadProfile) -> None:
        target = KafkaTarget(self.bootstrap, topic)
        run_load(profile, PlainContent(keys=100_000), target, processes=1, seconds=None, watch=lambda _: None)

    def _await(self, query: StreamingQuery, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not condition():
            raise_failure(query)
            if time.monotonic() > deadline_s:
                raise ClusterError(f"{what} did not come within {_PATIENCE_S:g} s: is the machine too busy?")
            time.sleep(_LOOK_EVERY_S)


def _serving(pen: Penstock) -> int:
    view = pen.plant.view
    return len(view.serving) if not view.leaving else 0


def _rows(query: StreamingQuery) -> int:
    return sum(report.numInputRows for report in query.recentProgress)


def _seconds(progress: dict[str, object]) -> float:
    return float(progress["durationMs"]["triggerExecution"]) / 1000.0  # type: ignore[index]


def _answered(query: StreamingQuery, from_s: float) -> list[Answered]:
    found = []
    for report in query.recentProgress:
        progress = parse_progress(report.json)
        planned_s, guard = parse_timestamp_s(progress["timestamp"]), guard_signal(observed_metrics(progress))
        if report.numInputRows and planned_s >= from_s:
            ratios = (1.0, 1.0) if guard is None else (guard.keep_ratio, guard.kept_ratio)
            found.append(Answered(planned_s, report.numInputRows, *ratios))
    return found


def _median_start_s(pen: Penstock) -> float | None:
    values = sorted(point.value for point in pen.store.points(APPLICATION, Metric.EXECUTOR_START_S, last=32))
    return values[len(values) // 2] if values else None
