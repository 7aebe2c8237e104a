"""The loop over several engines: collect from their agents, on_event, record, apply what is recorded.

It does for a fleet what :mod:`penstock.loop` does for one application: a decision is recorded before it is applied, one
that cannot be recorded waits and is not applied, and every cycle compares what stands with what is there.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol

from penstock.errors import StoreError, UnstorableError
from penstock.model import Mode
from penstock.model.decision import Fault, Govern, to_action
from penstock.model.fleet import FleetGoalChanged, FleetTick, Move, MoveDone, MoveFailed, MoveFinished, QueryAdded
from penstock.store import forget_old

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.model import Goal, QueryName, SeriesPoint
    from penstock.model.decision import Decision
    from penstock.model.fleet import FleetEvent
    from penstock.settings import StoreSettings
    from penstock.store import Store

logger = logging.getLogger("penstock")

_ENDS_WITHIN_S = 10.0
_FORGET_EVERY_S = 3600.0


class Deciding(Protocol):
    """What decides; :class:`penstock.control.fleet.logic.FleetLogic` is one."""

    def on_event(self, event: FleetEvent, now_s: float) -> list[Decision]:
        """Decide on what happened."""
        ...


class FleetPlant(Protocol):
    """What the loop acts on; :class:`penstock.fleet.plant.EngineFleet` is one."""

    def observe(self) -> Sequence[FleetEvent]:
        """What happened since the last call."""
        ...

    def apply(self, decision: Decision) -> None:
        """Put a decision in force, or begin to."""
        ...

    observe_only: bool
    """Whether engines are told nothing of what their queries may keep."""

    @property
    def goals(self) -> Mapping[QueryName, Goal]:
        """What is asked of every query."""
        ...

    def points(self) -> Sequence[SeriesPoint]:
        """Figures of what was done since the last call."""
        ...

    def reconcile(self) -> None:
        """Put in force again what stands and is not."""
        ...

    def set_goal(self, query: QueryName, goal: Goal, asked_by: str) -> None:
        """Ask something else of a query."""
        ...


class FleetLoop:
    """Runs one fleet's logic on its engines.

    Parameters
    ----------
    logic, plant, store
        What decides, what is acted on, and where decisions go before they are applied.
    clock
        Seconds since the epoch.
    mode
        In observe mode decisions are recorded, queries that run nowhere are started, and nothing else is done: none is
        moved and nothing is dropped.
    retention
        How long decisions are kept; for ever where it is left out.
    """

    def __init__(
        self,
        logic: Deciding,
        plant: FleetPlant,
        store: Store,
        *,
        clock: Callable[[], float],
        mode: Mode = Mode.ACT,
        retention: StoreSettings | None = None,
    ) -> None:
        self.logic, self.plant, self.store = logic, plant, store
        self.plant.observe_only = mode is Mode.OBSERVE
        self._clock, self._retention, self._forgot_s = clock, retention, 0.0
        self._deciding = threading.RLock()
        self._waiting: list[Decision] = []
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._faulted = ""

    @property
    def mode(self) -> Mode:
        """Whether decisions are applied."""
        return Mode.OBSERVE if self.plant.observe_only else Mode.ACT

    def set_observe_only(self, observe_only: bool, *, asked_by: str = "user") -> None:  # noqa: FBT001 - the one thing it says
        """Move nothing and hold nothing to bounds from now on, or do so again; on record with who asked."""
        with self._deciding:
            self.plant.observe_only = observe_only
            told = "decisions are only observed" if observe_only else "decisions are applied again"
            cause = f"asked by {asked_by}"
            self.record([_govern(query, goal, cause, told) for query, goal in self.plant.goals.items()])

    def handle(self, event: FleetEvent) -> list[Decision]:
        """Decide on an event, record the decisions and apply what is recorded."""
        with self._deciding:
            if self._closed.is_set():
                return []
            decisions = self.logic.on_event(event, self._clock())
            self._apply_all(self.record([*_told(event), *decisions]))
            return decisions

    def set_goal(self, query: QueryName, goal: Goal, asked_by: str) -> list[Decision]:
        """Ask something else of a query, on record with who asked."""
        with self._deciding:
            self.plant.set_goal(query, goal, asked_by)
            self.record([_govern(query, goal, f"asked by {asked_by}", "another goal holds from now on")])
            return self.handle(FleetGoalChanged(query, goal, asked_by))

    def record(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Put decisions on record, with those that still wait; gives what is on record now and was not before."""
        with self._deciding:
            together = [*self._waiting, *decisions]
            if not together:
                return []
            try:
                self.store.append_all(list(map(to_action, together)), time_s=self._clock(), mode=self.mode)
            except UnstorableError:
                raise  # it would wait for ever, and all others with it
            except StoreError as error:
                if not self._waiting:
                    logger.warning("%s; decisions wait until they can be recorded", error)
                self._waiting = together
                return []
            self._waiting = []
            return together

    def cycle(self) -> None:
        """Collect, decide on what is seen, and put in force again what is not."""
        for event in (*self.plant.observe(), FleetTick()):
            self.handle(event)
        self._forget_old()
        self._apply_all(self.record([]))
        self.plant.reconcile()
        self._note()

    def _note(self) -> None:
        """Keep figures; without them everything goes on."""
        try:
            self.store.append_points(self.plant.points())
        except StoreError as error:
            logger.debug("figures are not kept: %s", error)

    def _forget_old(self) -> None:
        now_s = self._clock()
        if self._retention is not None and now_s - self._forgot_s > _FORGET_EVERY_S:
            self._forgot_s = now_s
            forget_old(self.store, self._retention, now_s=now_s)

    def start(self, every_s: float) -> None:
        """Run cycles on a thread of its own."""
        self._thread = threading.Thread(target=self._run, args=(every_s,), name="penstock-fleet", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Decide no more; engines and their queries run on."""
        with self._deciding:
            self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_ENDS_WITHIN_S)

    def _run(self, every_s: float) -> None:
        while not self._closed.wait(every_s):
            try:
                self.cycle()
                self._faulted = ""
            except Exception as error:
                # Engines go on as they are; the same fault cycle after cycle is told once.
                reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
                if reason != self._faulted:
                    logger.exception("a cycle failed")
                    self._faulted = reason
                    self.record([Fault(cause="cycle", reason=f"{reason}; everything stays as it is")])

    def _apply_all(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Fault | Govern | MoveDone):
                continue
            if self.mode is Mode.OBSERVE and isinstance(decision, Move):
                self._leave(decision)
                continue
            try:
                self.plant.apply(decision)
            except Exception as error:
                # One that cannot be put in force must not keep those behind it from it: they are on record, too.
                logger.exception("%s could not be put in force", decision)
                reason = f"{type(error).__name__}: {error}; it stays as it is"
                self.record([Fault(query=decision.query, cause=f"{decision.kind} not in force", reason=reason)])

    def _leave(self, move: Move) -> None:
        """Only observed: the logic hears that a move was not made, or it would wait for it for ever."""
        told = "moves are only observed"
        stays = MoveFailed(move.query, move.engine, move.number, told, running_on=move.leaves)
        self._apply_all(self.record(self.logic.on_event(stays, self._clock())))


def _govern(query: QueryName, goal: Goal, cause: str, reason: str) -> Govern:
    return Govern(
        query=query,
        cause=cause,
        reason=f"{reason}, wherever the query runs",
        latency_s=goal.latency_s,
        minimum_accuracy=goal.minimum_accuracy,
        priority=goal.priority,
        weight=goal.weight,
    )


def _told(event: FleetEvent) -> list[Decision]:
    """What the log says of an event that nobody decided: which goal a query has, and how a move ended."""
    if isinstance(event, QueryAdded):
        return [_govern(event.query.name, event.query.goal, "declared", "its goal holds")]
    if isinstance(event, MoveFailed):
        return [Fault(query=event.query, cause=f"move {event.number}", reason=event.reason)]
    if isinstance(event, MoveFinished):
        reason = f"it runs on {event.engine}, {event.downtime_s:.1f} s after it was to"
        cause = f"move {event.number}"
        return [MoveDone(query=event.query, cause=cause, reason=reason, engine=event.engine, took_s=event.downtime_s)]
    return []
