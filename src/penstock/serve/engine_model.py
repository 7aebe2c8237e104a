"""How one engine is doing, kept up to date by what is new in its store.

At the start the newest records of each query are read; from then on only what was recorded since. So a look costs what
is new, however large the store is and however many queries there are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.model import APPLICATION, Metric, Mode
from penstock.report.standing import READ_ROWS, read_executors, read_standing
from penstock.report.status import LiveFigures, status_of
from penstock.serve.recent import KEPT, RecentPoints

if TYPE_CHECKING:
    from penstock.model import QueryName, RecordedAction
    from penstock.report.standing import ExecutorsStanding, Standing
    from penstock.serve.engine import ServedEngine

LIVE_S = 60.0
"""A query or an engine that nothing was seen of for so long is shown as one that has ended or is stuck."""

CURVE_POINTS = 30
_PORTION = 5_000
_BUSY_WITHIN_S = 30.0
_NO_LIVE = LiveFigures()


@dataclass(frozen=True, slots=True)
class EngineState:
    """An engine in figures; what is unknown is None."""

    name: str
    seen_s: float | None
    executors_serving: int | None
    executors_target: int | None
    is_scaling: bool
    cpu_ratio: float | None
    observe_only: bool | None
    can_change: bool
    infeasible: str | None
    fault: str | None
    problem: str | None
    queries: int

    def to_dict(self, *, now_s: float) -> dict[str, Any]:
        """Give the state as plain data, units in the keys."""
        is_live = self.seen_s is not None and now_s - self.seen_s <= LIVE_S
        return {
            "engine": self.name, "seen_s": self.seen_s, "is_live": is_live,
            "executors_serving": self.executors_serving, "executors_target": self.executors_target,
            "is_scaling": self.is_scaling, "cpu_ratio": self.cpu_ratio, "observe_only": self.observe_only,
            "can_change": self.can_change, "infeasible": self.infeasible, "fault": self.fault,
            "problem": self.problem, "queries": self.queries,
        }  # fmt: skip


class EngineModel:
    """Rows of the fleet for one engine. One thread refreshes it; any thread reads ``rows`` and ``state``."""

    def __init__(self, engine: ServedEngine) -> None:
        self.engine = engine
        self.recent = RecentPoints()
        self.rows: dict[QueryName, dict[str, Any]] = {}
        self.action_counts: Counter[tuple[str, str]] = Counter()
        self._standing: dict[QueryName, Standing] = {}
        self._executors: ExecutorsStanding | None = None
        self._newest_mode: Mode | None = None
        self._action_id = self._point_id = 0
        self._is_loaded = False
        self._problem: str | None = None
        # Made by the thread that looks, so that nobody reads figures while they change.
        self.state = self._new_state()

    def refresh(self) -> tuple[set[QueryName], list[RecordedAction]]:
        """Look for what is new; gives the queries whose row changed, and the new actions.

        A store that cannot be read is told as the engine's problem, and the figures stay as they were.
        """
        found: tuple[set[QueryName], list[RecordedAction]] = (set(), [])
        try:
            found = self._follow() if self._is_loaded else self._load()
            self._problem = None
        except PenstockError as error:
            self._problem = str(error)
        self.state = self._new_state()
        return found

    def _new_state(self) -> EngineState:
        executors = self._executors
        controls = self.engine.controls
        observed = controls.observe_only if controls is not None else None
        if observed is None and self._newest_mode is not None:
            observed = self._newest_mode is Mode.OBSERVE
        return EngineState(
            self.engine.name,
            seen_s=max(self.recent.seen_s.values(), default=None),
            executors_serving=None if executors is None else executors.serving,
            executors_target=None if executors is None else executors.target,
            is_scaling=executors is not None and executors.is_scaling,
            cpu_ratio=self.recent.busy_ratio(within_s=_BUSY_WITHIN_S),
            observe_only=observed,
            can_change=self.engine.can_change,
            infeasible=_reason(None if executors is None else executors.infeasible),
            fault=_reason(None if executors is None else executors.fault),
            problem=self._problem,
            queries=len(self.rows),
        )

    def _load(self) -> tuple[set[QueryName], list[RecordedAction]]:
        store = self.engine.store
        newest = store.actions(last=1)
        # Ids first: what is recorded while the rest is read is seen again by the next look, and not lost.
        self._action_id, self._point_id = (newest[-1].action_id if newest else 0), store.newest_point_id()
        self._newest_mode = newest[-1].mode if newest else None
        names = store.queries()
        for name in names:
            for metric in KEPT:
                if (name == APPLICATION) is (metric is Metric.EXECUTORS_SERVING):
                    self.recent.add(store.points(name, metric, last=READ_ROWS))
        self.recent.add(store.points(APPLICATION, Metric.EXECUTOR_BUSY_FRACTION, last=READ_ROWS))
        for name in names:
            if name != APPLICATION:
                self._standing[name] = read_standing(store, name)
        self._executors = read_executors(store)
        self._is_loaded = True
        return self._rebuild(set(self._standing)), []

    def _follow(self) -> tuple[set[QueryName], list[RecordedAction]]:
        store = self.engine.store
        fresh = store.actions(after_id=self._action_id, last=_PORTION)
        observed: set[QueryName] = set()
        while points := store.points_after(self._point_id, limit=_PORTION):
            self._point_id = points[-1][0]
            self.recent.add(point for _, point in points)
            observed |= {point.query for _, point in points}
        acted = {entry.action.query for entry in fresh}
        if fresh:
            self._action_id, self._newest_mode = fresh[-1].action_id, fresh[-1].mode
            self.action_counts.update((str(entry.action.query), entry.action.kind.value) for entry in fresh)
        if APPLICATION in acted | observed:
            self._executors = read_executors(store)
        for name in (acted | (observed - set(self._standing))) - {APPLICATION}:
            self._standing[name] = read_standing(store, name)
        changed = set(self._standing) if APPLICATION in acted | observed else (acted | observed) - {APPLICATION}
        return self._rebuild(changed), fresh

    def _rebuild(self, names: set[QueryName]) -> set[QueryName]:
        changed = set()
        for name in names:
            row = self._row(self._standing[name])
            if row != self.rows.get(name):
                self.rows[name] = row
                changed.add(name)
        return changed

    def _row(self, standing: Standing) -> dict[str, Any]:
        assert self._executors is not None
        name = standing.query
        status = status_of(self.recent, standing, self._executors, _NO_LIVE)
        accuracy = self.recent.points(name, Metric.MEASURED_ACCURACY, last=1)
        return {
            "engine": self.engine.name,
            **status.to_dict(),
            "measured_accuracy": accuracy[-1].value if accuracy else None,
            "seen_s": self.recent.seen_s.get(name),
            "curve": self.recent.latency_curve(name, CURVE_POINTS),
        }


def _reason(entry: RecordedAction | None) -> str | None:
    return None if entry is None else entry.action.reason
