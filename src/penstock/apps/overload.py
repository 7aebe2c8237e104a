"""Runs of the click-fraud pipeline on the load source: capacity, plain Spark, governed."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.apps.capacity import WARM_UP_BATCHES, find_capacity
from penstock.apps.click_fraud import count_patterns, suspects
from penstock.apps.fraud_truth import summarise_fraud
from penstock.apps.load_frame import load_frame
from penstock.apps.measure import batch_records, measure
from penstock.apps.waiting import first_batches, wait_until
from penstock.control.target import target_batch_s
from penstock.model.profile import LoadProfile
from penstock.model.rows import ClicksContent
from penstock.settings import Settings
from penstock.spark.load_rows import LoadTruth

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.apps.fraud_truth import FraudSummary
    from penstock.apps.measure import BatchRecord, Measured
    from penstock.model import Goal
    from penstock.spark.attach import Penstock
    from penstock.spark.govern import GovernedWriter

_CAPACITY_BACKLOG_ROWS = 500_000_000
_CAPACITY_FIRST_ROWS = 60_000
CALM_S, CALM_LOAD, CALM_BACKLOG_S = 22.0, 0.4, 2.0
PLAIN_CALM_S, WARM_UP_S = 10.0, 12.0
"""The plain pipeline is warm from the measuring of its capacity; the guarded one is other code, and has yet to be."""
PLAIN, GOVERNED, WARM_UP = "plain", "governed", "warm_up"


@dataclass(frozen=True, slots=True)
class OverloadRun:
    """What a run achieved, and what it said of the fraudsters."""

    measured: Measured
    fraud: FraudSummary


@dataclass(frozen=True, slots=True)
class Tick:
    """Where a run is now; for whoever shows progress."""

    run: str
    elapsed_s: float
    seconds: float
    batches: int
    last_batch_s: float | None
    lag_rows: int | None


def click_content(seed: int) -> ClicksContent:
    """A few thousand users and addresses: the state stays small enough that rows, not keys, are the work."""
    return ClicksContent(seed=seed, users=3_000, fan_out=100)


def clicks(
    spark: SparkSession, profile: LoadProfile, *, seed: int, epoch_s: float, limit_rows: int | None = None
) -> DataFrame:
    """The stream of click records along a load profile that starts at a moment."""
    content = click_content(seed)
    options = {"content": "clicks", "seed": seed, "users": content.users, "fanOut": content.fan_out}
    return load_frame(spark, profile, epoch_s=epoch_s, limit_rows=limit_rows, **options)


def measure_capacity(
    spark: SparkSession, goal: Goal, *, seed: int, seconds: float, watch: Callable[[Tick], None]
) -> float:
    """Rows per second that the pipeline processes on a standing backlog, in batches of the length the goal allows.

    As its fastest batch did: whatever else the machine does meanwhile, and code that is not compiled yet, only make
    batches slower, and a multiple of a capacity that is found too small is no overload.
    """
    target_s = target_batch_s(goal, 0.0, Settings().admission.batch_share_of_goal)
    assert target_s is not None
    began_s = time.monotonic()
    done: list[BatchRecord] = []

    def run_batches(limit_rows: int, count: int) -> list[BatchRecord]:
        profile = LoadProfile.constant(1.0).with_backlog(_CAPACITY_BACKLOG_ROWS)
        rows = clicks(spark, profile, seed=seed, epoch_s=time.time(), limit_rows=limit_rows)
        query = _start(_writer(rows, "capacity"), "capacity")
        found = first_batches(
            query,
            count,
            lambda: watch(_tick("capacity", query, min(time.monotonic() - began_s, seconds), seconds, None)),
        )
        done.extend(found[WARM_UP_BATCHES:])
        return found

    # Two or three trials are near enough for a demonstration that has three minutes in all.
    find_capacity(run_batches, target_s=target_s, first_rows=_CAPACITY_FIRST_ROWS, most_trials=3, near=0.2)
    return max(batch.rows / batch.duration_s for batch in done)


def warm_up(
    spark: SparkSession,
    pen: Penstock,
    capacity_rows_per_s: float,
    goal: Goal,
    *,
    seed: int,
    watch: Callable[[Tick], None],
) -> None:
    """Run the guarded pipeline on a backlog for a while: it is other code, which Java has yet to compile."""
    target_s = target_batch_s(goal, 0.0, Settings().admission.batch_share_of_goal)
    assert target_s is not None
    profile = LoadProfile.constant(1.0).with_backlog(_CAPACITY_BACKLOG_ROWS)
    limit_rows = max(1, round(capacity_rows_per_s * target_s / 2))
    began_s = time.time()
    rows = clicks(spark, profile, seed=seed, epoch_s=began_s, limit_rows=limit_rows)
    query = _start(_writer(pen.guard(rows), WARM_UP), WARM_UP)
    wait_until(
        query,
        began_s + WARM_UP_S,
        lambda: watch(_tick(WARM_UP, query, min(time.time() - began_s, WARM_UP_S), WARM_UP_S, None)),
    )


def run_overload(
    spark: SparkSession,
    name: str,
    capacity_rows_per_s: float,
    load: float,
    goal: Goal,
    *,
    pen: Penstock | None,
    seed: int,
    seconds: float,
    watch: Callable[[Tick], None],
) -> OverloadRun:
    """Run the pipeline for so many seconds under a multiple of the capacity, governed where there is a Penstock.

    Before that come some calm seconds on a small backlog, in which engine and controller warm up; all is measured
    from the step to the full load on. A goal with a minimum accuracy below one gets a guard as well.
    """
    calm, full = CALM_LOAD * capacity_rows_per_s, load * capacity_rows_per_s
    calm_s = PLAIN_CALM_S if pen is None else CALM_S
    profile = LoadProfile.step(calm, full, calm_s, calm_s + seconds + 60.0)
    profile = profile.with_backlog(round(CALM_BACKLOG_S * capacity_rows_per_s))
    epoch_s = time.time()
    step_s, ends_s = epoch_s + calm_s, epoch_s + calm_s + seconds
    truth = LoadTruth(profile, round(epoch_s * 1000))
    rows = clicks(spark, profile, seed=seed, epoch_s=epoch_s)
    if pen is None:
        query = _start(_writer(rows, name), name)
    else:
        guarded = rows if goal.minimum_accuracy >= 1.0 else pen.guard(rows)
        query = _start(pen.govern(_writer(guarded, name), goal), name)
    wait_until(query, ends_s, lambda: watch(_tick(name, query, time.time() - epoch_s, calm_s + seconds, truth)))
    # A batch that finished while the query was being stopped is in the results, but not in time.
    batches = batch_records(query)
    assert goal.latency_s is not None
    measured = measure(name, batches, truth, goal_s=goal.latency_s, began_s=step_s, ended_s=ends_s)
    end_offset = max((batch.end_offset for batch in batches), default=0)
    fraud = summarise_fraud(spark, name, click_content(seed), truth, end_offset=end_offset)
    return OverloadRun(measured, fraud)


def _writer(rows: DataFrame, name: str) -> DataStreamWriter:
    found = suspects(count_patterns(rows))
    return found.writeStream.format("memory").outputMode("update").queryName(name)


def _start(writer: DataStreamWriter | GovernedWriter, name: str) -> StreamingQuery:
    checkpoint = tempfile.mkdtemp(prefix=f"penstock-{name}-")
    query: StreamingQuery = writer.option("checkpointLocation", checkpoint).start()
    return query


def _tick(name: str, query: StreamingQuery, elapsed_s: float, seconds: float, truth: LoadTruth | None) -> Tick:
    failure = query.exception()
    if failure is not None:
        raise failure
    batches = batch_records(query)
    lag = None
    if truth is not None:
        lag = truth.rows_by_epoch_s(time.time()) - (batches[-1].end_offset if batches else 0)
    return Tick(name, elapsed_s, seconds, len(batches), batches[-1].duration_s if batches else None, lag)
