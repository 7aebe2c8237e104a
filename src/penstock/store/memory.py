"""A store that lives as long as its process: for simulation and tests."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import deque
from heapq import merge
from itertools import islice, pairwise, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Self

from penstock.errors import StoreError
from penstock.model import ActionKind, Metric, QueryName
from penstock.store.bins import READ_POINTS, bin_of
from penstock.store.schema import (
    ActionRow,
    PointRow,
    action_from_row,
    action_to_row,
    checked_last,
    lasting_part,
    point_from_row,
    point_to_row,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock.model import Action, Mode, RecordedAction, SeriesBin, SeriesPoint


_REMEMBERED_POINTS = 20_000
"""Points in the order of recording, for whoever follows: they look every second or so."""


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
        self._newest_id = 0
        # By query and kind, so that the newest of either are found without a look at the others. A list only grows at
        # its end, and a deletion puts another in its place: one that was taken can be read without the lock.
        self._actions: dict[tuple[str, str], list[tuple[int, ActionRow]]] = {}
        self._newest_point_id = 0
        self._recorded: deque[PointRow] = deque(maxlen=_REMEMBERED_POINTS)
        self._messages: dict[str, dict[str, str]] = {}
        self._points: dict[tuple[str, str], list[PointRow]] = {}

    def append(self, action: Action, *, time_s: float, mode: Mode) -> RecordedAction:
        """Record an action and give it its id."""
        (recorded,) = self.append_all([action], time_s=time_s, mode=mode)
        return recorded

    def append_all(self, actions: Sequence[Action], *, time_s: float, mode: Mode) -> list[RecordedAction]:
        """Record several actions of one moment, in this order, and give them their ids."""
        rows = [action_to_row(action, time_s=time_s, mode=mode) for action in actions]
        recorded = []
        with self._lock:
            self._check_open()
            for row in rows:
                self._newest_id += 1
                self._actions.setdefault((row.query, row.kind), []).append((self._newest_id, row))
                recorded.append(action_from_row(self._newest_id, row))
        return recorded

    def append_points(self, points: Sequence[SeriesPoint]) -> None:
        """Record observations, all of them or none."""
        rows = [point_to_row(point) for point in points]
        with self._lock:
            self._check_open()
            for row in rows:
                self._newest_point_id += 1
                self._recorded.append(row)
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
        limit = checked_last(last)
        chosen, newest_id = self._chosen(query, kinds)
        newest_first = merge(*map(reversed, chosen), key=itemgetter(0), reverse=True)
        matching = (
            action_from_row(action_id, row)
            for action_id, row in takewhile(lambda entry: entry[0] > after_id, newest_first)
            if action_id <= newest_id and _is_within(row, since_s, until_s)
        )
        return list(islice(matching, limit))[::-1]

    def each_action(
        self,
        *,
        query: QueryName | None = None,
        kinds: Collection[ActionKind] = (),
        since_s: float | None = None,
        until_s: float | None = None,
        after_id: int = 0,
    ) -> Iterator[RecordedAction]:
        """Give the recorded actions that match one by one, oldest first."""
        chosen, newest_id = self._chosen(query, kinds)
        for action_id, row in merge(*chosen, key=itemgetter(0)):
            if after_id < action_id <= newest_id and _is_within(row, since_s, until_s):
                yield action_from_row(action_id, row)

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

    def bins(
        self, query: QueryName, metric: Metric, edges_s: Sequence[float], *, subject: str | None = ""
    ) -> list[SeriesBin | None]:
        """Give what the points between each two edges come to, None where there are none."""
        with self._lock:
            self._check_open()
            rows = list(self._points.get((query, Metric(metric).value), []))
        places = [bisect_left(rows, edge_s, key=_time_of) for edge_s in edges_s]
        return [
            bin_of(
                begin_s,
                (row.value for row in rows[start : min(end, start + READ_POINTS)] if subject in {None, row.subject}),
            )
            for begin_s, (start, end) in zip(edges_s, pairwise(places), strict=False)
        ]

    def newest_point_id(self) -> int:
        """Give the id of the observation that was recorded last, 0 where there is none."""
        with self._lock:
            self._check_open()
            return self._newest_point_id

    def points_after(self, point_id: int, *, limit: int) -> list[tuple[int, SeriesPoint]]:
        """Give observations that were recorded after one; of those long past the newest are remembered."""
        with self._lock:
            self._check_open()
            first_id = self._newest_point_id - len(self._recorded) + 1
            start = max(0, point_id + 1 - first_id)
            chosen = list(islice(self._recorded, start, start + limit))
        return [(first_id + start + place, point_from_row(place, row)) for place, row in enumerate(chosen)]

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
            names = {query for query, _ in self._actions} | {query for query, _ in self._points}
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

    def delete_actions(self, *, before_s: float, kinds: Collection[ActionKind]) -> int:
        """Forget old actions of these kinds but the newest of each query, kind and source; gives how many went."""
        wanted = {ActionKind(kind).value for kind in kinds}
        deleted = 0
        with self._lock:
            self._check_open()
            for key, entries in self._actions.items():
                if key[1] not in wanted:
                    continue
                newest = {lasting_part(row.target): action_id for action_id, row in entries}
                in_force = {*newest.values(), entries[-1][0]}
                kept = [entry for entry in entries if entry[1].time_s >= before_s or entry[0] in in_force]
                deleted += len(entries) - len(kept)
                self._actions[key] = kept
        return deleted

    def close(self) -> None:
        """Refuse everything from now on; closing twice does nothing."""
        with self._lock:
            self._closed = True

    def _chosen(
        self, query: QueryName | None, kinds: Collection[ActionKind]
    ) -> tuple[list[list[tuple[int, ActionRow]]], int]:
        """The lists that match, and the newest id: a later one may stand in one list and its forerunner not yet."""
        wanted = {ActionKind(kind).value for kind in kinds}
        with self._lock:
            self._check_open()
            chosen = [
                entries
                for (name, kind), entries in self._actions.items()
                if (query is None or name == query) and (not wanted or kind in wanted)
            ]
            return chosen, self._newest_id

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store in memory is closed: open a new one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _time_of(row: PointRow) -> float:
    return row.time_s


def _is_within(row: ActionRow, since_s: float | None, until_s: float | None) -> bool:
    return (since_s is None or row.time_s >= since_s) and (until_s is None or row.time_s <= until_s)
