"""Two queries of unlike priority on one engine that holds either but not both, started cold.

Each gets 0.8 of what the engine does for one of them alone. Rows cost far more to process than to read, since a row
that is dropped must still be read. Nothing is known of either query when it starts, and everything counts from there:
rows kept, and how old they were when they were out.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from penstock.apps.load_frame import load_frame
from penstock.apps.measure import batch_records, measure
from penstock.apps.session import local_session
from penstock.apps.waiting import first_batches, wait_until
from penstock.model import Goal
from penstock.model.profile import LoadProfile
from penstock.spark.attach import attach
from penstock.spark.load import register
from penstock.spark.load_rows import LoadTruth
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from penstock.apps.measure import Measured

HIGH, LOW = "high", "low"
PRIORITIES = {HIGH: 5, LOW: 1}
LOAD, LEAST_KEPT = 0.8, 0.95
MINIMUM_ACCURACY = 0.05
_HASHES, _LONG = 10, 100
_BATCH_ROWS, _WARM_UP_BATCHES, _MEASURED_BATCHES = 40_000, 14, 10
_LAST_S = 40.0
_SPARE_S = 60.0


@dataclass(frozen=True, slots=True)
class PriorityResult:
    """What both queries kept, and when it was out: over the whole run, and in its last seconds."""

    capacity_rows_per_s: float
    whole: dict[str, Measured]
    last: dict[str, Measured]

    @property
    def is_met(self) -> bool:
        """Whether the query of high priority kept nearly all of its rows, and its latency goal, from its start."""
        high = self.whole[HIGH]
        return high.accuracy >= LEAST_KEPT and high.latency.p95_s <= high.goal_s

    def to_dict(self) -> dict[str, object]:
        """All figures, units in the keys."""
        rows = [
            {"query": name, "priority": PRIORITIES[name], "over": over, **measured.row()}
            for over, part in (("the whole run", self.whole), (f"its last {_LAST_S:.0f} s", self.last))
            for name, measured in part.items()
        ]
        return {
            "bench": "priorities",
            "capacity_rows_per_s": round(self.capacity_rows_per_s),
            "load_each": LOAD,
            "least_kept": LEAST_KEPT,
            "is_met": self.is_met,
            "rows": rows,
        }


def bench_priorities(
    *, goal_s: float, seconds: float, is_fair: bool = True, say: Callable[[str], None]
) -> PriorityResult:
    """Measure the capacity for one query, then run both; ``is_fair`` is Spark's scheduler, which then has pools."""
    with local_session("penstock bench priorities", is_fair=is_fair) as spark:
        register(spark)
        say("measuring what the engine does for one query")
        capacity = _capacity_rows_per_s(spark)
        say(f"{capacity:,.0f} rows/s; now {LOAD:g} of that for each of two queries, {seconds:.0f} s")
        whole, last = _run_both(spark, LOAD * capacity, goal_s, seconds)
    return PriorityResult(capacity, whole, last)


def _run_both(
    spark: SparkSession, rate: float, goal_s: float, seconds: float
) -> tuple[dict[str, Measured], dict[str, Measured]]:
    goals = {
        name: Goal(latency=goal_s, priority=priority, minimum_accuracy=MINIMUM_ACCURACY)
        for name, priority in PRIORITIES.items()
    }
    profile = LoadProfile.step(rate, rate, 1.0, seconds + _SPARE_S)
    with attach(spark, goals=goals, store=MemoryStore()) as pen:
        epoch_s = time.time()
        queries = {}
        for name in goals:
            rows = dear(pen.guard(load_frame(spark, profile, epoch_s=epoch_s)))
            writer = rows.writeStream.format("noop").queryName(name)
            queries[name] = writer.option("checkpointLocation", tempfile.mkdtemp(prefix="penstock-bench-")).start()
        ended_s = epoch_s + seconds
        try:
            wait_until(queries[HIGH], ended_s)
        finally:
            queries[LOW].stop()
    truth = LoadTruth(profile, round(epoch_s * 1000))

    def since(began_s: float) -> dict[str, Measured]:
        return {
            name: measure(name, batch_records(query), truth, goal_s=goal_s, began_s=began_s, ended_s=ended_s)
            for name, query in queries.items()
        }

    return since(epoch_s), since(ended_s - _LAST_S)


def _capacity_rows_per_s(spark: SparkSession) -> float:
    """Rows that one query processes in a second of its batches, once the engine is warm."""
    count = _WARM_UP_BATCHES + _MEASURED_BATCHES
    profile = LoadProfile.constant(1.0).with_backlog((count + 2) * _BATCH_ROWS)
    rows = dear(load_frame(spark, profile, epoch_s=time.time(), limit_rows=_BATCH_ROWS))
    found = first_batches(rows.writeStream.format("noop").start(), count)[_WARM_UP_BATCHES:]
    return sum(batch.rows for batch in found) / sum(batch.duration_s for batch in found)


def dear(rows: DataFrame) -> DataFrame:
    """The same rows, which cost far more to process than to read, and none of which comes out."""
    digest = fn.col("offset").cast("string")
    for _ in range(_HASHES):
        digest = fn.sha2(fn.repeat(digest, _LONG), 256)
    return rows.withColumn("digest", digest).where(fn.col("digest") == "none is like this")
