"""What each policy makes of three times the load that fits: latency, work done, and how true the answers are.

All policies run the same job under the same load, one after another on one machine. A calm start with a backlog warms
the engine up and lets Penstock learn; everything is measured from the step to overload on, the step itself included.
The capacity is measured again between the policies, because a shared machine is not as fast in the tenth minute as it
was in the first: each policy is held against what was found right before and right after it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.apps.capacity import Capacity, find_capacity, measure_at
from penstock.apps.measure import batch_records, measure
from penstock.apps.session import local_session
from penstock.apps.waiting import first_batches, wait_until
from penstock.bench.overload_job import REGIONS, WINDOW_S, WORK, plain_job, rows_of, shedding_job
from penstock.control.target import target_batch_s
from penstock.model import Goal
from penstock.model.profile import LoadProfile
from penstock.settings import Settings
from penstock.spark.attach import attach
from penstock.spark.load import register
from penstock.spark.load_rows import LoadTruth
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.apps.measure import BatchRecord, Measured

PLAIN, STATIC = "plain", "static limit"
POLICIES = (PLAIN, STATIC, "uniform", "las", "economic")
LEAST_WORK_RATIO, LEAST_COVERAGE = 0.95, 0.93
CALM_S, CALM_LOAD, CALM_BACKLOG_S = 30.0, 0.4, 8.0
_FIRST_ROWS, _CAPACITY_BATCHES = 1_000, 20
# An engine gets faster for about a minute: a capacity that was found before is a quarter too low.
_BATCHES_TO_WARM = 25
_NEAR = 0.12


@dataclass(frozen=True, slots=True)
class WorkCapacity:
    """What plain Spark does on a backlog, in batches of the length that the goal allows."""

    rows: Capacity
    units_per_s: float
    target_s: float

    def again(self, spark: SparkSession) -> WorkCapacity:
        """What it does now; a limit that was found when the machine was slower makes for short batches, and goes."""
        return _work_capacity(spark, self.rows.limit_rows, self.target_s)


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What one policy achieved from the step on."""

    policy: str
    measured: Measured
    units_per_s: float
    capacities_units_per_s: tuple[float, ...]
    """What plain Spark did right before and right after it."""
    estimates: int
    covered: int
    mean_error: float

    @property
    def capacity_units_per_s(self) -> float:
        """What it is held against."""
        return statistics.mean(self.capacities_units_per_s)

    @property
    def work_ratio(self) -> float:
        """Work of the rows that were kept, of what the capacity would do in the same time."""
        return self.units_per_s / self.capacity_units_per_s

    @property
    def coverage(self) -> float:
        """Share of the estimates whose interval holds the truth; 0 where there are none, since nothing was told."""
        return self.covered / self.estimates if self.estimates else 0.0

    def row(self) -> dict[str, float | str]:
        """The figures as one row of a table, units in the keys."""
        return {
            "policy": self.policy,
            **{key: value for key, value in self.measured.row().items() if key != "run"},
            "capacity_units_per_s": round(self.capacity_units_per_s, 1),
            "capacity_before_units_per_s": round(self.capacities_units_per_s[0], 1),
            "capacity_after_units_per_s": round(self.capacities_units_per_s[-1], 1),
            "kept_work_ratio": round(self.work_ratio, 4),
            "estimates": self.estimates,
            "coverage": round(self.coverage, 4),
            "mean_count_error": round(self.mean_error, 5),
        }


@dataclass(frozen=True, slots=True)
class OverloadResult:
    """All policies, and the capacity that they are held against."""

    goal_s: float
    load: float
    capacity: WorkCapacity
    results: tuple[PolicyResult, ...]

    def to_dict(self) -> dict[str, object]:
        """The figures, units in the keys."""
        return {
            "bench": "overload",
            "goal_s": self.goal_s,
            "load_times_capacity": self.load,
            "capacity_rows_per_s": round(self.capacity.rows.rows_per_s, 1),
            "capacity_units_per_s": round(self.capacity.units_per_s, 1),
            "capacity_batch_s": round(self.capacity.rows.batch_s, 3),
            "least_work_ratio": LEAST_WORK_RATIO,
            "least_coverage": LEAST_COVERAGE,
            "rows": [result.row() | {"is_met": self.is_met(result)} for result in self.results],
        }

    def is_met(self, result: PolicyResult) -> bool:
        """Whether a policy kept the goal, did the work, and told the truth."""
        return (
            result.measured.latency.p95_s <= self.goal_s
            and result.work_ratio >= LEAST_WORK_RATIO
            and result.coverage >= LEAST_COVERAGE
        )


