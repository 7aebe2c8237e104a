"""The one logic of a fleet: events in, decisions out. No clock, no randomness, no input or output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.control.fleet import record
from penstock.control.fleet.cycle import FleetCycle
from penstock.control.fleet.engines import EngineBook
from penstock.control.fleet.ledger import MoveLedger
from penstock.control.fleet.scheduler import choose_engine
from penstock.control.fleet.state import FleetState
from penstock.control.fleet.table import QueryTable, cost_of_a_row
from penstock.model.decision import Hold
from penstock.model.fleet import (
    EngineLost,
    EngineSeen,
    FleetGoalChanged,
    FleetTick,
    MoveFailed,
    MoveFinished,
    Place,
    QueryAdded,
    QueryRemoved,
    QueryReport,
)
from penstock.settings import FleetSettings

if TYPE_CHECKING:
    from penstock.control.fleet.shape import Flags, Floats
    from penstock.model.decision_base import Decision
    from penstock.model.fleet import FleetEvent
    from penstock.model.query import QueryName


class FleetLogic:
    """Places queries on engines, gives each its accuracy by priority, and moves them where that pays.

    It plans on every event that changes what fits (an engine, a query, a goal, a move, a rate that is not as planned),
    at most every ``fleet.react_s``, and every ``fleet.every_s`` anyway.

    Examples
    --------
    >>> from penstock.model.fleet import FleetEngine, FleetQuery
    >>> from penstock.model.goal import Goal
    >>> from penstock.model.query import QueryName
    >>> logic = FleetLogic()
    >>> logic.on_event(EngineSeen(FleetEngine("east")), 0.0)
    []
    >>> clicks = FleetQuery(QueryName("clicks"), Goal(minimum_accuracy=0.5), reads=("topic:clicks",))
    >>> [place] = logic.on_event(QueryAdded(clicks), 1.0)
    >>> place.query, place.engine, place.number
    ('clicks', 'east', 1)
    """

    def __init__(self, settings: FleetSettings | None = None) -> None:
        settings = settings or FleetSettings()
        self.state = FleetState(settings, MoveLedger(settings))
        self._cycle = FleetCycle(self.state)
        self._waiting: dict[str, str] = {}  # queries that no engine takes yet, and why they are to be placed
        self._asked_for_plan = ""
        self._planned_s: float | None = None
        self._told_to_wait: set[str] = set()
        self._warm_ups_changed = False

    def on_event(self, event: FleetEvent, now_s: float) -> list[Decision]:
        """What follows from an event, in the order in which it is to be applied."""
        decisions = self._take_in(event, now_s)
        decisions += self._place_waiting(now_s)
        for query in self.state.moves.time_out(now_s):
            self._warm_ups_changed = True
            self._ask_for_plan(f"{query} had {self.state.settings.warm_up_s:g} s to warm up")
        if self._warm_ups_changed:
            self._warm_ups_changed = False
            decisions += self._cycle.warm_up_bounds()
        if self._is_due(now_s):
            cause = self._asked_for_plan or "cycle"
            self._asked_for_plan, self._planned_s = "", now_s
            decisions += self._cycle.run(cause, now_s)
        return decisions

    def _is_due(self, now_s: float) -> bool:
        since_s = np.inf if self._planned_s is None else now_s - self._planned_s
        if since_s < (self.state.settings.react_s if self._asked_for_plan else self.state.settings.every_s):
            return False
        return bool(self.state.queries) and bool(self.state.engines.is_there.any())

    def _ask_for_plan(self, cause: str) -> None:
        self._asked_for_plan = self._asked_for_plan or cause

    def _take_in(self, event: FleetEvent, now_s: float) -> list[Decision]:
        match event:
            case QueryReport():
                self._reported(event, now_s)
            case EngineSeen():
                self._seen(event)
            case EngineLost():
                self._lost(event)
            case QueryAdded():
                self._added(event)
            case QueryRemoved():
                self._removed(event.query)
            case FleetGoalChanged() if event.query in self.state.queries:
                self.state.queries[event.query] = replace(self.state.queries[event.query], goal=event.goal)
                self.state.forget_graph()
                self._ask_for_plan(f"goal of {event.query} changed by {event.asked_by}")
            case MoveFinished():
                self._arrived(event, now_s)
            case MoveFailed():
                self._failed(event, now_s)
            case FleetTick() | FleetGoalChanged():
                pass
        return []

    # ---- engines -------------------------------------------------------------------------------------------------

    def _seen(self, event: EngineSeen) -> None:
        if self.state.engines.see(event.engine):
            self._ask_for_plan(f"engine {event.engine.name} is there")
        if event.host_busy_cores is not None:
            place = self.state.engines.place[event.engine.name]
            own = event.own_busy_cores
            if own is None:
                own = float(self.state.table["cores"][self.state.table["engine"] == place].sum())
            self.state.engines.observe_host(event.engine.name, event.host_busy_cores - own)

    def _lost(self, event: EngineLost) -> None:
        if not self.state.engines.lose(event.engine):
            return
        self._ask_for_plan(f"engine {event.engine} is lost")
        place = self.state.engines.place[event.engine]
        for row in np.flatnonzero(self.state.table["engine"] == place):
            query = self.state.table.names[row]
            self.state.moves.forget(query)
            self._unplace(query, f"engine {event.engine} is lost" + (f": {event.reason}" if event.reason else ""))

    # ---- queries -------------------------------------------------------------------------------------------------

    def _added(self, event: QueryAdded) -> None:
        name = event.query.name
        self.state.add_query(event.query)
        if event.engine is None:
            self._unplace(name, "added")
        else:
            self.state.set_engine(name, event.engine)
        self._ask_for_plan(f"{name} added")

    def _removed(self, query: QueryName) -> None:
        if not self.state.remove_query(query):
            return
        self._waiting.pop(query, None)
        self._ask_for_plan(f"{query} removed")

    def _reported(self, event: QueryReport, now_s: float) -> None:
        name = event.query
        if name not in self.state.queries or name in self.state.moves.pending:
            return
        if self.state.engines.place.get(event.engine) != self.state.engine_place(name):
            return  # from the engine that it left: what it did there says nothing of where it is
        warms_up = name in self.state.moves.warming
        if self.state.table.observe(event, self.state.settings, learn_cost=not warms_up):
            self._ask_for_plan(f"{name} reports another load")
        if warms_up and self._has_settled(event, now_s):
            self._warm_ups_changed = True
            self._ask_for_plan(f"{name} is warm")

    def _has_settled(self, event: QueryReport, now_s: float) -> bool:
        kept = sum(each.kept_rows for each in event.inputs)
        read = sum(each.read_rows for each in event.inputs)
        accuracy = event.accuracy if event.accuracy is not None else (kept / read if read > 0 else 1.0)
        cost = cost_of_a_row(event)
        is_idle = read == 0 and not any(each.backlog_rows for each in event.inputs)
        minimum = self.state.task_minimum(event.query)
        settled = self.state.moves.settle(
            event.query, core_s_per_row=cost, accuracy=accuracy, minimum=minimum, is_idle=is_idle, now_s=now_s
        )
        if settled and cost is not None:
            self.state.table.set_cost(event.query, cost)
        return settled

    # ---- places --------------------------------------------------------------------------------------------------

    def _unplace(self, query: str, why: str) -> None:
        self.state.set_engine(query, None)
        self._warm_ups_changed = True
        self._waiting[query] = why

    def _arrived(self, event: MoveFinished, now_s: float) -> None:
        if event.query not in self.state.queries:
            return
        done = self.state.moves.finish(event.query, event.number, downtime_s=event.downtime_s, now_s=now_s)
        if done is None:
            return
        self.state.set_engine(event.query, event.engine)
        self.state.table.start_anew(event.query)
        self.state.resend(event.query)
        self._warm_ups_changed = True
        self._ask_for_plan(f"{event.query} runs on {event.engine} after {event.downtime_s:.1f} s")

    def _failed(self, event: MoveFailed, now_s: float) -> None:
        if event.query not in self.state.queries or self.state.moves.fail(event.query, event.number, now_s) is None:
            return
        if event.running_on is None:
            self._unplace(event.query, f"{event.engine} did not take it: {event.reason}")
        else:
            self.state.set_engine(event.query, event.running_on)
            self._warm_ups_changed = True
        self._ask_for_plan(f"{event.query} did not get to {event.engine}: {event.reason}")

    def _place_waiting(self, now_s: float) -> list[Decision]:
        if not self._waiting:
            return []
        there = self.state.engines.is_there
        if not there.any():
            return self._told_that_none_is_there()
        self._told_to_wait.clear()
        free, all_needed = self.state.free_cores(), self.state.expected_cores_of_all()
        decisions: list[Decision] = []
        for query, why in list(self._waiting.items()):
            needed = float(all_needed[self.state.table.place[query]])
            target = self._target(query, free, needed, there, now_s)
            free[target] -= needed
            del self._waiting[query]
            engine = self.state.engines.names[target]
            number = self.state.moves.start(query, engine, leaves="", now_s=now_s)
            self.state.set_engine(query, engine)
            decisions.append(
                Place(
                    query=self.state.queries[query].name, cause=why, engine=engine, number=number,
                    reason=f"{engine} has the most CPU free, {free[target] + needed:.2f} cores; {query} is taken to "
                    f"need {needed:.2f}",
                    expected={"cores": needed},
                )
            )  # fmt: skip
        return decisions

    def _told_that_none_is_there(self) -> list[Decision]:
        anew = [query for query in self._waiting if query not in self._told_to_wait]
        self._told_to_wait.update(anew)
        return [
            Hold(
                query=self.state.queries[query].name, cause=self._waiting[query], reason="no engine is there to run it"
            )
            for query in anew
        ]

    def _target(self, query: str, free: Floats, needed: float, there: Flags, now_s: float) -> int:
        allowed = there.copy()
        barred = self.state.engines.place.get(self.state.moves.barred(query, now_s) or "", -1)
        if barred >= 0 and allowed.sum() > allowed[barred]:
            allowed[barred] = False  # the only engine that is left takes it, whatever happened there before
        prefers = self.state.queries[query].prefers
        target = choose_engine(
            query, self.state.engines.names, free, needed_cores=needed, prefers=prefers, allowed=allowed
        )
        assert target is not None, "one is allowed at least"
        return target

    # ---- snapshot ------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that a successor needs to go on, as plain data."""
        return {
            "engines": self.state.engines.snapshot(),
            "queries": [record.query_to_dict(query) for query in self.state.queries.values()],
            "table": self.state.table.snapshot(),
            "moves": self.state.moves.snapshot(),
            "sent": [[*where, *ratios] for where, ratios in self.state.sent_ratios_by_input().items()],
            "cycle": self._cycle.snapshot(),
            "waiting": dict(self._waiting),
            "told_to_wait": sorted(self._told_to_wait),
            "planned_s": self._planned_s,
            "asked_for_plan": self._asked_for_plan,
        }

    @classmethod
    def restored(cls, snapshot: dict[str, Any], settings: FleetSettings | None = None) -> FleetLogic:
        """The logic of a snapshot: with the same events it decides the same."""
        logic = cls(settings)
        state = logic.state
        state.engines = EngineBook.restored(snapshot["engines"])
        state.table = QueryTable.restored(snapshot["table"])
        for each in snapshot["queries"]:
            state.add_query(record.query_from_dict(each))
        state.moves = MoveLedger.restored(state.settings, snapshot["moves"])
        state.sent = {(query, stream): (ratio, path) for query, stream, ratio, path in snapshot["sent"]}
        logic._cycle.restore(snapshot["cycle"])
        logic._waiting = dict(snapshot["waiting"])
        logic._told_to_wait = set(snapshot["told_to_wait"])
        logic._planned_s, logic._asked_for_plan = snapshot["planned_s"], snapshot["asked_for_plan"]
        return logic
