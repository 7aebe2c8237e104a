"""One small Spark session for all live tests, and a hold on it that always ends."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from penstock import Penstock
    from penstock.kafka.broker import Cluster

collect_ignore = ["fleet_modules"]
"""Modules of engines, one of which is broken on purpose."""

_ANSWERED_WITHIN_S = 60.0
"""How long a batch waits for its keep ratio where a test does not say.

Half a second, as in use, passes where a dozen programs want two cores: the batch would keep what it falls back on.
"""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two cores and one gigabyte, on which nothing is registered."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import SparkContext  # noqa: PLC0415 - the interpreter must be set first
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    from penstock.kafka import jars  # noqa: PLC0415 - as above
    from penstock.spark import directives  # noqa: PLC0415 - as above
    from penstock.spark.internals import end_session  # noqa: PLC0415 - as above

    # A JVM that a module started when it was imported has neither the connector nor the memory that are asked for here.
    assert SparkContext._gateway is None, "something started a JVM before the session of the tests"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("penstock-tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.scheduler.mode", "FAIR")
        .config("spark.executor.heartbeatInterval", "1s")
        .config("spark.jars", ",".join(jars()))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    # As for the longest wait for an answer, below: a question that stood still on its way is no stranger's.
    directives._READ_WITHIN_S = directives._SEND_WITHIN_S = _ANSWERED_WITHIN_S
    yield session
    end_session(session)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker of its own for all tests that share it, on a free port, gone with the last of them."""
    from penstock.kafka.broker import running_cluster  # noqa: PLC0415 - only live tests need a broker
    from penstock.kafka.broker_config import ClusterSpec  # noqa: PLC0415 - as above
    from penstock.process.ports import free_port  # noqa: PLC0415 - as above

    with running_cluster(ClusterSpec(tmp_path_factory.mktemp("kafka"), port=free_port())) as cluster:
        yield cluster


@pytest.fixture
def stopping(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, on which no query of this test runs on afterwards."""
    yield spark
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def attach(stopping: SparkSession) -> Iterator[Callable[..., Penstock]]:
    """Attach to the session with a store in memory; queries are stopped and the hold ends with the test."""
    import penstock  # noqa: PLC0415 - Spark is imported only where a test asks for it
    from penstock.settings import Settings  # noqa: PLC0415 - imported only where it is used
    from penstock.store import MemoryStore  # noqa: PLC0415 - imported only where it is used

    holds: list[Penstock] = []

    def hold(**arguments: Any) -> Penstock:
        chosen = arguments.pop("settings", None) or {}
        if not isinstance(chosen, Settings):
            chosen = {"directives.timeout_s": _ANSWERED_WITHIN_S, **chosen}
        holds.append(penstock.attach(stopping, **{"store": MemoryStore(), "settings": chosen, **arguments}))
        return holds[-1]

    yield hold
    for query in stopping.streams.active:
        query.stop()
    for pen in holds:
        pen.detach()
