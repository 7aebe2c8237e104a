"""What every store of decisions and observations can do.

One process writes; any number of others read. An action that :meth:`Store.append` has returned survives the death of
the process at any later moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock.model import Action, ActionKind, Metric, Mode, QueryName, RecordedAction, SeriesBin, SeriesPoint


class Store(Protocol):
    """The action log and the time series."""

    def append(self, action: Action, *, time_s: float, mode: Mode) -> RecordedAction:
        """Record an action durably and give it its id; ids rise without gaps."""
        ...

    def append_all(self, actions: Sequence[Action], *, time_s: float, mode: Mode) -> list[RecordedAction]:
        """Record several actions of one moment durably, all of them or none, in this order."""
        ...

    def append_points(self, points: Sequence[SeriesPoint]) -> None:
        """Record observations, all of them or none."""
        ...

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
        """Give the recorded actions that match, oldest first; ``last`` keeps the newest so many of them."""
        ...

    def each_action(
        self,
        *,
        query: QueryName | None = None,
        kinds: Collection[ActionKind] = (),
        since_s: float | None = None,
        until_s: float | None = None,
        after_id: int = 0,
    ) -> Iterator[RecordedAction]:
        """Give the recorded actions that match one by one, oldest first, without holding all of them."""
        ...

    def points(
        self,
        query: QueryName,
        metric: Metric,
        *,
        since_s: float | None = None,
        until_s: float | None = None,
        last: int | None = None,
    ) -> list[SeriesPoint]:
        """Give a time series of a query, oldest first."""
        ...

    def bins(
        self, query: QueryName, metric: Metric, edges_s: Sequence[float], *, subject: str | None = ""
    ) -> list[SeriesBin | None]:
        """Give what the points between each two edges come to, None where there are none; the later edge is out.

        Of a stretch with very many points the first :data:`~penstock.store.bins.READ_POINTS` count, so that the time
        that this takes has a bound. ``subject`` None takes all parts of the query together.
        """
        ...

    def newest_point_id(self) -> int:
        """Give the id of the observation that was recorded last, 0 where there is none."""
        ...

    def points_after(self, point_id: int, *, limit: int) -> list[tuple[int, SeriesPoint]]:
        """Give observations of all queries that were recorded after one, with their ids, in the order of recording."""
        ...

    def put_messages(self, query_id: str, messages: Sequence[tuple[str, str]]) -> None:
        """Record durably what the tasks of a query are told, all of it or nothing; a name keeps its newest text."""
        ...

    def messages(self, query_id: str) -> list[tuple[str, str]]:
        """Give the newest text of each name, sorted by name."""
        ...

    def queries(self) -> list[QueryName]:
        """Give the names of all queries that anything is recorded of, sorted."""
        ...

    def delete_points(self, *, before_s: float) -> int:
        """Forget observations older than that; actions stay. Gives how many went."""
        ...

    def delete_actions(self, *, before_s: float, kinds: Collection[ActionKind]) -> int:
        """Forget actions of these kinds that are older than that, and give how many went.

        The newest of each query and kind stays, and so does the newest of each source (its target is ``"source 0"``):
        what was decided last holds, however long ago. The ids of the others do not change.
        """
        ...

    def close(self) -> None:
        """Release the store; recording afterwards is an error."""
        ...
