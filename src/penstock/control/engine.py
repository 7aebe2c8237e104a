"""Several governed queries on one engine: who gives way, as bounds on each one's share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.control.priority import EngineDemand, ShareBounds, engine_shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model import Goal, QueryName

_COST_WEIGHT = 0.3
_NEWS_S = 60.0
_SLACK = 0.05


@dataclass(frozen=True, slots=True)
class QueryLoad:
    """What one query asks of the engine, as last heard of."""

    priority: int
    minimum_accuracy: float
    heard_s: float
    arrivals_rows_per_s: float = 0.0
    core_s_per_row: float | None = None

    @property
    def cores(self) -> float:
        """Cores that it would keep busy if it kept every row that arrives."""
        return self.arrivals_rows_per_s * (self.core_s_per_row or 0.0)


class EngineCoordinator:
    r"""Divides the cores of an engine among governed queries by priority.

    A batch of :math:`k` kept rows that kept cores busy for :math:`t` seconds in all costs :math:`t / k` core-seconds a
    row, smoothed. Times the arrivals, dropped ones included, that is the query's demand; :func:`engine_shares` says
    what each may keep. One that others need not fear for keeps its own decision.

    A query not heard of for a minute asks for nothing: it has ended or has nothing to do.

    Parameters
    ----------
    cores
        Of the engine.
    queries
        Snapshot to go on from.

    Examples
    --------
    >>> from penstock.model import Goal, QueryName
    >>> engine = EngineCoordinator(cores=2.0)
    >>> low, high = QueryName("low"), QueryName("high")
    >>> engine.hear(low, Goal(latency=5, priority=1, minimum_accuracy=0.2), 0.0, 1_000.0, kept_rows=500, core_s=0.75)
    >>> engine.hear(high, Goal(latency=5, priority=5, minimum_accuracy=0.2), 0.0, 1_000.0, kept_rows=500, core_s=0.75)
    >>> engine.bounds(high, 1.0).low, round(engine.bounds(low, 1.0).high, 2)
    (1.0, 0.35)
    """

    def __init__(self, cores: float, queries: Mapping[QueryName, QueryLoad] | None = None) -> None:
        self.cores = cores
        self._queries: dict[QueryName, QueryLoad] = dict(queries or {})

    def snapshot(self) -> dict[QueryName, QueryLoad]:
        """Everything that the next bounds depend on."""
        return dict(self._queries)

    def hear(
        self,
        query: QueryName,
        goal: Goal,
        now_s: float,
        arrivals_rows_per_s: float,
        *,
        kept_rows: float,
        core_s: float | None,
        can_shed: bool = True,
    ) -> None:
        """Take in what a batch told of a query's load and of what its rows cost."""
        floor = goal.minimum_accuracy if can_shed else 1.0
        known = self._queries.get(query) or QueryLoad(goal.priority, floor, now_s)
        cost = known.core_s_per_row
        if core_s is not None and kept_rows > 0:
            seen = core_s / kept_rows
            cost = seen if cost is None else cost + _COST_WEIGHT * (seen - cost)
        self._queries[query] = replace(
            known, priority=goal.priority, minimum_accuracy=floor, heard_s=now_s,
            arrivals_rows_per_s=arrivals_rows_per_s, core_s_per_row=cost,
        )  # fmt: skip

    def forget(self, query: QueryName) -> None:
        """A query has ended."""
        self._queries.pop(query, None)

    def bounds(self, query: QueryName, now_s: float) -> ShareBounds:
        """What a query's share is held to; no bounds while it is alone, or anybody's cost is unknown."""
        active = {name: load for name, load in self._queries.items() if now_s - load.heard_s < _NEWS_S}
        if query not in active or len(active) == 1 or any(load.core_s_per_row is None for load in active.values()):
            return ShareBounds()
        demands = [
            EngineDemand(name, load.priority, work=load.cores, overhead=0.0, minimum_accuracy=load.minimum_accuracy)
            for name, load in active.items()
        ]
        shares = engine_shares(demands, self.cores)
        own, share = active[query], shares[query]
        # Lower ones that are above their minimum can still give: until then this query need not go below its share.
        others_can_give = any(
            load.priority < own.priority and shares[name] > load.minimum_accuracy + _SLACK
            for name, load in active.items()
        )
        high = 1.0 if share >= 1.0 else min(1.0, max(own.minimum_accuracy, share * (1.0 + _SLACK)))
        return ShareBounds(low=min(share, high) if others_can_give else 0.0, high=high)
