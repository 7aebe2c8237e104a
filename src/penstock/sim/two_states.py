"""Two-state elements from what live batches cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class TwoStates:
    """``T_0``, ``T_1`` and ``rho`` of a measured query, and how long a state lasts on average, in mean row times."""

    fast_s: float
    slow_s: float
    slow_share: float
    burstiness_rows: float


def fit_two_states(row_costs_s: Sequence[float], rows_per_batch: float) -> TwoStates:
    """Two states from the cost of a row in batch after batch.

    Costs are split into two groups around two centres (Lloyd's algorithm on logarithms, from the 10th and 90th
    percentile); a state lasts as much CPU time as lies between two changes of group, and ``rho`` is the slow one's part
    of that time.

    Examples
    --------
    >>> costs = [0.002] * 6 + [0.02] * 3 + [0.002] * 6 + [0.02] * 3
    >>> states = fit_two_states(costs, rows_per_batch=10.0)
    >>> round(states.fast_s, 4), round(states.slow_s, 4), round(states.slow_share, 3), round(states.burstiness_rows, 1)
    (0.002, 0.02, 0.833, 21.2)
    """
    costs = np.asarray(row_costs_s, np.float64)
    if costs.size < 2 or not np.all(np.isfinite(costs) & (costs > 0)):  # noqa: PLR2004 - two states need two
        raise InvalidSettingError("row costs", costs.size, "at least two, all of them seconds above zero")
    logs = np.log(costs)
    low, high = np.quantile(logs, [0.1, 0.9])
    for _ in range(_ROUNDS):
        is_slow = np.abs(logs - high) < np.abs(logs - low)
        if is_slow.all() or not is_slow.any():
            break
        low, high = logs[~is_slow].mean(), logs[is_slow].mean()
    is_slow = np.abs(logs - high) < np.abs(logs - low)
    changes = int(np.count_nonzero(np.diff(is_slow.astype(np.int8))))
    fast_s, slow_s = float(np.exp(low)), float(np.exp(max(low, high)))
    slow_share = float(costs[is_slow].sum() / costs.sum())
    state_time_s = rows_per_batch * float(costs.sum()) / (changes + 1)
    return TwoStates(
        fast_s, slow_s, slow_share, burstiness_rows=state_time_s / ((1.0 - slow_share) * fast_s + slow_share * slow_s)
    )
