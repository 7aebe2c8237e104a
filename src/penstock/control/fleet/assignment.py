"""A search for engines on which all minima fit, where moving single instances away does not help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from penstock.control.fleet.shape import Flags, Floats, Indices

MOST_STEPS = 20_000
"""Steps of the search, some hundredths of a second: up to about ten instances it is exhaustive."""
MOST_INSTANCES = 1_000
"""Beyond so many not even one descent is made within a cycle of some milliseconds."""
_ROUNDING = 1e-9


def find_assignment(
    least_cores: Floats, engine_of: Indices, movable: Flags, allowed: Flags, available: Floats
) -> Indices | None:
    """An engine for each instance so that all minima fit, near to where they are; None where none was found.

    Depth first, largest instance first, where it is before elsewhere: the first descent is first-fit decreasing, and
    what is found moves little. Whether any assignment fits is as hard as packing bins, so the search ends after
    :data:`MOST_STEPS`.

    Parameters
    ----------
    allowed
        Whether an instance (row) may be on an engine (column).

    Examples
    --------
    0.6 does not fit beside 0.5, unless that one goes where 0.3 is, and 0.3 comes here.

    >>> anywhere = np.ones((3, 2), dtype=bool)
    >>> find_assignment(
    ...     np.array([0.6, 0.5, 0.3]), np.array([0, 0, 1]), np.ones(3, dtype=bool), anywhere, np.array([0.9, 0.7])
    ... ).tolist()
    [0, 1, 0]
    """
    room = available.copy()
    fixed = ~movable & (engine_of >= 0)
    np.subtract.at(room, engine_of[fixed], least_cores[fixed])
    free = np.flatnonzero(movable)
    order = free[np.argsort(-least_cores[free], kind="stable")]
    if order.size > MOST_INSTANCES:
        return None
    if least_cores[order].sum() > np.maximum(room, 0.0).sum() + _ROUNDING:
        return None
    choices = [_choices(int(each), engine_of, allowed, room) for each in order]
    found = _search(least_cores[order].tolist(), choices, room.tolist())
    if found is None:
        return None
    result = engine_of.copy()
    result[order] = found
    return result


def _choices(instance: int, engine_of: Indices, allowed: Flags, room: Floats) -> list[int]:
    """Engines in the order in which they are tried."""
    others = [int(each) for each in np.argsort(-room, kind="stable") if allowed[instance, each]]
    here = int(engine_of[instance])
    return [here, *(each for each in others if each != here)] if here in others else others


def _search(sizes: list[float], choices: list[list[int]], room: list[float]) -> list[int] | None:
    tried = [0] * len(sizes)
    chosen = [-1] * len(sizes)
    depth = 0
    for _ in range(MOST_STEPS):
        if depth == len(sizes):
            return chosen
        if chosen[depth] >= 0:
            room[chosen[depth]] += sizes[depth]
            chosen[depth] = -1
        if tried[depth] == len(choices[depth]):
            tried[depth] = 0
            depth -= 1
            if depth < 0:
                return None
            continue
        engine = choices[depth][tried[depth]]
        tried[depth] += 1
        if sizes[depth] <= room[engine] + _ROUNDING:
            room[engine] -= sizes[depth]
            chosen[depth] = engine
            depth += 1
    return chosen if depth == len(sizes) else None
