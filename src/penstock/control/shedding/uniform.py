"""Uniform shedding: every row stays with the same probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from penstock.control.shedding.accuracy import count_row, must_keep
from penstock.control.shedding.base import Decision, Rows, Shedder
from penstock.errors import InvalidSettingError
from penstock.estimate.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray


@compiled
def keep_uniformly(
    uniforms: NDArray[np.float64], keep_fraction: float, minimum: float, state: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Keep each row whose number lies below the fraction, and those that must stay."""
    keep = np.empty(uniforms.size, np.bool_)
    probability = np.empty(uniforms.size)
    for index in range(uniforms.size):
        probability[index] = 1.0 if must_keep(state, minimum) else keep_fraction
        keep[index] = uniforms[index] < probability[index]
        count_row(state, keep[index])
    return keep, probability


class Uniform(Shedder):
    """Keeps a fixed share of the rows, drawn by lot.

    Examples
    --------
    >>> rows = Rows(np.arange(4, dtype=np.uint64), np.zeros(4), np.array([0.1, 0.9, 0.4, 0.6]))
    >>> decision = Uniform(0.5).decide(rows)
    >>> decision.keep.tolist(), decision.weights.tolist()
    ([True, False, True, False], [2.0, 2.0])
    """

    name: ClassVar[str] = "uniform"

    def __init__(self, keep_fraction: float, *, minimum_accuracy: float = 0.0) -> None:
        if not 0 < keep_fraction <= 1:
            raise InvalidSettingError("keep fraction", keep_fraction, "a share above 0 and up to 1")
        super().__init__(minimum_accuracy=minimum_accuracy)
        self.keep_fraction = keep_fraction

    def decide(self, rows: Rows) -> Decision:
        """Keep each row with the same probability."""
        keep, probability = keep_uniformly(rows.uniforms, self.keep_fraction, self.minimum_accuracy, self._state)
        return Decision(keep=keep, probability=probability, drawn=True)
