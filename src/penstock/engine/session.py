"""The Spark application of an engine, of any kind, with fair pools."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cluster.engine import running_engine
from penstock.cluster.engine_spec import EngineSpec, Kubernetes, Standalone, Yarn
from penstock.errors import FleetError
from penstock.model.executors import ExecutorBounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from penstock.cluster.engine_spec import Place
    from penstock.fleet_declaration import EngineDeclaration

_LOOPBACK = "127.0.0.1"
_WARM_BATCHES, _WARM_WITHIN_S, _LOOK_EVERY_S = 4, 30.0, 0.05


def common_settings() -> dict[str, str]:
    """What every engine's Spark needs to host queries of others."""
    return {
        # Tasks of a query do not wait for all tasks of another, and for none of one of lower priority that waits too.
        "spark.scheduler.mode": "FAIR",
        # A stop waits for the query's thread; one that hangs must not hold a move up for ever.
        "spark.sql.streaming.stopTimeout": "20s",
        # The checkpoint's owner is written before Spark sees it, and a kill may leave a torn file: neither makes it
        # somebody else's checkpoint.
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }


def local_settings(declared: EngineDeclaration) -> dict[str, str]:
    """Settings of a local engine.

    Examples
    --------
    >>> from penstock.fleet_declaration import EngineDeclaration
    >>> settings = local_settings(EngineDeclaration("left", cores=2, spark={"spark.sql.shuffle.partitions": "8"}))
    >>> settings["spark.master"], settings["spark.sql.shuffle.partitions"], settings["spark.scheduler.mode"]
    ('local[2]', '8', 'FAIR')
    """
    jars = {"spark.jars": ",".join(declared.jars)} if declared.jars else {}
    return {
        **common_settings(),
        "spark.app.name": f"penstock engine {declared.name}",
        "spark.master": f"local[{declared.cores}]",
        "spark.driver.memory": declared.memory,
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.sql.shuffle.partitions": str(declared.cores),
        **jars,
        **declared.spark,
    }


def place_of(declared: EngineDeclaration) -> Place:
    """Where the executors of an engine that is not local run."""
    place = declared.place
    if declared.kind == "standalone":
        return Standalone(place["master"], place.get("page"), place.get("conf"))
    if declared.kind == "yarn":
        return Yarn(place.get("queue", "default"))
    return Kubernetes(
        place["api_server"], place["image"], place.get("namespace", "default"), place.get("service_account")
    )


def cluster_spec(declared: EngineDeclaration) -> EngineSpec:
    """An engine that is not local, in the words of :mod:`penstock.cluster`; its size stays what is declared."""
    path = module_path(declared.modules, os.environ)
    settings = {**common_settings(), "spark.executorEnv.PYTHONPATH": path, **declared.spark}
    return EngineSpec(
        f"penstock engine {declared.name}",
        ExecutorBounds(declared.executors, declared.executors, declared.executors),
        cores=declared.executor_cores,
        memory=declared.executor_memory,
        driver_memory=declared.memory,
        jars=declared.jars,
        settings=settings,
    )


@contextmanager
def engine_session(declared: EngineDeclaration) -> Iterator[SparkSession]:
    """Start the Spark application of an engine, and end it with all its queries."""
    pin_to(declared)
    # Python workers import what queries are made of as the driver does.
    os.environ["PYTHONPATH"] = module_path(declared.modules, os.environ)
    if declared.kind != "local":
        with running_engine(cluster_spec(declared), place_of(declared)) as engine:
            yield engine.spark
        return
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {declared.memory} pyspark-shell"
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it reads the variables above when it is imported

    from penstock.spark.internals import end_session  # noqa: PLC0415 - as above

    builder = SparkSession.builder
    for key, value in local_settings(declared).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        for query in spark.streams.active:
            query.stop()
        end_session(spark)


def warm_up(spark: SparkSession, *, sink: str = "json") -> None:
    """Run a small query that nobody needs, so that the first one that somebody moves here finds classes loaded.

    A query on a cold JVM takes several times as long to its first batch, and all of that is downtime of a move. This
    one reads from a source in Python, so that Python workers run, and writes files where executors are on this machine.
    """
    from penstock.spark.load import register  # noqa: PLC0415 - Spark is imported only where it is used

    register(spark)
    with tempfile.TemporaryDirectory(prefix="penstock-warm-up-", ignore_cleanup_errors=True) as place:
        rows = spark.readStream.format("penstock.load").option("profile", "constant:rate=100").load()
        writer = rows.writeStream.format(sink).option("checkpointLocation", f"{place}/checkpoint")
        query = writer.trigger(processingTime="100 milliseconds").start(f"{place}/rows")
        try:
            deadline_s = time.monotonic() + _WARM_WITHIN_S
            while query.isActive and time.monotonic() < deadline_s:
                last = query.lastProgress
                if last is not None and last.batchId >= _WARM_BATCHES:
                    break
                time.sleep(_LOOK_EVERY_S)
        finally:
            query.stop()


def pin_to(declared: EngineDeclaration) -> None:
    """Keep this process, and the JVM and Python workers that it starts, on the cores that are declared."""
    if not declared.pin:
        return
    allowed = os.sched_getaffinity(0)
    missing = sorted(set(declared.pin) - allowed)
    if missing:
        raise FleetError(
            f"engine {declared.name!r} cannot be pinned to core {missing[0]}: this process may use "
            f"{', '.join(map(str, sorted(allowed)))}; change pin of [engines.{declared.name}]"
        )
    os.sched_setaffinity(0, declared.pin)


def module_path(modules: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """``PYTHONPATH`` with the paths of application modules behind what is there already.

    Examples
    --------
    >>> module_path(["/srv/apps"], {"PYTHONPATH": "/opt/lib"})
    '/opt/lib:/srv/apps'
    """
    before = (environment or {}).get("PYTHONPATH", "")
    return os.pathsep.join([*(part for part in before.split(os.pathsep) if part), *modules])
