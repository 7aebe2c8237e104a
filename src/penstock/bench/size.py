"""The right heap of a live engine: searched for, and come to by the policies from a third and from three times of it.

The query keeps its state in RocksDB and looks each batch up in a table that is cached in the heap, under a load that
stays the same. First the smallest heap at which it keeps its goals is searched by halving, on one engine whose executor
is replaced for every trial. Then one engine starts with a third of that heap and one with three times of it, and all
policies of memory act. Cores are left as they are: they are those of the machine, and others use them too.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.bench.size_result import (
    HeapTrial,
    SizedCase,
    SizeResult,
    SizingStep,
    next_heap,
    optimum,
    optimum_memory_mb,
    sustained,
)
from penstock.bench.sized_engine import (
    SETTINGS,
    await_batches,
    await_result,
    keep_one_executor,
    reports,
    rows_counted,
    verdicts,
)
from penstock.cluster.engine import running_engine
from penstock.cluster.engine_spec import EngineSpec
from penstock.cluster.standalone import running_cluster
from penstock.cluster.standalone_config import StandaloneSpec
from penstock.errors import ClusterError
from penstock.model import APPLICATION, Metric
from penstock.model.decision import Resize
from penstock.model.executors import ExecutorBounds
from penstock.model.sizing import EngineShape
from penstock.report.sizing import SizingAction, sizing_history
from penstock.settings import SizingSettings
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.cluster.engine_spec import Place
    from penstock.model.sizing import UsageSignal
    from penstock.spark.attach import Penstock

    Say = Callable[[str], None]

_CORES, _OVERHEAD_MB = 2, 768
_PATIENCE_S = 300.0
"""A heap that is three times too small takes its time for everything."""
_TRIGGER_S = 3
_WORDS, _KEYS = 300, 20_000
"""Each word is an object, so that a row leaves some 50 kB of garbage."""
_RELEASE_S = 30.0
"""One that leaves passes the table on, to one that has made it anew already and may have no room for both."""
_WRONG = 3
"""How many times too small and too large an engine begins."""


@dataclass(frozen=True, slots=True)
class SizeSetting:
    """How the benchmark is run; heaps in megabytes.

    ``window_s`` is that of the policies; steps down watch as many windows as they do with the settings as they come. It
    is two batches and three heartbeats: with 5 s every third window had one batch instead of two, and half of the
    time in collections.
    """

    rows_per_s: int = 800
    table_mb: int = 130
    low_heap_mb: int = 220
    high_heap_mb: int = 480
    resolution: float = 0.08
    window_s: float = 6.0
    settle_s: float = 12.0
    trial_windows: int = 5
    give_up_s: float = 420.0

    @property
    def sizing(self) -> dict[str, Any]:
        """Settings of the policies: as they come, but for the length of a window and what is left out."""
        usual = SizingSettings()
        return {
            "sizing.mode": "apply",
            "sizing.window_s": self.window_s,
            "sizing.down_after_s": usual.down_after_s * self.window_s / usual.window_s,
            "sizing.hands_off": "cpu, parallelism",
        }


def bench_size(setting: SizeSetting, *, say: Say) -> SizeResult:
    """Search the smallest heap, then let the policies find one from both sides.

    Raises
    ------
    ClusterError
        Where the largest heap of the search does not keep the goals either.
    """
    limits = SizingSettings()
    with tempfile.TemporaryDirectory(prefix="penstock-size-") as directory:
        spec = StandaloneSpec(Path(directory) / "spark", workers=2, cores=2, memory="3g")
        with running_cluster(spec, timeout_s=_PATIENCE_S) as cluster:
            trials = _search(cluster.place, Path(directory) / "search", setting, limits, say)
            best = optimum(trials)
            if best is None:
                raise ClusterError(f"a heap of {setting.high_heap_mb} MB does not keep the goals: {trials}")
            say(f"the smallest heap that keeps the goals: {best.heap_mb} MB")
            cases = []
            for name, heap_mb in (("too small", best.heap_mb // _WRONG), ("too large", best.heap_mb * _WRONG)):
                say(f"{name}: begins with {heap_mb} MB")
                cases.append(
                    _sized(cluster.place, Path(directory) / name.replace(" ", "-"), name, heap_mb, best, setting, say)
                )
    return SizeResult(tuple(trials), setting.resolution, limits.memory_limit, tuple(cases))


# -- the search ---------------------------------------------------------------------------------------------------


def _search(place: Place, checkpoint: Path, setting: SizeSetting, limits: SizingSettings, say: Say) -> list[HeapTrial]:
    from penstock.spark.internals import Ability  # noqa: PLC0415 - imports Spark
    from penstock.spark.reshaper import Reshaper  # noqa: PLC0415 - as above

    trials: list[HeapTrial] = []
    with running_engine(_engine_spec(setting.high_heap_mb), place) as engine:
        keep_one_executor(engine.spark)
        query = _start(engine.spark, checkpoint, setting)
        # The first trial is not to be the one in which everything is compiled.
        await_batches(query, 8, patience_s=_PATIENCE_S)
        # What a trial is judged by comes after its first batches, so that there is no need to rehearse them.
        reshaper = Reshaper(engine.spark, (Ability.REHEARSAL,))
        heap_mb = setting.high_heap_mb
        while (
            wanted_mb := next_heap(trials, setting.low_heap_mb, setting.high_heap_mb, setting.resolution)
        ) is not None:
            begun_s = time.monotonic()
            if wanted_mb != heap_mb:
                _reshape(reshaper, len(trials), heap_mb, wanted_mb)
                heap_mb = wanted_mb
            trial = _trial(engine.spark, query, heap_mb, setting, limits, begun_s)
            say(_told(trial))
            if not trial.keeps_goals:
                # A burst of other programs must not make the optimum larger than it is, nor one lucky trial of two
                # smaller: near the limit it is two of three that count.
                trial = _trial(engine.spark, query, heap_mb, setting, limits, begun_s)
                say(f"once more: {_told(trial)}")
                if trial.keeps_goals:
                    trial = _trial(engine.spark, query, heap_mb, setting, limits, begun_s)
                    say(f"a third time: {_told(trial)}")
            trials.append(trial)
        query.stop()
    return trials


def _reshape(reshaper: Any, number: int, before_mb: int, after_mb: int) -> None:  # noqa: ANN401 - imported with Spark
    decision = Resize(
        cause="search", reason="", policy="search", resource="heap", shape=_shape(after_mb).to_dict(),
        previous_shape=_shape(before_mb).to_dict(), number=number,
    )  # fmt: skip
    reshaper.begin(decision)
    (outcome,) = await_result(reshaper.take_outcomes, f"executor with {after_mb} MB", patience_s=_PATIENCE_S)
    if not outcome.is_done:
        raise ClusterError(f"no executor with {after_mb} MB: {outcome.reason}")


def _trial(
    spark: SparkSession,
    query: StreamingQuery,
    heap_mb: int,
    setting: SizeSetting,
    limits: SizingSettings,
    begun_s: float,
) -> HeapTrial:
    from penstock.spark import internals  # noqa: PLC0415 - imports Spark
    from penstock.spark.usage import UsageCollector  # noqa: PLC0415 - as above

    time.sleep(setting.settle_s)
    failed, batches = internals.failed_tasks(spark), len(reports(query))
    usage = UsageCollector(spark, setting.window_s)
    usage.signal(time.time())
    seen: list[UsageSignal] = []
    while len(seen) < setting.trial_windows:
        time.sleep(0.2)
        signal = usage.signal(time.time())
        seen += [] if signal is None else [signal]
    shares = tuple(each.gc_fraction for each in seen if each.gc_fraction is not None)
    share = sustained(shares)
    failed = internals.failed_tasks(spark) - failed
    lost = sum(each.lost_to_heap + each.lost_to_memory for each in seen)
    spans_s = [report["durationMs"]["triggerExecution"] / 1000.0 for report in reports(query)[batches:]]
    batch_s = statistics.median(spans_s) if spans_s else float("inf")
    keeps_goals = share is not None and share <= limits.gc_limit and not failed and not lost and batch_s <= _TRIGGER_S
    return HeapTrial(
        heap_mb, shares, share, batch_s, failed, lost, max(each.memory_used_mb or 0.0 for each in seen), keeps_goals,
        time.monotonic() - begun_s, os.getloadavg()[0],
    )  # fmt: skip


def _told(trial: HeapTrial) -> str:
    share = "unknown" if trial.gc_sustained is None else f"{trial.gc_sustained:.1%}".replace("%", " %")
    verdict = "keeps" if trial.keeps_goals else "does not keep"
    return (
        f"{trial.heap_mb} MB: collections {share} of the time, batches of {trial.median_batch_s:.1f} s, "
        f"{trial.failed_tasks} failed tasks: {verdict} the goals ({trial.took_s:.0f} s, load {trial.load_average:.1f})"
    )


# -- the policies -------------------------------------------------------------------------------------------------


def _sized(
    place: Place, checkpoint: Path, name: str, heap_mb: int, best: HeapTrial, setting: SizeSetting, say: Say
) -> SizedCase:
    import penstock  # noqa: PLC0415 - a benchmark is a user of the package
    from penstock.spark import internals  # noqa: PLC0415 - imports Spark
    from penstock.spark.usage import engine_shape  # noqa: PLC0415 - as above

    with running_engine(_engine_spec(heap_mb), place) as engine:
        keep_one_executor(engine.spark)
        # With a third of the heap there may be no batch at all before there is more: nothing is waited for.
        query = _start(engine.spark, checkpoint, setting)
        store, begun_s = MemoryStore(), time.time()
        with penstock.attach(engine.spark, settings=setting.sizing, store=store) as pen:
            _watch(pen, store, query, begun_s, setting, say)
            watched_s = time.time() - begun_s
            steps = tuple(_step(action, begun_s) for action in sizing_history(store))
            gc_after, said = _gc(store, begun_s + max((step.at_s for step in steps), default=0.0)), verdicts(pen)
        shape = engine_shape(engine.spark)
        query.stop()
        told = reports(query)
        counted = rows_counted(engine.spark, checkpoint, told)
        failed = internals.failed_tasks(engine.spark)
    if shape is None:
        raise ClusterError("there is no executor at the end")
    return SizedCase(
        name=name, first_heap_mb=heap_mb, last_heap_mb=shape.heap_mb, last_memory_mb=shape.memory_mb,
        optimum_heap_mb=best.heap_mb, optimum_memory_mb=optimum_memory_mb(best, SizingSettings().memory_limit),
        steps=steps, window_s=setting.window_s, watched_s=watched_s, gc_after=gc_after, **counted,
        runs=len({report["runId"] for report in told}), failed_tasks=failed, load_average=os.getloadavg()[0],
        verdicts=said,
    )  # fmt: skip


def _watch(
    pen: Penstock, store: MemoryStore, query: StreamingQuery, begun_s: float, setting: SizeSetting, say: Say
) -> None:
    """Wait until nothing was decided for as long as a step down watches and some windows more, all of them quiet."""
    watched_s = setting.sizing["sizing.down_after_s"]
    quiet_s, quiet_windows = watched_s + 4 * setting.window_s, watched_s / setting.window_s + 2
    told, changed_s, is_pending = 0, begun_s, False
    # What is under way at the end is waited for: between two shapes an engine has none.
    while is_pending or time.time() < begun_s + setting.give_up_s:
        if query.exception() is not None:
            raise ClusterError(f"the query failed: {query.exception()}")
        actions = sizing_history(store)
        for action in actions[told:]:
            say(f"  {time.time() - begun_s:.0f} s, {action.to_dict()['policy']}: {action.decided.action.reason}")
        told = len(actions)
        ended = [action.done.time_s for action in actions if action.done is not None]
        changed_s = max([begun_s, *ended])
        sizing = pen.loop.logic.sizing
        is_quiet = (
            sizing is not None
            and sizing.pending is None
            and not sizing.engine.awaits_looks
            and sizing.engine.usage.clean_windows >= quiet_windows
        )
        if is_quiet and time.time() > changed_s + quiet_s:
            return
        time.sleep(0.5)


def _step(action: SizingAction, begun_s: float) -> SizingStep:
    details, plain = action.decided.action.details, action.to_dict()
    before, after = (EngineShape.from_dict(details[name]) for name in ("previous_shape", "shape"))
    is_up = after.heap_mb > before.heap_mb if details["resource"] == "heap" else after.memory_mb > before.memory_mb
    return SizingStep(
        action.decided.time_s - begun_s, details["policy"], details["resource"], is_up, after.heap_mb, after.memory_mb,
        float(plain["took_s"] or 0.0), bool(plain["is_done"]), action.decided.action.reason,
        dict(details.get("figures", {})),
    )  # fmt: skip


def _gc(store: MemoryStore, after_s: float) -> float | None:
    """What collections took of the time through two windows on end, at the most, since the last change."""
    points = store.points(APPLICATION, Metric.SIZING, since_s=after_s)
    return sustained([point.value for point in points if point.subject == "gc_fraction"])


# -- the engine ---------------------------------------------------------------------------------------------------


def _shape(heap_mb: int) -> EngineShape:
    return EngineShape(1, heap_mb, _OVERHEAD_MB, 0, _CORES)


def _engine_spec(heap_mb: int) -> EngineSpec:
    settings = SETTINGS | {
        # An executor that is too small may end several times before there is a larger one.
        "spark.task.maxFailures": "40",
    }
    return EngineSpec(
        "penstock-size", ExecutorBounds(1, 2, 1), cores=_CORES, memory=f"{heap_mb}m",
        memory_overhead=f"{_OVERHEAD_MB}m", driver_memory="600m",
        release_within_s=_RELEASE_S, settings=settings,
    )  # fmt: skip


def _start(spark: SparkSession, checkpoint: Path, setting: SizeSetting) -> StreamingQuery:
    from pyspark import StorageLevel  # noqa: PLC0415 - the engine sets the interpreter first
    from pyspark.sql import functions as fn  # noqa: PLC0415 - as above

    from penstock.spark.load import register  # noqa: PLC0415 - as above

    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    # Two texts of 64 characters are 128 bytes a row.
    numbers = spark.range(0, setting.table_mb * 8 * 1024, 1, 4)
    texts = [fn.sha2((fn.col("id") + place).cast("string"), 256).alias(f"text_{place}") for place in (0, 1)]
    table = numbers.select(*texts).persist(StorageLevel.MEMORY_ONLY)
    # Every batch reads the table: an executor that has just come has to have it as well.
    looked_up = fn.broadcast(table.agg(fn.count("*").alias("known")))
    profile = f"constant:rate={setting.rows_per_s}"
    rows = spark.readStream.format("penstock.load").option("profile", profile).option("partitions", 2).load()
    words = fn.split(fn.repeat(fn.concat(fn.col("offset").cast("string"), fn.lit(" ")), _WORDS), " ")
    by_key = rows.crossJoin(looked_up).groupBy((fn.col("offset") % _KEYS).alias("key"))
    counts = by_key.agg(
        fn.count("*").alias("count"), fn.sum(fn.size(words)).alias("words"), fn.max("known").alias("known")
    )
    writer = counts.writeStream.format("noop").outputMode("update").queryName("counts")
    trigger = f"{_TRIGGER_S} seconds"
    return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime=trigger).start()
