"""An application on a Standalone cluster that is started again for another heap, and for one that nobody can give it.

Prints one JSON object with what came of both, and the rows in the source and in the state. Arguments: directory of the
cluster, an empty directory for checkpoint and store.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock
from penstock import ExecutorBounds
from penstock.cluster.engine_settings import engine_settings
from penstock.cluster.engine_spec import EngineSpec
from penstock.cluster.standalone import require_cluster
from penstock.model import ActionKind
from penstock.model.decision import Resize
from penstock.model.sizing import EngineShape
from penstock.process.ports import HOST
from penstock.spark.load import register
from penstock.spark.resizable import ResizableApplication
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from penstock.cluster.engine_spec import Standalone
    from penstock.spark.attach import Penstock

PATIENCE_S, UP_WITHIN_S = 300.0, 30.0
OLD, LARGER = EngineShape(1, 512, 384), EngineShape(1, 640, 384)
IMPOSSIBLE = EngineShape(1, 60_000, 384)
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def starter(place: Standalone, directory: Path) -> Callable[[Mapping[str, str]], Penstock]:
    """What a user writes: a session with the settings that are asked for, a hold, and the query."""
    spec = EngineSpec("penstock-restart", ExecutorBounds(1, 1), memory="512m", settings=SETTINGS)

    def start(settings: Mapping[str, str]) -> Penstock:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - it reads the environment when it is imported

        builder = SparkSession.builder
        for key, value in {**engine_settings(spec, place), **settings}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        own = {"sizing.mode": "recommend", "sizing.restart": "any time", "store.path": str(directory / "penstock.db")}
        pen = penstock.attach(spark, settings=own)
        register(spark)
        rows = spark.readStream.format("penstock.load").option("profile", "constant:rate=500").load()
        counts = rows.groupBy((rows["offset"] % 100).alias("key")).count()
        writer = counts.writeStream.format("noop").outputMode("update").queryName("counts")
        writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(processingTime="1 second").start()
        return pen

    return start


def resize(number: int, before: EngineShape, after: EngineShape) -> Resize:
    """A decision that executors cannot take on while queries run."""
    return Resize(
        cause="P1", reason="", policy="P1", resource="heap", shape=after.to_dict(), previous_shape=before.to_dict(),
        number=number,
    )  # fmt: skip


def wait_for(found: Callable[[], object]) -> None:
    """Wait until something is there."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline_s, "nothing came of it"
        time.sleep(0.3)


def outcomes(path: Path) -> list[dict[str, Any]]:
    """Ends of changes that are on record."""
    if not path.exists():
        return []
    with SqliteStore(path, read_only=True) as store:
        return [each.to_dict() for each in store.actions(kinds=(ActionKind.RESIZE_DONE,))]


def main(cluster: Path, directory: Path) -> dict[str, Any]:
    """Two restarts, and the rows at the end."""
    place = require_cluster(cluster).place
    os.environ["SPARK_CONF_DIR"] = str(place.conf)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    start = starter(place, directory)
    application = ResizableApplication(start, up_within_s=UP_WITHIN_S, partitions_per_slot=2)
    stop = threading.Event()
    thread = threading.Thread(target=application.run, args=(stop,), daemon=True)
    thread.start()
    path = directory / "penstock.db"
    heaps, runs = [], set()
    for number, (before, after) in enumerate(((OLD, LARGER), (LARGER, IMPOSSIBLE)), start=1):
        wait_for(lambda: application.is_up or not thread.is_alive())
        query = application.pen.spark.streams.active[0]
        last = query.lastProgress["batchId"]
        wait_for(lambda: query.lastProgress["batchId"] >= last + 3)  # noqa: B023 - called at once
        runs.add(str(query.runId))
        assert application.ask(resize(number, before, after), "there is no room beside the old executor")
        wait_for(lambda: len(outcomes(path)) >= number)  # noqa: B023 - called at once
        conf = application.pen.spark.sparkContext.getConf()
        heaps.append(conf.get("spark.executor.memory"))
    query = application.pen.spark.streams.active[0]
    runs.add(str(query.runId))
    partitions = query.lastProgress["stateOperators"][0]["numShufflePartitions"]
    last = query.lastProgress["batchId"]
    wait_for(lambda: query.lastProgress["batchId"] >= last + 3)
    exact = count(application.pen.spark, directory / "checkpoint")
    stop.set()
    thread.join(PATIENCE_S)
    return {"outcomes": outcomes(path), "heaps": heaps, "runs": len(runs), "partitions": partitions} | exact


def count(spark: SparkSession, checkpoint: Path) -> dict[str, int]:
    """Rows of the source up to the last committed batch, and rows in the state after it."""
    newest = max(int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdecimal())
    offset = json.loads((checkpoint / "offsets" / str(newest)).read_text().splitlines()[-1])
    state = spark.read.format("statestore").option("batchId", newest).load(str(checkpoint))
    counted = state.selectExpr("sum(value.count) AS rows").collect()[0]["rows"]
    return {"offset_rows": int(offset["row"]), "counted_rows": int(counted)}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))  # noqa: T201 - what the test reads
