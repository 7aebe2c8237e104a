"""A store that lives as long as its process: for simulation and tests."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from itertools import islice
from typing import TYPE_CHECKING, Self

from penstock.errors import StoreError
from penstock.model import ActionKind, Metric, QueryName
from penstock.store.schema import (
    ActionRow,
    PointRow,
    action_from_row,
    action_to_row,
    checked_last,
    point_from_row,
    point_to_row,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.model import Action, Mode, RecordedAction, SeriesPoint


class MemoryStore:
    """The action log and the time series in lists.

    It keeps the same rows as :class:`~penstock.store.sqlite.SqliteStore`, not the objects that it was given: whoever
    changes a mapping after recording it does not change the log.

    Examples
    --------
    >>> from penstock.model import Action, ActionKind, Mode, QueryName
    >>> store = MemoryStore()
    >>> hold = Action(ActionKind.HOLD, QueryName("clicks"), "batch 1", "2.5 s of 5 s")
    >>> store.append(hold, time_s=10.0, mode=Mode.ACT).action_id
    1
    >>> [record.action.reason for record in store.actions(query=QueryName("clicks"))]
    ['2.5 s of 5 s']
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._actions: list[ActionRow] = []
        self._messages: dict[str, dict[str, str]] = {}
        self._points: dict[tuple[str, str], list[PointRow]] = {}

    def append(self, action: Action, *, time_s: float, mode: Mode) -> RecordedAction:
        """Record an action and give it its id."""
        row = action_to_row(action, time_s=time_s, mode=mode)
        with self._lock:
            self._check_open()
            self._actions.append(row)
            return action_from_row(len(self._actions), row)

    def append_points(self, points: Sequence[SeriesPoint]) -> None:
        """Record observations, all of them or none."""
        rows = [point_to_row(point) for point in points]
        with self._lock:
            self._check_open()
            for row in rows:
                insort(self._points.setdefault((row.query, row.metric), []), row, key=_time_of)

    def actions(
        self,
        *,
        query: QueryName | None = None,
        kinds: Collection[ActionKind] = (),
        since_s: float | None = None,
        until_s: float | None = None,
        after_id: int = 0,
        last: int | None = None,
    ) -> list[RecordedAction]:
        """Give the recorded actions that match, in the order of recording; both ends of the time range belong to it."""
        wanted = {ActionKind(kind).value for kind in kinds}
        limit = checked_last(last)
        with self._lock:
            self._check_open()
            newest_id = len(self._actions)
        # Rows are only ever added at the end, so those up to the newest id can be read without the lock.
        numbered = ((action_id, self._actions[action_id - 1]) for action_id in range(newest_id, max(after_id, 0), -1))
        newest_first = (
            action_from_row(action_id, row)
            for action_id, row in numbered
            if (query is None or row.query == query)
            and (not wanted or row.kind in wanted)
            and (since_s is None or row.time_s >= since_s)
            and (until_s is None or row.time_s <= until_s)
        )
        return list(islice(newest_first, limit))[::-1]

    def points(
        self,
        query: QueryName,
        metric: Metric,
        *,
        since_s: float | None = None,
        until_s: float | None = None,
        last: int | None = None,
    ) -> list[SeriesPoint]:
        """Give a time series of a query, oldest first; both ends of the time range belong to it."""
        limit = checked_last(last)
        with self._lock:
            self._check_open()
            rows = self._points.get((query, Metric(metric).value), [])
            start = 0 if since_s is None else bisect_left(rows, since_s, key=_time_of)
            end = len(rows) if until_s is None else bisect_right(rows, until_s, key=_time_of)
            if limit is not None:
                start = max(start, end - limit)
            chosen = rows[start:end]
        return [point_from_row(number, row) for number, row in enumerate(chosen, start=1)]

    def put_messages(self, query_id: str, messages: Sequence[tuple[str, str]]) -> None:
        """Record what the tasks of a query are told; a name keeps its newest text."""
        with self._lock:
            self._check_open()
            self._messages.setdefault(query_id, {}).update(messages)

    def messages(self, query_id: str) -> list[tuple[str, str]]:
        """Give the newest text of each name, sorted by name."""
        with self._lock:
            self._check_open()
            return sorted(self._messages.get(query_id, {}).items())

    def queries(self) -> list[QueryName]:
        """Give the names of all queries that anything is recorded of, sorted."""
        with self._lock:
            self._check_open()
            names = {row.query for row in self._actions} | {query for query, _ in self._points}
        return [QueryName(name) for name in sorted(names)]

    def delete_points(self, *, before_s: float) -> int:
        """Forget observations older than that; gives how many went."""
        with self._lock:
            self._check_open()
            deleted = 0
            for key, rows in list(self._points.items()):
                old = bisect_left(rows, before_s, key=_time_of)
                deleted += old
                if old == len(rows):
                    # A query of which nothing is left is no longer known, as in a file.
                    del self._points[key]
                else:
                    del rows[:old]
            return deleted

    def close(self) -> None:
        """Refuse everything from now on; closing twice does nothing."""
        with self._lock:
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store in memory is closed: open a new one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _time_of(row: PointRow) -> float:
    return row.time_s
