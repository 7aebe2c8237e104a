"""A local Spark session for demonstrations and benchmarks."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession


@contextmanager
def local_session(
    name: str,
    *,
    cores: int = 2,
    memory: str = "2g",
    log: Path | None = None,
    jars: Sequence[str] = (),
    heartbeat_s: int = 10,
    is_fair: bool = True,
) -> Iterator[SparkSession]:
    """A quiet session on this machine, on loopback only, ended with everything in it.

    Running tasks tell how far they are with each heartbeat. With a fair scheduler, tasks of governed queries go by
    their priority.

    What the JVM and its workers write goes to ``log``: a query that is stopped in the middle of a batch leaves
    complaints of workers whose pipe broke, which mean nothing to whoever watches a demonstration.
    """
    # Executors must run the driver's own interpreter: another one would lack Penstock, or be another version.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {memory} --conf spark.log.level=ERROR pyspark-shell"
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it reads the variables above when it is imported

    from penstock.spark.internals import end_session  # noqa: PLC0415 - as above

    options = {
        "spark.scheduler.mode": "FAIR" if is_fair else "FIFO",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.executor.heartbeatInterval": f"{heartbeat_s}s",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in options.items():
        builder = builder.config(key, value)
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
    with _standard_error_to(log):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        for query in spark.streams.active:
            query.stop()
        end_session(spark)


@contextmanager
def _standard_error_to(log: Path | None) -> Iterator[None]:
    """Give a process that is started meanwhile another place for its complaints."""
    kept = os.dup(2)
    target = os.open(log or Path(os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)
