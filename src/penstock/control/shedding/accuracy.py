"""The floor under every strategy: no drop may take the kept share of all offered rows below the minimum accuracy.

A row that must stay is kept with probability one, whatever number was drawn for it. That is known before the draw, so
weights of ``1 / p`` stay unbiased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.estimate.compiled import compiled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OFFERED, KEPT = 0, 1
"""First two places of every strategy's state."""

ROUNDING = 1e-9


@compiled
def must_keep(state: NDArray[np.float64], minimum: float) -> bool:
    """Tell whether dropping the next row would leave too few."""
    return bool(state[KEPT] < minimum * (state[OFFERED] + 1.0) - ROUNDING)


@compiled
def count_row(state: NDArray[np.float64], keep: bool) -> None:  # noqa: FBT001 - the one fact there is to tell
    """Remember what was decided about a row."""
    state[OFFERED] += 1.0
    state[KEPT] += 1.0 if keep else 0.0
