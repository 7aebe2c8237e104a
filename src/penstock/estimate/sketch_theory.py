"""What the estimate of a sketch is worth on average: Theorem 4.2 of the load-aware shedding paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def expected_estimates(costs: NDArray[np.float64], columns: int) -> NDArray[np.float64]:
    """Mean of ``W / F`` over the draw of a hash function, for each of ``n`` equally frequent keys.

    ``(S - w) / (n - 1) - k (S - n w) / (n (n - 1)) * (1 - (1 - 1 / k)**n)`` for a key of cost ``w``, with ``S`` the sum
    of all costs and ``k`` columns. With few columns it hardly depends on the key: one row of cells tells keys apart
    only as far as they are frequent.

    Examples
    --------
    The paper's own figures, 4,096 keys of 64 costs on 55 columns:

    >>> estimates = expected_estimates(np.repeat(np.arange(1.0, 65.0), 64), 55)
    >>> [round(float(value), 2) for value in (estimates.min(), estimates.max())]
    [32.08, 32.92]
    """
    count = costs.size
    total = costs.sum()
    alone = 1.0 - (1.0 - 1.0 / columns) ** count
    return np.asarray((total - costs) / (count - 1) - columns * (total - count * costs) / (count * (count - 1)) * alone)


def tail_bound(mean_estimate: float, limit: float, rows: int) -> float:
    """Markov's bound on the chance that the estimates of all ``rows`` hash functions reach ``limit``.

    Examples
    --------
    >>> round(tail_bound(33.0, 48.0, 10), 4)
    0.0236
    """
    return float(min(1.0, mean_estimate / limit) ** rows)
