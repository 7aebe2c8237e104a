"""What is in force now, from a few newest records: the common ground of status and explanation.

However large the store, each look-up reads no more than :data:`READ_ROWS` rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from penstock.model import APPLICATION, ActionKind, Metric, Mode

if TYPE_CHECKING:
    from penstock.model import QueryName, RecordedAction, SeriesPoint
    from penstock.store.base import Store

READ_ROWS = 100
"""Most rows of one look-up: a batch has about ten phases, a query a few sources."""

_RUN_ROWS = 50
_FEW_ROWS = 16

_GOVERNED = (ActionKind.GOVERN, ActionKind.RELEASE)
_KEPT = (ActionKind.KEEP_RATIO, ActionKind.STREAM_KEEP)
_VERDICTS = (ActionKind.INFEASIBLE, ActionKind.HOLD, ActionKind.GOVERN)


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands decided about one query.

    Parameters
    ----------
    governed
        The newest word on whether it is governed: of kind ``govern`` or ``release``; None if nothing was said.
    limits, unmanaged
        The newest of each source; an empty target is the whole query.
    keep
        The keep ratio of the newest batch.
    keep_since_s
        Since when rows are dropped, or since when none are, as far back as was read.
    infeasible
        The newest report that the goal cannot be met, unless a hold or another goal came after it.
    fault
        The newest record, where it is a fault; what is repaid meanwhile aside.
    repaid
        What became last of what it had dropped.
    """

    query: QueryName
    governed: RecordedAction | None
    limits: tuple[RecordedAction, ...]
    unmanaged: tuple[RecordedAction, ...]
    keep: RecordedAction | None
    keep_since_s: float | None
    infeasible: RecordedAction | None
    fault: RecordedAction | None
    repaid: RecordedAction | None = None

    @property
    def is_governed(self) -> bool:
        """Whether decisions about the query are made and applied."""
        governed = self.governed
        return governed is not None and governed.action.kind is ActionKind.GOVERN and governed.mode is Mode.ACT

    @property
    def minimum_accuracy(self) -> float | None:
        """Of the goal, where the record has it."""
        return self._of_goal("minimum_accuracy")

    @property
    def latency_s(self) -> float | None:
        """Of the goal, where it has one."""
        return self._of_goal("latency_s")

    @property
    def priority(self) -> int | None:
        """Of the goal, where the record has it."""
        priority = self._of_goal("priority")
        return None if priority is None else int(priority)

    def _of_goal(self, name: str) -> float | None:
        if self.governed is None or self.governed.action.kind is not ActionKind.GOVERN:
            return None
        value = self.governed.action.details.get(name)
        return float(value) if isinstance(value, int | float) else None

    @property
    def entries(self) -> tuple[RecordedAction, ...]:
        """Every record that the query stands on."""
        single = (self.keep, self.repaid, self.infeasible, self.fault)
        first = () if self.governed is None else (self.governed,)
        return (*first, *self.limits, *self.unmanaged, *(entry for entry in single if entry is not None))


@dataclass(frozen=True, slots=True)
class ExecutorsStanding:
    """What stands decided about the executors of the application, and how many serve."""

    decided: RecordedAction | None
    serving: int | None
    is_scaling: bool
    infeasible: RecordedAction | None
    fault: RecordedAction | None

    @property
    def target(self) -> int | None:
        """Executors that are to serve."""
        value = None if self.decided is None else self.decided.action.value
        return None if value is None else int(value)


