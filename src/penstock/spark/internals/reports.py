"""Progress reports as text, as they come and as they are kept, and the way back from the JVM that they take."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from penstock.spark.internals.callbacks import OnlyCallbacks, callback_gateway
from penstock.spark.internals.members import LISTENER_CLASS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.internals.handles import JavaObject


_CALLED_BY_SPARK = frozenset({"onQueryStarted", "onQueryProgress", "onQueryIdle", "onQueryTerminated"})


class _TextReports:
    """Spark's listener interface over Py4J, which fetches each progress report in one call.

    Spark's own fetches it field by field: some hundred calls, 0.2 s of a busy two-core machine for every batch.
    """

    def __init__(self, listener: StreamingQueryListener, on_progress: Callable[[str], None]) -> None:
        self._listener = listener
        self._on_progress = on_progress

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802 - a name of Spark
        from pyspark.sql.streaming.listener import QueryStartedEvent  # noqa: PLC0415 - imported only where it is used

        self._listener.onQueryStarted(QueryStartedEvent.fromJObject(event))

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802 - a name of Spark
        self._on_progress(str(event.progress().json()))

    def onQueryIdle(self, event: JavaObject) -> None:  # noqa: N802 - a name of Spark
        """Nothing to do: no batch was run."""

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802 - a name of Spark
        from pyspark.sql.streaming.listener import QueryTerminatedEvent  # noqa: PLC0415 - imported only where used

        self._listener.onQueryTerminated(QueryTerminatedEvent.fromJObject(event))


def take_reports_as_text(listener: StreamingQueryListener, on_progress: Callable[[str], None]) -> None:
    """Give a listener, before it is added, its progress reports as JSON and not as objects."""
    reports = OnlyCallbacks(_TextReports(listener, on_progress), LISTENER_CLASS, _CALLED_BY_SPARK)
    wrapper = callback_gateway().jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
    listener._jlistenerobj = wrapper(reports)  # noqa: SLF001 - what this package is for


def thread_connection() -> JavaObject | None:
    """The connection on which the JVM calls this thread; None outside of a call from the JVM."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used

    client = getattr(SparkContext._gateway, "_gateway_client", None)  # noqa: SLF001 - what this package is for
    find = getattr(client, "get_thread_connection", None)
    connection = None if find is None else find()
    # One that Python opened itself is the thread's own, and is not ours to end.
    return None if connection is None or connection.initiated_from_client else connection


def end_connection(connection: JavaObject | None) -> None:
    """End a connection whose thread in the JVM is gone, and with it the Python thread that waits at its other end.

    Py4J keeps both for ever: one thread, one connection and one file descriptor for every query that was started.
    """
    found = getattr(connection, "socket", None)
    if found is not None:
        # Not closed from here: that would wait for the thread that reads from it. Shut down, the thread reads the end.
        with suppress(OSError):
            found.shutdown(socket.SHUT_RDWR)


def last_report(query: StreamingQuery) -> str | None:
    """The newest progress report of a query as JSON, in one call; None before its first."""
    report = query._jsq.lastProgress()  # noqa: SLF001 - what this package is for
    return None if report is None else str(report.json())


def reports_after(query: StreamingQuery, batch_id: int | None) -> list[str]:
    """Progress reports as JSON, oldest first, that are newer than a batch; only the newest where there is none.

    One call where nothing is new: this is asked every second.
    """
    newest = query._jsq.lastProgress()  # noqa: SLF001 - what this package is for
    if newest is None:
        return []
    last_id = int(newest.batchId())
    # A smaller number is another run, from another checkpoint.
    if batch_id is None or last_id <= batch_id + 1:
        return [] if last_id == batch_id else [str(newest.json())]
    kept = query._jsq.recentProgress()  # noqa: SLF001 - what this package is for
    found: list[str] = []
    for index in range(len(kept) - 1, -1, -1):
        if int(kept[index].batchId()) <= batch_id:
            break
        found.append(str(kept[index].json()))
    return found[::-1]


class SeenReport(NamedTuple):
    """Which report of one run was the last that was seen.

    A run numbers its batches upwards, whatever the clock of the machine does. While it finds no rows it reports under
    the number of the batch to come, again and again; then comes the batch itself, and nothing more of that number.

    Examples
    --------
    >>> idle = SeenReport(4, is_batch=False, began="10:00:07Z")
    >>> idle.is_before(4, "10:00:07Z"), idle.is_before(4, "09:50:17Z"), idle.is_before(3, "10:00:17Z")
    (False, True, False)
    >>> batch = SeenReport(4, is_batch=True, began="09:50:18Z")
    >>> batch.is_before(4, "10:00:07Z"), batch.is_before(5, "09:50:19Z")
    (False, True)
    """

    batch_id: int
    is_batch: bool
    began: str

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> Self:
        """What tells a report, as parsed JSON, from the others of its run."""
        return cls(int(progress["batchId"]), "addBatch" in progress["durationMs"], str(progress["timestamp"]))

    def is_before(self, batch_id: int, began: str) -> bool:
        """Whether another report came after this one."""
        if batch_id != self.batch_id:
            return batch_id > self.batch_id
        return not self.is_batch and began != self.began


def unseen_reports(query: StreamingQuery, seen: SeenReport | None) -> list[str]:
    """Progress reports of a run as JSON, oldest first, that came after the last one that was seen.

    Three calls where nothing is new. The query itself keeps these, before anybody is told of them.
    """

    def is_new(report: JavaObject) -> bool:
        return seen is None or seen.is_before(int(report.batchId()), str(report.timestamp()))

    newest = query._jsq.lastProgress()  # noqa: SLF001 - what this package is for
    if newest is None or not is_new(newest):
        return []
    kept = query._jsq.recentProgress()  # noqa: SLF001 - what this package is for
    found: list[str] = []
    for index in range(len(kept) - 1, -1, -1):
        if not is_new(kept[index]):
            break
        found.append(str(kept[index].json()))
    return found[::-1]
