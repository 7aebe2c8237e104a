"""Waiting for streaming queries: until a moment, or until they have finished so many batches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.apps.measure import batch_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.apps.measure import BatchRecord

_TICK_S = 0.1


def raise_failure(query: StreamingQuery) -> None:
    """Raise what ended a query, if it failed: whoever waits for it would wait for ever."""
    failure = query.exception()
    if failure is not None:
        raise failure


def wait_until(query: StreamingQuery, until_s: float, tick: Callable[[], None] = lambda: None) -> None:
    """Let a query run until a moment in seconds since the epoch, and stop it; ``tick`` is called ten times a second."""
    try:
        while time.time() < until_s:
            raise_failure(query)
            tick()
            time.sleep(_TICK_S)
    finally:
        query.stop()


def first_batches(query: StreamingQuery, count: int, tick: Callable[[], None] = lambda: None) -> list[BatchRecord]:
    """Let a query finish so many batches that have rows, and stop it."""
    try:
        while len(found := batch_records(query)) < count:
            raise_failure(query)
            tick()
            time.sleep(_TICK_S)
        return found[:count]
    finally:
        query.stop()
