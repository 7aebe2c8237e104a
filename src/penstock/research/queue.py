"""One operator with one queue: when each kept row begins, and how long it waited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.estimate.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


@compiled
def waits_of_kept(
    arrivals: NDArray[np.float64], costs: NDArray[np.float64], keep: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Wait of every row that was kept, first come first served; not a number for the others.

    Examples
    --------
    >>> waits = waits_of_kept(np.array([0.0, 1.0, 2.0]), np.array([3.0, 1.0, 1.0]), np.array([True, False, True]))
    >>> waits.tolist()
    [0.0, nan, 1.0]
    """
    waits = np.full(arrivals.size, np.nan)
    free = 0.0
    for index in range(arrivals.size):
        if keep[index]:
            begins = max(free, arrivals[index])
            waits[index] = begins - arrivals[index]
            free = begins + costs[index]
    return waits
