"""An engine on a cluster: a Spark application and its executors."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cluster.engine_settings import engine_settings
from penstock.cluster.engine_spec import Standalone
from penstock.errors import ClusterError
from penstock.process.ports import HOST
from penstock.spark.executor_plant import why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from penstock.cluster.engine_spec import EngineSpec, Place


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine."""

    spec: EngineSpec
    place: Place
    spark: SparkSession


@contextmanager
def running_engine(spec: EngineSpec, place: Place) -> Iterator[Engine]:
    """Start an engine and end it with all its queries.

    On Standalone it has all executors up to its maximum, until :func:`penstock.attach` with an application that
    declares executors brings it to its first size (docs/adr/0011-executors-leave-gracefully.md).
    """
    # Executors must run the driver's own interpreter unless told otherwise: another may be of another version.
    os.environ["PYSPARK_PYTHON"] = spec.python or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {spec.driver_memory} pyspark-shell"
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it reads the variables above when it is imported

    from penstock.spark.internals import end_session  # noqa: PLC0415 - as above

    if SparkSession.getActiveSession() is not None:
        raise ClusterError(f"engine {spec.name}: a session is active in this program already; stop it first")
    builder = SparkSession.builder
    for key, value in {**_of_this_driver(place), **engine_settings(spec, place)}.items():
        builder = builder.config(key, value)
    with _settings_of(place):
        spark = builder.getOrCreate()
    try:
        why = why_not(spark, spec.bounds)
        if why is not None:
            raise ClusterError(f"engine {spec.name} cannot be scaled: {why}")
        yield Engine(spec, place, spark)
    finally:
        for query in spark.streams.active:
            query.stop()
        end_session(spark)


@contextmanager
def _settings_of(place: Place) -> Iterator[None]:
    """Let the JVM that starts now read the settings of a cluster: on its command line everybody could read them."""
    if not isinstance(place, Standalone) or place.conf is None:
        yield
        return
    before = os.environ.get("SPARK_CONF_DIR")
    os.environ["SPARK_CONF_DIR"] = place.conf
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_CONF_DIR"]
        else:
            os.environ["SPARK_CONF_DIR"] = before


def _of_this_driver(place: Place) -> dict[str, str]:
    settings = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    if isinstance(place, Standalone) and place.master_url.startswith(f"spark://{HOST}:"):
        # A cluster on loopback has workers that see no other address of this machine.
        settings |= {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST}
    return settings
