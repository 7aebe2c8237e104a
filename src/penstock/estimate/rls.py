"""Recursive least squares with forgetting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Matrix = list[list[float]]

_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class RlsState:
    """Estimate and covariance; immutable, so that a snapshot is the state itself."""

    theta: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]


class RecursiveLeastSquares:
    r"""Linear regression that learns from one observation at a time and forgets what it replaces.

    For a regressor :math:`x`, an observation :math:`y` with noise variance :math:`r` and forgetting :math:`\phi`:

    .. math::

        P \leftarrow P + \frac{1 - \phi}{\phi} \, \frac{x x^T}{x^T P^{-1} x}, \qquad
        k = \frac{P x}{r + x^T P x}, \qquad
        \theta \leftarrow \theta + k (y - x^T \theta), \qquad
        P \leftarrow P - k x^T P

    The first step forgets in the direction of the observation only. To divide all of :math:`P` by :math:`\phi`, as is
    common, would forget in a long stretch of equal observations what they say nothing of, until a single odd one
    throws the estimate far away. The variances never grow beyond those of the prior.

    Parameters
    ----------
    prior, prior_variance
        What is believed before the first observation, and how little.

    References
    ----------
    Åström and Wittenmark, *Adaptive Control*, 2nd edition, chapter 2. Cao and Schwartz, "A directional forgetting
    algorithm based on the decomposition of the information matrix", 2000.

    Examples
    --------
    >>> line = RecursiveLeastSquares(prior=(0.0, 0.0), prior_variance=(100.0, 100.0))
    >>> for x, y in [(1, 5.0), (2, 7.0), (3, 9.0), (4, 11.0)]:
    ...     line.update((1.0, float(x)), y, noise_variance=1e-6, forgetting=1.0)
    >>> [round(value, 3) for value in line.theta]
    [3.0, 2.0]
    """

    def __init__(
        self,
        prior: tuple[float, ...],
        prior_variance: tuple[float, ...],
        state: RlsState | None = None,
    ) -> None:
        # Plain numbers: for three unknowns they are several times as fast as arrays.
        self._prior_variance = tuple(float(value) for value in prior_variance)
        self._theta = tuple(float(value) for value in (state.theta if state else prior))
        self._covariance: Matrix = [list(row) for row in state.covariance] if state else _diagonal(self._prior_variance)

    @property
    def theta(self) -> tuple[float, ...]:
        """The current estimate."""
        return self._theta

    def update(
        self, regressor: tuple[float, ...], observation: float, *, noise_variance: float, forgetting: float
    ) -> None:
        """Learn from one observation; all before it keep ``forgetting`` of their weight, 1 forgets nothing."""
        x, size = regressor, range(len(regressor))
        covariance = self._bounded(self._forgotten(x, forgetting))
        direction = [_dot(row, x) for row in covariance]
        spread = noise_variance + _dot(x, direction)
        error = observation - _dot(x, self._theta)
        gain = [value / spread for value in direction]
        self._theta = tuple(self._theta[i] + gain[i] * error for i in size)
        # Computed once for both halves: rounding must not make it lose its symmetry over many batches.
        for i in size:
            for j in range(i + 1):
                cell = (covariance[i][j] + covariance[j][i] - gain[i] * direction[j] - gain[j] * direction[i]) / 2
                covariance[i][j] = covariance[j][i] = cell
        self._covariance = covariance

    def prediction_std(self, regressor: tuple[float, ...]) -> float:
        """How far off the prediction for a regressor may be, from what is not yet known of the estimate."""
        return math.sqrt(max(0.0, _dot(regressor, [_dot(row, regressor) for row in self._covariance])))

    def hold_above(self, bounds: tuple[float, ...]) -> None:
        r"""Move the estimate to where no part is below its bound, at the least cost to what is known of it.

        The bound that is farthest away, in standard errors, is met exactly, and all parts follow by what they have in
        common with it: for a bound :math:`g^T \theta \ge b`,
        :math:`\theta \leftarrow \theta + P g\,(b - g^T \theta) / (g^T P g)`. What many observations agree on stays as
        it was. To cut each part off by itself would change all predictions.

        Examples
        --------
        Two parts whose sum is known to be 3 are not 3.5 for a part that may not be negative:

        >>> line = RecursiveLeastSquares(prior=(-0.5, 3.0), prior_variance=(1.0, 1.0))
        >>> line.update((1.0, 1.0), 3.0, noise_variance=1e-9, forgetting=1.0)
        >>> [round(value, 2) for value in line.theta]
        [-0.25, 3.25]
        >>> line.hold_above((0.0, 0.0))
        >>> [round(value, 2) for value in line.theta]
        [0.0, 3.0]
        >>> line.hold_above((2.0, 0.0))
        >>> [round(value, 2) for value in line.theta]
        [2.0, 1.0]
        """
        size = range(len(bounds))
        limits = [(tuple(float(i == part) for i in size), bound) for part, bound in enumerate(bounds)]
        if all(_dot(direction, self._theta) >= bound for direction, bound in limits):
            return
        theta = self._held(limits)
        self._theta = tuple(max(theta[i], bounds[i]) for i in size)

    def _held(self, limits: list[tuple[tuple[float, ...], float]]) -> list[float]:
        """The estimate with one bound after the other met, the farthest first; one that is met stays so."""
        theta, covariance = list(self._theta), [list(row) for row in self._covariance]
        size = range(len(theta))
        for _ in size:
            farthest, found = 0.0, None
            for place, (direction, bound) in enumerate(limits):
                along = [_dot(row, direction) for row in covariance]
                variance = _dot(along, direction)
                missing = bound - _dot(direction, theta)
                if variance > 0.0 and missing / math.sqrt(variance) > farthest:
                    farthest, found = missing / math.sqrt(variance), (place, along, variance, missing)
            if found is None:
                break
            place, along, variance, missing = found
            # Rounding would have it missed again by next to nothing, in directions that mean nothing.
            limits = [limit for other, limit in enumerate(limits) if other != place]
            for i in size:
                theta[i] += along[i] / variance * missing
                for j in size:
                    covariance[i][j] -= along[i] * along[j] / variance
        return theta

    def snapshot(self) -> RlsState:
        """The whole state, to build an equal estimator from."""
        return RlsState(theta=self._theta, covariance=tuple(tuple(row) for row in self._covariance))

    def _forgotten(self, x: tuple[float, ...], forgetting: float) -> Matrix:
        size = range(len(x))
        if forgetting >= 1.0:
            return [list(row) for row in self._covariance]
        known = _dot(x, _solved(self._covariance, x))
        more = (1.0 - forgetting) / forgetting / known
        return [[self._covariance[i][j] + more * x[i] * x[j] for j in size] for i in size]

    def _bounded(self, covariance: Matrix) -> Matrix:
        """No variance beyond that of the prior; changes and gives what it gets."""
        size = range(len(covariance))
        most = self._prior_variance
        if all(covariance[i][i] <= most[i] for i in size):
            return covariance
        excess = [math.sqrt(min(1.0, most[i] / max(covariance[i][i], _TINY))) for i in size]
        return [[covariance[i][j] * excess[i] * excess[j] for j in size] for i in size]


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return float(sum(map(mul, one, other)))


def _diagonal(values: Sequence[float]) -> Matrix:
    return [[value if i == j else 0.0 for j in range(len(values))] for i, value in enumerate(values)]


def _solved(matrix: Matrix, right: Sequence[float]) -> list[float]:
    """Solve a small linear system by elimination, the largest element of a column first."""
    size = len(right)
    rows = [[*row, right[i]] for i, row in enumerate(matrix)]
    for column in range(size):
        best = max(range(column, size), key=lambda i: abs(rows[i][column]))
        rows[column], rows[best] = rows[best], rows[column]
        top = rows[column]
        for row in rows[column + 1 :]:
            factor = row[column] / top[column]
            if factor:
                for j in range(column, size + 1):
                    row[j] -= factor * top[j]
    found = [0.0] * size
    for i in range(size - 1, -1, -1):
        row = rows[i]
        found[i] = (row[size] - sum(row[j] * found[j] for j in range(i + 1, size))) / row[i]
    return found
