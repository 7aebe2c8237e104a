"""The one loop: collect, on_event, record, apply what is recorded.

Whatever happens to an application becomes an event; the logic answers with decisions; they are recorded, and only then
applied. Every cycle the loop compares what is recorded with what is there, and applies again what is not in force: a
crash, a lost call or somebody else's hand heals itself. Failing open, observe-only and the locks live here, once.

A store that cannot be written, for want of room or because another program holds it, ends nothing: decisions wait, what
stands stays in force, and queries get their own limits back only where that lasts (docs/adr/0017-faults.md).
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol

from penstock.control.events import BatchPlanned, GoalChanged, QueryEnded, QueryStarted, Tick
from penstock.errors import PenstockError, StoreError, UnstorableError
from penstock.model import APPLICATION, Mode
from penstock.model.decision import Decision, Executors, Fault, KeepRatio, ReadLimit, Release, Resize, to_action

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.control.application import ApplicationLogic
    from penstock.control.events import Event
    from penstock.model import QueryName, SeriesPoint
    from penstock.store import Store

logger = logging.getLogger("penstock")

_ENDS_WITHIN_S = 10.0


class Plant(Protocol):
    """What the loop acts on: Spark, or the simulator."""

    def observe(self) -> Sequence[Event]:
        """What is there now, as events; asked once a cycle."""
        ...

    def apply(self, decision: Decision) -> None:
        """Put a decision in force; the same one again changes nothing."""
        ...

    def in_force(self, decision: Decision) -> bool:
        """Whether what a decision asks for is there."""
        ...

    def restore(self, query: QueryName) -> None:
        """Give a query back what it came with, as if nobody had ever acted on it."""
        ...

    def suspend(self, query: QueryName) -> None:
        """Let a governed query run under what it came with for now; it stays governed."""
        ...


class Loop:
    """Runs one application's logic on one plant.

    Parameters
    ----------
    logic
        Decides.
    plant
        Is acted on.
    store
        Decisions go there before they are applied.
    mode
        In observe mode decisions are recorded and nothing is done.
    clock
        Seconds since the epoch, or virtual ones.
    patience_s
        How long decisions may wait for a store that cannot be written before queries get their own limits back.
    """

    def __init__(
        self,
        logic: ApplicationLogic,
        plant: Plant,
        store: Store,
        *,
        mode: Mode,
        clock: Callable[[], float],
        patience_s: float = 60.0,
    ) -> None:
        self.logic, self.plant, self.store, self.mode = logic, plant, store, mode
        self._clock, self._patience_s = clock, patience_s
        self._waiting: dict[tuple[QueryName, type[Decision], int], Decision] = {}
        self._unrecorded_since_s: float | None = None
        self._suspended = False
        self._deciding = threading.RLock()
        self._acting: dict[QueryName, threading.RLock] = {}
        self._standing: dict[tuple[QueryName, type[Decision], int], Decision] = {}
        self._faulted = ""
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing is decided any more."""
        return self._closed.is_set()

    # Events

    def handle(self, event: Event) -> list[Decision]:
        """Decide on an event, record the decisions and apply what is recorded; errors come out."""
        with self._deciding:
            if self._closed.is_set():
                return []
            if isinstance(event, QueryStarted | QueryEnded):
                # At a start as well: the end of the run before may come after it, or never.
                self._forget(event.spec.name if isinstance(event, QueryStarted) else event.query)
            decisions = self.logic.on_event(event, self._clock())
            recorded = self.record([decision for decision in decisions if self._is_news(decision)])
        for decision in recorded:
            self._apply(decision)
        return decisions

    def answer(self, event: BatchPlanned) -> KeepRatio | None:
        """What a planned batch keeps, recorded before it is told; None where nothing is, or can be, on record."""
        answers = [decision for decision in self.handle(event) if isinstance(decision, KeepRatio)]
        if not answers or self.mode is not Mode.ACT or self._is_news(answers[-1]):
            return None
        return answers[-1]

    def record(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Put decisions on record, all of them or none, with those that still wait for it; gives what is on record now.

        What stands is what is on record. Of decisions that wait, a later one takes the place of an earlier one; a keep
        ratio does not wait, because its batch goes on without it.
        """
        with self._deciding:
            fresh = {_key(decision) for decision in decisions}
            together = [*(each for key, each in self._waiting.items() if key not in fresh), *decisions]
            if self._unrecorded_since_s is not None:
                together.append(self._gap(self._unrecorded_since_s))
            if not together:
                return []
            try:
                actions = [to_action(decision) for decision in together]
                self.store.append_all(actions, time_s=self._clock(), mode=self.mode)
            except UnstorableError:
                raise  # it would wait for ever, and all others with it
            except StoreError as error:
                self._waiting.update((_key(each), each) for each in decisions if not isinstance(each, KeepRatio))
                self._cannot_record(error)
                return []
            for decision in together:
                self._standing[_key(decision)] = decision
            self._waiting.clear()
            self._unrecorded_since_s, self._suspended = None, False
            return together

    def keep_points(self, points: Sequence[SeriesPoint]) -> None:
        """Record observations; those that cannot be recorded are lost, and nothing else with them."""
        try:
            self.store.append_points(points)
        except StoreError as error:
            with self._deciding:
                self._cannot_record(error)

    def _cannot_record(self, error: StoreError) -> None:
        if self._unrecorded_since_s is None:
            self._unrecorded_since_s = self._clock()
            logger.warning("%s; what stands decided stays in force until it can be recorded again", error)

    def _gap(self, since_s: float) -> Fault:
        """What the log says of the time in which it could not be written, once it can."""
        meanwhile = "queries had their own limits" if self._suspended else "what stood decided stayed in force"
        reason = f"the store could not be written for {self._clock() - since_s:.0f} s; {meanwhile}"
        return Fault(query=APPLICATION, cause="store", reason=reason)

    def _suspend_if_it_lasts(self) -> None:
        """Fail open: a limit that nobody could correct for a while must not stay for ever."""
        with self._deciding:
            since_s = self._unrecorded_since_s
            if since_s is None or self._suspended or self._clock() - since_s < self._patience_s:
                return
            self._suspended = True
            names = self.logic.governed
        logger.warning(
            "nothing could be recorded for %g s: queries have their own limits until it can", self._patience_s
        )
        for name in names:
            with self.lock_of(name):
                self.plant.suspend(name)

    def _is_news(self, decision: Decision) -> bool:
        """Whether a decision says something that is not on record: a batch that asks again gets what is there."""
        known = self._standing.get(_key(decision))
        if not isinstance(decision, KeepRatio) or not isinstance(known, KeepRatio):
            return True
        same_batch = known.batch_id == decision.batch_id and known.keep_ratio == decision.keep_ratio
        # While everything is kept there is nothing to tell: a batch without a record keeps the ratio of the last one.
        return not same_batch and not (known.everything and decision.everything)

    def _apply(self, decision: Decision) -> None:
        if not isinstance(decision, ReadLimit | KeepRatio | Executors | Resize):
            return
        with self.lock_of(decision.query):
            # Under the query's lock: a limit decided before a release, or before nothing is applied any more, must not
            # be put in force after it.
            if self.mode is Mode.ACT and self._standing.get(_key(decision)) is decision:
                self.plant.apply(decision)

    def lock_of(self, query: QueryName) -> threading.RLock:
        """The lock under which one query is acted on; a slow query holds up nobody else."""
        with self._deciding:
            return self._acting.setdefault(query, threading.RLock())

    def set_mode(self, mode: Mode, *, asked_by: str) -> None:
        """Apply decisions from now on, or none any more: queries then have their own limits, and are decided about on.

        Every governed query is on record anew with the mode; what stands is put in force again by the next cycle.
        """
        with self._deciding:
            if self._closed.is_set() or mode is self.mode:
                return
            self.mode = mode
            self.logic.set_enforced(enforced=mode is Mode.ACT)
            goals = {name: self.logic.application.queries[name].goal for name in self.logic.governed}
        for name, goal in goals.items():
            if mode is Mode.OBSERVE:
                with self.lock_of(name):
                    self.plant.suspend(name)
            self.handle(GoalChanged(name, goal, asked_by))

    # Cycles

    def cycle(self) -> None:
        """Observe, decide on what is seen, and apply again whatever is recorded and not in force."""
        for event in (*self.plant.observe(), Tick()):
            self.handle(event)
        points = self.logic.take_points()
        if points:
            self.keep_points(points)
        if self._unrecorded_since_s is not None:
            self.record([])
            self._suspend_if_it_lasts()
        if self.mode is Mode.ACT and not self._suspended:
            with self._deciding:
                standing = [
                    each for each in self._standing.values() if isinstance(each, ReadLimit | Executors | Resize)
                ]
            for decision in standing:
                if not self.plant.in_force(decision):
                    self._apply(decision)

    def start(self, every_s: float) -> None:
        """Run cycles on a thread of its own."""
        self._thread = threading.Thread(target=self._run, args=(every_s,), name="penstock-loop", daemon=True)
        self._thread.start()

    def _run(self, every_s: float) -> None:
        while not self._closed.wait(every_s):
            try:
                self.cycle()
                self._faulted = ""
            except Exception as error:  # noqa: BLE001 - the queries must go on without the loop
                self.fault(APPLICATION, "cycle", error)

    def close(self) -> None:
        """Decide no more: what is being decided is recorded and applied, what comes later is not looked at."""
        with self._deciding:
            self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_ENDS_WITHIN_S)

    # The end of governing, asked for or not

    def release(self, query: QueryName, cause: str, why: str) -> None:
        """Stop deciding about a query and give it back what it came with."""
        reason = f"{why}; its sources have their own limits again"
        try:
            with self._deciding:
                self.logic.on_event(QueryEnded(query), self._clock())
                self._forget(query)
                self.record([Release(query=query, cause=cause, reason=reason)])
        finally:
            with self.lock_of(query):
                self.plant.restore(query)

    def release_all(self, cause: str, why: str) -> None:
        """Release every governed query; one that cannot be let go of in order does not keep the others."""
        with self._deciding:
            names = self.logic.governed
        for name in names:
            try:
                self.release(name, cause, why)
            except Exception:
                logger.exception("query %s could not be let go of in order", name)

    def fault(self, query: QueryName, cause: str, error: Exception) -> None:
        """Fail open: what Penstock cannot handle runs on as if Penstock were not there. Never raises."""
        what = str(error).splitlines()[0] if str(error) else "no message"
        if query == APPLICATION:
            reason = f"{type(error).__name__}: {what}; everything stays as it is"
            if reason == self._faulted:
                return
            self._faulted = reason
        else:
            reason = f"{type(error).__name__}: {what}; the query runs on as if Penstock were not there"
        logger.warning("%s: %s", query or "application", reason, exc_info=not isinstance(error, PenstockError))
        if query != APPLICATION:
            self._let_go(query)
        try:
            self.record([Fault(query=query, cause=cause, reason=reason)])
        except Exception:
            logger.exception("the fault of %s could not be recorded", query or "the application")

    def _let_go(self, query: QueryName) -> None:
        try:
            with self._deciding:
                self.logic.on_event(QueryEnded(query), self._clock())
                self._forget(query)
            with self.lock_of(query):
                self.plant.restore(query)
        except Exception:
            logger.exception("query %s could not be given back what it came with", query)

    def _forget(self, query: QueryName) -> None:
        """What stood for a run must not hold for the next of its name; what the log is yet to be told of it stays."""
        self._waiting = {
            key: decision
            for key, decision in self._waiting.items()
            if key[0] != query or not isinstance(decision, ReadLimit)
        }
        self._standing = {key: decision for key, decision in self._standing.items() if key[0] != query}


def _key(decision: Decision) -> tuple[QueryName, type[Decision], int]:
    """What a later decision takes the place of: one limit for each source, one of everything else."""
    return decision.query, type(decision), decision.source if isinstance(decision, ReadLimit) else -1
