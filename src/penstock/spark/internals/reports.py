"""Progress reports as text, as they come and as they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.internals.members import LISTENER_CLASS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.internals.handles import JavaObject


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

    class Java:
        """What Py4J wants to know."""

        implements = (LISTENER_CLASS,)


def take_reports_as_text(listener: StreamingQueryListener, on_progress: Callable[[str], None]) -> None:
    """Give a listener, before it is added, its progress reports as JSON and not as objects."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 - imported only where it is used

    gateway = SparkContext._gateway  # noqa: SLF001 - what this package is for
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    wrapper = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
    listener._jlistenerobj = wrapper(_TextReports(listener, on_progress))  # noqa: SLF001 - what this package is for


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
