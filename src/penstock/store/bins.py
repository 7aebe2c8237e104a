"""Time series thinned where they lie, in a time that does not grow with the store."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.model import SeriesBin

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

READ_POINTS = 300
"""Most points of a stretch that are read: enough for its mean, and 160 stretches take some hundredths of a second."""

# The limit is inside: a stretch of a day has a hundred thousand points, and a chart has a pixel for it.
_SELECT_BIN = """
    SELECT count(value), min(value), avg(value), max(value) FROM (
        SELECT value, subject FROM series
        WHERE query = ? AND metric = ? AND time_s >= ? AND time_s < ? ORDER BY time_s LIMIT ?
    ) WHERE ? IS NULL OR subject = ?
"""


def read_bins(
    connection: sqlite3.Connection, query: str, metric: str, edges_s: Sequence[float], subject: str | None
) -> list[SeriesBin | None]:
    """Read bins from the file of a store."""
    found: list[SeriesBin | None] = []
    for begin_s, end_s in pairwise(edges_s):
        values = (query, metric, begin_s, end_s, READ_POINTS, subject, subject)
        count, low, mean, high = connection.execute(_SELECT_BIN, values).fetchone()
        found.append(SeriesBin(begin_s, count, low, mean, high) if count else None)
    return found


def bin_of(begin_s: float, values: Iterable[float]) -> SeriesBin | None:
    """What some values come to.

    Examples
    --------
    >>> bin_of(60.0, [1.0, 2.0, 6.0])
    SeriesBin(time_s=60.0, count=3, low=1.0, mean=3.0, high=6.0)
    """
    listed = list(values)
    if not listed:
        return None
    return SeriesBin(begin_s, len(listed), min(listed), sum(listed) / len(listed), max(listed))
