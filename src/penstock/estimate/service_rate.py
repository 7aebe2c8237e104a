"""How many rows an element takes in with so many cores, learned from what was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ServiceRate:
    r"""Rows per second as a function of cores.

    .. math:: h(c) = \max(0, a c - b)

    Footnote 3 of "Adaptive control of extreme-scale stream processing systems" has :math:`a c - b`; below
    :math:`b / a` cores that would be a rate below zero, where an element is busy with its overhead and takes in
    nothing.

    Examples
    --------
    >>> rate = ServiceRate(rows_per_core_s=200.0, idle_rows_per_s=20.0)
    >>> [rate.rows_per_s(cores) for cores in (0.05, 0.1, 0.5)]
    [0.0, 0.0, 80.0]
    >>> rate.cores_for(80.0)
    0.5
    """

    rows_per_core_s: float
    idle_rows_per_s: float

    def rows_per_s(self, cores: float) -> float:
        """Rows taken in each second with so many cores."""
        return max(0.0, self.rows_per_core_s * cores - self.idle_rows_per_s)

    def cores_for(self, rows_per_s: float) -> float:
        """Cores that a rate needs; none for no rows."""
        return (rows_per_s + self.idle_rows_per_s) / self.rows_per_core_s if rows_per_s > 0 else 0.0


def fit_service_rate(cores: Sequence[float], rows_per_s: Sequence[float]) -> ServiceRate | None:
    """Fit ``h`` to moments in which an element was never short of rows; None where they do not tell.

    Least squares over the moments with rows; those without say only that the cores were below ``b / a``. Where the fit
    would have an overhead below zero, or all moments had the same cores, the line goes through the origin.

    Examples
    --------
    >>> fit = fit_service_rate([0.05, 0.2, 0.4, 0.8], [0.0, 20.0, 60.0, 140.0])
    >>> round(fit.rows_per_core_s, 6), round(fit.idle_rows_per_s, 6)
    (200.0, 20.0)
    >>> fit_service_rate([0.5], [50.0])
    ServiceRate(rows_per_core_s=100.0, idle_rows_per_s=0.0)
    """
    used, rates = np.asarray(cores, np.float64), np.asarray(rows_per_s, np.float64)
    known = np.isfinite(used) & np.isfinite(rates) & (used > 0) & (rates > 0)
    used, rates = used[known], rates[known]
    if used.size == 0:
        return None
    spread = used - used.mean()
    variance = float(spread @ spread)
    slope = float(spread @ rates) / variance if variance > 1e-12 * used.size else 0.0
    idle = slope * float(used.mean()) - float(rates.mean())
    if slope <= 0 or idle < 0:
        return ServiceRate(float(used @ rates) / float(used @ used), 0.0)
    return ServiceRate(slope, idle)
