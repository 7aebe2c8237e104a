"""Executors ahead of the load, live: Kafka, a Standalone cluster, one governed query, load up and down again.

Rows wait for a service that is not there (:mod:`penstock.bench.waiting_work`), so that four executors do four times the
work of one on a machine with two cores. What they share is what executors always share: planning and committing.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.apps.ages import aged
from penstock.apps.run import figures_of
from penstock.apps.streams import KafkaStream
from penstock.apps.waiting import raise_failure
from penstock.bench.elastic_moves import TimedBatch
from penstock.bench.elastic_result import ElasticResult, Look
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
from penstock.model import Application, ExecutorBounds, ExecutorsDeclaration, Goal, QueryDeclaration, QueryName
from penstock.model.profile import LoadProfile
from penstock.model.profile_checks import Interpolation
from penstock.model.rows import PlainContent
from penstock.process.ports import free_port
from penstock.spark import internals
from penstock.spark.attach import attach
from penstock.spark.collector import parse_timestamp_s
from penstock.store import MemoryStore, SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.cluster.engine import Engine
    from penstock.kafka.load_tally import LoadTally
    from penstock.spark.attach import Penstock
    from penstock.store import Store

TOPIC, QUERY = "rows", QueryName("waiting")
_WORKERS = 2
_ROW_S = 0.005
_TRIGGER_S = 2.0
_LEAST_RATE, _MOST_RATE = 50.0, 130.0
"""Rows per second that one executor does easily, and those of each executor at the peak."""
_WIDTH_SHARE = 0.16
"""Deviation of the bell, of the whole time. Corners would be what no forecast foresees, and none that is learned on."""
_PATIENCE_S = 120.0
_LOOK_EVERY_S = 0.5
_SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.ui.enabled": "false",
    # Short lives: what the compiler would gain later is not worth the start.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


_STATEFUL = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
"""Two tasks of state for each of four executors, in RocksDB."""


@dataclass(frozen=True, slots=True)
class ElasticSetting:
    """One run.

    ``start_s`` is how long an executor is expected to take to come; the forecast reaches that far.
    """

    policy: str = "proactive"
    goal_s: float = 30.0
    most: int = 4
    seconds: float = 240.0
    interval_s: float = 5.0
    start_s: float = 6.0
    down_every_s: float = 20.0
    store: Path | None = None
    stateful: bool = False

    def profile(self) -> LoadProfile:
        """A low load, a bell up to what all executors are needed for, and the low load again."""
        moments_s = np.arange(0.0, self.seconds + 1.0)
        bell = np.exp(-0.5 * ((moments_s / self.seconds - 0.5) / _WIDTH_SHARE) ** 2)
        rates = _LEAST_RATE + (_MOST_RATE * self.most - _LEAST_RATE) * bell
        return LoadProfile(moments_s, rates, Interpolation.LINEAR)

    @property
    def bounds(self) -> ExecutorBounds:
        """How many executors there may be."""
        return ExecutorBounds(1, self.most)

    def application(self) -> Application:
        """One query with its goal, and executors by the policy."""
        return Application(
            {QUERY: QueryDeclaration(Goal(latency=self.goal_s))},
            ExecutorsDeclaration(self.bounds, self.policy),
        )

    def settings(self) -> dict[str, object]:
        """What is set about scaling in a run of a few minutes."""
        return {
            "scaling.interval_s": self.interval_s,
            "scaling.start_s": self.start_s,
            "scaling.down_every_s": self.down_every_s,
            "scaling.down_after_s": self.down_every_s,
        }


def bench_elastic(setting: ElasticSetting, *, say: Callable[[str], None]) -> ElasticResult:
    """Start a broker and a cluster, run one query under the load, and tell what became of it."""
    with tempfile.TemporaryDirectory(prefix="penstock-elastic-") as scratch:
        place = Path(scratch)
        cores = -(-setting.most // _WORKERS)
        spark_spec = StandaloneSpec(place / "spark", workers=_WORKERS, cores=cores, memory=f"{512 * cores}m")
        kafka_spec = ClusterSpec(place / "kafka", port=free_port(), heap="512m")
        engine_spec = EngineSpec(
            "penstock-bench-elastic",
            setting.bounds,
            memory="512m",
            jars=tuple(jars()),
            settings=_SETTINGS | (_STATEFUL if setting.stateful else {}),
        )
        say("starting a broker and a Standalone cluster")
        with broker.running_cluster(kafka_spec) as kafka, standalone.running_cluster(spark_spec) as cluster:
            KafkaClient(kafka.bootstrap).create_topic(TOPIC, setting.most)
            say(f"starting an engine of 1 to {setting.most} executors")
            with running_engine(engine_spec, cluster.place) as engine:
                return _Run(setting, engine, kafka.bootstrap, place, say).run()


@dataclass(slots=True)
class _Run:
    setting: ElasticSetting
    engine: Engine
    bootstrap: str
    place: Path
    say: Callable[[str], None]
    sent: list[LoadTally] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)

    def run(self) -> ElasticResult:
        """The query and its executors, from the first batch to the last row."""
        store: Store = MemoryStore() if self.setting.store is None else SqliteStore(self.setting.store)
        setting = self.setting
        with attach(self.engine.spark, setting.application(), settings=setting.settings(), store=store) as pen:
            query = self._start()
            self._await(pen, query, lambda: self._is_at_first_size(pen), "the engine at its first size")
            began_s = self._under_load(pen, query)
            self._await(pen, query, lambda: self._is_done(query) and _is_settled(pen), "the last row")
            return self._result(query, pen.store, self.looks, began_s)

    def _look(self, pen: Penstock) -> None:
        """Take down what the policy was told last, and what it wants."""
        logic = pen.loop.logic
        workload, target = logic.workload, self.setting.bounds.first
        if logic.scaling is not None:
            target = logic.scaling.target
        serving, arriving = len(pen.plant.view.serving), workload.arrival_rows_per_s
        tasks = tuple(
            (one.executor_id, one.total_tasks) for one in internals.live_executors(self.engine.spark) if one.is_active
        )
        self.looks.append(Look(time.time(), serving, target, arriving, workload.backlog_rows, tasks))

    def _start(self) -> StreamingQuery:
        rows = aged(KafkaStream(self.bootstrap, TOPIC, PlainContent).rows(self.engine.spark))
        if self.setting.stateful:
            # Counts by key wait in the stage that holds their state: what that stage does not spread, nothing does.
            rows = rows.groupBy("key").count()
        slow = rows.mapInArrow(wait_for_each_row(_ROW_S), rows.schema)
        writer = slow.writeStream.format("noop").queryName(QUERY).trigger(processingTime=f"{_TRIGGER_S:g} seconds")
        writer = writer.outputMode("update" if self.setting.stateful else "append")
        return writer.option("checkpointLocation", str(self.place / "checkpoint")).start()

    def _under_load(self, pen: Penstock, query: StreamingQuery) -> float:
        """Send the whole profile, and give the moment at which it began."""
        sender = threading.Thread(target=self._send, name="penstock-bench-load")
        sender.start()
        began_s = said_s = time.time()
        while sender.is_alive():
            raise_failure(query)
            sender.join(timeout=_LOOK_EVERY_S)
            self._look(pen)
            if time.time() >= said_s + self.setting.interval_s:
                said_s = time.time()
                self.say(f"{said_s - began_s:4.0f} of {self.setting.seconds:.0f} s: {self.looks[-1].sentence}")
        if not self.sent:
            raise ClusterError("the load generator failed; what it said is above")
        return began_s

    def _send(self) -> None:
        target = KafkaTarget(self.bootstrap, TOPIC)
        tally, _ = run_load(
            self.setting.profile(), PlainContent(keys=100_000), target, processes=1, seconds=None, watch=lambda _: None
        )
        self.sent.append(tally)

    def _is_at_first_size(self, pen: Penstock) -> bool:
        return bool(self.looks) and self.looks[-1].executors == 1 and _is_settled(pen)

    def _is_done(self, query: StreamingQuery) -> bool:
        return sum(report.numInputRows for report in query.recentProgress) >= self.sent[0].rows

    def _await(self, pen: Penstock, query: StreamingQuery, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not condition():
            raise_failure(query)
            if time.monotonic() > deadline_s:
                raise ClusterError(f"{what} did not come within {_PATIENCE_S:g} s: is the machine too busy?")
            time.sleep(_LOOK_EVERY_S)
            self._look(pen)

    def _result(self, query: StreamingQuery, store: Store, looks: list[Look], began_s: float) -> ElasticResult:
        reports: list[Any] = list(query.recentProgress)
        backlogs = [round(look.backlog_rows) for look in looks if look.backlog_rows is not None]
        return ElasticResult(
            policy=self.setting.policy,
            goal_s=self.setting.goal_s,
            most=self.setting.most,
            began_s=began_s,
            figures=figures_of(QUERY, query, backlogs, began_s),
            sent_rows=self.sent[0].rows,
            run_ids=tuple(sorted({str(report.runId) for report in reports})),
            batch_ids=tuple(report.batchId for report in reports if report.numInputRows),
            failed_tasks=internals.failed_tasks(self.engine.spark),
            actions=tuple(store.actions()),
            looks=tuple(look for look in looks if look.time_s >= began_s),
            stateful=self.setting.stateful,
            batches=tuple(_timed(report, looks) for report in reports),
        )


def _timed(report: Any, looks: list[Look]) -> TimedBatch:  # noqa: ANN401 - a progress report of Spark
    """A batch with the executors that served when it was planned."""
    started_s = parse_timestamp_s(report.timestamp)
    executors = next((look.executors for look in reversed(looks) if look.time_s <= started_s), 0)
    return TimedBatch(started_s, report.batchDuration / 1000.0, report.numInputRows, executors)


def _is_settled(pen: Penstock) -> bool:
    """Whether all executors that were decided on are there, and nobody else."""
    scaling = pen.loop.logic.scaling
    return scaling is not None and scaling.is_settled
