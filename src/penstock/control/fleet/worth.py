"""Whether a move brings more than it costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.fleet.cpu import by_engine, slack
from penstock.control.fleet.plan import share_out
from penstock.control.fleet.sharing import BY_ACCURACY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.control.fleet.plan import FleetLoad, FleetShares
    from penstock.control.fleet.shape import Flags, Floats, Indices

_ROUNDING = 1e-6
_NOTICED_CORES = 1e-3
MOST_SOURCES, MOST_TARGETS = 16, 16
"""Engines that are looked at in one plan: those that are short of the most, and those with the most room.

Others wait for the next plan; a fleet of hundreds of engines must not compare all with all within a cycle."""
MOST_ROUNDS = 3
"""Queries that leave an engine in one plan: beyond a few, what they gain rests on figures that no move has tried."""


@dataclass(frozen=True, slots=True)
class WorthwhileMove:
    """One move with what it brings and costs, in core-seconds within the time in which it must pay."""

    instance: int
    engine: int
    gain_core_s: float
    cost_core_s: float


@dataclass(frozen=True, slots=True)
class MoveCosts:
    """What a move is expected to cost: ``downtime_s`` as learned, others at their minimum for ``warm_up_s``."""

    downtime_s: float
    warm_up_s: float
    payback_s: float

    @property
    def gaining_s(self) -> float:
        """How long a move can bring something within the time in which it must pay: not while the query is down."""
        return max(0.0, self.payback_s - self.downtime_s)

    def cost_core_s(self, cores: Floats | float, neighbours_lose_cores: Floats | float) -> Floats:
        """Core-seconds of work that a move delays or drops."""
        return np.asarray(self.downtime_s * np.asarray(cores) + self.warm_up_s * np.asarray(neighbours_lose_cores))


@dataclass(frozen=True, slots=True)
class AllowedMoves:
    """Who may move where: instances that may move, with the engine that each must not go back to (-1 for none).

    ``sources`` and ``targets`` are the engines that may be left, and those that may be moved to.
    """

    movable: Flags
    barred: Indices
    sources: Flags
    targets: Flags

    def without(self, instances: Sequence[int]) -> AllowedMoves:
        """The same with these instances staying where they are."""
        movable = self.movable.copy()
        movable[list(instances)] = False
        return replace(self, movable=movable)


def worthwhile_moves(
    load: FleetLoad, shares: FleetShares, costs: MoveCosts, allowed: AllowedMoves, share_by: str = BY_ACCURACY
) -> list[WorthwhileMove]:
    """Moves that bring more than they cost, as the plans with them show.

    Rounds of at most one move away from each engine, each on the plan that the rounds before lead to: moves that belong
    together are made together. One after another, each would wait until the one before has warmed up, and rows of a
    change of load would wait anew every time.
    """
    found: list[WorthwhileMove] = []
    begin, before = load, shares
    for _ in range(MOST_ROUNDS):
        moves, after = _round(load, shares, costs, allowed, share_by)
        cost_core_s = sum(move.cost_core_s for move in (*found, *moves))
        if not moves or costs.gaining_s * realised_cores(begin, before, after) <= cost_core_s:
            break
        found += moves
        allowed = allowed.without([move.instance for move in moves])
        load, shares = with_moves(load, moves), after
    return found


def _round(
    load: FleetLoad, shares: FleetShares, costs: MoveCosts, allowed: AllowedMoves, share_by: str
) -> tuple[list[WorthwhileMove], FleetShares]:
    """All moves that seem to pay if together they do, else the first of them; and what is given out with them."""
    seeming = seeming_moves(load, shares, costs, allowed)
    for moves in (seeming, seeming[:1])[: len(seeming)]:
        after = share_out(with_moves(load, moves), share_by)
        gain_core_s = costs.gaining_s * realised_cores(load, shares, after)
        if gain_core_s > sum(move.cost_core_s for move in moves):
            return [replace(move, gain_core_s=gain_core_s / len(moves)) for move in moves], after
    return [], shares


def with_moves(load: FleetLoad, moves: Sequence[WorthwhileMove]) -> FleetLoad:
    """The same load with instances where they are moved to."""
    engine_of = load.engine_of.copy()
    engine_of[[move.instance for move in moves]] = [move.engine for move in moves]
    return replace(load, engine_of=engine_of)


def realised_cores(load: FleetLoad, shares: FleetShares, after: FleetShares) -> float:
    """Cores more in use for rows with what is given out after; zero where a priority loses and none above it gains.

    Engines are not alone: a sink whose rows pass through several gains nothing where another of them is full. The
    highest priority for which anything changes must gain; what counts is the most that it and those next below gain
    together.
    """
    grew = load.cores * (after.task_accuracy - shares.task_accuracy)[load.shape.task_of]
    by_priority = np.bincount(load.task_priority[load.shape.task_of], weights=grew)
    changed = np.flatnonzero(np.abs(by_priority) > _NOTICED_CORES)
    if not changed.size or by_priority[changed[-1]] < 0:
        return 0.0
    return float(np.cumsum(by_priority[::-1]).max())


def seeming_moves(
    load: FleetLoad, shares: FleetShares, costs: MoveCosts, allowed: AllowedMoves
) -> list[WorthwhileMove]:
    r"""At most one move away from each engine that sheds, where another seems to have room.

    With ``F`` what all on an engine could use and ``A`` what it has, a move of an instance that could use ``m`` gains

    .. math:: \min(A_e, F_e - m) + \min(A_f, F_f + m) - \min(A_e, F_e) - \min(A_f, F_f)

    cores, for as long as it must pay; it costs its own work and that of all behind it while it is down, and what it and
    the neighbours of no higher priority on the new engine, with all behind them, lose at their minimum while it warms
    up. This is looked at
    for every priority that sheds on the engine, from the highest down, with all below at their minimum, then for all
    together: a query of low priority makes room for a high one even where no engine has room for both, and never the
    other way round. Among those worth it the lowest priority moves, and of these the one that gains most beyond its
    cost.

    Examples
    --------
    >>> from penstock.control.fleet.plan import FleetLoad, share_out
    >>> from penstock.control.fleet.shape import shape_of
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.query import QueryName
    >>> shape = shape_of([FleetQuery(QueryName("high")), FleetQuery(QueryName("low"))])
    >>> load = FleetLoad(shape, np.array([9, 1]), np.zeros(2), np.zeros(2, dtype=bool), np.zeros(2),
    ...                  np.array([0.7, 0.6]), np.zeros(2), np.zeros(2, dtype=np.intp), np.ones(2))
    >>> every = np.ones(2, dtype=bool)
    >>> allowed = AllowedMoves(every, barred=np.full(2, -1), sources=every, targets=every)
    >>> move, = seeming_moves(load, share_out(load), MoveCosts(10.0, 20.0, 300.0), allowed)
    >>> move.instance, move.engine, round(move.gain_core_s, 3), round(move.cost_core_s, 3)
    (1, 1, 87.0, 9.0)
    """
    sheds, short = sheds_on(load, shares)
    leaving = np.flatnonzero((short > _ROUNDING) & allowed.sources)
    if not leaving.size:
        return []
    ground = _Ground(load, shares, costs, allowed.barred)
    may_move = allowed.movable & (load.cores > _ROUNDING)
    by_room = np.argsort(short, kind="stable")
    is_open = allowed.targets.copy()
    found: list[WorthwhileMove] = []
    for source in leaving[np.argsort(-short[leaving], kind="stable")][:MOST_SOURCES].tolist():
        open_to = by_room[is_open[by_room] & (by_room != source)][:MOST_TARGETS]
        on_source = np.flatnonzero(load.engine_of == source)
        there = on_source[may_move[on_source]]
        if not open_to.size or not there.size or any(source == move.engine for move in found):
            continue
        levels = np.flatnonzero(np.bincount(ground.priority[on_source[sheds[on_source]]]))[::-1]
        best = ground.best(source, there, open_to, levels)
        if best is not None:
            found.append(best)
            is_open[[source, best.engine]] = False
    return found


def sheds_on(load: FleetLoad, shares: FleetShares) -> tuple[Flags, Floats]:
    """Instances that do not get all of their input, and by how much each engine with such is short of cores."""
    of_task = load.shape.of_sinks(shares.accuracy)
    sheds = (of_task < 1.0 - _ROUNDING)[load.shape.task_of] & (load.cores > _ROUNDING) & (load.engine_of >= 0)
    short = slack(load.cores, load.least_cores, load.engine_of, load.available)
    is_shedding = by_engine(sheds.astype(float), load.engine_of, load.available.size) > 0
    return sheds, np.where(is_shedding, short, np.minimum(short, 0.0))


class _Ground:
    """What all moves of one plan are judged by, reckoned once."""

    def __init__(self, load: FleetLoad, shares: FleetShares, costs: MoveCosts, barred: Indices) -> None:
        self._load, self._costs, self._barred = load, costs, barred
        self.priority = load.task_priority[load.shape.task_of]
        self._least = load.least_cores
        self._loses = cores_lost_at_minimum(load, shares)
        self._stopped = flow_cores(load) * shares.task_accuracy[load.shape.task_of]
        self._lowest = int(self.priority.min(initial=0))
        self._at_level: dict[int, tuple[Floats, Floats]] = {}
        self._lost_beside: dict[int, Floats] = {}

    def best(self, source: int, there: Indices, targets: Indices, levels: Indices) -> WorthwhileMove | None:
        """The move of one of these instances to one of these engines that is worth most, if any is worth anything."""
        priority = self.priority
        candidates = there[priority[there] <= levels.max(initial=0)]
        if not candidates.size:
            return None
        for level in dict.fromkeys((*levels.tolist(), self._lowest)):
            usable, full = self._usable(level)
            # A move brings at most what its new engine has left, and what its old one lacks: in a fleet in overload
            # most need not be looked at more closely.
            left = self._load.available - full
            roomy = targets[left[targets] > _ROUNDING]
            if not roomy.size or self._costs.gaining_s * min(-left[source], left[roomy].max()) <= self._least_cost(
                candidates, roomy
            ):
                continue
            gain = self._costs.gaining_s * gained_cores(usable, full, self._load.available, source, candidates, roomy)
            own, row_of = np.unique(priority[candidates], return_inverse=True)
            beside = np.stack([self._lost(each)[roomy] for each in own.tolist()])[row_of]
            neighbours = beside + self._loses[candidates][:, None]
            cost = self._costs.cost_core_s(self._stopped[candidates][:, None], neighbours)
            worth = np.where(self._barred[candidates][:, None] == roomy[None, :], -np.inf, gain - cost)
            good = worth.max(axis=1) > 0
            if good.any():
                lowest = priority[candidates] == priority[candidates][good].min()
                row, column = np.unravel_index(np.argmax(np.where(lowest[:, None], worth, -np.inf)), worth.shape)
                return WorthwhileMove(
                    int(candidates[row]), int(roomy[column]), float(gain[row, column]), float(cost[row, column])
                )
        return None

    def _least_cost(self, candidates: Indices, targets: Indices) -> float:
        """What none of these moves costs less than."""
        lowest = self._lost(int(self.priority[candidates].min()))
        neighbours = float(lowest[targets].min() + self._loses[candidates].min())
        return float(self._costs.cost_core_s(float(self._stopped[candidates].min()), neighbours))

    def _lost(self, priority: int) -> Floats:
        """What neighbours on each engine lose while one of a priority warms up beside them."""
        if priority not in self._lost_beside:
            self._lost_beside[priority] = lost_beside(self._loses, self._load, self.priority, priority)
        return self._lost_beside[priority]

    def _usable(self, level: int) -> tuple[Floats, Floats]:
        """Cores that each instance could use with all below a priority at their minimum, and the sum on each engine."""
        if level not in self._at_level:
            usable = np.where(self.priority >= level, self._load.cores, self._least)
            self._at_level[level] = usable, by_engine(usable, self._load.engine_of, self._load.available.size)
        return self._at_level[level]


def flow_cores(load: FleetLoad) -> Floats:
    """Of each instance, cores that it and all that live on its output could use: what stands still while it is down.

    A task that several others feed counts for each of them in equal parts.

    Examples
    --------
    >>> from penstock.control.fleet.plan import FleetLoad
    >>> from penstock.control.fleet.shape import shape_of
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.query import QueryName
    >>> names = {"left": ((), ("l",)), "right": ((), ("r",)), "both": (("l", "r"), ())}
    >>> shape = shape_of([FleetQuery(QueryName(name), reads=io[0], writes=io[1]) for name, io in names.items()])
    >>> load = FleetLoad(shape, np.ones(1), np.zeros(1), np.zeros(1, dtype=bool), np.zeros(3),
    ...                  np.array([0.1, 0.2, 0.6]), np.zeros(3), np.zeros(3, dtype=np.intp), np.ones(1))
    >>> flow_cores(load).round(3).tolist()
    [0.4, 0.5, 0.6]
    """
    shape = load.shape
    flow = np.bincount(shape.task_of, weights=load.cores, minlength=len(shape.tasks)).astype(np.float64)
    feeders = np.maximum(np.bincount(shape.edge_to, minlength=len(shape.tasks)), 1)
    for depth in range(shape.depth, 0, -1):
        edges = shape.edge_level == depth
        readers = shape.edge_to[edges]
        np.add.at(flow, shape.edge_from[edges], flow[readers] / feeders[readers])
    return (flow / np.maximum(shape.instances, 1))[shape.task_of]


def cores_lost_at_minimum(load: FleetLoad, shares: FleetShares) -> Floats:
    """Of each instance, cores that it and all behind it give up while it is held to its minimum accuracy."""
    above = np.maximum(0.0, shares.task_accuracy - load.task_minimum)
    return flow_cores(load) * above[load.shape.task_of]


def lost_beside(loses: Floats, load: FleetLoad, priority_of: Indices, priority: int) -> Floats:
    """Cores that all of no higher priority on each engine give up at their minimum; ``priority_of`` each instance."""
    return by_engine(np.where(priority_of <= priority, loses, 0.0), load.engine_of, load.available.size)


def gained_cores(
    usable: Floats, full: Floats, room: Floats, source: int, candidates: Indices, targets: Indices
) -> Floats:
    """Cores more in use, for each candidate (row) moved from the source to each target (column).

    ``full`` is what all on each engine could use, ``room`` what it has.
    """
    size = usable[candidates][:, None]
    before = min(room[source], full[source]) + np.minimum(room[targets], full[targets])[None, :]
    after = np.minimum(room[source], full[source] - size) + np.minimum(room[targets][None, :], full[targets] + size)
    return np.asarray(after - before)
