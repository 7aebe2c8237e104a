"""The performance model of the thesis: backlog ratio as a function of workload and executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]

DEGREES = tuple(range(1, 9))
_FOLDS = 5
_BLOCK = 20
_RIDGE = 1e-6
_HUBER = 1.345
_MAD_TO_DEVIATION = 1.4826
_ROUNDS = 5
_MOST_EXECUTOR_POWERS = 1
_WORTH_A_DEGREE = 0.99
_FEWEST_SAMPLES = 2 * _FOLDS * _BLOCK


@dataclass(frozen=True, slots=True)
class Basis:
    """Products of Chebyshev polynomials in the load per executor and in the number of executors.

    The thesis has plain powers of workload and executors. The load per executor carries nearly all of the shape, so a
    model in it says something sensible about numbers of executors that were seen for a short time only; and Chebyshev
    polynomials of scaled variables stay well-conditioned up to the eighth degree, which powers of thousands do not.
    """

    degree: int
    executor_degree: int
    largest_load: float
    least_executors: float
    most_executors: float

    @property
    def powers(self) -> list[tuple[int, int]]:
        """Degrees in load and in executors of each column."""
        return [
            (load, executors)
            for executors in range(min(self.degree, self.executor_degree) + 1)
            for load in range(self.degree - executors + 1)
        ]

    def columns(self, demand: FloatArray, executors: FloatArray) -> FloatArray:
        """The matrix of the regression."""
        load = 2.0 * (demand / executors) / self.largest_load - 1.0
        span = max(self.most_executors - self.least_executors, 1.0)
        size = 2.0 * (np.clip(executors, self.least_executors, self.most_executors) - self.least_executors) / span - 1.0
        loads = np.polynomial.chebyshev.chebvander(load, self.degree)
        sizes = np.polynomial.chebyshev.chebvander(size, self.executor_degree)
        return np.stack([loads[:, i] * sizes[:, j] for i, j in self.powers], axis=1)


@dataclass(frozen=True, slots=True)
class PerformanceModel:
    """A fitted model.

    Parameters
    ----------
    basis, coefficients
        The polynomial.
    rmse
        Root mean square error in cross-validation, by degree.
    weights
        How much each sample counted in the end: below one for outliers.
    """

    basis: Basis
    coefficients: FloatArray
    rmse: dict[int, float]
    weights: FloatArray

    def predict(self, demand: ArrayLike, executors: ArrayLike) -> FloatArray:
        """Backlog ratio at workloads on numbers of executors; never below zero."""
        demands, sizes = np.broadcast_arrays(np.asarray(demand, float), np.asarray(executors, float))
        flat = self.basis.columns(demands.ravel(), sizes.ravel()) @ self.coefficients
        return np.maximum(flat, 0.0).reshape(demands.shape)

    def largest_demand(
        self, executors: int, *, limit: float, load_bound: float, safe_load: float = 0.0, points: int = 60
    ) -> float:
        """The workload up to which the backlog ratio stays below a limit.

        Tried from a load per executor that is known to go well up to a bound. Taking the first crossing makes a
        polynomial that comes down again behind it harmless, and beginning at the safe load one that strays where this
        number of executors was never seen.
        """
        tried = np.linspace(safe_load, max(load_bound, safe_load), points + 1)
        shares = self.predict(tried * executors, np.full(points + 1, float(executors)))
        bad = np.flatnonzero(shares >= limit)
        return float(tried[-1] if not bad.size else tried[max(0, int(bad[0]) - 1)]) * executors


def fit_performance(
    demand: ArrayLike, executors: ArrayLike, backlog_ratio: ArrayLike, *, degrees: Iterable[int] = DEGREES
) -> PerformanceModel:
    r"""Fit the model: degree by cross-validation, coefficients by robust least squares.

    Algorithm 3 of "Supporting elasticity in Flink" compares the prediction with itself, which gives zero for every
    degree; with the error on the training data it would take the highest degree whatever the data. Here each degree is
    judged on blocks of consecutive samples that it was not fitted to (neighbours are alike, so single samples would
    not do), and a higher degree must be better by one hundredth.

    Outliers, such as the samples after a crash, get the weight :math:`\min(1, 1.345\,s / |r|)` of Huber, with :math:`s`
    from the median residual.

    Examples
    --------
    >>> generator = np.random.default_rng(1)
    >>> executors = np.repeat([1.0, 2.0, 3.0], 200)
    >>> demand = executors * generator.uniform(100.0, 900.0, 600)
    >>> share = 0.02 / (1.0 - demand / executors / 1_000.0) + generator.normal(0.0, 0.002, 600)
    >>> model = fit_performance(demand, executors, share)
    >>> model.predict(1_600.0, 2.0).round(2).item()
    0.1
    >>> round(model.largest_demand(2, limit=0.1, load_bound=900.0), -2)
    1600.0
    """
    demands, sizes, shares = (np.asarray(column, float) for column in (demand, executors, backlog_ratio))
    if demands.size < _FEWEST_SAMPLES:
        raise ValueError(f"{demands.size} samples are too few for a performance model: at least {_FEWEST_SAMPLES}")
    candidates = {degree: _basis(degree, demands, sizes) for degree in degrees}
    rmse = {degree: _validated_rmse(basis, demands, sizes, shares) for degree, basis in candidates.items()}
    best = min(candidates)
    for degree in sorted(candidates):
        if rmse[degree] < _WORTH_A_DEGREE * rmse[best]:
            best = degree
    columns = candidates[best].columns(demands, sizes)
    coefficients, weights = _robust(columns, shares)
    return PerformanceModel(candidates[best], coefficients, rmse, weights)


def bootstrap_deviation(
    model: PerformanceModel,
    samples: tuple[FloatArray, FloatArray, FloatArray],
    points: tuple[FloatArray, FloatArray],
    *,
    refits: int,
    generator: np.random.Generator,
) -> FloatArray:
    """How unsure the model is at points: standard deviation between refits on bootstrap samples.

    Algorithm 4 of "Supporting elasticity in Flink" resamples the inputs and takes the deviation of one model's
    predictions over them. That says how much the backlog ratio varies with the load, and no amount of data makes it
    small. Refitting says how much the model itself would differ on other data.
    """
    demands, sizes, shares = samples
    columns = model.basis.columns(demands, sizes)
    rows, cols = np.triu_indices(columns.shape[1])
    products = columns[:, rows] * columns[:, cols]
    counts = generator.multinomial(demands.size, np.full(demands.size, 1.0 / demands.size), size=refits)
    weighted = counts * model.weights
    grams = np.empty((refits, columns.shape[1], columns.shape[1]))
    grams[:, rows, cols] = weighted @ products
    grams[:, cols, rows] = grams[:, rows, cols]
    right = weighted @ (columns * shares[:, None])
    ridge = _RIDGE * demands.size * np.eye(columns.shape[1])
    fits = np.linalg.solve(grams + ridge, right[:, :, None])[:, :, 0]
    return np.asarray((model.basis.columns(*points) @ fits.T).std(axis=1))


def _basis(degree: int, demands: FloatArray, sizes: FloatArray) -> Basis:
    distinct = np.unique(sizes).size
    largest = float((demands / sizes).max())
    powers = min(distinct - 1, _MOST_EXECUTOR_POWERS)
    return Basis(degree, powers, max(largest, 1e-12), float(sizes.min()), float(sizes.max()))


def _solve(columns: FloatArray, shares: FloatArray, weights: FloatArray) -> FloatArray:
    weighted = columns * weights[:, None]
    gram = weighted.T @ columns + _RIDGE * shares.size * np.eye(columns.shape[1])
    return np.asarray(np.linalg.solve(gram, weighted.T @ shares))


def _validated_rmse(basis: Basis, demands: FloatArray, sizes: FloatArray, shares: FloatArray) -> float:
    columns = basis.columns(demands, sizes)
    fold = (np.arange(shares.size) // _BLOCK) % _FOLDS
    errors = np.empty(shares.size)
    for number in range(_FOLDS):
        held = fold == number
        coefficients = _solve(columns[~held], shares[~held], np.ones(int((~held).sum())))
        errors[held] = shares[held] - columns[held] @ coefficients
    # Robust here as well: one crash inside a fold would otherwise choose the degree.
    bound = 3.0 * _MAD_TO_DEVIATION * float(np.median(np.abs(errors))) + 1e-12
    return float(np.sqrt(np.mean(np.minimum(np.abs(errors), bound) ** 2)))


def _robust(columns: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    weights = np.ones(shares.size)
    coefficients = _solve(columns, shares, weights)
    for _ in range(_ROUNDS):
        residuals = np.abs(shares - columns @ coefficients)
        scale = _HUBER * _MAD_TO_DEVIATION * float(np.median(residuals))
        if scale <= 0:
            break
        weights = np.minimum(1.0, scale / np.maximum(residuals, 1e-12))
        coefficients = _solve(columns, shares, weights)
    return coefficients, weights
