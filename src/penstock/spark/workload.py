"""How much arrives at all queries of an engine together, how much of it is worked off, and how much waits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.estimate.arrival import ArrivalRate
from penstock.spark import internals
from penstock.spark.collector import guard_signal, offset_distance, parse_progress, parse_timestamp_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_HALF_LIFE_S = 5.0
_QUIET_IN_CYCLES = 3.0
_LEAST_QUIET_S = 5.0
_STALE_S = 120.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Sums over the queries of an engine; None as soon as one of them does not tell.

    Parameters
    ----------
    arrival_rows_per_s
        Rows that arrive, those that a guard drops and those that admission leaves waiting included.
    lag_rows
        Rows that the last batches left behind.
    batch_s
        The longest of the last batches.
    processed_rows_per_s
        Rows that were worked off; dropped ones do not count.
    busy_share
        Share of the time in which a batch was in work, of the busiest query.
    backlog_rows
        Rows that have arrived by now and are not done: the lag, what is in work, and what came since.
    """

    arrival_rows_per_s: float | None
    lag_rows: float | None
    batch_s: float | None
    processed_rows_per_s: float | None = None
    busy_share: float | None = None
    backlog_rows: float | None = None


_UNKNOWN = Workload(None, None, None)
_IDLE = Workload(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class QueryWorkload:
    """What the reports of one query tell, one after the other.

    Examples
    --------
    >>> seen = QueryWorkload()
    >>> def report(batch, second, rows, latest, kept):
    ...     return {"runId": "a", "batchId": batch, "timestamp": f"2026-01-02T03:04:{second:02d}.000Z",
    ...             "durationMs": {"triggerExecution": 1500}, "observedMetrics": {"penstock.guard.1":
    ...             {"offered_rows": rows, "kept_rows": kept}},
    ...             "sources": [{"numInputRows": rows, "endOffset": {"row": latest}, "latestOffset": {"row": latest}}]}
    >>> for batch, second, rows, latest in ((0, 10, 600, 600), (1, 12, 800, 1400), (2, 14, 800, 2200)):
    ...     seen.learn(report(batch, second, rows, latest, kept=rows // 2))
    >>> now = seen.workload(parse_timestamp_s("2026-01-02T03:04:16.000Z"))
    >>> now.arrival_rows_per_s, now.processed_rows_per_s, now.busy_share, now.backlog_rows
    (400.0, 200.0, 0.75, 800.0)
    """

    arrivals: ArrivalRate | None = None
    batch: tuple[str, int] | None = None
    planned_s: float = 0.0
    cycle_s: float | None = None
    lag_rows: float | None = None
    batch_s: float = 0.0
    kept_rows: float = 0.0
    processed_rows_per_s: float | None = None
    busy_share: float | None = None

    def learn(self, progress: dict[str, Any]) -> None:
        """Take in the next report; one that is known already is passed over."""
        batch = (str(progress["runId"]), int(progress["batchId"]))
        if batch == self.batch:
            return
        if self.arrivals is None or self.batch is None or self.batch[0] != batch[0]:
            # Another run of the query begins where it will; what waited meanwhile did not arrive in one batch.
            self.arrivals = ArrivalRate(_HALF_LIFE_S)
            self.cycle_s = None
        else:
            self._close_cycle(parse_timestamp_s(progress["timestamp"]))
        self.batch, self.planned_s = batch, parse_timestamp_s(progress["timestamp"])
        self.batch_s = progress["durationMs"].get("triggerExecution", 0) / 1000.0
        rows = sum(int(source["numInputRows"]) for source in progress["sources"])
        guard = guard_signal(progress.get("observedMetrics") or {})
        self.kept_rows = rows * (1.0 if guard is None else guard.processed_fraction)
        self.lag_rows = _total(
            [offset_distance(s.get("endOffset"), s.get("latestOffset")) for s in progress["sources"]]
        )
        self.arrivals.update(planned_s=self.planned_s, rows=rows, lag_rows=self.lag_rows)

    def workload(self, now_s: float) -> Workload:
        """What is known at a moment; what arrives during a batch waits, too, though no report tells of it yet."""
        rate = None if self.arrivals is None else self.arrivals.rate_rows_per_s
        if self.batch is None or now_s - self.planned_s > max(_STALE_S, self.quiet_s):
            return _UNKNOWN
        backlog = None
        if rate is not None and self.lag_rows is not None:
            backlog = self.lag_rows + rate * max(0.0, now_s - self.planned_s)
        return Workload(rate, self.lag_rows, self.batch_s, self.processed_rows_per_s, self.busy_share, backlog)

    @property
    def quiet_s(self) -> float:
        """How long after its last batch a query may have nothing to do."""
        return max(_LEAST_QUIET_S, _QUIET_IN_CYCLES * (self.cycle_s or 0.0))

    def _close_cycle(self, planned_s: float) -> None:
        """From the planning of one batch to that of the next: rows and time of the first are what it was used for."""
        cycle_s = planned_s - self.planned_s
        if cycle_s > 0:
            self.cycle_s = cycle_s
            self.processed_rows_per_s = self.kept_rows / cycle_s
            self.busy_share = min(1.0, self.batch_s / cycle_s)


class WorkloadCollector:
    """Reads the progress reports of every query that are new since the last look."""

    def __init__(self, spark: SparkSession, *, clock: Callable[[], float] = time.time) -> None:
        self._spark = spark
        self._clock = clock
        self._seen: dict[str, QueryWorkload] = {}

    def look(self) -> Workload:
        """What is known now; nothing while no query has finished a batch."""
        queries = {str(query.id): query for query in self._spark.streams.active}
        self._seen = {query_id: self._seen.get(query_id) or QueryWorkload() for query_id in queries}
        found = [self._look_at(query, self._seen[query_id]) for query_id, query in queries.items()]
        known = [workload for workload in found if workload is not None]
        return sum_of(known)

    def _look_at(self, query: StreamingQuery, seen: QueryWorkload) -> Workload | None:
        for text in internals.reports_after(query, None if seen.batch is None else seen.batch[1]):
            seen.learn(parse_progress(text))
        if seen.batch is None:
            return None
        now_s = self._clock()
        # No batch for a while is either nothing to do or a long batch; only the query itself can tell.
        if now_s - seen.planned_s > seen.quiet_s and not query.status["isDataAvailable"]:
            return _IDLE
        return seen.workload(now_s)


def sum_of(workloads: list[Workload]) -> Workload:
    """All queries of an engine as one.

    Examples
    --------
    >>> total = sum_of([Workload(100.0, 5.0, 1.0, 90.0, 0.5, 20.0), Workload(50.0, 0.0, 2.0, 50.0, 0.8, 10.0)])
    >>> total.arrival_rows_per_s, total.processed_rows_per_s, total.busy_share, total.backlog_rows
    (150.0, 140.0, 0.8, 30.0)
    """
    shares = [workload.busy_share for workload in workloads]
    return Workload(
        arrival_rows_per_s=_total([workload.arrival_rows_per_s for workload in workloads]),
        lag_rows=_total([workload.lag_rows for workload in workloads]),
        batch_s=max((workload.batch_s for workload in workloads if workload.batch_s is not None), default=None),
        processed_rows_per_s=_total([workload.processed_rows_per_s for workload in workloads]),
        busy_share=None if None in shares else max((share for share in shares if share is not None), default=None),
        backlog_rows=_total([workload.backlog_rows for workload in workloads]),
    )


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
