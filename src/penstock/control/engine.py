"""Several governed queries on one engine: who gives way, as bounds on each one's share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.control.priority import EngineDemand, KeepBounds, engine_keep_ratios
from penstock.estimate.batch_time import BatchTimeModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.estimate.batch_time import BatchTimeState
    from penstock.model import Goal, QueryName

_NEWS_S = 60.0
"""A query that reported nothing for a minute has ended or has nothing to do, and asks for nothing.

Batches that take longer than that have goals of minutes, and queries with such goals do not hold each other up.
"""
_SLACK = 0.05
"""Shares that differ by less than a twentieth are the same: what they are reckoned from is not known better."""
_BUSY_WEIGHT = 0.5
"""What a batch tells of busy cores counts as much as all before it: a query that was told to give way does so in the
next batch, and one batch may have met an accident."""
_LEAST_LEFT = 0.1
"""Part of the cores that others are taken to leave at the least: what is measured of them may be more than there is."""
_BATCHES_TO_KNOW = 5
"""Batches of a query until its cost counts: the first ones run on code that is still being compiled, and make rows look
many times as dear as they are."""
_MORE_CORES, _FEWER_CORES = 1.04, 0.92
"""By how much more or fewer cores are divided after a batch. Who is late gets them back twice as fast as they were
given, and eighteen batches in which cores are idle double what is divided."""
_SMALLEST_SCALE, _LARGEST_SCALE = 0.5, 4.0
"""Tasks of queries that share cores take :math:`1 / (1 - u)` of their own time at a utilisation :math:`u` (processor
sharing): with half of the cores left free twice of it, and a query for which that is too long is late by itself.
By the other bound, costs learned on cold code are believed to be no more than four times too high."""
_ALL_BUSY = 0.85
"""Part of the cores from which on all of them are busy: a batch's own steps leave some idle between its stages."""


@dataclass(frozen=True, slots=True)
class QueryLoad:
    """What one query asks of the engine, as last observed."""

    priority: int
    minimum_accuracy: float
    observed_s: float
    batch_s: float = 1.0
    arrivals_rows_per_s: float = 0.0
    busy_cores: float | None = None
    is_behind: bool = False
    duration_s: float = 0.0
    core_time: BatchTimeState | None = None
    batches: int = 0

    @property
    def is_late(self) -> bool:
        """Whether its batches of late took longer than its goal allows."""
        return self.duration_s > self.batch_s

    def demand(self, name: QueryName) -> EngineDemand:
        """Cores that it keeps busy whatever it drops, and those that all rows which arrive would take beside that.

        Batches are taken to be as long as the goal allows. While it gives way they are small, and as many of them as
        all its rows would need would seem to take more cores than there are: everybody would give way to everybody.
        """
        model = BatchTimeModel(state=self.core_time)
        return EngineDemand(
            name,
            self.priority,
            work=self.arrivals_rows_per_s * model.work_cost_s,
            overhead=model.overhead_s / self.batch_s + self.arrivals_rows_per_s * model.read_cost_s,
            minimum_accuracy=self.minimum_accuracy,
        )


@dataclass(frozen=True, slots=True)
class EngineState:
    """Snapshot of an :class:`EngineCoordinator`; ``scale`` is what is divided, in multiples of its cores."""

    queries: Mapping[QueryName, QueryLoad]
    scale: float = 1.0


