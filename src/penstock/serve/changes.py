"""Changes of goals and of the mode: applied here, or written down for the leader to forward; each of them once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from penstock.errors import UnknownQueryError
from penstock.http.problems import CONFLICT, StatusError
from penstock.model import ActionKind, Goal, QueryName
from penstock.report.standing import read_standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.serve.engine import ServedEngine
    from penstock.serve.fleet import Fleet
    from penstock.serve.orders import Leader, Orders
    from penstock.serve.schemas import GoalChange

_REMEMBERED_KEYS = 10_000
_LOOKED_BACK = 50

APPLIED, ACCEPTED, KNOWN = "applied", "accepted", "known"


class Changes:
    """Takes wishes of people and of leaders."""

    def __init__(self, fleet: Fleet, orders: Orders | None = None, leader: Leader | None = None) -> None:
        self._fleet, self._orders, self._leader = fleet, orders, leader
        self._lock = threading.Lock()
        self._done: OrderedDict[str, None] = OrderedDict()
        self._fence = 0

    def set_goal(self, change: GoalChange, *, key: str | None, fence: int | None) -> tuple[str, int | None]:
        """Ask something else of a query; gives the outcome, and the order where it is forwarded."""
        engine = self._fleet.model(change.engine).engine
        query = QueryName(change.query)
        goal = self._goal(engine, query, change)
        if engine.controls is None:
            return self._forward(engine, "/api/goal", change.model_dump(exclude_none=True))
        controls = engine.controls
        return self._once(
            key, fence,
            lambda: key is not None and self._is_on_record(engine, query, key),
            lambda: controls.set_goal(change.query, goal, asked_by=key or "page"),
        )  # fmt: skip

    def set_mode(
        self, engine_name: str, *, observe_only: bool, key: str | None, fence: int | None
    ) -> tuple[str, int | None]:
        """Apply no decision of an engine any more, or apply them again."""
        engine = self._fleet.model(engine_name).engine
        if engine.controls is None:
            return self._forward(engine, "/api/mode", {"engine": engine_name, "observe_only": observe_only})
        controls = engine.controls
        return self._once(
            key, fence,
            lambda: controls.observe_only is observe_only,
            lambda: controls.set_observe_only(observe_only, asked_by=key or "page"),
        )  # fmt: skip

    def _goal(self, engine: ServedEngine, query: QueryName, change: GoalChange) -> Goal:
        """What stands, with what is to change."""
        model = self._fleet.model(engine.name)
        if query not in model.rows:
            raise UnknownQueryError(query, [str(name) for name in model.rows])
        standing = goal_of(engine, query) or Goal(latency=60.0)
        wanted: dict[str, Any] = change.model_dump(
            include={"minimum_accuracy", "priority", "weight"}, exclude_none=True
        )
        if change.latency_s is not None:
            wanted["latency"] = change.latency_s
        return standing.with_(**wanted)

    def _once(
        self, key: str | None, fence: int | None, was_done: Callable[[], bool], do: Callable[[], None]
    ) -> tuple[str, int | None]:
        """Do it unless it was done under this key before, or a newer leader has spoken since."""
        with self._lock:
            if fence is not None and fence < self._fence:
                raise StatusError(
                    CONFLICT, f"fence {fence} is of an earlier leader; {self._fence} leads: ask that one", kind="Fenced"
                )
            self._fence = max(self._fence, fence or 0)
            if key is not None and (key in self._done or was_done()):
                return KNOWN, None
            do()
            if key is not None:
                self._done[key] = None
                while len(self._done) > _REMEMBERED_KEYS:
                    self._done.popitem(last=False)
        return APPLIED, None

    @staticmethod
    def _is_on_record(engine: ServedEngine, query: QueryName, key: str) -> bool:
        """Whether the log has it: keys in memory are gone when the application was started again meanwhile."""
        entries = engine.store.actions(query=query, kinds=(ActionKind.GOVERN,), last=_LOOKED_BACK)
        return any(entry.action.cause == f"asked by {key}" for entry in entries)

    def _forward(self, engine: ServedEngine, path: str, body: dict[str, Any]) -> tuple[str, int | None]:
        if engine.address is None or self._orders is None:
            raise StatusError(
                CONFLICT,
                f"nobody governs {engine.name!r} now: its run has ended, or it does not serve; give its application "
                "[dashboard] port, or call pen.serve()",
                kind="NotGoverned",
            )
        order = self._orders.ask(engine.name, path, body)
        if self._leader is not None:
            self._leader.wake()
        return ACCEPTED, order.order_id


def goal_of(engine: ServedEngine, query: QueryName) -> Goal | None:
    """The goal that stands on record for a query; None where it has none."""
    governed = read_standing(engine.store, query).governed
    if governed is None or governed.action.kind is not ActionKind.GOVERN:
        return None
    details = governed.action.details
    return Goal(
        latency=details.get("latency_s"),
        minimum_accuracy=float(details.get("minimum_accuracy", 1.0)),
        priority=int(details.get("priority", 1)),
        weight=float(details.get("weight", 1.0)),
    )
