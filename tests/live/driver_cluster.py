"""A driver on a Standalone cluster: one stateful query whose executors come and go while it runs.

Prints one JSON object with what happened.

Arguments: directory of the cluster, and the scenario.
"""

from __future__ import annotations

import json
import math
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psutil

import penstock
from penstock import Application, ExecutorBounds, ExecutorsDeclaration, Goal, QueryDeclaration
from penstock.cluster.engine import running_engine
from penstock.cluster.engine_spec import EngineSpec
from penstock.cluster.standalone import require_cluster
from penstock.model import ActionKind, QueryName
from penstock.policies import ScaleDecision, ScalingSignal, StatelessScaler
from penstock.spark import internals
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock
    from penstock.cluster.engine import Engine
    from penstock.control.scaling_tier import ScalingTier

PATIENCE_S = 240.0
SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.ui.enabled": "false",
    # A test machine may stand still for minutes; executors that did with it are not lost.
    "spark.network.timeout": "1200s",
    "spark.executor.heartbeatInterval": "5s",
    # Short lives: what the compiler would gain later is not worth the start.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


# Every observation is a sample.
SCALING = {
    "scaling.every_s": 0.5,
    "scaling.interval_s": 0.1,
    "scaling.start_s": 10.0,
    "scaling.down_every_s": 0.0,
    "scaling.warm_up_s": 0.0,
}
QUERY = QueryName("counts")


class Wish(StatelessScaler):
    """A policy that wants what the scenario says."""

    name: ClassVar[str] = "wish"

    def __init__(self, executors: int) -> None:
        self.executors = executors

    def decide(self, signal: ScalingSignal) -> ScaleDecision:  # noqa: ARG002 - asked for by the protocol
        """The wish, whatever is observed."""
        return ScaleDecision(self.executors, f"{self.executors} are wished for")


class PerExecutor(StatelessScaler):
    """A policy of one line: an executor for so many rows a second, with no wish to flap on the border."""

    name: ClassVar[str] = "arrival rate"

    def __init__(self, rows_per_s: float) -> None:
        self.rows_per_s = rows_per_s
        self.observed: list[ScalingSignal] = []

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """As many as the arrival rate needs; one fewer only when that leaves room."""
        self.observed.append(signal)
        rate = signal.demand_rows_per_s
        if rate is None:
            return ScaleDecision(signal.requested, "nothing is known of the load yet")
        needed = math.ceil(rate / self.rows_per_s)
        if needed < signal.requested:
            needed = math.ceil(1.1 * rate / self.rows_per_s)
        return ScaleDecision(needed, f"{rate:.0f} rows/s of {self.rows_per_s:.0f} for each")


