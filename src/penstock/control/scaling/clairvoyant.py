"""The cheapest plan for a load that is known beforehand: what no policy can beat, as a yardstick for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidSettingError
from penstock.estimate.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


@compiled
def _forward(needed: NDArray[np.int64], most: int, start_cost: float) -> NDArray[np.int16]:
    """Give, for every step and size, the size of the step before on the cheapest way there."""
    steps = needed.size
    came_from = np.zeros((steps, most + 1), dtype=np.int16)
    cost = np.empty(most + 1)
    for size in range(most + 1):
        cost[size] = size if size >= needed[0] and size >= 1 else np.inf
    best_above = np.empty(most + 1, dtype=np.int16)
    for step in range(1, steps):
        # Coming from more executors costs nothing: the cheapest size from here upwards, for every size.
        best = most
        for size in range(most, -1, -1):
            if cost[size] <= cost[best]:
                best = size
            best_above[size] = best
        fresh = np.empty(most + 1)
        # Coming from fewer costs a start for each one more: carried along while the size grows.
        below, below_cost = 0, np.inf
        for size in range(most + 1):
            below_cost += start_cost
            if cost[size] < below_cost:
                below, below_cost = size, cost[size]
            above = best_above[size]
            is_above = cost[above] <= below_cost
            came_from[step, size] = above if is_above else below
            way = cost[above] if is_above else below_cost
            fresh[size] = way + size if size >= needed[step] and size >= 1 else np.inf
        cost[:] = fresh
    came_from[0, 0] = np.argmin(cost)
    return came_from


def cheapest_plan(needed: NDArray[np.int64], *, step_s: float, start_s: float, most: int) -> NDArray[np.int64]:
    r"""Sizes :math:`n_t \ge needed_t` that cost the fewest executor-seconds, start-up times included.

    .. math:: \min_n \sum_t \big( n_t\,\Delta + start \cdot (n_t - n_{t-1})^+ \big)

    by dynamic programming over steps and sizes. Each new executor is paid for while it starts, so a short dip in the
    load is not worth letting executors go. Linear in the sizes: the cheapest way from below is carried along.

    Examples
    --------
    >>> load = np.array([2, 2, 1, 2, 1, 1, 1, 1, 3])
    >>> cheapest_plan(load, step_s=60.0, start_s=90.0, most=4).tolist()
    [2, 2, 2, 2, 1, 1, 1, 1, 3]
    """
    if needed.size and int(needed.max()) > most:
        raise InvalidSettingError("most executors", most, f"at least {int(needed.max())}, which the load needs")
    came_from = _forward(needed.astype(np.int64), most, start_s / step_s)
    plan = np.empty(needed.size, dtype=np.int64)
    size = int(came_from[0, 0])
    for step in range(needed.size - 1, -1, -1):
        plan[step] = size
        size = int(came_from[step, size])
    return plan
