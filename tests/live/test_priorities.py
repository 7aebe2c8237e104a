"""Two governed queries on one engine that cannot hold both: who drops rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from live.helpers import actions_of, load_rows, show
from penstock import Goal
from penstock.apps.waiting import first_batches
from penstock.bench.priorities import dear
from penstock.model import ActionKind, Metric, QueryName

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from penstock import Penstock

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(600)]

SHARE_OF_CAPACITY = 0.65
"""Of what the engine does for one query alone: each fits, both together do not."""
ROWS_PER_BATCH = 40_000
RUN_S, MEASURED_S = 110.0, 40.0


def capacity_rows_per_s(spark: SparkSession) -> float:
    """Rows that one query processes in a second of its batches, once the engine is warm."""
    rows = load_rows(spark, "constant:rate=0,backlog=100000000", maxRowsPerBatch=str(ROWS_PER_BATCH))
    query = dear(rows).writeStream.format("noop").start()
    settled = first_batches(query, 24)[14:]
    return sum(batch.rows for batch in settled) / sum(batch.duration_s for batch in settled)


def test_the_query_of_low_priority_drops_rows_first(stopping: SparkSession, attach: Callable[..., Penstock]) -> None:
    """Each would fit alone. Together the low one gives way, and the high one keeps nearly everything."""
    goals = {name: Goal(latency=4, priority=p, minimum_accuracy=0.05) for name, p in (("low", 1), ("high", 5))}
    pen = attach(goals=goals, settings={"admission.first_batch_rows": 20_000})
    rate = round(SHARE_OF_CAPACITY * capacity_rows_per_s(stopping))
    for name in goals:
        rows = pen.guard(load_rows(stopping, f"constant:rate={rate}"))
        dear(rows).writeStream.format("noop").queryName(name).start()
    time.sleep(RUN_S)
    since_s = time.time() - MEASURED_S
    kept = {}
    for name in goals:
        points = pen.store.points(QueryName(name), Metric.MEASURED_ACCURACY, since_s=since_s)
        assert points, f"{name} finished no batch"
        kept[name] = sum(point.value for point in points) / len(points)
    show(f"{rate:,} rows/s each: kept of low {kept['low']:.2f}, of high {kept['high']:.2f}")
    assert kept["high"] > 0.85
    assert kept["low"] < 0.7
    reasons = [action.reason for action in actions_of(pen.store, "low", ActionKind.KEEP_RATIO)]
    assert any("gives way to the engine's other queries" in reason for reason in reasons)