def read_standing(store: Store, query: QueryName) -> Standing:
    """Read what is in force about one query; after a release nothing is."""
    governed = _newest(store, query, *_GOVERNED)
    fault, repaid = _standing_fault(store, query), _newest(store, query, ActionKind.REPAY)
    if governed is not None and governed.action.kind is ActionKind.RELEASE:
        unmanaged = _newest_of_each(store, query, ActionKind.UNMANAGED, governed.action_id)
        return Standing(query, governed, (), unmanaged, None, None, None, fault, repaid)
    # A governed start sets its first limit before the query runs, so limits count from the last release on.
    released = _newest(store, query, ActionKind.RELEASE)
    after_id = 0 if released is None else released.action_id
    ratios = store.actions(query=query, kinds=_KEPT, after_id=after_id, last=_RUN_ROWS)
    keep = ratios[-1] if ratios else None
    same = list(takewhile(lambda entry: is_shedding(entry) == is_shedding(keep), reversed(ratios)))
    return Standing(
        query,
        governed,
        limits=_newest_of_each(store, query, ActionKind.READ_LIMIT, after_id),
        unmanaged=_newest_of_each(store, query, ActionKind.UNMANAGED, after_id),
        keep=keep,
        keep_since_s=same[-1].time_s if same else None,
        infeasible=_standing_infeasible(store, query, after_id),
        fault=fault,
        repaid=repaid,
    )


def read_executors(store: Store) -> ExecutorsStanding:
    """Read what is in force about the executors of the application."""
    decided = _newest(store, APPLICATION, ActionKind.EXECUTORS)
    point = newest_point(store, APPLICATION, Metric.EXECUTORS_SERVING)
    serving = None if point is None else int(point.value)
    return ExecutorsStanding(
        decided,
        serving,
        decided is not None and _is_under_way(store, decided, point),
        infeasible=_standing_infeasible(store, APPLICATION, 0),
        fault=_standing_fault(store, APPLICATION),
    )


class PointReader(Protocol):
    """What figures of queries are read from: a store, or the newest of its points in memory."""

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


def newest_point(store: PointReader, query: QueryName, metric: Metric) -> SeriesPoint | None:
    """The newest value of the whole query, not of one of its parts."""
    # A batch leaves a value for each of its phases or sources: the newest few nearly always have that of the whole.
    for rows in (_FEW_ROWS, READ_ROWS):
        points = store.points(query, metric, last=rows)
        found = next((point for point in reversed(points) if not point.subject), None)
        if found is not None or len(points) < rows:
            return found
    return None


def is_shedding(keep: RecordedAction | None) -> bool:
    """Whether a batch with this ratio drops rows."""
    return keep is not None and keep.action.value is not None and keep.action.value < 1.0


def _newest(store: Store, query: QueryName, *kinds: ActionKind) -> RecordedAction | None:
    return next(iter(store.actions(query=query, kinds=kinds, last=1)), None)


def _newest_of_each(store: Store, query: QueryName, kind: ActionKind, after_id: int) -> tuple[RecordedAction, ...]:
    entries = store.actions(query=query, kinds=(kind,), after_id=after_id, last=READ_ROWS)
    newest = {entry.action.target: entry for entry in entries}
    return tuple(newest[target] for target in sorted(newest))


def _standing_infeasible(store: Store, query: QueryName, after_id: int) -> RecordedAction | None:
    verdicts = store.actions(query=query, kinds=_VERDICTS, after_id=after_id, last=1)
    return verdicts[0] if verdicts and verdicts[0].action.kind is ActionKind.INFEASIBLE else None


def _standing_fault(store: Store, query: QueryName) -> RecordedAction | None:
    newest = _newest(store, query)
    if newest is not None and newest.action.kind is ActionKind.REPAY:
        # It goes on whether or not the query is well.
        newest = _newest(store, query, *(kind for kind in ActionKind if kind is not ActionKind.REPAY))
    return newest if newest is not None and newest.action.kind is ActionKind.FAULT else None


def _is_under_way(store: Store, decided: RecordedAction, serving: SeriesPoint | None) -> bool:
    if decided.mode is not Mode.ACT or decided.action.value == decided.action.previous:
        return False
    if serving is not None and serving.time_s > decided.time_s and serving.value == decided.action.value:
        return False
    done = store.actions(
        query=APPLICATION, kinds=(ActionKind.EXECUTORS_DONE,), after_id=decided.action_id, last=_RUN_ROWS
    )
    # What is told without a time is of a decision that this one overtook.
    return not any(entry.action.value is not None and _answers(entry.action.cause, decided.action_id) for entry in done)


def _answers(cause: str, action_id: int) -> bool:
    return not cause.startswith("action ") or cause == f"action {action_id}"