class Run:
    """One engine with its query, the hold on it and its log."""

    def __init__(
        self, engine: Engine, query: StreamingQuery, pen: Penstock, store: MemoryStore, counted: dict[int, int]
    ) -> None:
        self.engine, self.query, self.pen, self.store, self._counted = engine, query, pen, store, counted

    @property
    def tier(self) -> ScalingTier:
        """What decides about the executors."""
        tier = self.pen.loop.logic.scaling
        assert tier is not None
        return tier

    def serving(self) -> int:
        """Executors that are given work."""
        return len([e for e in internals.live_executors(self.engine.spark) if e.is_active])

    def await_that(self, condition: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
        """Wait, unless the query dies."""
        deadline_s = time.monotonic() + within_s
        while not condition():
            assert self.query.exception() is None, self.query.exception()
            assert time.monotonic() < deadline_s, f"no {what}; log: {[a.to_dict() for a in self.store.actions()]}"
            time.sleep(0.2)

    def await_size(self, executors: int) -> None:
        """Wait until so many serve, none leaves, and the log says so."""
        self.await_that(lambda: self.serving() == executors and self.tier.is_settled, f"size {executors}")

    def await_batches(self, count: int) -> None:
        """Wait for so many batches more."""
        last = self.last_batch()
        self.await_that(lambda: self.last_batch() >= last + count, f"{count} batches after {last}")

    def last_batch(self) -> int:
        """Number of the last batch."""
        text = internals.last_report(self.query)
        return -1 if text is None else int(json.loads(text)["batchId"])

    def result(self, **more: Any) -> dict[str, Any]:
        """What happened."""
        reports = [report for report in self.query.recentProgress if report.numInputRows]
        return {
            "is_active": self.query.isActive,
            "run_ids": sorted({str(report.runId) for report in self.query.recentProgress}),
            "batch_ids": [report.batchId for report in reports],
            # By the results: what Spark reports as read counts rows of a task that ran again twice.
            "rows": [self._counted[report.batchId] for report in reports],
            "rows_by_offset": [row_of(report.sources[0].endOffset) for report in reports],
            "failed_tasks": internals.failed_tasks(self.engine.spark),
            "actions": [record.to_dict() for record in self.store.actions()],
            "start_s": self.tier.starts.snapshot().observed_s,
            "release_s": self.tier.releases.snapshot().observed_s,
            **more,
        }


def row_of(offset: object) -> int:
    """The row that an offset names; a query begins before the first one."""
    tree = json.loads(offset) if isinstance(offset, str) else offset
    return int(tree["row"]) if isinstance(tree, dict) else 0


@contextmanager
def running(directory: Path, bounds: ExecutorBounds, policy: StatelessScaler, profile: str) -> Iterator[Run]:
    """A counting query on an engine that is scaled."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - the engine sets the interpreter first

    from penstock.spark.load import register  # noqa: PLC0415 - as above

    cluster = require_cluster(directory)
    spec = EngineSpec("penstock-live", bounds, memory="512m", settings=SETTINGS)
    with running_engine(spec, cluster.place) as engine:
        engine.spark.sparkContext.setLogLevel("OFF")
        register(engine.spark)
        rows = engine.spark.readStream.format("penstock.load").option("profile", profile).option("partitions", 4).load()
        counts = rows.groupBy((fn.col("offset") % 7).alias("bucket")).count()
        store = MemoryStore()
        declared = Application({QUERY: QueryDeclaration(Goal(latency="1 minute"))}, ExecutorsDeclaration(bounds))
        with penstock.attach(engine.spark, declared, settings=SCALING, store=store, policy=policy) as pen:
            counted: dict[int, int] = {}

            def count(batch: DataFrame, batch_id: int) -> None:
                counted[batch_id] = batch.agg(fn.sum("count")).first()[0]

            writer = counts.writeStream.foreachBatch(count).outputMode("complete").queryName(QUERY)
            query = writer.trigger(processingTime="0 seconds").start()
            run = Run(engine, query, pen, store, counted)
            run.await_batches(2)
            yield run


def up_and_down(directory: Path) -> dict[str, Any]:
    """First size 1 of at most 8 on a cluster for 4; then 3, then 9, then 1 again."""
    wish = Wish(1)
    with running(directory, ExecutorBounds(1, 8), wish, "constant:rate=1000") as run:
        run.await_size(1)
        sizes = []
        for wished, becomes in ((3, 3), (9, 4), (1, 1)):
            wish.executors = wished
            run.await_size(becomes)
            run.await_batches(2)
            sizes.append(run.serving())
        return run.result(sizes=sizes)


def standby(directory: Path) -> dict[str, Any]:
    """One executor waits, is called, and is replaced by another."""
    wish = Wish(1)
    with running(directory, ExecutorBounds(1, 4, standby=1), wish, "constant:rate=1000") as run:
        plant = run.pen.plant
        run.await_that(lambda: len(plant.view.standby) == 1 and not plant.view.leaving, "executor on standby")
        (waiting,) = plant.view.standby
        run.await_batches(1)
        before = {e.executor_id: e.total_tasks for e in internals.live_executors(run.engine.spark)}
        run.await_batches(3)
        idle = {e.executor_id: e.total_tasks for e in internals.live_executors(run.engine.spark)}
        wish.executors = 2
        run.await_that(lambda: waiting in plant.view.serving, "call from standby")
        run.await_batches(3)
        called = {e.executor_id: e.total_tasks for e in internals.live_executors(run.engine.spark)}
        run.await_that(lambda: len(plant.view.standby) == 1, "replacement on standby")
        (other,) = plant.view.standby
        return run.result(
            waiting=waiting, other=other, tasks_while_waiting=idle[waiting] - before[waiting],
            tasks_once_called=called[waiting] - idle[waiting],
        )  # fmt: skip


def killed_worker(directory: Path) -> dict[str, Any]:
    """Two executors on two workers; one of the workers is killed with its executors, and the other takes over."""
    cluster = require_cluster(directory)
    with running(directory, ExecutorBounds(2, 2), Wish(2), "constant:rate=1000") as run:
        run.await_size(2)
        worker = psutil.Process(cluster.daemons[1].pid)
        victims = [worker, *worker.children(recursive=True)]
        killed_s = time.time()
        for victim in victims:
            victim.kill()
        # By the log and not by who serves: another executor may serve before anybody looks. Nor is the end of the
        # worker waited for, which is a zombie until whoever started it looks after it.
        run.await_that(lambda: bool(run.store.actions(kinds=(ActionKind.FAULT,))), "loss on record", within_s=60)
        seen_s = run.store.actions(kinds=(ActionKind.FAULT,))[0].time_s - killed_s
        run.await_size(2)
        run.await_batches(3)
        return run.result(processes_killed=len(victims) - 1, seen_s=seen_s)


def ramp(directory: Path) -> dict[str, Any]:
    """Load in levels up and down again; the executors follow."""
    policy = PerExecutor(500.0)
    levels = "levels:rates=300/800/1400/1900/1400/800/300,each=20,end=hold"
    with running(directory, ExecutorBounds(1, 4), policy, levels) as run:
        run.await_that(lambda: run.tier.target == 4, "top", within_s=400)
        run.await_size(4)
        run.await_that(lambda: run.tier.target == 1, "way down", within_s=400)
        run.await_size(1)
        run.await_batches(2)
        sizes = [[o.time_s, o.executors, o.demand_rows_per_s] for o in policy.observed]
        return run.result(sizes=sizes)


SCENARIOS = {scenario.__name__: scenario for scenario in (up_and_down, standby, killed_worker, ramp)}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[2]](Path(sys.argv[1]))))  # noqa: T201 - what the test reads
