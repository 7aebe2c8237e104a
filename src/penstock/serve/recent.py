"""The newest points of every query in memory, for figures that are asked for again and again."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.model import Metric

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model import QueryName, SeriesPoint

HISTORY_POINTS = 60
"""Points behind a small curve, and behind "since when"; five minutes of a batch each 5 s."""

_HISTORIES = frozenset({Metric.OLDEST_ROW_AGE_S, Metric.BATCH_DURATION_S, Metric.LAG_ROWS})
KEPT = (
    Metric.OLDEST_ROW_AGE_S,
    Metric.BATCH_DURATION_S,
    Metric.LAG_ROWS,
    Metric.PROCESSED_ROWS_PER_S,
    Metric.ARRIVAL_ROWS_PER_S,
    Metric.KEEP_RATIO,
    Metric.MEASURED_ACCURACY,
    Metric.EXECUTORS_SERVING,
)
"""Metrics that a row of the fleet is made of."""


class RecentPoints:
    """Reads like a store, as far as the newest points of whole queries go.

    Examples
    --------
    >>> from penstock.model import QueryName, SeriesPoint
    >>> recent = RecentPoints()
    >>> recent.add([SeriesPoint(time_s, QueryName("clicks"), Metric.KEEP_RATIO, 0.5) for time_s in (1.0, 2.0)])
    >>> [point.time_s for point in recent.points(QueryName("clicks"), Metric.KEEP_RATIO)]
    [2.0]
    """

    def __init__(self) -> None:
        self._points: dict[tuple[str, Metric], deque[SeriesPoint]] = {}
        self._busy: dict[str, SeriesPoint] = {}
        self.seen_s: dict[str, float] = {}

    def add(self, points: Iterable[SeriesPoint]) -> None:
        """Take points in the order of recording."""
        for point in points:
            if point.time_s > self.seen_s.get(point.query, 0.0):
                self.seen_s[point.query] = point.time_s
            if point.metric is Metric.EXECUTOR_BUSY_FRACTION:
                self._busy[point.subject] = point
            elif not point.subject and point.metric in KEPT:
                self._of(point.query, point.metric).append(point)

    def points(
        self,
        query: QueryName,
        metric: Metric,
        *,
        since_s: float | None = None,
        until_s: float | None = None,
        last: int | None = None,
    ) -> list[SeriesPoint]:
        """Give what is remembered of a time series, oldest first."""
        found = [
            point
            for point in self._points.get((query, metric), ())
            if (since_s is None or point.time_s >= since_s) and (until_s is None or point.time_s <= until_s)
        ]
        return found if last is None else found[max(0, len(found) - last) :]

    def busy_ratio(self, *, within_s: float) -> float | None:
        """Mean part of the time in which cores were busy, over the executors that were seen lately."""
        newest_s = max((point.time_s for point in self._busy.values()), default=0.0)
        values = [point.value for point in self._busy.values() if newest_s - point.time_s <= within_s]
        return sum(values) / len(values) if values else None

    def latency_curve(self, query: QueryName, count: int) -> list[float]:
        """The newest ages of rows, or where none are measured the newest batch times."""
        ages = self._points.get((query, Metric.OLDEST_ROW_AGE_S))
        chosen = ages or self._points.get((query, Metric.BATCH_DURATION_S)) or ()
        return [float(f"{point.value:.4g}") for point in list(chosen)[-count:]]

    def _of(self, query: QueryName, metric: Metric) -> deque[SeriesPoint]:
        key = (query, metric)
        if key not in self._points:
            self._points[key] = deque(maxlen=HISTORY_POINTS if metric in _HISTORIES else 1)
        return self._points[key]
