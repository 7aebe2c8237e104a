"""Who gives way on a shared engine: low priorities first, equal ones alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.model import QueryName

_ROUNDING = 1e-9
"""Cores that are missing by less are missing by the rounding of sums alone."""


@dataclass(frozen=True, slots=True)
class EngineDemand:
    """What one query asks of its engine.

    Parameters
    ----------
    work
        Cores that the query would keep busy if it kept every row that arrives or waits.
    overhead
        Cores that it keeps busy whatever it drops.
    minimum_accuracy
        Smallest share that it may keep; 1 for a query without a guard.
    """

    name: QueryName
    priority: int
    work: float
    overhead: float
    minimum_accuracy: float


@dataclass(frozen=True, slots=True)
class KeepBounds:
    """What a query's own decision is held to.

    Below ``low`` it need not go, because queries of lower priority can still give; above ``high`` it must not, because
    that would be taken from others. Nor may a batch keep more than ``most_rows``: a plan in rows is kept whatever a
    batch reads, where a part of what arrives would be too little of a batch that reads less, and too much of one that
    reads more.

    Examples
    --------
    >>> KeepBounds(low=0.5, high=0.8).hold(0.3), KeepBounds(low=0.5, high=0.8).hold(1.0)
    (0.5, 0.8)
    """

    low: float = 0.0
    high: float = 1.0
    most_rows: float = math.inf

    def hold(self, share: float) -> float:
        """The share within the bounds."""
        return min(max(share, self.low), self.high)


def engine_keep_ratios(demands: Sequence[EngineDemand], cores: float) -> Mapping[QueryName, float]:
    r"""Share of rows that each query keeps so that all of them fit onto one engine.

    Queries are taken from the lowest priority up. Each group of equal priority gives up the same part :math:`g` of what
    it may give up, as long as something is missing:

    .. math:: p_i = 1 - g\,(1 - p_{min,i}), \qquad
              g = \min\Big(1, \frac{\text{missing}}{\sum_i w_i (1 - p_{min,i})}\Big)

    Where even all minima together do not fit, everybody is at its minimum.

    Reference: "Stream-Economics: resource efficiency in Flink with accuracy awareness and load shedding", which
    gathers what to release from the lowest priority up.

    Examples
    --------
    Two cores, three cores' worth of work: the one of low priority gives way.

    >>> from penstock.model import QueryName
    >>> low = EngineDemand(QueryName("low"), 1, work=1.5, overhead=0.0, minimum_accuracy=0.2)
    >>> high = EngineDemand(QueryName("high"), 5, work=1.5, overhead=0.0, minimum_accuracy=0.2)
    >>> {name: round(share, 3) for name, share in engine_keep_ratios([low, high], cores=2.0).items()}
    {'low': 0.333, 'high': 1.0}
    """
    missing = sum(demand.work + demand.overhead for demand in demands) - cores
    shares = {demand.name: 1.0 for demand in demands}
    ordered = sorted(demands, key=lambda demand: demand.priority)
    for _, group in groupby(ordered, key=lambda demand: demand.priority):
        equals = list(group)
        releasable = sum(demand.work * (1.0 - demand.minimum_accuracy) for demand in equals)
        if missing <= _ROUNDING or releasable <= 0:
            continue
        given = min(1.0, missing / releasable)
        for demand in equals:
            shares[demand.name] = 1.0 - given * (1.0 - demand.minimum_accuracy)
        missing -= given * releasable
    return shares
