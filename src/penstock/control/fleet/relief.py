"""Moves away from engines on which not even the minima fit: lines 7 to 14 of Algorithm 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.control.fleet.assignment import find_assignment
from penstock.control.fleet.scheduler import choose_engine
from penstock.control.fleet.victims import choose_victims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.control.fleet.plan import FleetLoad
    from penstock.control.fleet.shape import Flags, Indices

_ROUNDING = 1e-9


def relieve(
    load: FleetLoad, queries: Sequence[str], engines: Sequence[str], movable: Flags, barred: Indices, relieved: Flags
) -> dict[int, int]:
    """Instances that are to move, and the engine that each moves to.

    Whoever leaves goes where the most CPU is free beside all minima, and only where its own minimum fits. If somebody
    that must leave fits nowhere, engines for all are searched (:func:`find_assignment`); where none are found, those
    move that have a place to go to.

    Parameters
    ----------
    barred
        Engine that each instance left not long ago and does not go back to; -1 for none.
    relieved
        Engines that may be relieved now.

    Examples
    --------
    >>> from penstock.control.fleet.plan import FleetLoad
    >>> from penstock.control.fleet.shape import shape_of
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.query import QueryName
    >>> shape = shape_of([FleetQuery(QueryName("high")), FleetQuery(QueryName("low"))])
    >>> load = FleetLoad(shape, np.array([9, 1]), np.ones(2), np.zeros(2, dtype=bool), np.zeros(2),
    ...                  np.array([0.7, 0.6]), np.zeros(2), np.zeros(2, dtype=np.intp), np.ones(2))
    >>> anyone, nowhere, any_engine = np.ones(2, dtype=bool), np.full(2, -1), np.ones(2, dtype=bool)
    >>> relieve(load, ["high", "low"], ["a", "b"], anyone, nowhere, any_engine)
    {1: 1}
    """
    least, short = load.least_cores, load.short_cores
    priority = load.task_priority[load.shape.task_of]
    free = -short
    moves: dict[int, int] = {}
    stranded = False
    for engine in np.flatnonzero((short > _ROUNDING) & relieved)[np.argsort(-short[(short > _ROUNDING) & relieved])]:
        there = np.flatnonzero((load.engine_of == engine) & movable)
        leaving = there[choose_victims(priority[there], least[there], float(short[engine]))]
        stranded |= float(least[leaving].sum()) < short[engine] - _ROUNDING
        for instance in leaving[np.argsort(-least[leaving], kind="stable")]:
            allowed = free >= least[instance] - _ROUNDING
            allowed[engine] = False
            if barred[instance] >= 0:
                allowed[barred[instance]] = False
            target = choose_engine(
                queries[instance], engines, free, needed_cores=float(least[instance]), allowed=allowed
            )
            if target is None:
                stranded = True
                continue
            moves[int(instance)] = target
            free[target] -= least[instance]
            free[engine] += least[instance]
    if not stranded:
        return moves
    return _reassigned(load, movable, barred) or moves


def _reassigned(load: FleetLoad, movable: Flags, barred: Indices) -> dict[int, int]:
    allowed = np.ones((barred.size, load.available.size), dtype=bool)
    has_left = barred >= 0
    allowed[has_left, barred[has_left]] = False
    found = find_assignment(load.least_cores, load.engine_of, movable, allowed, load.available)
    if found is None:
        return {}
    return {int(instance): int(found[instance]) for instance in np.flatnonzero(found != load.engine_of)}
