"""What a two-state element really does: a row keeps the state that it began in."""

from __future__ import annotations

import math


def kept_state_rows_per_core_s(fast_s: float, slow_s: float, slow_share: float, state_time_s: float) -> float:
    r"""Rows that a core takes in each second where a row costs what the state says in which it began.

    States last :math:`2(1 - \rho)\tau` and :math:`2\rho\tau` on average, exponentially, so that with
    :math:`k = 1 / (2(1 - \rho)\tau) + 1 / (2\rho\tau)` the state at the beginning of the next row differs from that of
    the last with probability

    .. math:: p_{01} = \rho (1 - e^{-k T_0}), \qquad p_{10} = (1 - \rho) (1 - e^{-k T_1})

    and rows begin in the slow state in a share :math:`\pi_1 = p_{01} / (p_{01} + p_{10})`. The rate is
    :math:`1 / ((1 - \pi_1) T_0 + \pi_1 T_1)`. Fluid, which would switch in the middle of a row, has
    :math:`(1 - \rho) / T_0 + \rho / T_1`: more, since a slow row outlasts much of the fast state after it.

    Examples
    --------
    The paper's states at a burstiness of 1, 10 and 50 mean row times of 11 ms, as a share of the 275 rows/s of fluid:

    >>> rates = [kept_state_rows_per_core_s(0.002, 0.020, 0.5, burstiness * 0.011) for burstiness in (1, 10, 50)]
    >>> [round(rate / 275, 3) for rate in rates]
    [0.578, 0.935, 0.987]
    """
    if slow_share in {0.0, 1.0} or fast_s == slow_s:
        return 1.0 / (slow_s if slow_share == 1.0 else fast_s)
    switches_per_s = 1.0 / (2.0 * (1.0 - slow_share) * state_time_s) + 1.0 / (2.0 * slow_share * state_time_s)
    to_slow = slow_share * -math.expm1(-switches_per_s * fast_s)
    to_fast = (1.0 - slow_share) * -math.expm1(-switches_per_s * slow_s)
    slow_rows = to_slow / (to_slow + to_fast)
    return 1.0 / ((1.0 - slow_rows) * fast_s + slow_rows * slow_s)
