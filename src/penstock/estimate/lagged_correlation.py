"""How far one series follows another, some windows later."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEWEST = 4


@dataclass(frozen=True, slots=True)
class LaggedCorrelation:
    """The strongest correlation, and after how many windows it is seen."""

    coefficient: float
    lag: int


def lagged_correlation(leader: Sequence[float], follower: Sequence[float], max_lag: int) -> LaggedCorrelation | None:
    """The largest correlation of a series with an earlier part of another, over lags from 0 to ``max_lag``.

    ``r(lag) = cov(leader[t - lag], follower[t]) / (sd(leader) sd(follower))`` over the pairs that there are; None where
    fewer than four pairs are, or one of the two does not change.

    Examples
    --------
    >>> latency = [10, 10, 11, 10, 40, 42, 41, 40, 10, 11, 10, 10]
    >>> growth = [0, 0, 0, 0, 0, 30, 31, 30, 31, 0, 0, 0]
    >>> found = lagged_correlation(latency, growth, max_lag=3)
    >>> round(found.coefficient, 3), found.lag
    (0.999, 1)
    """
    found: LaggedCorrelation | None = None
    for lag in range(max_lag + 1):
        count = min(len(leader) - lag, len(follower) - lag)
        if count < _FEWEST:
            break
        value = _correlation(leader[len(leader) - lag - count : len(leader) - lag], follower[-count:])
        if value is not None and (found is None or value > found.coefficient):
            found = LaggedCorrelation(value, lag)
    return found


def _correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    count = len(left)
    mean_left, mean_right = sum(left) / count, sum(right) / count
    square_left = sum((each - mean_left) ** 2 for each in left)
    square_right = sum((each - mean_right) ** 2 for each in right)
    # Rounding leaves a little of a series that does not change.
    if square_left <= 1e-18 * mean_left**2 or square_right <= 1e-18 * mean_right**2:
        return None
    shared = sum((one - mean_left) * (other - mean_right) for one, other in zip(left, right, strict=True))
    return shared / math.sqrt(square_left * square_right)
