"""Commits a query's offsets to a consumer group, so that Kafka's tools, Burrow or KEDA see Spark's lag."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Self

from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.errors import PenstockError
from penstock.kafka.lag import offsets_of_progress
from penstock.spark import internals
from penstock.spark.collector import parse_progress
from penstock.spark.internals import Ability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from penstock.kafka.client import KafkaClient, Offsets

logger = logging.getLogger("penstock.kafka")


class GroupCommits(StreamingQueryListener):
    """Commits after every batch, for queries that have a group; the groups have no members.

    Spark never reads these offsets: its own are in the checkpoint. A commit that fails is logged and left to the next
    batch. Commits run on a thread of their own, so that a slow broker does not hold up Spark's events; a newer offset
    replaces one that still waits.

    Parameters
    ----------
    spark
        The session whose queries are followed.
    client
        The cluster.
    groups
        Group by query name.
    """

    def __init__(self, spark: SparkSession, client: KafkaClient, groups: Mapping[str, str]) -> None:
        self._spark = spark
        self._client = client
        self._groups = dict(groups)
        self._waiting: dict[str, Offsets] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="penstock-group-commits", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if Ability.TEXT_REPORTS not in internals.probe(self._spark):
            internals.take_reports_as_text(self, self.on_report)
        self._spark.streams.addListener(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._spark.streams.removeListener(self)
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(timeout=2 * self._client.timeout_s)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - a name of Spark
        """Nothing is read yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - a name of Spark
        """Take a report as Spark hands it over by itself; see :meth:`on_report` for the way that costs less."""
        self.on_report(event.progress.json)

    def on_report(self, text: str) -> None:
        """Hand the offsets of a finished batch to the thread that commits."""
        progress = parse_progress(text)
        group = self._groups.get(progress.get("name") or "")
        offsets = offsets_of_progress(progress) if group is not None else {}
        if group is not None and offsets:
            with self._changed:
                self._waiting[group] = offsets
                self._changed.notify()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - a name of Spark
        """Nothing was read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - a name of Spark
        """The last batch has been committed already."""

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                waiting, self._waiting = self._waiting, {}
                if not waiting:
                    return
            for group, offsets in waiting.items():
                try:
                    self._client.commit(group, offsets)
                except PenstockError as error:
                    logger.warning("offsets of group %s wait for the next batch: %s", group, error)
