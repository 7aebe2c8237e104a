"""Means over topologies and what they are known to: paired, with Student's distribution, since topologies are few."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

if TYPE_CHECKING:
    from collections.abc import Sequence

_TWO_SIDED_95 = 0.975


def half_width_95(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of a mean; None for one value, which says nothing of others.

    Examples
    --------
    >>> round(half_width_95([1.0, 2.0, 3.0]), 3)
    2.484
    >>> half_width_95([1.0]) is None
    True
    """
    count = len(values)
    if count < 2:  # noqa: PLR2004 - a spread needs two
        return None
    deviation = float(np.std(np.asarray(values, np.float64), ddof=1))
    return float(student.ppf(_TWO_SIDED_95, count - 1)) * deviation / math.sqrt(count)


def paired_gain(own: Sequence[float], other: Sequence[float]) -> tuple[float, float | None]:
    r"""Mean of :math:`x_i / y_i - 1` over topologies :math:`i`, with half of its 95 % interval.

    Examples
    --------
    Topologies differ by a factor of ten, and one policy has a tenth more on each of them:

    >>> gain, half_width = paired_gain([11.0, 110.0, 55.0], [10.0, 100.0, 50.0])
    >>> round(gain, 3), round(half_width, 3)
    (0.1, 0.0)
    """
    gains = [mine / theirs - 1.0 for mine, theirs in zip(own, other, strict=True)]
    return float(np.mean(gains)), half_width_95(gains)
