"""A latency goal of a second on a thin query: at 0.7 of its capacity, and at three times that.

What a batch takes for itself, planning and commits, is a quarter of such a goal. So this shows whether what Penstock
adds to a batch leaves room for the rest. Plain Spark runs under the same load, in the same session, and the code of
both is warm. What the query could do if it dropped every row that it reads is measured too: a load beyond that is too
much whatever is dropped.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from penstock.apps.capacity import find_capacity
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
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.apps.measure import BatchRecord, Measured

LOADS = (0.7, 3.0)
MINIMUM_ACCURACY = 0.05
CALM_S, CALM_LOAD = 25.0, 0.3
_GROUPS = 50
_FIRST_ROWS, _CAPACITY_BATCHES = 50_000, 12
_BATCHES_TO_WARM = 60
"""A thin query is nothing but compiled code: before Java has compiled it in full it does a third of what it can."""
_BATCH_PART = 0.5
"""A row that comes right after a batch is planned waits for two batches: each may take half of the goal."""
_SPARE_S = 60.0


@dataclass(frozen=True, slots=True)
class ShortGoalResult:
    """Plain Spark and Penstock at every load."""

    goal_s: float
    hashes: int
    capacity_rows_per_s: float
    reading_rows_per_s: float
    """Rows that it reads each second in batches of half the goal if it drops them all."""
    runs: tuple[tuple[float, Measured, Measured], ...]
    """Load in multiples of the capacity, plain Spark, Penstock."""

    @property
    def is_met(self) -> bool:
        """Whether 95 % of the rows that Penstock kept were out in time at every load."""
        return all(governed.latency.p95_s <= self.goal_s for _, _, governed in self.runs)

    def to_dict(self) -> dict[str, object]:
        """All figures, units in the keys."""
        rows = [{"load_times_capacity": load, **measured.row()} for load, *both in self.runs for measured in both]
        return {
            "bench": "short-goal",
            "goal_s": self.goal_s,
            "hashes_per_row": self.hashes,
            "capacity_rows_per_s": round(self.capacity_rows_per_s),
            "reading_rows_per_s": round(self.reading_rows_per_s),
            "is_met": self.is_met,
            "rows": rows,
        }


def bench_short_goal(*, goal_s: float, seconds: float, hashes: int, say: Callable[[str], None]) -> ShortGoalResult:
    """Measure the capacity in batches of half the goal, then run each load plain and governed.

    ``hashes`` is how often each row is hashed: what makes it cost more than being read and counted.
    """
    runs = []
    with local_session("penstock bench short-goal") as spark:
        register(spark)
        say("measuring the capacity")
        thin = _Thin(spark, goal_s, hashes)
        capacity = thin.capacity_rows_per_s()
        reading = thin.capacity_rows_per_s(reads_only=True)
        say(f"capacity {capacity:,.0f} rows/s; {reading:,.0f} rows/s if every row is dropped")
        thin.warm_guard(round(_BATCH_PART * goal_s * CALM_LOAD * capacity))
        for load in LOADS:
            both = [thin.run(name, load, capacity, seconds) for name in ("plain", "governed")]
            runs.append((load, both[0], both[1]))
            say(
                f"{load:g} times {capacity:,.0f} rows/s: plain Spark p95 {both[0].latency.p95_s:.2f} s, Penstock "
                f"{both[1].latency.p95_s:.2f} s, kept {both[1].accuracy:.2f}"
            )
    return ShortGoalResult(goal_s, hashes, capacity, reading, tuple(runs))


@dataclass(frozen=True, slots=True)
class _Thin:
    """A thin query: one filter and one small aggregation without a shuffle worth the name."""

    spark: SparkSession
    goal_s: float
    hashes: int

    def run(self, name: str, load: float, capacity_rows_per_s: float, seconds: float) -> Measured:
        """Run it for so long at a multiple of its capacity, plain or governed; calm before that."""
        calm, full = CALM_LOAD * capacity_rows_per_s, load * capacity_rows_per_s
        profile = LoadProfile.step(calm, full, CALM_S, CALM_S + seconds + _SPARE_S)
        epoch_s = time.time()
        step_s, ended_s = epoch_s + CALM_S, epoch_s + CALM_S + seconds
        rows = load_frame(self.spark, profile, epoch_s=epoch_s)
        if name == "plain":
            query = self._start(rows, name)
            wait_until(query, ended_s)
        else:
            goal = Goal(latency=self.goal_s, minimum_accuracy=MINIMUM_ACCURACY)
            with attach(self.spark, goals={name: goal}, store=MemoryStore()) as pen:
                query = self._start(pen.guard(rows), name)
                wait_until(query, ended_s)
        truth = LoadTruth(profile, round(epoch_s * 1000))
        return measure(name, batch_records(query), truth, goal_s=self.goal_s, began_s=step_s, ended_s=ended_s)

    def capacity_rows_per_s(self, *, reads_only: bool = False) -> float:
        """What it does in batches of half the goal, once Java has compiled it."""
        target_s = _BATCH_PART * self.goal_s

        def batches(limit_rows: int, count: int) -> list[BatchRecord]:
            rows = self._backlog(limit_rows, count)
            return first_batches(
                self._start(rows.where(fn.col("offset") < 0) if reads_only else rows, "capacity"), count
            )

        found = find_capacity(batches, target_s=target_s, first_rows=_FIRST_ROWS)
        batches(found.limit_rows, _BATCHES_TO_WARM)
        return find_capacity(
            batches, target_s=target_s, first_rows=found.limit_rows, measured_batches=_CAPACITY_BATCHES
        ).rows_per_s

    def warm_guard(self, limit_rows: int) -> None:
        """Run the query with a guard for as many batches as it had without: that is other code."""
        with attach(self.spark, store=MemoryStore()) as pen:
            rows = pen.guard(self._backlog(limit_rows, _BATCHES_TO_WARM))
            first_batches(self._start(rows, "warm_up"), _BATCHES_TO_WARM)

    def _backlog(self, limit_rows: int, count: int) -> DataFrame:
        profile = LoadProfile.constant(1.0).with_backlog((count + 5) * limit_rows)
        return load_frame(self.spark, profile, epoch_s=time.time(), limit_rows=limit_rows)

    def _start(self, rows: DataFrame, name: str) -> StreamingQuery:
        kept = rows.where(fn.col("offset") % 7 != 0)
        if self.hashes:
            # In a filter: a column that nobody reads would not be computed.
            text = fn.aggregate(
                fn.sequence(fn.lit(1), fn.lit(self.hashes)),
                fn.col("offset").cast("string"),
                lambda text, _: fn.sha2(text, 256),
            )
            kept = kept.where(text != "")
        counted = kept.groupBy((fn.col("offset") % _GROUPS).alias("group")).count()
        writer = counted.writeStream.format("noop").outputMode("update").queryName(name)
        query: StreamingQuery = writer.option("checkpointLocation", tempfile.mkdtemp(prefix="penstock-bench-")).start()
        return query
