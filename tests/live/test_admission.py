"""Admission on a real engine: what the read limit does to batches.

How long batches are and how well a load is followed is measured by ``penstock bench admission``.
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
    wait_for_batches,
    wait_until,
)
from penstock import Goal, Penstock
from penstock.model import ActionKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.live, pytest.mark.timeout(750)]

Attach = Callable[..., Penstock]


def start(rows: DataFrame, name: str) -> StreamingQuery:
    return rows.writeStream.format("noop").queryName(name).start()


def test_backpressure_without_a_restart(spark: SparkSession, attach: Attach) -> None:
    """Under a ramp the limit of an unmodified query moves, while the query runs on: same run, no batch missing."""
    pen = attach(goals={"ramp": Goal(latency="3 seconds")})
    query = start(costly(load_rows(spark, "ramp:from=50000,to=400000,seconds=20,end=hold"), 4), "ramp")
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


def test_a_cold_start_on_a_backlog_is_cut_into_batches_that_were_decided(spark: SparkSession, attach: Attach) -> None:
    """Governed, no batch reads more than the limits on record allow; plain Spark puts all rows into its first batch."""
    backlog = 500_000
    rows = costly(load_rows(spark, f"constant:rate=0,backlog={backlog}"), 2)
    plain_query = start(rows, "plain")
    plain = wait_for_batches(plain_query, 1)[0]
    plain_query.stop()
    assert plain.rows == backlog

    pen = attach(goals={"cold": Goal(latency=5)})
    query = start(rows, "cold")
    done = wait_for_batches(query, 6)
    limits = limit_values(pen.store, "cold")
    show(f"batches of {[batch.rows for batch in done]} rows")
    assert done[0].rows == pen.settings.admission.first_batch_rows
    # While more waits than fits, a batch has as many rows as one of the limits that were in force.
    assert {float(batch.rows) for batch in done if batch.lag_rows} <= set(limits)
    growth = pen.settings.admission.growth_factor
    assert all(new.rows <= growth * max(old.rows for old in done[:index]) for index, new in enumerate(done) if index)
