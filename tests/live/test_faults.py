"""What must not go wrong on a real session: threads that stay, buses that hang, stages that Spark forgets."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

from live.helpers import limit_values, limited_rows, load_rows, wait_for_batches, wait_until
from patience import PATIENCE_S
from penstock import Goal
from penstock.model import ActionKind, Metric, QueryName
from penstock.spark import internals

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock

    Attach = Callable[..., Penstock]

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

CYCLES = 6
"""More than the threads and files that may come and go beside: one that each query left would be too many."""


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def start(rows: DataFrame, name: str) -> StreamingQuery:
    return rows.writeStream.format("noop").queryName(name).start()


def test_starts_of_queries_leave_no_thread_and_no_descriptor(spark: SparkSession, attach: Attach) -> None:
    """Half a dozen queries one after another need no more threads and open files of this process than the first."""
    pen = attach(goals={"again": Goal(latency=4)})

    def cycle() -> None:
        query = start(load_rows(spark, "constant:rate=100,backlog=100"), "again")
        wait_for_batches(query, 1)
        query.stop()
        wait_until(lambda: not pen.plant.watched, "end of the watch")

    cycle()
    threads, files = threading.active_count(), open_files()
    for _ in range(CYCLES):
        cycle()
    wait_until(lambda: threading.active_count() <= threads + 2, "end of the threads of queries that are over")
    wait_until(lambda: open_files() <= files + 4, "end of their connections")


class Hanging(StreamingQueryListener):
    """A listener of the user's that does not come back from its first report until it is let go."""

    def __init__(self) -> None:
        self.is_held, self.let_go = threading.Event(), threading.Event()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - a name of Spark
        """Nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: ARG002, N802 - a name of Spark
        """Hang."""
        self.is_held.set()
        self.let_go.wait(120.0)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - a name of Spark
        """Nothing."""


def test_a_listener_of_the_users_that_hangs_does_not_end_the_governing(spark: SparkSession, attach: Attach) -> None:
    """With the bus held up reports are read from the query itself: limits go on being decided, and end with it."""
    hanging = Hanging()
    spark.streams.addListener(hanging)
    try:
        pen = attach(goals={"held": Goal(latency=4)}, settings={"observe.reports_every_s": 0.2})
        query = start(load_rows(spark, "constant:rate=20000,backlog=400000"), "held")
        assert hanging.is_held.wait(60.0)
        decided = len(limit_values(pen.store, "held"))
        wait_until(lambda: len(limit_values(pen.store, "held")) >= decided + 2, "limits decided with the bus held up")
        assert limited_rows(query) != [1000]
        query.stop()
        wait_until(lambda: not pen.plant.watched, "end of the watch")
    finally:
        hanging.let_go.set()
        spark.streams.removeListener(hanging)
    batches = [point.batch_id for point in pen.store.points(QueryName("held"), Metric.BATCH_ROWS)]
    assert len(batches) == len(set(batches)), "no report counts twice"


def test_stages_that_spark_has_forgotten_leave_costs_unknown(spark: SparkSession, attach: Attach) -> None:
    """Core seconds of a run whose stages are gone are None, those of one that is remembered are not; nothing raises."""
    pen = attach()
    query = start(load_rows(spark, "constant:rate=2000,backlog=1000"), "counted")
    wait_for_batches(query, 2)
    group = str(query.runId)
    busy_s, last = internals.core_seconds(spark, group, -1)
    assert busy_s is not None
    assert busy_s > 0
    assert last >= 0
    stages = spark.sparkContext._jsc.sc().statusStore().store()  # type: ignore[union-attr]
    wrapper = spark._jvm.java.lang.Class.forName("org.apache.spark.status.StageDataWrapper")  # type: ignore[union-attr]
    query.stop()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    evicted = 0
    kept = stages.view(wrapper).closeableIterator()
    while kept.hasNext():
        stage = kept.next()
        key = spark._jvm.java.lang.reflect.Array.newInstance(spark._jvm.java.lang.Integer.TYPE, 2)  # type: ignore[union-attr]
        key[0], key[1] = stage.info().stageId(), stage.info().attemptId()
        stages.delete(wrapper, key)
        evicted += 1
    assert evicted
    assert internals.core_seconds(spark, group, -1)[0] is None, "stages are gone"
    forgotten, counted = internals.core_seconds(spark, group, 10**6)
    assert (forgotten, counted) == (None, 10**6), "the last job that was counted is not known any more"
    assert pen.store.actions(kinds=[ActionKind.FAULT]) == []


def test_reports_cannot_be_forged_through_the_port_that_the_jvm_calls(spark: SparkSession, attach: Attach) -> None:
    """Whoever connects there and calls the listener by the ids that Py4J would give it is not heard."""
    pen = attach(goals={"watched": Goal(latency=4)})
    query = start(load_rows(spark, "constant:rate=1000"), "watched")
    wait_for_batches(query, 1)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    port = gateway._callback_server.server_socket.getsockname()[1]
    before = len(pen.store.actions())
    for number in range(40):
        for method in ("_on_progress", "onQueryProgress"):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as caller:
                caller.sendall(f"c\np{number}\n{method}\ns{{}}\ne\n".encode())
                assert caller.makefile("rb").readline().startswith(b"!x")
    query.stop()
    assert [record.action.kind for record in pen.store.actions()[before:]].count(ActionKind.FAULT) == 0


def test_a_start_that_fails_leaves_no_goal_for_the_next(spark: SparkSession, attach: Attach) -> None:
    """The next query of that name, started without a goal, is only observed."""
    pen = attach()
    rows = load_rows(spark, "constant:rate=1000")
    with pytest.raises(Exception, match="no_such_sink"):
        pen.govern(rows.writeStream.format("no_such_sink").queryName("unlucky"), Goal(latency=4)).start()
    query = start(rows, "unlucky")
    wait_for_batches(query, 1)
    assert pen.loop.logic.governed == ()
    assert pen.store.actions(kinds=[ActionKind.GOVERN]) == []
