"""Windows of an engine's use, from what Spark itself keeps of executors, jobs and batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.model.executor_loss import Loss, kind_of_loss
from penstock.model.sizing import EngineShape, UsageSignal
from penstock.spark import internals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from penstock.model import BatchSignal, QueryName
    from penstock.spark.heap_looks import HeapLook
    from penstock.spark.internals import ExecutorUsage

_MEGABYTE = 1024 * 1024
_LEAST_OVERHEAD_MB, _OVERHEAD_PART = 384, 0.1
"""Spark's own defaults for memory beside the heap."""
PROCESS_TREE_KEY = "spark.executor.processTreeMetrics.enabled"


@dataclass(slots=True)
class _Query:
    """What one query did since the last window."""

    rows: int = 0
    ended_s: float | None = None
    span_begun_s: float | None = None
    lag_rows: float | None = None
    lag_before: float | None = None
    state_bytes: int = 0
    last_job: int = -1


@dataclass(slots=True)
class UsageCollector:
    """Gives a signal at the end of every window.

    Parameters
    ----------
    spark
        The session.
    window_s
        Length of a window.
    run_ids
        Ids of the runs of streaming queries: the groups of their jobs.
    services
        Figures of remote services by name, each a call that gives the present one; None where it is unknown.
    """

    spark: SparkSession
    window_s: float
    run_ids: Callable[[], Sequence[str]] = tuple
    services: dict[str, Callable[[], float | None]] = field(default_factory=dict)
    _begun_s: float | None = None
    _gc_ms: dict[str, int] = field(default_factory=dict)
    _forced_ms: dict[str, float] = field(default_factory=dict)
    _look: HeapLook | None = None
    _task_s: dict[str, float] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)
    _jobs: dict[str, int] = field(default_factory=dict)
    _queries: dict[QueryName, _Query] = field(default_factory=dict)

    def on_batch(self, signal: BatchSignal) -> None:
        """Take note of a batch of any query."""
        query = self._queries.setdefault(signal.query, _Query())
        if query.ended_s is None:
            # What came before the first batch that was seen is not known.
            query.span_begun_s, query.lag_before = signal.finished_s, signal.lag_rows
        else:
            query.rows += signal.rows
        query.ended_s, query.lag_rows, query.state_bytes = signal.finished_s, signal.lag_rows, signal.state_bytes

    def forget(self, query: QueryName) -> None:
        """A query is gone."""
        self._queries.pop(query, None)

    def on_look(self, look: HeapLook) -> None:
        """Take note of what was seen of the heap, and of the time in collections that this itself took."""
        self._look = look
        for executor_id, collected_s in look.collected_s.items():
            self._forced_ms[executor_id] = self._forced_ms.get(executor_id, 0.0) + 1000.0 * collected_s

    def signal(self, now_s: float) -> UsageSignal | None:
        """The window that ends now; None while it is not over, and after the first look, which only begins one."""
        if self._begun_s is not None and now_s - self._begun_s < self.window_s:
            return None
        length_s = None if self._begun_s is None else now_s - self._begun_s
        self._begun_s = now_s
        everyone = internals.executor_usage(self.spark)
        serving = [one for one in everyone if one.is_active and not one.ended]
        gc_fraction, gc_count = self._collections(serving, length_s)
        busy_s = sum(max(0.0, one.task_s - self._task_s.get(one.executor_id, 0.0)) for one in serving)
        self._task_s = {one.executor_id: one.task_s for one in serving}
        losses = self._losses(everyone)
        work_cpu_s, spilled, heap_low = self._work()
        arrival, processed, backlog = self._rows()
        look, self._look = self._look, None
        if length_s is None:
            return None
        cores = sum(one.cores for one in serving) or 1
        slots = max(1, cores // internals.task_cpus(self.spark))
        return UsageSignal(
            time_s=now_s,
            heap_used_mb=_most(serving, "JVMHeapMemory"),
            heap_low_mb=None if heap_low is None else heap_low / _MEGABYTE,
            heap_live_mb=None if look is None else look.live_mb,
            full_gc_s=None if look is None else look.full_gc_s,
            aging_mb_per_s=None if look is None else look.aging_mb_per_s,
            gcs_per_s=None if look is None else look.gcs_per_s,
            young_gc_s=None if look is None else look.young_gc_s,
            heap_taken_mb=None if look is None else look.taken_mb,
            gc_fraction=gc_fraction,
            gc_count=gc_count,
            jvm_rss_mb=_most(serving, "ProcessTreeJVMRSSMemory"),
            python_rss_mb=_most(serving, "ProcessTreePythonRSSMemory"),
            python_vm_mb=_most(serving, "ProcessTreePythonVMemory"),
            off_heap_mb=_most(serving, "JVMOffHeapMemory"),
            cpu_fraction=min(1.0, work_cpu_s / (cores * length_s)),
            busy_fraction=min(1.0, busy_s / (slots * length_s)),
            spilled_mb=spilled / _MEGABYTE,
            state_mb=sum(query.state_bytes for query in list(self._queries.values())) / _MEGABYTE,
            backlog_rows=backlog,
            arrival_rows_per_s=arrival,
            processed_rows_per_s=processed,
            lost_to_heap=losses[Loss.HEAP],
            lost_to_memory=losses[Loss.MEMORY],
            services=self._told(),
        )

    def _collections(self, serving: Sequence[ExecutorUsage], length_s: float | None) -> tuple[float | None, int]:
        """Time in collections of the executor with the most, as a part of the window; and how many there ever were."""
        totals = {one.executor_id: one.metrics.get("TotalGCTime", 0) for one in serving}
        before, self._gc_ms = self._gc_ms, totals
        names = ("MinorGCCount", "MajorGCCount", "ConcurrentGCCount")
        count = sum(one.metrics.get(name, 0) for one in serving for name in names)
        fresh = [self._unforced(one, total - before[one]) for one, total in totals.items() if one in before]
        if length_s is None or not fresh:
            return None, count
        return min(1.0, max(0, *fresh, 0) / 1000.0 / length_s), count

    def _unforced(self, executor_id: str, collected_ms: float) -> float:
        """Time in collections that nobody asked for; what was asked for may be told a heartbeat later."""
        forced_ms = min(collected_ms, self._forced_ms.get(executor_id, 0.0))
        if forced_ms > 0:
            self._forced_ms[executor_id] -= forced_ms
        return collected_ms - forced_ms

    def _losses(self, everyone: Sequence[ExecutorUsage]) -> dict[Loss, int]:
        losses = dict.fromkeys(Loss, 0)
        # An executor of the shape before that ended meanwhile says nothing of the shape that is there now.
        present = {one.profile_id for one in everyone if one.is_active and not one.ended}
        for one in everyone:
            if one.ended and one.executor_id not in self._lost:
                self._lost.add(one.executor_id)
                if not present or one.profile_id in present:
                    losses[kind_of_loss(one.ended)] += 1
        return losses

    def _work(self) -> tuple[float, int, int | None]:
        """CPU time and spilled bytes of the jobs since the last window, and the least heap that was sampled in them."""
        cpu_s, spilled = 0.0, 0
        heaps: list[int] = []
        for run_id in self.run_ids():
            work = internals.job_work(self.spark, run_id, self._jobs.get(run_id, -1))
            self._jobs[run_id] = work.last_job
            cpu_s, spilled = cpu_s + work.cpu_s, spilled + work.spilled_bytes
            heaps += [] if work.heap_low_bytes is None else [work.heap_low_bytes]
        return cpu_s, spilled, min(heaps, default=None)

    def _rows(self) -> tuple[float | None, float | None, float | None]:
        """Rows a second that came and that were done, and rows that wait, over all queries; None: one is silent."""
        arrival, processed, backlog = 0.0, 0.0, 0.0
        is_known, is_lag_known = bool(self._queries), bool(self._queries)
        for query in list(self._queries.values()):
            if query.lag_rows is None:
                is_lag_known = False
            else:
                backlog += query.lag_rows
            if query.ended_s is None or query.span_begun_s is None or query.ended_s <= query.span_begun_s:
                is_known = False
                continue
            length_s = query.ended_s - query.span_begun_s
            done = query.rows / length_s
            processed += done
            grown = 0.0 if query.lag_rows is None or query.lag_before is None else query.lag_rows - query.lag_before
            arrival += max(0.0, done + grown / length_s)
            query.rows, query.span_begun_s, query.lag_before = 0, query.ended_s, query.lag_rows
        return (
            arrival if is_known else None,
            processed if is_known else None,
            backlog if is_lag_known else None,
        )

    def _told(self) -> Mapping[str, float]:
        told = {}
        for name, ask in list(self.services.items()):
            try:
                value = ask()
            except Exception:  # noqa: BLE001, S112 - a service that cannot be asked is unknown, and no fault of the query
                continue
            if value is not None:
                told[name] = float(value)
        return told


def engine_shape(spark: SparkSession) -> EngineShape | None:
    """The shape of the executors that serve; None where there are none, and where they are of several shapes."""
    serving = [one for one in internals.executor_usage(spark) if one.is_active and not one.ended]
    profiles = {one.profile_id for one in serving}
    if len(profiles) != 1:
        return None
    profile_id = profiles.pop()
    known = internals.profile_memory(spark, profile_id)
    conf = spark.sparkContext.getConf()
    heap_mb = known.get("memory") or (internals.executor_heap_max_bytes(spark) or 0) // _MEGABYTE
    default_mb = default_overhead_mb(heap_mb)
    told = conf.get("spark.executor.memoryOverhead")
    overhead_mb = known.get("memoryOverhead") or (default_mb if told is None else megabytes(told))
    python = conf.get("spark.executor.pyspark.memory")
    return EngineShape(
        executors=len(serving),
        heap_mb=heap_mb,
        overhead_mb=overhead_mb,
        python_mb=known.get("pyspark.memory") or (0 if python is None else megabytes(python)),
        cores=serving[0].cores,
        task_cpus=internals.task_cpus(spark),
    )


def default_overhead_mb(heap_mb: int) -> int:
    """Memory beside the heap that Spark gives an executor where nothing is set."""
    return max(_LEAST_OVERHEAD_MB, int(_OVERHEAD_PART * heap_mb))


def megabytes(text: str) -> int:
    """Megabytes of a size as Spark writes it; a bare number is megabytes.

    Examples
    --------
    >>> megabytes("2g"), megabytes("512m"), megabytes("384")
    (2048, 512, 384)
    """
    units = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}
    clean = text.strip().lower().removesuffix("b")
    unit = units.get(clean[-1:], 1.0)
    return int(float(clean.rstrip("kmgt")) * unit)


def _most(serving: Sequence[ExecutorUsage], name: str) -> float | None:
    """The largest of a metric, in megabytes; None where no executor tells it."""
    values = [one.metrics[name] for one in serving if name in one.metrics]
    return max(values) / _MEGABYTE if values else None