class EngineCoordinator:
    r"""Divides the cores of an engine among governed queries by priority.

    The seconds for which a batch kept cores busy are learned as batch times are
    (:class:`~penstock.estimate.batch_time.BatchTimeModel`): so much for every batch, every row read and every row kept.
    They must not be lumped together: the fewer rows a query keeps the dearer each of them would look, its demand would
    grow with every row it drops, and it would drop them all. Batch times themselves would not do, because a batch waits
    for the tasks of other queries. Times the arrivals, dropped ones included, that is the query's demand;
    :func:`engine_keep_ratios` says what each may keep. One that others need not fear for keeps its own decision.

    Costs that were learned while code was cold, or while tasks got in each other's way, are too high, and at a small
    share nothing shows it. So while somebody must give way although cores are idle, more cores are divided than there
    are; fewer again, and fewer than there are, as long as somebody is behind for whom others should give way: where all
    cores are busy every batch waits for others' tasks.

    A query without a report for a minute asks for nothing: it has ended or has nothing to do.

    Parameters
    ----------
    cores
        Of the engine.
    state
        Snapshot to go on from.

    Examples
    --------
    >>> from penstock.model import Goal, QueryName
    >>> engine = EngineCoordinator(cores=2.0)
    >>> low, high = QueryName("low"), QueryName("high")
    >>> for read, kept in ((500, 500), (1_000, 1_000), (2_000, 1_000), (1_000, 200), (500, 300)):
    ...     for name, priority in ((low, 1), (high, 5)):
    ...         goal = Goal(latency=5, priority=priority, minimum_accuracy=0.2)
    ...         batch = {"read_rows": read, "kept_rows": kept, "core_s": 0.0001 * read + 0.0014 * kept}
    ...         engine.observe_batch(name, goal, 0.0, 1_000.0, batch_s=2.0, **batch)
    >>> engine.bounds(high, 1.0).low, round(engine.bounds(low, 1.0).high, 1)
    (1.0, 0.3)
    """

    def __init__(self, cores: float, state: EngineState | None = None) -> None:
        self.cores = cores
        self._queries: dict[QueryName, QueryLoad] = dict(state.queries) if state else {}
        self._scale = state.scale if state else 1.0

    def snapshot(self) -> EngineState:
        """Everything that the next bounds depend on."""
        return EngineState(dict(self._queries), self._scale)

    def observe_batch(
        self,
        query: QueryName,
        goal: Goal,
        now_s: float,
        arrivals_rows_per_s: float,
        *,
        batch_s: float,
        read_rows: int,
        kept_rows: int,
        core_s: float | None,
        can_shed: bool = True,
        lag_rows: float | None = None,
        duration_s: float = 0.0,
    ) -> None:
        """Take in what a batch told of a query's load and of what its rows cost.

        ``batch_s`` is the batch length that its goal allows, ``duration_s`` what it took. A query is behind when it
        left more waiting than arrives meanwhile, and late when its batches take longer.
        """
        floor = goal.minimum_accuracy if can_shed else 1.0
        known = self._queries.get(query) or QueryLoad(goal.priority, floor, now_s)
        model = BatchTimeModel(state=known.core_time)
        if core_s is not None:
            model.update(read_rows, kept_rows, core_s)
        self._queries[query] = replace(
            known,
            priority=goal.priority,
            minimum_accuracy=floor,
            observed_s=now_s,
            arrivals_rows_per_s=arrivals_rows_per_s,
            batch_s=batch_s,
            busy_cores=_busy_cores(known, now_s, core_s),
            is_behind=(lag_rows or 0.0) > arrivals_rows_per_s * batch_s,
            duration_s=known.duration_s + _BUSY_WEIGHT * (duration_s - known.duration_s),
            core_time=model.snapshot() if model.batches else None,
            batches=known.batches + 1,
        )
        self._rescale(self._active(now_s))

    def forget(self, query: QueryName) -> None:
        """A query has ended."""
        self._queries.pop(query, None)

    def bounds(self, query: QueryName, now_s: float) -> KeepBounds:
        """What a query's share is held to; no bounds while it is alone, or anybody's cost is unknown.

        But for one: a query whose first batches are late or leave rows waiting has those of lower priority at their
        minimum until its cost is known, as neighbours are in "Stream-Economics" while a query warms up.
        """
        active = self._active(now_s)
        if query not in active:
            return KeepBounds()
        if not _is_contended(active):
            own = active[query]
            return KeepBounds(high=own.minimum_accuracy) if _must_wait(own, active) else KeepBounds()
        shares = self._shares(active)
        own, share = active[query], shares[query]
        # Lower ones that are above their minimum can still give: until then this query need not go below its share.
        others_can_give = any(
            load.priority < own.priority and shares[name] > load.minimum_accuracy + _SLACK
            for name, load in active.items()
        )
        high = 1.0 if share >= 1.0 else min(1.0, max(own.minimum_accuracy, share * (1.0 + _SLACK)))
        return KeepBounds(low=min(share, high) if others_can_give else 0.0, high=high)

    def contention_correction(self, query: QueryName, now_s: float) -> float:
        r"""What a batch's time is to be multiplied by, so that it tells what the query may count on.

        While others keep :math:`f` cores busy a batch waits for their tasks, which is not its own cost. Once all of
        them keep to their parts they take :math:`f^*`, and of :math:`C` cores this query has the rest:

        .. math:: r = \min\Big(1, \frac{C - f}{C - f^*}\Big)

        Without it, a query of high priority would take the tasks of a lower one for its own cost, drop rows, and so
        leave to the lower one the cores that it was to give up.

        Examples
        --------
        >>> from penstock.model import Goal, QueryName
        >>> engine = EngineCoordinator(cores=2.0)
        >>> low, high = QueryName("low"), QueryName("high")
        >>> for second in range(5):
        ...     for name, priority in ((low, 1), (high, 5)):
        ...         goal = Goal(latency=5, priority=priority, minimum_accuracy=0.2)
        ...         rows = 500 + 100 * second
        ...         batch = {"read_rows": rows, "kept_rows": rows, "core_s": 0.001 * rows}
        ...         engine.observe_batch(name, goal, float(second), 1_500.0, batch_s=2.0, **batch)
        >>> round(engine.contention_correction(high, 5.0), 2), round(engine.contention_correction(low, 5.0), 2)
        (0.84, 1.0)
        """
        active = self._active(now_s)
        others = {name: load for name, load in active.items() if name != query}
        if query not in active or not others or not _is_contended(active):
            return 1.0
        shares = self._shares(active)
        seen = sum(load.busy_cores or 0.0 for load in others.values())
        fair = sum(demand.overhead + shares[demand.name] * demand.work for demand in _demands(others))
        # More cores are divided than there are where demands were reckoned too high, and by so much they were.
        return min(1.0, self._left(seen) / self._left(fair / max(1.0, self._scale)))

    def _rescale(self, active: Mapping[QueryName, QueryLoad]) -> None:
        if not _is_contended(active):
            return
        lowest = min(load.priority for load in active.values())
        served = [load for load in active.values() if load.priority > lowest] or list(active.values())
        # One whose cores are not known yet may take all of them.
        busy = sum(self.cores if load.busy_cores is None else load.busy_cores for load in active.values())
        step = 1.0
        # A batch that is too long while half of the cores are idle does not wait for others' tasks.
        waits = busy >= _SMALLEST_SCALE * self.cores and any(load.is_late for load in served)
        if waits or any(load.is_behind for load in served):
            step = _FEWER_CORES
        elif self._scale < 1.0 or (busy < _ALL_BUSY * self.cores and min(self._shares(active).values()) < 1.0):
            step = _MORE_CORES
        self._scale = min(max(self._scale * step, _SMALLEST_SCALE), _LARGEST_SCALE)

    def _shares(self, active: Mapping[QueryName, QueryLoad]) -> Mapping[QueryName, float]:
        """What each may keep: the lowest of all cores that are divided, others of no fewer than there are."""
        demands, lowest = _demands(active), min(load.priority for load in active.values())
        shares = engine_keep_ratios(demands, max(1.0, self._scale) * self.cores)
        if self._scale >= 1.0:
            return shares
        # Cores are left free for the sake of those that are late, so the others alone leave them.
        fewer = engine_keep_ratios(demands, self._scale * self.cores)
        return {name: fewer[name] if load.priority == lowest else shares[name] for name, load in active.items()}

    def _left(self, taken_cores: float) -> float:
        """Cores that others leave; a tenth at the least, since what is measured may exceed what there is."""
        return max(_LEAST_LEFT * self.cores, self.cores - taken_cores)

    def _active(self, now_s: float) -> dict[QueryName, QueryLoad]:
        return {name: load for name, load in self._queries.items() if now_s - load.observed_s < _NEWS_S}