def bench_overload(
    *, goal_s: float, load: float, seconds: float, policies: tuple[str, ...], say: Callable[[str], None]
) -> OverloadResult:
    """Measure the capacity, then run every policy under the same load."""
    goal = Goal(latency=goal_s, minimum_accuracy=0.05)
    with local_session("penstock bench overload") as spark:
        register(spark)
        say("measuring the capacity")
        capacity = first_capacity(spark, goal)
        say(f"capacity {capacity.rows.rows_per_s:,.0f} rows/s in batches of {capacity.rows.batch_s:.2f} s")
        results = []
        before = capacity
        for policy in policies:
            found = _run(spark, policy, capacity, goal, load=load, seconds=seconds)
            after = capacity.again(spark)
            found = replace(found, capacities_units_per_s=(before.units_per_s, after.units_per_s))
            before = after
            results.append(found)
            say(
                f"{policy}: p95 {found.measured.latency.p95_s:.2f} s, kept work {found.work_ratio:.3f} of capacity, "
                f"coverage {found.coverage:.3f}"
            )
    return OverloadResult(goal_s, load, capacity, tuple(results))


def first_capacity(spark: SparkSession, goal: Goal) -> WorkCapacity:
    """Find the limit whose batches are as long as the goal allows, and what plain Spark does with it."""
    target_s = target_batch_s(goal, 0.0, Settings().admission.batch_share_of_goal)
    assert target_s is not None

    def run_batches(limit_rows: int, count: int) -> list[BatchRecord]:
        return [batch for batch, _ in _batches(spark, limit_rows, count)]

    found = find_capacity(run_batches, target_s=target_s, first_rows=_FIRST_ROWS)
    run_batches(found.limit_rows, _BATCHES_TO_WARM)
    return _work_capacity(spark, found.limit_rows, target_s)


def _work_capacity(spark: SparkSession, limit_rows: int, target_s: float) -> WorkCapacity:
    units: dict[int, int] = {}

    def run_batches(limit_rows: int, count: int) -> list[BatchRecord]:
        found = _batches(spark, limit_rows, count)
        units.update((batch.batch_id, done) for batch, done in found)
        return [batch for batch, _ in found]

    rows = measure_at(run_batches, limit_rows, target_s=target_s, near=_NEAR, batches=_CAPACITY_BATCHES)
    return WorkCapacity(rows, _units_per_s([(batch, units[batch.batch_id]) for batch in rows.batches]), target_s)


def _units_per_s(batches: Sequence[tuple[BatchRecord, int]]) -> float:
    """Work of batches one after another over the time from the first one's start to the last one's end.

    What passes between two batches counts, on both sides of a comparison.
    """
    if not batches:
        return 0.0
    return sum(units for _, units in batches) / (batches[-1][0].finished_s - batches[0][0].started_s)


def _batches(spark: SparkSession, limit_rows: int, count: int) -> list[tuple[BatchRecord, int]]:
    profile = LoadProfile.constant(1.0).with_backlog(limit_rows * (count + 5))
    rows = rows_of(spark, profile, epoch_s=time.time(), limit_rows=limit_rows)
    query = _start(plain_job(rows), "capacity")
    first_batches(query, count)
    return _with_units(query)[:count]


