"""Admission on a real engine: what the read limit does to batches, measured.

The bounds are those that admission promises; the figures behind them are shown with ``-s``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from live.helpers import (
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
from penstock.model import ActionKind, Metric, QueryName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

Attach = Callable[..., Penstock]
WARM = {"admission.first_batch_rows": 20_000}
"""Begins nearer to where it settles; the way there is the matter of other tests."""


def start(rows: DataFrame, name: str) -> StreamingQuery:
    return rows.writeStream.format("noop").queryName(name).start()


def budgets(pen: Penstock, name: str) -> list[float]:
    """The rows that batches might read, one for each batch."""
    return [point.value for point in pen.store.points(QueryName(name), Metric.READ_LIMIT_ROWS)]


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
    rows = costly(load_rows(spark, f"constant:rate=0,backlog={backlog}"), 5)
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


def test_a_standing_backlog_settles_at_the_target(spark: SparkSession, attach: Attach) -> None:
    """Over 20 batches their mean is within 20 % of the target and the limit varies by less than 10 %."""
    goal_s, settling, measured = 2.0, 25, 20
    pen = attach(goals={"standing": Goal(latency=goal_s)}, settings=WARM)
    target_s = goal_s * pen.settings.admission.batch_share_of_goal
    query = start(costly(load_rows(spark, "constant:rate=0,backlog=900000000"), 6), "standing")
    done = wait_for_batches(query, settling + measured, within_s=200)[settling : settling + measured]
    # While more waits than fits, a batch has as many rows as the limit in force.
    limits = [float(batch.rows) for batch in done]
    mean_s = sum(batch.duration_s for batch in done) / measured
    show(
        f"target {target_s:.2f} s: mean {mean_s:.2f} s, from {min(b.duration_s for b in done):.2f} to "
        f"{max(b.duration_s for b in done):.2f} s; limit about {sum(limits) / measured:,.0f} rows, "
        f"varies by {variation(limits):.1%}"
    )
    assert abs(mean_s / target_s - 1) < 0.20
    assert variation(limits) < 0.10


def test_ninety_percent_of_capacity_is_read_without_delay(spark: SparkSession, attach: Attach) -> None:
    """At 90 % load the lag stays under one batch, and no batch is cut that would have fitted."""
    goal_s, settling, measured = 2.0, 15, 20
    pen = attach(goals={"full": Goal(latency=goal_s), "loaded": Goal(latency=goal_s)}, settings=WARM)
    full = start(costly(load_rows(spark, "constant:rate=0,backlog=900000000"), 6), "full")
    last = wait_for_batches(full, settling + 8, within_s=120)[-8:]
    capacity_rows_per_s = sum(batch.rows for batch in last) / sum(batch.duration_s for batch in last)
    full.stop()

    query = start(costly(load_rows(spark, f"constant:rate={0.9 * capacity_rows_per_s:.0f}"), 6), "loaded")
    done = wait_for_batches(query, settling + measured, within_s=150)[settling:]
    fits = budgets(pen, "loaded")[settling:]
    lags = [batch.lag_rows or 0.0 for batch in done]
    show(
        f"capacity {capacity_rows_per_s:,.0f} rows/s, load 90 %: batches of {min(b.rows for b in done):,} to "
        f"{max(b.rows for b in done):,} rows in {min(b.duration_s for b in done):.2f} to "
        f"{max(b.duration_s for b in done):.2f} s, lag up to {max(lags):,.0f} rows, limits from {min(fits):,.0f}"
    )
    one_batch_rows = capacity_rows_per_s * goal_s * pen.settings.admission.batch_share_of_goal
    assert max(lags) < one_batch_rows
    for batch in done:
        # What waits at the end of planning is what arrived meanwhile; a batch that was cut leaves more than that.
        left = (batch.lag_rows or 0.0) - 0.1 * one_batch_rows
        assert left < 0 or batch.rows + left > 0.8 * one_batch_rows, f"{batch} was cut and would have fitted"
