"""What lives in a real heap, asked of the JVM itself: with the default collector, and with each of two others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import StorageLevel
from pyspark.sql import functions as fn

from live.helpers import load_rows, show, wait_for_batches, wait_until
from patience import PATIENCE_S, wait_for
from penstock.spark import internals
from penstock.spark.heap_looks import HeapLook, HeapLooks
from penstock.spark.internals import Ability

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.timeout(750)]

MB = 1024 * 1024
HERE = Path(__file__).parent


def live_mb(spark: SparkSession) -> float:
    """What lives in the one JVM of the session."""
    (found,) = internals.living_heaps(internals.heap_question(spark))
    assert found.executor_id == "driver"
    assert found.collected_s > 0
    return found.live_bytes / MB


def settled_mb(spark: SparkSession) -> float:
    """What lives once two looks find the same: Spark lets go of what ended queries held only after a collection."""
    looks = [live_mb(spark)]

    def is_settled() -> bool:
        looks.append(live_mb(spark))
        return abs(looks[-1] - looks[-2]) < 2.0

    wait_until(is_settled, "heap in which nothing is let go of")
    return looks[-1]


def look_once(looks: HeapLooks) -> HeapLook | None:
    """One look from begin to end; None for one that found no task running."""
    looks.begin()
    assert wait_for(lambda: not looks.is_busy)
    return looks.take()


def test_what_is_cached_lives_and_what_was_let_go_of_does_not(stopping: SparkSession) -> None:
    """A table of 96 MB is seen, whatever else is let go of meanwhile, and it is gone when it is not kept any more."""
    assert Ability.LIVE_HEAP not in internals.probe(stopping)
    before = settled_mb(stopping)
    rows = stopping.range(0, 96 * 8 * 1024, 1, 4)
    texts = [fn.sha2((fn.col("id") + place).cast("string"), 256).alias(f"text_{place}") for place in (0, 1)]
    table = rows.select(*texts).persist(StorageLevel.MEMORY_ONLY)
    table.count()
    kept = live_mb(stopping)
    table.unpersist(blocking=True)
    after = live_mb(stopping)
    assert kept - before > 64
    assert kept - after > 64
    show(f"{before:.0f} MB live, {kept:.0f} MB with a table of 96 MB, {after:.0f} MB without it")


def test_a_query_that_runs_is_looked_at_beside_its_batches(stopping: SparkSession, tmp_path: Path) -> None:
    """Looks come while tasks run, the second tells how fast the old generation fills, and no batch fails for it."""
    rows = load_rows(stopping, "constant:rate=500")
    writer = rows.groupBy((fn.col("offset") % 50).alias("number")).count().writeStream.format("noop")
    trigger = writer.outputMode("update").trigger(processingTime="1 second")
    query = trigger.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    wait_for_batches(query, 2)
    looks = HeapLooks(stopping, within_s=PATIENCE_S)
    found = [wait_until(lambda: look_once(looks), "look") for _ in range(2)]
    looks.close()
    assert all(20 < look.live_mb < 1024 and look.full_gc_s > 0 for look in found)
    assert [look.aging_mb_per_s is not None for look in found] == [False, True]
    wait_for_batches(query, len(query.recentProgress) + 2)
    assert query.exception() is None


@pytest.mark.slow
@pytest.mark.parametrize("collector", ["UseSerialGC", "UseParallelGC", "UseG1GC"])
def test_every_collector_tells_the_same(collector: str) -> None:
    """A table of 64 MB is told, by G1 with what it wastes on large arrays; a JVM that may not collect is left out."""
    command = [sys.executable, str(HERE / "driver_live_heap.py"), f"-XX:+{collector}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    # G1 gives an array of half a region or more whole regions.
    assert 0.75 * 64 < told["table_mb"] < (2.5 if collector == "UseG1GC" else 1.25) * 64
    refused = subprocess.run([*command[:2], f"{command[2]} -XX:+DisableExplicitGC"], capture_output=True, check=False)
    assert json.loads(refused.stdout.splitlines()[-1]) == {"table_mb": None}
    show(f"{collector}: {told['table_mb']:.0f} MB of 64 MB")
