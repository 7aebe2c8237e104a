"""CHECK: whether one more row breaks the promise on queueing latency.

Three promises, on the wait ``q`` that the row would have:

- AVG(tau): the mean wait of all kept rows is at most tau. Drop when ``(Q + q) / (l + 1) > tau``.
- ABS(tau): no kept row waits longer than tau. Drop when ``q > tau``.
- WINDOW(tau): as AVG, over the last kept rows only.

The paper prints ``Q / l > tau`` for AVG (Listing III.2, line 31), which never recovers: after the first excess neither
``Q`` nor ``l`` changes again, and every later row is dropped. Its prose says to try the new wait, as done here. A row
that waits no longer than tau can only bring the mean down, so it is kept even while the mean is above tau (after a
start without a model, or rows that the minimum accuracy forced in); otherwise that excess would never be forgotten.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from penstock.estimate.compiled import compiled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AVERAGE, ABSOLUTE, WINDOW = 0, 1, 2
WAIT_SUM, WAITS, WINDOW_PLACE = 3, 4, 5


class Constraint(IntEnum):
    """Which promise is made; the numbers are those that the compiled loops use."""

    AVERAGE = AVERAGE
    ABSOLUTE = ABSOLUTE
    WINDOW = WINDOW


@compiled
def breaks_promise(
    wait: float, threshold: float, constraint: int, state: NDArray[np.float64], window: NDArray[np.float64]
) -> bool:
    """Tell whether keeping a row that waits so long would break the promise."""
    if constraint == ABSOLUTE:
        return bool(wait > threshold)
    if constraint == AVERAGE:
        # Not "and": both sides are cheap, and neither can be foreseen by the processor.
        return bool((wait > threshold) & (state[WAIT_SUM] + wait > threshold * (state[WAITS] + 1.0)))
    leaving = window[int(state[WINDOW_PLACE])] if state[WAITS] >= window.size else 0.0
    count = min(state[WAITS] + 1.0, float(window.size))
    return bool((wait > 0.0) & (state[WAIT_SUM] - leaving + wait > threshold * count))


@compiled
def count_wait(
    keep: bool,  # noqa: FBT001 - the one fact there is to tell
    wait: float,
    constraint: int,
    state: NDArray[np.float64],
    window: NDArray[np.float64],
) -> None:
    """Take the wait of a row into the mean if the row was kept."""
    if constraint == WINDOW and keep:
        place = int(state[WINDOW_PLACE])
        if state[WAITS] >= window.size:
            state[WAIT_SUM] -= window[place]
        window[place] = wait
        state[WINDOW_PLACE] = (place + 1) % window.size
    state[WAIT_SUM] += wait if keep else 0.0
    state[WAITS] += 1.0 if keep else 0.0
