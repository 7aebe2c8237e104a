"""Gains of the flow law from the discrete Riccati equation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import solve_discrete_are


@dataclass(frozen=True, slots=True)
class FlowGains:
    """The constants of the flow law: ``lambdas`` weigh buffer deviations, ``mus`` past rate errors."""

    lambdas: tuple[float, ...]
    mus: tuple[float, ...]


@lru_cache(maxsize=64)
def flow_gains(*, delay_steps: int, effort: float) -> FlowGains:
    r"""Optimal gains for a buffer that answers to a rate after some steps of delay.

    The appendix of the ACES paper that derives them is not printed, so they are derived here. With buffer deviation
    :math:`x(n) = b(n) - b_0` and rate error :math:`e(n) = r_{max}(n) - \rho(n)`, a rate granted now fills the buffer
    after :math:`d` steps:

    .. math:: x(n+1) = x(n) + e(n-d)

    The state is :math:`z = (x(n), e(n-1), \ldots, e(n-d))`. Minimising :math:`\sum x^2 + R e^2` gives, from the
    solution :math:`S` of the discrete algebraic Riccati equation,

    .. math:: e(n) = -K z, \qquad K = (R + B^T S B)^{-1} B^T S A = (\lambda_0, \mu_1, \ldots, \mu_d),

    which is Eq. 7 with one buffer term and ``delay_steps`` rate terms. A large effort :math:`R` makes for small
    :math:`\lambda`: the controller equalises rates rather than chase the buffer.

    Examples
    --------
    Without delay and with equal prices, the gain is the inverse of the golden ratio:

    >>> [round(gain, 3) for gain in flow_gains(delay_steps=0, effort=1.0).lambdas]
    [0.618]
    >>> gains = flow_gains(delay_steps=1, effort=4.0)
    >>> [round(gain, 3) for gain in (*gains.lambdas, *gains.mus)]
    [0.39, 0.39]
    """
    size = delay_steps + 1
    transition = np.zeros((size, size))
    transition[0, 0] = 1.0
    control = np.zeros((size, 1))
    if delay_steps == 0:
        control[0, 0] = 1.0
    else:
        transition[0, delay_steps] = 1.0
        control[1, 0] = 1.0
        for index in range(2, size):
            transition[index, index - 1] = 1.0
    state_price = np.zeros((size, size))
    state_price[0, 0] = 1.0
    effort_price = np.array([[effort]])
    solution = solve_discrete_are(transition, control, state_price, effort_price)
    gain = np.linalg.solve(effort_price + control.T @ solution @ control, control.T @ solution @ transition)[0]
    return FlowGains(lambdas=(float(gain[0]),), mus=tuple(float(value) for value in gain[1:]))