def _demands(queries: Mapping[QueryName, QueryLoad]) -> list[EngineDemand]:
    return [load.demand(name) for name, load in queries.items()]


def _is_contended(active: Mapping[QueryName, QueryLoad]) -> bool:
    """Whether there are several whose cost is known; one unknown leaves everybody alone.

    The first batches run on code that is still being compiled, and make rows look many times as dear as they are.
    """
    known = (load.core_time.batches if load.core_time else 0 for load in active.values())
    return len(active) > 1 and all(batches >= _BATCHES_TO_KNOW for batches in known)


def _must_wait(own: QueryLoad, active: Mapping[QueryName, QueryLoad]) -> bool:
    """Whether somebody of higher priority is new and has trouble."""
    return any(
        load.priority > own.priority and load.batches < _BATCHES_TO_KNOW and (load.is_late or load.is_behind)
        for load in active.values()
    )


def _busy_cores(known: QueryLoad, now_s: float, core_s: float | None) -> float | None:
    """Cores that a query keeps busy, from one batch's end to the next."""
    period_s = now_s - known.observed_s
    if core_s is None or period_s <= 0:
        return known.busy_cores
    seen = core_s / period_s
    return seen if known.busy_cores is None else known.busy_cores + _BUSY_WEIGHT * (seen - known.busy_cores)
