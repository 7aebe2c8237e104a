"""What an output rate is worth: the three utilities of ACES."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class UtilityKind(StrEnum):
    """Shape of a utility."""

    LINEAR = "linear"
    LOG = "log"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True, slots=True)
class Utility:
    r"""Increasing and concave in the output rate.

    With :math:`r` the rate, :math:`s` the scale and :math:`x = r / s`:

    .. math:: U(x) = x, \qquad U(x) = \log(x + 1), \qquad U(x) = 1 - e^{-x}.

    The scale is the unit in which rates are counted. It changes nothing for the linear one; the exponential one is
    indifferent to everything well above it, so it should be a rate that is worth having.

    Reference: "Adaptive control of extreme-scale stream processing systems", section V-B.

    Examples
    --------
    >>> [round(float(Utility(kind, 10.0).of(np.array([20.0]))[0]), 3) for kind in UtilityKind]
    [2.0, 1.099, 0.865]
    """

    kind: UtilityKind = UtilityKind.LINEAR
    scale_rows_per_s: float = 1.0

    def __post_init__(self) -> None:
        if not self.scale_rows_per_s > 0:
            raise InvalidSettingError("scale_rows_per_s", self.scale_rows_per_s, "a rate above zero")

    def of(self, rate_rows_per_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Utility of output rates."""
        scaled = rate_rows_per_s / self.scale_rows_per_s
        if self.kind is UtilityKind.LOG:
            return np.log1p(scaled)
        if self.kind is UtilityKind.EXPONENTIAL:
            return -np.expm1(-scaled)
        return scaled

    def best_rate(self, price: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rate with the largest ``weight U(r / s) - price r``, which may be infinite."""
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = weight / (price * self.scale_rows_per_s)
            if self.kind is UtilityKind.LOG:
                scaled = worth - 1.0
            elif self.kind is UtilityKind.EXPONENTIAL:
                scaled = np.log(worth)
            else:
                scaled = np.where(worth > 1.0, np.inf, 0.0)
        best = np.where(price <= 0.0, np.inf, np.maximum(scaled, 0.0) * self.scale_rows_per_s)
        return np.where((weight <= 0.0) & (price > 0.0), 0.0, best)
