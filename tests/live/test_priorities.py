"""Two governed queries on one engine that cannot hold both: who drops rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from live.helpers import actions_of, costly, load_rows, show
from penstock import Goal
from penstock.model import ActionKind, Metric, QueryName

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from penstock import Penstock

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(240)]

RATE = 90_000
HASHES = 60
RUN_S, MEASURED_S = 110.0, 40.0


def test_the_query_of_low_priority_drops_rows_first(stopping: SparkSession, attach: Callable[..., Penstock]) -> None:
    """Each would fit alone. Together the low one gives way, and the high one keeps nearly everything."""
    goals = {name: Goal(latency=4, priority=p, minimum_accuracy=0.05) for name, p in (("low", 1), ("high", 5))}
    pen = attach(goals=goals, settings={"admission.first_batch_rows": 20_000})
    for name in goals:
        rows = pen.guard(load_rows(stopping, f"constant:rate={RATE}"))
        costly(rows, HASHES).writeStream.format("noop").queryName(name).start()
    time.sleep(RUN_S)
    since_s = time.time() - MEASURED_S
    kept = {}
    for name in goals:
        points = pen.store.points(QueryName(name), Metric.MEASURED_ACCURACY, since_s=since_s)
        assert points, f"{name} finished no batch"
        kept[name] = sum(point.value for point in points) / len(points)
    show(f"kept of low {kept['low']:.2f}, of high {kept['high']:.2f}")
    assert kept["high"] > 0.85
    assert kept["low"] < 0.7
    reasons = [action.reason for action in actions_of(pen.store, "low", ActionKind.KEEP_FRACTION)]
    assert any("gives way to the engine's other queries" in reason for reason in reasons)
