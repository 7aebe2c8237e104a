"""What one run of a query has done so far, from its own reports and stages."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model import QueryName
from penstock.spark import internals
from penstock.spark.collector import ProgressCollector, parse_progress
from penstock.spark.internals import SeenReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.sources import LiveSource


@dataclass(slots=True)
class RunTotals:
    """Totals of one run, and when its first and last batch were done; see :class:`penstock.model.engine_report`."""

    rows: float = 0.0
    kept_rows: float = 0.0
    out_rows: float = 0.0
    core_s: float = 0.0
    batches: int = 0
    last_batch: int | None = None
    first_batch_s: float | None = None
    last_batch_s: float | None = None
    source_rows: tuple[float, ...] = ()
    source_backlog_rows: tuple[float | None, ...] = ()


class RunMeter:
    """Adds up what a run reports; look often enough, since Spark forgets old reports and stages."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._spark, self._query = spark, query
        self._group = str(query.runId)
        self._collector = ProgressCollector(spark, QueryName(query.name or ""))
        self._totals = RunTotals()
        self._seen: SeenReport | None = None
        self._last_job = -1
        self._lock = threading.Lock()

    def look(self, sources: tuple[LiveSource, ...]) -> RunTotals:
        """Everything up to now; ``sources`` are those of the query, as far as they are known."""
        with self._lock:
            for text in internals.unseen_reports(self._query, self._seen):
                self._count(text, sources)
            busy_s, self._last_job = internals.core_seconds(self._spark, self._group, self._last_job)
            self._totals.core_s += busy_s or 0.0
            return self._totals

    def _count(self, text: str, sources: tuple[LiveSource, ...]) -> None:
        report, totals = parse_progress(text), self._totals
        self._seen = SeenReport.of(report)
        if not self._seen.is_batch:
            return  # it looked for rows and found none
        signal = self._collector.signal(report, sources)
        before = totals.source_rows or (0.0,) * len(signal.sources)
        totals.rows += signal.rows
        totals.kept_rows += signal.rows * (1.0 if signal.guard is None else signal.guard.kept_ratio)
        totals.out_rows += signal.output_rows or 0.0
        totals.batches += 1
        totals.last_batch, totals.last_batch_s = signal.batch_id, signal.finished_s
        totals.first_batch_s = totals.first_batch_s or signal.finished_s
        totals.source_rows = tuple(rows + source.rows for rows, source in zip(before, signal.sources, strict=False))
        totals.source_backlog_rows = tuple(source.lag_rows for source in signal.sources)
