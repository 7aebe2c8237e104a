"""Where a query is placed: the engine with the most CPU to spare, section 4."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.control.fleet.shape import Flags, Floats

UNKNOWN_CORES = 1.0
"""What a query is taken to use of which nobody knows: one core, the paper's 100 %."""
_ROUNDING = 1e-9


def choose_engine(
    query: str,
    engines: Sequence[str],
    free_cores: Floats,
    *,
    needed_cores: float,
    prefers: Sequence[str] = (),
    allowed: Flags | None = None,
) -> int | None:
    """Place in ``engines`` where the query is to run; None where there is none.

    The one with the most free CPU, foreign processes counted as used, among the engines that the query prefers; if none
    of those has the CPU that it needs, among all. Ties go by a hash of both names, which is as good as chance, spreads
    queries, and decides the same whenever the log is replayed.

    Examples
    --------
    >>> free = np.array([0.2, 0.7, 0.9])
    >>> choose_engine("clicks", ["a", "b", "c"], free, needed_cores=0.5)
    2
    >>> choose_engine("clicks", ["a", "b", "c"], free, needed_cores=0.5, prefers=("b",))
    1
    >>> choose_engine("clicks", ["a", "b", "c"], free, needed_cores=0.5, prefers=("a",))
    2
    """
    possible = np.ones(len(engines), dtype=bool) if allowed is None else allowed.copy()
    if not possible.any():
        return None
    if prefers:
        preferred = possible & np.isin(np.array(engines), np.array(prefers))
        if (preferred & (free_cores >= needed_cores - _ROUNDING)).any():
            possible = preferred
    most = free_cores[possible].max()
    best: list[int] = np.flatnonzero(possible & (free_cores >= most - _ROUNDING)).tolist()
    return max(best, key=lambda place: zlib.crc32(f"{query} on {engines[place]}".encode()))
