"""A histogram whose older entries count less: what a percentile of use is, without the values behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_RATIO = 1.02
"""Each bucket is 2 % wider than the one before: a percentile is off by no more than that."""
_SMALLEST = 1e-3
_RESCALE_HALVES = 60.0
"""Half-lives after which weights are scaled back: 2 to the 60 is far below what a float can hold."""


@dataclass(frozen=True, slots=True)
class HistogramState:
    """Snapshot of a :class:`DecayingHistogram`."""

    weights: Mapping[int, float] = field(default_factory=dict)
    reference_s: float = 0.0


class DecayingHistogram:
    """Counts values in buckets that grow by 2 %, each entry with a weight that halves in ``half_life_s``.

    An entry of the time ``t`` weighs ``2 ** ((t - reference) / half_life)``: newer entries weigh more, and no old one
    need be touched. The quantile ``q`` is the upper edge of the first bucket at which the weight reaches ``q`` of all,
    and the size that follows from it is ``quantile(q) * (1 + margin)``. After Rzadca et al., Autopilot (EuroSys 2020),
    and the recommender of the vertical pod autoscaler of Kubernetes.

    Examples
    --------
    >>> use = DecayingHistogram(half_life_s=3600.0)
    >>> for minute in range(60):
    ...     use.add(100.0 if minute < 50 else 200.0, time_s=60.0 * minute)
    >>> round(use.quantile(0.5)), round(use.quantile(0.95))
    (101, 202)
    >>> for minute in range(60, 600):
    ...     use.add(100.0, time_s=60.0 * minute)
    >>> round(use.quantile(0.95))
    101
    """

    def __init__(self, half_life_s: float, state: HistogramState | None = None) -> None:
        self._half_life_s = half_life_s
        state = state or HistogramState()
        self._weights = dict(state.weights)
        self._reference_s = state.reference_s

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever added."""
        return not self._weights

    def add(self, value: float, time_s: float) -> None:
        """Take in one value; values that are not finite or below zero are not taken."""
        if not math.isfinite(value) or value < 0:
            return
        if not self._weights:
            self._reference_s = time_s
        halves = (time_s - self._reference_s) / self._half_life_s
        if halves > _RESCALE_HALVES:
            scaled = {key: weight * 2.0**-halves for key, weight in self._weights.items()}
            self._weights = {key: weight for key, weight in scaled.items() if weight > 0}
            self._reference_s, halves = time_s, 0.0
        bucket = 0 if value <= _SMALLEST else 1 + int(math.log(value / _SMALLEST, _RATIO))
        self._weights[bucket] = self._weights.get(bucket, 0.0) + 2.0**halves

    def quantile(self, part: float) -> float | None:
        """The value that so much of the weight does not exceed; None where there is nothing."""
        if not self._weights:
            return None
        wanted, seen = part * sum(self._weights.values()), 0.0
        bucket = 0
        for bucket in sorted(self._weights):
            seen += self._weights[bucket]
            if seen >= wanted:
                break
        return _SMALLEST * _RATIO**bucket

    def snapshot(self) -> HistogramState:
        """Everything that it knows."""
        return HistogramState(dict(self._weights), self._reference_s)
