"""How Spark's events reach Penstock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.spark import internals
from penstock.spark.internals import Ability

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent


class Events(Protocol):
    """Who is told of a session's streaming queries."""

    def on_started(self, event: QueryStartedEvent) -> None:
        """A query starts; on its own thread, before its first batch is planned."""

    def on_progress(self, text: str) -> None:
        """A batch is done; its progress report as JSON."""

    def on_terminated(self, event: QueryTerminatedEvent) -> None:
        """A query has ended."""


class Listener(StreamingQueryListener):
    """Hands Spark's events on; one object for the life of the hold, because removal is by identity."""

    def __init__(self, events: Events, missing: Collection[Ability]) -> None:
        self._events = events
        if Ability.TEXT_REPORTS not in missing:
            internals.take_reports_as_text(self, events.on_progress)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - a name of Spark
        """A query starts."""
        self._events.on_started(event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - a name of Spark
        """A batch is done; called only where reports cannot be taken as text."""
        self._events.on_progress(event.progress.json)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - a name of Spark
        """A query has ended."""
        self._events.on_terminated(event)
