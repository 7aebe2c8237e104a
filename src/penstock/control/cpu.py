"""How an engine's cores are split from step to step: the CPU control of ACES."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.estimate.compiled import compiled_inline

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A buffer with less than this is empty: cores in proportion to next to nothing would be infinitely many.
LEAST_WEIGHT = 1e-9


def cpu_shares(
    tokens_cores: NDArray[np.float64],
    occupancies: NDArray[np.float64],
    bounds_cores: NDArray[np.float64],
    cores: float,
) -> NDArray[np.float64]:
    r"""Cores for each element of an engine in the next step.

    Section V-D of "Adaptive control of extreme-scale stream processing systems": elements spend tokens in proportion to
    the occupancy :math:`b_j` of their buffers, none beyond its bound from Eq. 8,

    .. math:: c_j = \min(\theta b_j, k_j, g_j^{-1}(r_{o,j})), \qquad \sum_j c_j \le C,

    with :math:`k_j` the cores that its tokens pay for and :math:`\theta` as large as the cores allow. Cores that are
    left go out again by the same rule without regard to tokens: an idle core serves nobody, and long-term targets are
    kept because whoever has tokens comes first.

    Examples
    --------
    The first element has no tokens left, the third may not send: the second takes what its bound allows, the first the
    rest.

    >>> shares = cpu_shares(np.array([0.0, 2.0, 2.0]), np.array([10.0, 30.0, 30.0]), np.array([1.0, 0.6, 0.0]), 1.0)
    >>> [round(float(share), 3) for share in shares]
    [0.4, 0.6, 0.0]
    """
    shares = np.zeros(occupancies.size)
    split_cores(shares, tokens_cores, occupancies, bounds_cores, cores)
    return shares


@compiled_inline
def split_cores(
    shares: NDArray[np.float64],
    tokens_cores: NDArray[np.float64],
    occupancies: NDArray[np.float64],
    bounds_cores: NDArray[np.float64],
    cores: float,
) -> None:
    """Write the shares of :func:`cpu_shares` into an array of zeros."""
    left = _fill(shares, occupancies, tokens_cores, bounds_cores, cores)
    if left > 0.0:
        _fill(shares, occupancies, bounds_cores, bounds_cores, left)


@compiled_inline
def _fill(
    shares: NDArray[np.float64],
    weights: NDArray[np.float64],
    caps: NDArray[np.float64],
    other_caps: NDArray[np.float64],
    available: float,
) -> float:
    """Raise shares in proportion to weights up to the smaller of two caps; gives what is left over."""
    left = available
    for _ in range(shares.size):
        weight = 0.0
        for index in range(shares.size):
            if shares[index] < min(caps[index], other_caps[index]) and weights[index] > LEAST_WEIGHT:
                weight += weights[index]
        if weight <= 0.0 or left <= 1e-12:  # noqa: PLR2004 - less than a share that any row could use
            return left
        level = left / weight
        for index in range(shares.size):
            cap = min(caps[index], other_caps[index])
            if shares[index] < cap and weights[index] > LEAST_WEIGHT:
                room = cap - shares[index]
                added = min(level * weights[index], room)
                # Exactly full: one that rounding left a hair below its cap would take part in every later round.
                shares[index] = cap if added >= room else shares[index] + added
                left -= added
    return left
