"""How long the batches of a governed query are: on a backlog, with more waiting than fits, and at 0.9 of capacity."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from penstock.apps.session import local_session
from penstock.apps.waiting import raise_failure
from penstock.model import Goal
from penstock.spark.attach import attach
from penstock.spark.collector import offset_distance, parse_progress
from penstock.spark.load import register
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_HASHES = 9
_BACKLOG_ROWS = 5_000_000
_COLD_GOAL_S, _GOAL_S = 5.0, 3.0
_SETTLING, _MEASURED = 12, 20
_LOAD = 0.9
_LOOK_EVERY_S = 0.2
_WARM = {"admission.first_batch_rows": 40_000}
"""Begins nearer to where it settles; the way there is what the cold start shows."""


@dataclass(frozen=True, slots=True)
class AdmissionPart:
    """The batches of one part of the benchmark."""

    what: str
    wanted_s: float
    durations_s: tuple[float, ...]
    rows: tuple[int, ...]
    lags_rows: tuple[float, ...]

    @property
    def rows_per_s(self) -> float:
        """Rows over time, overheads and all."""
        return sum(self.rows) / sum(self.durations_s)

    def to_dict(self) -> dict[str, object]:
        """The figures, units in the keys."""
        return {
            "what": self.what,
            "wanted_s": round(self.wanted_s, 2),
            "batches": len(self.durations_s),
            "mean_s": round(fmean(self.durations_s), 3),
            "longest_s": round(max(self.durations_s), 3),
            "rows_variation": round(pstdev(self.rows) / fmean(self.rows), 3),
            "largest_lag_rows": round(max(self.lags_rows, default=0.0)),
            "rows_per_s": round(self.rows_per_s),
        }


def bench_admission(*, say: Callable[[str], None]) -> list[AdmissionPart]:
    """Cold start on a backlog, plain and governed; then a standing backlog; then a load of 0.9 of what that gave."""
    with local_session("penstock bench admission") as spark:
        register(spark)
        say("plain Spark on a backlog")
        profile = f"constant:rate=0,backlog={_BACKLOG_ROWS}"
        plain = _part(spark, "plain", profile, None, 1)
        say("governed on the same backlog")
        cold = _part(spark, "cold start", profile, _COLD_GOAL_S, None)
        say("more waits than fits")
        standing = _part(spark, "standing backlog", "constant:rate=0,backlog=900000000", _GOAL_S, _SETTLING + _MEASURED)
        say(f"a load of {_LOAD} of that")
        load = f"constant:rate={_LOAD * standing.rows_per_s:.0f}"
        return [plain, cold, standing, _part(spark, "0.9 of capacity", load, _GOAL_S, _SETTLING + _MEASURED)]


def _part(spark: SparkSession, what: str, profile: str, goal_s: float | None, batches: int | None) -> AdmissionPart:
    """Run a query until so many batches are done, or its backlog; the first, which settle, count only where all do."""
    name = what.replace(" ", "_").replace(".", "_")
    goals = {} if goal_s is None else {name: Goal(latency=goal_s)}
    settings = {} if batches is None else _WARM
    with attach(spark, goals=goals, settings=settings, store=MemoryStore()) as pen:
        rows = spark.readStream.format("penstock.load").option("profile", profile).load()
        query = _costly(rows).writeStream.format("noop").queryName(name).start()
        try:
            while not _is_done(query, batches):
                time.sleep(_LOOK_EVERY_S)
            reports = [parse_progress(each.json) for each in query.recentProgress if each.numInputRows]
        finally:
            query.stop()
        share = pen.settings.admission.batch_share_of_goal
    measured = reports[_SETTLING:] if batches and batches > _SETTLING else reports[1:] or reports
    lags = (offset_distance(each["sources"][0]["endOffset"], each["sources"][0]["latestOffset"]) for each in measured)
    return AdmissionPart(
        what,
        0.0 if goal_s is None else (goal_s if batches is None else goal_s * share),
        tuple(each["durationMs"]["triggerExecution"] / 1000.0 for each in measured),
        tuple(int(each["numInputRows"]) for each in measured),
        tuple(lag for lag in lags if lag is not None),
    )


def _is_done(query: StreamingQuery, batches: int | None) -> bool:
    raise_failure(query)
    done = [each.numInputRows for each in query.recentProgress if each.numInputRows]
    return sum(done) >= _BACKLOG_ROWS if batches is None else len(done) >= batches


def _costly(rows: DataFrame) -> DataFrame:
    """The same rows, each of which costs so many SHA-256 and none of which comes out."""
    digest = fn.sha2(fn.col("offset").cast("string"), 256)
    for _ in range(_HASHES - 1):
        digest = fn.sha2(digest, 256)
    return rows.withColumn("digest", digest).where(fn.col("digest") == "none is like this")
