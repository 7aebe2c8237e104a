"""Starting a query on an engine and moving it to another, each on a thread of its own; what came of it is an event.

A move prepares the new engine first, so that a module which does not import costs nothing. It then stops the query
between two batches, starts it from its checkpoint with a larger number, and waits for its first batch. Where the new
engine refuses after all, the query goes back to where it was.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.errors import AgentUnreachableError, FleetError
from penstock.model.engine_report import RunState
from penstock.model.fleet import MoveFailed, MoveFinished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.fleet.client import Agent
    from penstock.model import QueryName
    from penstock.model.engine_report import EngineReport, QueryRun, RunReport

logger = logging.getLogger("penstock")

_LOOK_EVERY_S = 0.1
_ALIVE = frozenset({RunState.STARTING, RunState.RUNNING})


@dataclass(frozen=True, slots=True)
class Order:
    """What a decision asks for: a query to run on an engine, from nowhere or from another."""

    query: QueryName
    engine: str
    number: int
    leaves: str | None = None


class Runs:
    """Starts and moves queries.

    Parameters
    ----------
    agent_of
        The agent of an engine; None while it is not up.
    run_of
        How a query is to run now: goal, options, bounds.
    report_of
        The newest report of an engine, as the control side has it.
    engines
        Names of all engines.
    warm_up_s
        How long the first batch after a start is waited for.
    clock
        Seconds since the epoch; numbers of runs follow it.
    """

    def __init__(
        self,
        agent_of: Callable[[str], Agent | None],
        run_of: Callable[[QueryName], QueryRun],
        report_of: Callable[[str], EngineReport | None],
        *,
        engines: Callable[[], Sequence[str]],
        warm_up_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._agent_of, self._run_of, self._report_of = agent_of, run_of, report_of
        self._engines, self._warm_up_s, self._clock = engines, warm_up_s, clock
        self._events: queue.SimpleQueue[MoveFinished | MoveFailed] = queue.SimpleQueue()
        self._in_flight: dict[QueryName, tuple[Order, threading.Thread]] = {}
        self._lock = threading.Lock()
        self._number = 0

    def begin(self, order: Order) -> bool:
        """Carry an order out on a thread of its own; False where the query is being brought somewhere already."""
        with self._lock:
            if order.query in self._in_flight:
                return False
            thread = threading.Thread(
                target=self._carry_out, args=(order,), name=f"penstock-run-{order.query}", daemon=True
            )
            self._in_flight[order.query] = order, thread
        thread.start()
        return True

    def in_flight(self, query: QueryName) -> Order | None:
        """The order that is being carried out for a query."""
        with self._lock:
            found = self._in_flight.get(query)
        return None if found is None else found[0]

    def events(self) -> list[MoveFinished | MoveFailed]:
        """What came of orders since the last call."""
        found = []
        while not self._events.empty():
            found.append(self._events.get())
        return found

    def wait(self, timeout_s: float) -> None:
        """Wait until no order is being carried out."""
        with self._lock:
            threads = [thread for _, thread in self._in_flight.values()]
        for thread in threads:
            thread.join(timeout_s)

    def next_number(self) -> int:
        """A number for a run that is larger than all before it, also those of an earlier control process."""
        with self._lock:
            self._number = max(self._number + 1, int(self._clock() * 1000))
            return self._number

    # On the thread of an order

    def _carry_out(self, order: Order) -> None:
        event: MoveFinished | MoveFailed
        try:
            event = self._place(order) if order.leaves is None else self._move(order, order.leaves)
        except Exception as error:  # whatever it is, the logic must hear that the order came to nothing
            if not isinstance(error, FleetError):
                logger.exception("order %s failed", order)
            event = MoveFailed(order.query, order.engine, order.number, _one_line(error))
        with self._lock:
            del self._in_flight[order.query]
        self._events.put(event)

    def _place(self, order: Order) -> MoveFinished | MoveFailed:
        began_s = self._clock()
        self._stop_elsewhere(order)
        there = self._required(order.engine).renew().query(str(order.query))
        started = there if there is not None and there.state is RunState.RUNNING else self._start(order)
        served_s = self._await_batch(order, started)
        return MoveFinished(order.query, order.engine, order.number, max(0.0, served_s - began_s))

    def _move(self, order: Order, leaves: str) -> MoveFinished | MoveFailed:
        try:
            source = self._required(leaves)
            self._required(order.engine).prepare(replace(self._run_of(order.query), number=self.next_number()))
            asked_s = self._clock()
            stopped = source.stop(str(order.query))
        except FleetError as error:
            # Nothing was stopped, as far as anybody knows; where it was all the same, the next report tells.
            return MoveFailed(order.query, order.engine, order.number, _one_line(error), running_on=leaves)
        # From the end of the last batch where one ended after the stop was asked for: until then it served.
        stopped_s = max(asked_s, stopped.last_batch_s or 0.0)
        try:
            started = self._start(order)
            served_s = self._await_batch(order, started)
        except FleetError as error:
            return self._back(order, leaves, stopped_s, error)
        return MoveFinished(order.query, order.engine, order.number, max(0.0, served_s - stopped_s))

    def _back(self, order: Order, leaves: str, stopped_s: float, why: FleetError) -> MoveFailed:
        """Let the query go on where it was."""
        failed = MoveFailed(order.query, order.engine, order.number, _one_line(why))
        home = replace(order, engine=leaves)
        try:
            served_s = self._await_batch(home, self._start(home))
        except FleetError as error:
            return replace(failed, reason=f"{failed.reason}; and back on {leaves}: {_one_line(error)}")
        return replace(failed, running_on=leaves, downtime_s=max(0.0, served_s - stopped_s))

    def _stop_elsewhere(self, order: Order) -> None:
        """End a run that nobody counted on: left by a move that was cut off, or by one that went back.

        An engine that cannot be asked is an error: the query may run there, and waits until the engine is lost.
        """
        for engine in self._engines():
            agent = self._agent_of(engine)
            if engine != order.engine and agent is not None:
                found = agent.renew().query(str(order.query))
                if found is not None and found.state in _ALIVE:
                    agent.stop(str(order.query))

    def _start(self, order: Order) -> RunReport:
        run = replace(self._run_of(order.query), number=self.next_number())
        try:
            return self._required(order.engine).start(run)
        except AgentUnreachableError as error:
            return self._settled(order, run, error)

    def _settled(self, order: Order, run: QueryRun, why: AgentUnreachableError) -> RunReport:
        """What became of a start that nobody answered for: until that is known, it may run there.

        Either the engine is lost, and nothing of it runs; or it answers again and tells.
        """
        asked_s = self._clock()
        while self._agent_of(order.engine) is not None:
            report = self._report_of(order.engine)
            if report is not None and report.time_s > asked_s:
                found = report.query(run.query)
                if found is None or found.number != run.number or found.state not in _ALIVE:
                    raise FleetError(str(why))
                if found.state is RunState.RUNNING:
                    return found
            time.sleep(_LOOK_EVERY_S)
        raise FleetError(f"engine {order.engine!r} was lost while {run.query!r} started on it")

    def _await_batch(self, order: Order, started: RunReport) -> float:
        """When the first batch was done; when it started, where nothing came in all the time of its warm-up."""
        deadline_s = self._clock() + self._warm_up_s
        while self._clock() < deadline_s:
            if self._agent_of(order.engine) is None:
                raise FleetError(f"engine {order.engine!r} was lost before {order.query!r} was warm on it")
            report = self._report_of(order.engine)
            found = None if report is None else report.query(str(order.query))
            if found is not None and found.number == started.number:
                if found.first_batch_s is not None:
                    return found.first_batch_s
                if found.state not in _ALIVE:
                    raise FleetError(f"query {order.query!r} ended on {order.engine!r}: {found.error or 'by itself'}")
            time.sleep(_LOOK_EVERY_S)
        return started.started_s

    def _required(self, engine: str) -> Agent:
        agent = self._agent_of(engine)
        if agent is None:
            raise FleetError(f"engine {engine!r} is not up")
        return agent


def _one_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
