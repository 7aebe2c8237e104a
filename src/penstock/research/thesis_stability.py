"""The stability check of the thesis: whether a performance model is sure enough to be relied on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.research.thesis_performance import PerformanceModel, bootstrap_deviation

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POINTS = 20


@dataclass(frozen=True, slots=True)
class Stability:
    """Deviation between refits where data is, and where the load may go; None where phase two was not reached."""

    threshold: float
    seen: float
    ahead: float | None

    @property
    def is_stable(self) -> bool:
        """Whether both phases passed."""
        return self.seen <= self.threshold and self.ahead is not None and self.ahead <= self.threshold


def check_stability(
    model: PerformanceModel,
    samples: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    *,
    demand_rows_per_s: float,
    executors: int,
    capacity_rows_per_s: float | None,
    threshold: float = 0.05,
    refits: int = 250,
    generator: np.random.Generator,
) -> Stability:
    """Check a model in two phases (Algorithm 5 of "Supporting elasticity in Flink").

    Phase one: the mean deviation at the samples. Phase two: that at the loads from the present one up to what the
    present executors can take, where the next decision will be made. Without a capacity phase two cannot be passed.
    """
    demands, sizes, _ = samples
    points_demand, points_size = demands, sizes
    if capacity_rows_per_s is not None:
        most = max(executors * capacity_rows_per_s, demand_rows_per_s)
        ahead = np.linspace(demand_rows_per_s, most, _POINTS)
        points_demand = np.concatenate((demands, ahead))
        points_size = np.concatenate((sizes, np.full(_POINTS, float(executors))))
    deviation = bootstrap_deviation(model, samples, (points_demand, points_size), refits=refits, generator=generator)
    seen = float(deviation[: demands.size].mean())
    ahead_deviation = float(deviation[demands.size :].mean()) if capacity_rows_per_s is not None else None
    return Stability(threshold, seen, ahead_deviation if seen <= threshold else None)
