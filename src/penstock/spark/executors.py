"""CPU, heap and garbage collection of executors, between two looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model import ExecutorSignal, Metric, SeriesPoint
from penstock.spark import internals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model import QueryName
    from penstock.spark.internals import ExecutorTotals


class ExecutorCollector:
    """Reads the executors' totals now and then and gives what they did in between."""

    def __init__(self, spark: SparkSession, every_s: float) -> None:
        self._spark = spark
        self._every_s = every_s
        self._last_s: float | None = None
        self._last: dict[str, ExecutorTotals] = {}

    def signals(self, now_s: float) -> list[ExecutorSignal]:
        """What the executors did since the last look; empty while that is too recent."""
        if self._last_s is not None and now_s - self._last_s < self._every_s:
            return []
        elapsed_s = None if self._last_s is None else now_s - self._last_s
        totals = internals.executor_totals(self._spark)
        heap_max_bytes = internals.executor_heap_max_bytes(self._spark)
        signals = [self._signal(total, elapsed_s, heap_max_bytes) for total in totals]
        self._last_s = now_s
        self._last = {total.executor_id: total for total in totals}
        return signals

    def points(self, engine: QueryName, now_s: float) -> list[SeriesPoint]:
        """The same as points of series."""
        points = []
        for signal in self.signals(now_s):
            values = {
                Metric.EXECUTOR_BUSY_FRACTION: signal.busy_fraction,
                Metric.EXECUTOR_GC_FRACTION: signal.gc_fraction,
                Metric.EXECUTOR_HEAP_PEAK_BYTES: signal.heap_peak_bytes,
                Metric.EXECUTOR_HEAP_MAX_BYTES: signal.heap_max_bytes,
            }
            points += [
                SeriesPoint(now_s, engine, metric, float(value), subject=signal.executor_id)
                for metric, value in values.items()
                if value is not None
            ]
        return points

    def _signal(self, total: ExecutorTotals, elapsed_s: float | None, heap_max_bytes: int | None) -> ExecutorSignal:
        before = self._last.get(total.executor_id)
        busy = gc = None
        if before is not None and elapsed_s:
            core_s = elapsed_s * max(1, total.cores)
            busy = max(0.0, total.task_s - before.task_s) / core_s
            gc = max(0.0, total.gc_s - before.gc_s) / core_s
        return ExecutorSignal(total.executor_id, total.cores, busy, gc, total.heap_peak_bytes, heap_max_bytes)
