"""How much arrives at all queries of an engine together, and how much waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.estimate.arrival import ArrivalRate
from penstock.spark import internals
from penstock.spark.collector import offset_distance, parse_progress, parse_timestamp_s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HALF_LIFE_S = 5.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Sums over the queries of an engine; None as soon as one of them does not tell."""

    arrival_rows_per_s: float | None
    lag_rows: float | None
    batch_s: float | None


@dataclass(slots=True)
class _Seen:
    arrivals: ArrivalRate
    batch: tuple[str, int] | None = None
    lag_rows: float | None = None
    batch_s: float | None = None


class WorkloadCollector:
    """Reads the newest progress report of every query, in one call each."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._seen: dict[str, _Seen] = {}

    def look(self) -> Workload:
        """What is known now; nothing while no query has finished a batch."""
        queries = {str(query.id): query for query in self._spark.streams.active}
        self._seen = {query_id: self._seen.get(query_id) or _Seen(ArrivalRate(_HALF_LIFE_S)) for query_id in queries}
        for query_id, query in queries.items():
            text = internals.last_report(query)
            if text is not None:
                _learn(self._seen[query_id], text)
        known = [seen for seen in self._seen.values() if seen.batch is not None]
        return Workload(
            arrival_rows_per_s=_total([seen.arrivals.rate_rows_per_s for seen in known]),
            lag_rows=_total([seen.lag_rows for seen in known]),
            batch_s=max((seen.batch_s for seen in known if seen.batch_s is not None), default=None),
        )


def _learn(seen: _Seen, text: str) -> None:
    progress = parse_progress(text)
    batch = (str(progress["runId"]), int(progress["batchId"]))
    if batch == seen.batch:
        return
    seen.batch = batch
    seen.batch_s = progress["durationMs"].get("triggerExecution", 0) / 1000.0
    seen.lag_rows = _total([offset_distance(s.get("endOffset"), s.get("latestOffset")) for s in progress["sources"]])
    rows = sum(int(source["numInputRows"]) for source in progress["sources"])
    seen.arrivals.update(planned_s=parse_timestamp_s(progress["timestamp"]), rows=rows, lag_rows=seen.lag_rows)


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
