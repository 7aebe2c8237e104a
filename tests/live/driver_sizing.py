"""A driver on a Standalone cluster whose Python workers hold on to memory while its heap has room.

Prints one JSON object with what the policies said. Arguments: directory of the cluster.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock
from penstock import ExecutorBounds
from penstock.cluster.engine import running_engine
from penstock.cluster.engine_spec import EngineSpec
from penstock.cluster.standalone import require_cluster
from penstock.model import ActionKind
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

PATIENCE_S = 240.0
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.executor.processTreeMetrics.enabled": "true",
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeout": "1200s",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
SIZING = {"sizing.mode": "recommend", "sizing.window_s": 5.0, "sizing.down_after_s": 3600.0}


def hold_memory(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Pass rows on, and keep 40 MB for every task; on a module, because a worker outlives its tasks."""
    held = sys.__dict__.setdefault("_held_by_the_test", [])
    held.append(bytearray(b"x") * (40 * 1024 * 1024))
    yield from batches


def main(directory: Path) -> dict[str, Any]:
    """Wait for the first recommendation."""
    bounds = ExecutorBounds(1, 1)
    spec = EngineSpec("penstock-python", bounds, memory="512m", memory_overhead="384m", settings=SETTINGS)
    with running_engine(spec, require_cluster(directory).place) as engine:
        engine.spark.sparkContext.setLogLevel("OFF")
        store = MemoryStore()
        with penstock.attach(engine.spark, settings=SIZING, store=store) as pen:
            rows = engine.spark.readStream.format("rate").option("rowsPerSecond", 100).option("numPartitions", 1).load()
            held = rows.mapInPandas(hold_memory, rows.schema)
            query = held.writeStream.format("noop").trigger(processingTime="1 second").start()
            deadline_s = time.monotonic() + PATIENCE_S
            while not store.actions(kinds=(ActionKind.RESIZE,)) and time.monotonic() < deadline_s:
                assert query.exception() is None, query.exception()
                time.sleep(0.5)
            sizing = pen.loop.logic.sizing
            found = None if sizing is None or sizing.last_round is None else sizing.last_round
            query.stop()
        return {
            "actions": [record.to_dict() for record in store.actions()],
            "verdicts": [] if found is None else [verdict.to_dict() for verdict in found.verdicts],
            "batches": len(query.recentProgress),
        }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))  # noqa: T201 - what the test reads
