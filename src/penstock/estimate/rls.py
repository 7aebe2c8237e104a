"""Recursive least squares with forgetting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


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
        self._prior_variance: Vector = np.array(prior_variance, dtype=np.float64)
        self._theta: Vector = np.array(state.theta if state else prior, dtype=np.float64)
        self._covariance: Matrix = np.array(state.covariance, dtype=np.float64) if state else self._prior_covariance()

    @property
    def theta(self) -> tuple[float, ...]:
        """The current estimate."""
        return tuple(float(value) for value in self._theta)

    def update(
        self, regressor: tuple[float, ...], observation: float, *, noise_variance: float, forgetting: float
    ) -> None:
        """Learn from one observation; all before it keep ``forgetting`` of their weight, 1 forgets nothing."""
        x: Vector = np.array(regressor, dtype=np.float64)
        covariance = self._bounded(self._forgotten(x, forgetting))
        direction = covariance @ x
        gain = direction / (noise_variance + float(x @ direction))
        self._theta = self._theta + gain * (observation - float(x @ self._theta))
        shrunk = covariance - np.outer(gain, direction)
        self._covariance = (shrunk + shrunk.T) / 2  # rounding must not make it lose its symmetry over many batches

    def prediction_std(self, regressor: tuple[float, ...]) -> float:
        """How far off the prediction for a regressor may be, from what is not yet known of the estimate."""
        x: Vector = np.array(regressor, dtype=np.float64)
        return float(np.sqrt(max(0.0, float(x @ self._covariance @ x))))

    def standard_errors(self) -> tuple[float, ...]:
        """How far off each part of the estimate may be."""
        return tuple(float(value) for value in np.sqrt(np.maximum(np.diag(self._covariance), 0.0)))

    def doubt(self, standard_errors: tuple[float, ...]) -> None:
        """Keep the estimate but trust each part of it no more than that, and no more than the prior.

        To fall back to the prior itself, which knows nothing of the scale, would let a single observation throw the
        parts apart that it does not tell from one another.
        """
        variance = np.minimum(np.array(standard_errors, dtype=np.float64) ** 2, self._prior_variance)
        self._covariance = np.diag(variance).astype(np.float64)

    def place(self, theta: tuple[float, ...]) -> None:
        """Put the estimate elsewhere, where observations do not tell it from what it was."""
        self._theta = np.array(theta, dtype=np.float64)

    def hold_above(self, bounds: tuple[float, ...]) -> None:
        r"""Move the estimate to where no part is below its bound, at the least cost to what is known of it.

        The part that is farthest below, in standard errors, is set to its bound, and the others follow by what they
        have in common with it, :math:`\theta \leftarrow \theta + P_i / P_{ii}\,(b_i - \theta_i)`: what many
        observations agree on stays as it was. To cut each part off by itself would change all predictions.

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
        """
        covariance = self._covariance.copy()
        low = np.array(bounds, dtype=np.float64)
        for _ in range(len(low)):
            spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
            below = np.where(spread > 0, (low - self._theta) / np.maximum(spread, 1e-300), 0.0)
            part = int(np.argmax(below))
            if below[part] <= 0:
                break
            shared = covariance[:, part] / covariance[part, part]
            self._theta = self._theta + shared * (low[part] - self._theta[part])
            covariance = covariance - np.outer(shared, covariance[part])
            covariance[part, part] = 0.0
        self._theta = np.maximum(self._theta, low)

    def snapshot(self) -> RlsState:
        """The whole state, to build an equal estimator from."""
        rows = tuple(tuple(float(cell) for cell in row) for row in self._covariance)
        return RlsState(theta=self.theta, covariance=rows)

    def _forgotten(self, x: Vector, forgetting: float) -> Matrix:
        known = float(x @ np.linalg.solve(self._covariance, x))
        forgotten: Matrix = self._covariance + (1.0 - forgetting) / forgetting * np.outer(x, x) / known
        return forgotten

    def _prior_covariance(self) -> Matrix:
        return np.diag(self._prior_variance).astype(np.float64)

    def _bounded(self, covariance: Matrix) -> Matrix:
        excess = np.sqrt(np.minimum(1.0, self._prior_variance / np.maximum(np.diag(covariance), 1e-300)))
        bounded: Matrix = covariance * np.outer(excess, excess)
        return bounded
