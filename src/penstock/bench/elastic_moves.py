"""What a change of size costs the batches after it: state that moves, workers and connections that start."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.estimate.performance_line import PerformanceLine

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class TimedBatch:
    """One batch: when it was planned, how long it took, its rows, and the executors that served when it was planned."""

    started_s: float
    duration_s: float
    rows: int
    executors: int


@dataclass(frozen=True, slots=True)
class Move:
    """The first batch on another number of executors, and how much longer it took than its rows account for."""

    started_s: float
    previous: int
    executors: int
    extra_s: float


def moves(batches: Sequence[TimedBatch]) -> list[Move]:
    """Every first batch after a change, held against the line through all that follow their like.

    Examples
    --------
    Half a second and 5 ms a row; the first batch on two executors takes 1.2 s more:

    >>> seen = [
    ...     TimedBatch(10.0 * place, 0.5 + 0.005 * rows / size + (1.2 if place == 6 else 0.0), rows, size)
    ...     for place, (rows, size) in enumerate(zip(range(400, 1_600, 100), [1] * 6 + [2] * 6))
    ... ]
    >>> [(move.previous, move.executors, round(move.extra_s, 2)) for move in moves(seen)]
    [(1, 2, 1.2)]
    """
    known = [batch for batch in batches if batch.rows and batch.executors]
    pairs = list(itertools.pairwise(known))
    line = PerformanceLine(half_life_s=math.inf, recent_s=math.inf, deviations=0.0)
    for before, batch in pairs:
        if before.executors == batch.executors:
            line.add(batch.started_s, batch.rows / batch.executors, batch.duration_s)
    usual = line.fit()
    if usual is None:
        return []
    return [
        Move(
            batch.started_s,
            before.executors,
            batch.executors,
            batch.duration_s - usual.batch_s(batch.rows / batch.executors),
        )
        for before, batch in pairs
        if before.executors != batch.executors
    ]