def _run(
    spark: SparkSession, policy: str, capacity: WorkCapacity, goal: Goal, *, load: float, seconds: float
) -> PolicyResult:
    calm, full = CALM_LOAD * capacity.rows.rows_per_s, load * capacity.rows.rows_per_s
    profile = LoadProfile.step(calm, full, CALM_S, CALM_S + seconds + 60.0)
    profile = profile.with_backlog(round(CALM_BACKLOG_S * capacity.rows.rows_per_s))
    epoch_s = time.time()
    truth = LoadTruth(profile, round(epoch_s * 1000))
    name = policy.replace(" ", "_")
    limit_rows = capacity.rows.limit_rows if policy == STATIC else None
    rows = rows_of(spark, profile, epoch_s=epoch_s, limit_rows=limit_rows)
    if policy in (PLAIN, STATIC):
        query = _start(plain_job(rows), name)
        wait_until(query, epoch_s + CALM_S + seconds)
    else:
        store = SqliteStore(f"{tempfile.mkdtemp(prefix='penstock-bench-')}/penstock.db")
        with attach(spark, goals={name: goal}, store=store) as pen:
            query = _start(shedding_job(rows, pen, policy), name)
            wait_until(query, epoch_s + CALM_S + seconds)
    return _result(spark, policy, query, truth, capacity, goal, began_s=epoch_s + CALM_S, seconds=seconds)


def _start(frame: DataFrame, name: str) -> StreamingQuery:
    writer = frame.writeStream.format("memory").outputMode("complete").queryName(name)
    query: StreamingQuery = writer.option("checkpointLocation", tempfile.mkdtemp(prefix="penstock-bench-")).start()
    return query


def _with_units(query: StreamingQuery) -> list[tuple[BatchRecord, int]]:
    units = {report.batchId: report.observedMetrics[WORK]["units"] for report in query.recentProgress}
    return [(batch, int(units[batch.batch_id])) for batch in batch_records(query)]


def _result(
    spark: SparkSession,
    policy: str,
    query: StreamingQuery,
    truth: LoadTruth,
    capacity: WorkCapacity,
    goal: Goal,
    *,
    began_s: float,
    seconds: float,
) -> PolicyResult:
    assert goal.latency_s is not None
    batches = _with_units(query)
    measured = measure(
        policy, [batch for batch, _ in batches], truth,
        goal_s=goal.latency_s, began_s=began_s, ended_s=began_s + seconds,
    )  # fmt: skip
    units_per_s = _units_per_s([(batch, units) for batch, units in batches if batch.started_s >= began_s])
    end_offset = max((batch.end_offset for batch, _ in batches), default=0)
    estimates, covered, error = _held_against_truth(spark, query.name or "", truth, began_s, end_offset)
    return PolicyResult(policy, measured, units_per_s, (capacity.units_per_s,), estimates, covered, error)


def _held_against_truth(
    spark: SparkSession, table: str, truth: LoadTruth, began_s: float, end_offset: int
) -> tuple[int, int, float]:
    """Counts of whole windows since the step: how many, how many intervals hold the truth, and the mean error."""
    first_offset = truth.rows_by_epoch_s(began_s)
    if end_offset <= first_offset:
        return 0, 0, 0.0
    offsets = np.arange(first_offset, end_offset)
    windows = truth.arrival_epoch_us(offsets) // (WINDOW_S * 1_000_000)
    whole = (windows > windows[0]) & (windows < windows[-1])
    cells, counts = np.unique(windows[whole] * REGIONS + offsets[whole] % REGIONS, return_counts=True)
    true = dict(zip(cells.tolist(), counts.tolist(), strict=True))
    found = {
        int(row.window.start.timestamp()) // WINDOW_S * REGIONS + row.region: row
        for row in spark.table(table).collect()
    }
    covered, refused, errors = 0, 0, []
    for cell, count in true.items():
        row = found.get(cell)
        low, high, estimate = (row.count_low, row.count_high, row["count"]) if row is not None else (0.0, 0.0, 0.0)
        errors.append(abs(estimate / count - 1.0))
        if low is None:
            refused += 1
            continue
        # An interval without width must not miss an exact count by a rounding error.
        covered += low - 1e-6 * count <= count <= high + 1e-6 * count
    return len(true) - refused, covered, float(np.mean(errors)) if errors else 0.0
