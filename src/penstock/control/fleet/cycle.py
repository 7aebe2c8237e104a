"""One cycle of a fleet: what is asked for, who moves, what everybody gets. Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.control.fleet.cpu import by_engine
from penstock.control.fleet.drops import keep_ratios
from penstock.control.fleet.needs import load_of
from penstock.control.fleet.plan import share_out
from penstock.control.fleet.relief import relieve
from penstock.control.fleet.worth import (
    AllowedMoves,
    MoveCosts,
    WorthwhileMove,
    cores_lost_at_minimum,
    flow_cores,
    lost_beside,
    sheds_on,
    worthwhile_moves,
)
from penstock.model.decision import Hold, Infeasible
from penstock.model.fleet import AccuracyBounds, Move, StreamKeepRatio

if TYPE_CHECKING:
    from penstock.control.fleet.plan import FleetLoad, FleetShares
    from penstock.control.fleet.shape import Flags, Floats
    from penstock.control.fleet.state import FleetState
    from penstock.model.decision_base import Decision

_ROUNDING = 1e-6


class FleetCycle:
    """Plans for the state of a fleet, and remembers since when engines are short."""

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self._short_since: dict[str, float] = {}
        self._minima_short_since: dict[str, float] = {}
        self._said_not_worth: set[str] = set()
        self._minima_lastingly_short = False

    def run(self, cause: str, now_s: float) -> list[Decision]:
        """Everything that follows from what is known now."""
        state = self._state
        load = load_of(state.graph, state.table, state.engines, state.settings, state.warming_priority())
        shares = share_out(load, state.settings.share_by)
        state.table.mark_planned()
        decisions = self._moves(load, shares, cause, now_s)
        if any(isinstance(each, Move) for each in decisions):
            # Who moves has left its engine before the CPU there is shared out.
            load = replace(load, engine_of=state.table["engine"].astype(np.intp))
            shares = share_out(load, state.settings.share_by)
        decisions += self._infeasible(load, shares, cause)
        return decisions + self._keep_ratios(load, shares, cause)

    # ---- moves ---------------------------------------------------------------------------------------------------

    def _moves(self, load: FleetLoad, shares: FleetShares, cause: str, now_s: float) -> list[Decision]:
        settings, engines = self._state.settings, self._state.engines
        _, short = sheds_on(load, shares)
        quiet = self._quiet_engines()
        minima_short = self._lasting(self._minima_short_since, load.short_cores, quiet, now_s)
        shedding = self._lasting(self._short_since, short, quiet, now_s)
        movable = self._movable(load)
        barred = self._state.barred_engines(now_s)
        self._minima_lastingly_short = bool(minima_short.any())
        if minima_short.any():
            found = relieve(load, self._state.table.names, engines.names, movable, barred, minima_short)
            decisions = self._relief(load, shares, found, cause, now_s)
            if decisions:
                return decisions
            # Nothing helps as things are: the search is not made again in every cycle.
            short_names = [name for name, is_short in zip(engines.names, minima_short, strict=True) if is_short]
            self._minima_short_since.update(dict.fromkeys(short_names, now_s))
        costs = MoveCosts(self._state.moves.downtime_s, self._state.moves.warm_up_s, settings.payback_s)
        allowed = AllowedMoves(movable, barred, sources=shedding, targets=quiet)
        moves = worthwhile_moves(load, shares, costs, allowed, settings.share_by)
        return [self._move(move, load, cause, "sheds rows that fit elsewhere", now_s) for move in moves]

    def _relief(
        self, load: FleetLoad, shares: FleetShares, found: dict[int, int], cause: str, now_s: float
    ) -> list[Decision]:
        """All of these moves, if together they bring more than they cost; they belong together."""
        moves, settings = self._state.moves, self._state.settings
        if not found:
            return []
        costs = MoveCosts(moves.downtime_s, moves.warm_up_s, settings.payback_s)
        instances, targets = np.array(list(found), dtype=np.intp), np.array(list(found.values()), dtype=np.intp)
        sources = load.engine_of[instances]
        loses = cores_lost_at_minimum(load, shares)
        priority = load.task_priority[load.shape.task_of]
        lost = sum(
            float(lost_beside(loses, load, priority, int(priority[instances[targets == target]].max()))[target])
            for target in np.unique(targets).tolist()
        )
        stopped = (flow_cores(load) * shares.task_accuracy[load.shape.task_of])[instances].sum()
        cost_core_s = float(costs.cost_core_s(stopped, lost + loses[instances].sum()))
        short = np.maximum(0.0, load.short_cores[np.unique(sources)])
        gain_core_s = float(short.sum()) * costs.gaining_s
        if gain_core_s <= cost_core_s:
            return self._not_worth(load, np.unique(sources).tolist(), gain_core_s, cost_core_s, cause)
        parts = len(found)
        return [
            self._move(
                WorthwhileMove(instance, engine, gain_core_s / parts, cost_core_s / parts), load, cause,
                "cannot give all their minimum accuracy", now_s,
            )
            for instance, engine in found.items()
        ]  # fmt: skip

    def _not_worth(
        self, load: FleetLoad, sources: list[int], gain_core_s: float, cost_core_s: float, cause: str
    ) -> list[Decision]:
        names = [self._state.engines.names[source] for source in sources]
        anew = [name for name in names if name not in self._said_not_worth]
        self._said_not_worth.update(anew)
        return [
            Hold(
                cause=cause,
                reason=f"{name} is {load.short_cores[self._state.engines.place[name]]:.2f} cores short of all minima, "
                f"but moves would cost {cost_core_s:.0f} core-seconds and gain {gain_core_s:.0f}",
            )
            for name in anew
        ]

    def _move(self, move: WorthwhileMove, load: FleetLoad, cause: str, why: str, now_s: float) -> Move:
        state = self._state
        query = state.queries[state.table.names[move.instance]]
        engine, leaves = state.engines.names[move.engine], state.engines.names[load.engine_of[move.instance]]
        number = state.moves.start(query.name, engine, leaves=leaves, now_s=now_s)
        state.set_engine(query.name, engine)
        return Move(
            query=query.name, cause=cause, engine=engine, leaves=leaves, number=number,
            reason=f"{leaves} {why}; the move gains {move.gain_core_s:.0f} core-seconds in "
            f"{state.settings.payback_s:g} s and costs {move.cost_core_s:.0f}",
            expected={
                "downtime_s": state.moves.downtime_s, "gain_core_s": move.gain_core_s, "cost_core_s": move.cost_core_s,
            },
        )  # fmt: skip

    def _lasting(self, since: dict[str, float], short: Floats, quiet: Flags, now_s: float) -> Flags:
        """Engines that have been short, with nobody on the way or warming up, for as long as it takes to move somebody.

        Rates and costs of a graph are out of step while a part of it stands still or is held back: a second move that
        followed from such figures took from the highest priority what the first had given it.
        """
        names, after_s = self._state.engines.names, self._state.settings.move_after_s
        for place, name in enumerate(names):
            if short[place] > _ROUNDING and quiet[place]:
                since.setdefault(name, now_s)
            else:
                since.pop(name, None)
            if short[place] <= _ROUNDING:
                self._said_not_worth.discard(name)
        lasting: Flags = np.array([name in since and now_s - since[name] >= after_s for name in names], dtype=bool)
        return lasting & quiet

    def _quiet_engines(self) -> Flags:
        """Engines on which nobody warms up and from or to which nobody moves."""
        quiet = self._state.engines.is_there.copy()
        busy = [warm.engine for warm in self._state.moves.warming.values()]
        busy += [name for move in self._state.moves.pending.values() for name in (move.engine, move.leaves) if name]
        quiet[[self._state.engines.place[name] for name in busy if name in self._state.engines.place]] = False
        return quiet

    def _movable(self, load: FleetLoad) -> Flags:
        movable = load.engine_of >= 0
        for query in (*self._state.moves.pending, *self._state.moves.warming):
            movable[self._state.table.place[query]] = False
        return movable

    # ---- what everybody gets -------------------------------------------------------------------------------------

    def _keep_ratios(self, load: FleetLoad, shares: FleetShares, cause: str) -> list[Decision]:
        state, shape = self._state, load.shape
        desired = np.maximum(shape.of_sinks(np.maximum(shares.accuracy, load.minimum)), load.floor)
        sent = state.sent_ratios
        ratios = np.column_stack([keep_ratios(shape, desired), desired[shape.task_of[shape.input_instance]]])
        differs = ~(np.abs(ratios - sent) <= state.settings.dead_band)  # NaN differs from everything
        changed = np.flatnonzero((differs | ((ratios >= 1.0) & (sent < 1.0))).any(axis=1))
        if not changed.size:
            return []
        full = by_engine(load.cores, load.engine_of, load.available.size)
        reasons = [
            f"{name}: {asked:.2f} cores for all rows, {has:.2f} to give"
            for name, asked, has in zip(state.engines.names, full, load.available, strict=True)
        ]
        instances = shape.input_instance[changed]
        cores = shares.granted_cores[instances].tolist()
        engines = load.engine_of[instances].tolist()
        queries, names = state.queries, state.table.names
        decisions: list[Decision] = [
            StreamKeepRatio(
                query=queries[names[instance]].name, cause=cause, stream=shape.input_stream[at], keep_ratio=ratio,
                reason=reasons[engine] if engine >= 0 else "runs nowhere yet",
                path_keep_ratio=accuracy, producers=shape.input_producers[at],
                previous_ratio=None if math.isnan(before) else before,
                expected={"accuracy": accuracy, "cores": given},
            )
            for at, instance, (ratio, accuracy), before, given, engine in zip(
                changed.tolist(), instances.tolist(), ratios[changed].tolist(), sent[changed, 0].tolist(),
                cores, engines, strict=True,
            )
        ]  # fmt: skip
        sent[changed] = ratios[changed]
        return decisions

    def _infeasible(self, load: FleetLoad, shares: FleetShares, cause: str) -> list[Decision]:
        """Say once of each query that its minimum lastingly does not fit, and once that it fits again."""
        state, shape = self._state, load.shape
        below_task = np.zeros(len(shape.tasks), dtype=bool)
        below_task[shape.sinks] = shares.accuracy < load.minimum - _ROUNDING
        told = state.table["is_below_minimum"] > 0
        below = below_task[shape.task_of]
        if not self._minima_lastingly_short:
            below &= told
        decisions: list[Decision] = []
        for place in np.flatnonzero(below != told).tolist():
            query = state.queries[state.table.names[place]]
            least = query.goal.minimum_accuracy
            if below[place]:
                decisions.append(
                    Infeasible(
                        query=query.name, cause=cause, expected={"cores": float(shares.granted_cores[place])},
                        reason=f"minimum accuracy {least:g} needs {load.least_cores[place]:.2f} cores, and no engine "
                        "has them beside what comes first: add an engine, or lower the minimum or priority of others",
                    )
                )  # fmt: skip
            else:
                decisions.append(Hold(query=query.name, cause=cause, reason=f"minimum accuracy {least:g} fits again"))
        state.table["is_below_minimum"][:] = below
        return decisions

    def warm_up_bounds(self) -> list[Decision]:
        """Hold all of no higher priority to their minimum while somebody warms up beside them; let go afterwards."""
        state = self._state
        warming, engine_of = state.warming_engines(), state.table["engine"].astype(np.intp)
        held = state.warming_priority()[engine_of] >= state.served_priority
        decisions: list[Decision] = []
        for place in np.flatnonzero(held != (state.table["is_held"] > 0)).tolist():
            query = state.queries[state.table.names[place]]
            minimum = state.task_minimum(query.name)
            engine = state.engines.names[state.engine_place(query.name)] if state.engine_place(query.name) >= 0 else ""
            decisions.append(
                AccuracyBounds(
                    query=query.name, cause=f"warm-up on {engine}", low=minimum, high=minimum,
                    until_s=warming[state.engine_place(query.name)],
                    reason=f"a query warms up on {engine}; until then all of no higher priority run at their minimum",
                )
                if held[place]
                else AccuracyBounds(
                    query=query.name, cause="warm-up over", low=minimum, high=1.0, reason="nobody warms up beside it"
                )
            )  # fmt: skip
        state.table["is_held"][:] = held
        return decisions

    # ---- snapshot ------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Since when engines are short, and what was said of it."""
        return {
            "short_since": dict(self._short_since),
            "minima_short_since": dict(self._minima_short_since),
            "said_not_worth": sorted(self._said_not_worth),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self._short_since = dict(snapshot["short_since"])
        self._minima_short_since = dict(snapshot["minima_short_since"])
        self._said_not_worth = set(snapshot["said_not_worth"])
