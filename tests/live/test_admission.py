"""Admission on a real engine: what the read limit does to batches, measured.

The bounds are those that admission promises; the figures behind them are shown with ``-s``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import penstock
from live.helpers import (
    Batch,
    actions_of,
    batches_of,
    costly,
    limit_values,
    load_rows,
    show,
    variation,
    wait_for_batches,
    wait_until,
)
from penstock import Goal, Penstock
from penstock.model import ActionKind
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.live, pytest.mark.alone, pytest.mark.timeout(300)]

Attach = Callable[..., Penstock]
GOAL_S = 3.0
HASHES = 9
SETTLING, MEASURED = 12, 20
WARM = {"admission.first_batch_rows": 40_000}
"""Begins nearer to where it settles; the way there is the matter of other tests."""


def start(rows: DataFrame, name: str) -> StreamingQuery:
    return rows.writeStream.format("noop").queryName(name).start()


def test_backpressure_without_a_restart(spark: SparkSession, attach: Attach) -> None:
    """Under a ramp the limit of an unmodified query moves, while the query runs on: same run, no batch missing."""
    pen = attach(goals={"ramp": Goal(latency="3 seconds")})
    query = start(costly(load_rows(spark, "ramp:from=1000,to=400000,seconds=30,end=hold"), 4), "ramp")
    run_id = str(query.runId)
    wait_until(lambda: len(limit_values(pen.store, "ramp")) >= 8, "eighth limit")
    done = batches_of(query)
    limits = limit_values(pen.store, "ramp")
    show(f"limits {[round(limit) for limit in limits]}")
    assert sum(new != old for old, new in pairwise(limits)) >= 5
    assert [batch.batch_id for batch in done] == list(range(done[0].batch_id, done[0].batch_id + len(done)))
    assert {batch.run_id for batch in done} == {run_id} == {str(query.runId)}
    assert query.isActive
    limited = {action.cause for action in actions_of(pen.store, "ramp", ActionKind.READ_LIMIT)}
    assert len(limited) == len(limits), "each limit answers to a batch of its own"


def test_a_cold_start_on_five_million_rows_keeps_its_goal(spark: SparkSession, attach: Attach) -> None:
    """Governed, no batch after the first takes longer than the goal; plain Spark puts all rows into its first batch."""
    backlog, goal_s = 5_000_000, 5.0
    rows = costly(load_rows(spark, f"constant:rate=0,backlog={backlog}"), HASHES)
    plain_query = start(rows, "plain")
    plain = wait_for_batches(plain_query, 1, within_s=200)[0]
    plain_query.stop()

    pen = attach(goals={"cold": Goal(latency=goal_s)})
    query = start(rows, "cold")
    wait_until(lambda: sum(batch.rows for batch in batches_of(query)) >= backlog, "last of the backlog", within_s=150)
    done = batches_of(query)
    longest_s = max(batch.duration_s for batch in done[1:])
    show(
        f"plain: {plain.rows:,} rows in a first batch of {plain.duration_s:.1f} s; governed: first batch "
        f"{done[0].rows:,} rows in {done[0].duration_s:.1f} s, then up to {max(b.rows for b in done):,} rows, "
        f"longest {longest_s:.2f} s of {len(done)} batches"
    )
    assert plain.rows == backlog
    assert plain.duration_s > goal_s, "the backlog is too cheap to show anything"
    assert done[0].rows == pen.settings.admission.first_batch_rows
    assert longest_s <= goal_s


@dataclass(frozen=True)
class Standing:
    """What a query did with more waiting than fits, after it had settled."""

    batches: list[Batch]
    target_s: float

    @property
    def capacity_rows_per_s(self) -> float:
        """Rows over time, overheads and all."""
        return sum(batch.rows for batch in self.batches) / sum(batch.duration_s for batch in self.batches)


def settled_batches(query: StreamingQuery) -> list[Batch]:
    return wait_for_batches(query, SETTLING + MEASURED, within_s=200)[SETTLING : SETTLING + MEASURED]


@pytest.fixture(scope="module")
def standing(spark: SparkSession) -> Standing:
    """A governed query with a standing backlog, measured once for the tests below."""
    goals = {"standing": Goal(latency=GOAL_S)}
    with penstock.attach(spark, goals=goals, settings=WARM, store=MemoryStore()) as pen:
        query = start(costly(load_rows(spark, "constant:rate=0,backlog=900000000"), HASHES), "standing")
        try:
            batches = settled_batches(query)
        finally:
            query.stop()
        return Standing(batches, GOAL_S * pen.settings.admission.batch_share_of_goal)


def test_a_standing_backlog_settles_at_the_target(standing: Standing) -> None:
    """Over 20 batches their mean is within 20 % of the target and the limit varies by less than 10 %."""
    durations_s = [batch.duration_s for batch in standing.batches]
    # While more waits than fits, a batch has as many rows as the limit in force.
    limits = [float(batch.rows) for batch in standing.batches]
    mean_s = sum(durations_s) / len(durations_s)
    show(
        f"target {standing.target_s:.2f} s: mean {mean_s:.2f} s, from {min(durations_s):.2f} to "
        f"{max(durations_s):.2f} s; limit about {sum(limits) / len(limits):,.0f} rows, "
        f"varies by {variation(limits):.1%}"
    )
    assert len(limits) == 20
    assert abs(mean_s / standing.target_s - 1) < 0.20
    assert variation(limits) < 0.10


def test_ninety_percent_of_capacity_is_read_without_delay(
    spark: SparkSession, attach: Attach, standing: Standing
) -> None:
    """At 90 % load the lag stays under one batch, and no batch is cut that would have fitted."""
    load_rows_per_s = 0.9 * standing.capacity_rows_per_s
    attach(goals={"loaded": Goal(latency=GOAL_S)}, settings=WARM)
    query = start(costly(load_rows(spark, f"constant:rate={load_rows_per_s:.0f}"), HASHES), "loaded")
    done = settled_batches(query)
    lags = [batch.lag_rows for batch in done if batch.lag_rows is not None]
    durations_s = [batch.duration_s for batch in done]
    show(
        f"capacity {standing.capacity_rows_per_s:,.0f} rows/s, load {load_rows_per_s:,.0f}: batches of "
        f"{min(b.rows for b in done):,} to {max(b.rows for b in done):,} rows in {min(durations_s):.2f} to "
        f"{max(durations_s):.2f} s, lag up to {max(lags):,.0f} rows"
    )
    one_batch_rows = standing.capacity_rows_per_s * standing.target_s
    assert len(lags) == len(done) == 20
    assert max(lags) < one_batch_rows
    for batch, lag_rows in zip(done, lags, strict=True):
        # What arrived while the batch was planned waits as well; a batch that was cut leaves more than that.
        cut_rows = lag_rows - 0.1 * one_batch_rows
        assert cut_rows < 0 or batch.rows + cut_rows > 0.8 * one_batch_rows, f"{batch} was cut and would have fitted"
