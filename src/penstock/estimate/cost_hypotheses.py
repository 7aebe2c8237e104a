"""What batches may cost: every way to divide their time between overhead, reading and keeping, with its weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROW_DECADES = (-10, 2)
"""A kept row costs between a ten-thousand-millionth and a hundred times what a batch costs whatever its size."""
_PER_DECADE = 8
"""Neighbours differ by a third: at the sizes that are seen they are told apart by less than batches scatter."""
_READ_PARTS = 10
"""What reading may be of a row's cost: a hundredth, a twentieth, a ninth, and on in wider steps to all of it. Twice as
many are twice the work, and cuts tell reading to a tenth at best."""
_SCATTERS = (0.04, 0.08, 0.16, 0.32)
"""Standard deviations of batches from each other that can be, as parts of their length: of a quiet engine to one of
which every third batch is off by a third."""
_ONLY_READ = 0.15
"""One query in seven does next to nothing but read: there, dropping rows saves nothing.

With one in twenty, queries that only read, with two fifths of the goal in overhead, have 0.82 to 1.0 of plain Spark's
rows in time (three simulated runs); with one in seven 0.96 to 1.0 (eight). Steps of load differ by less than seeds.
"""
_ACCIDENT_RATIO, _ACCIDENT = 0.025, math.log(3.0)
"""One batch in forty meets something that makes it alone longer, up to three times as long in two of three cases."""
_JUMP_RATIO, _JUMP = 0.03, math.log(1.9)
"""In about as many the machine is another one from then on: a neighbour takes one of two cores, or gives it back.

With 0.03 to 0.06 for the one and 0.02 to 0.03 for the other, and jumps of 1.7 to 2 times, simulated loops differ by no
more than seeds do (ADR 31).
"""
_ANEW = 1e-5
"""One batch in a hundred thousand has rows of another kind than those before: what was ruled out may be true then.

With a thousandth, batches of one size, which rule nothing out, would have all that is known forgotten within minutes.
"""
_CLOCK_S = 0.02
"""Scatter of a batch that has nothing to do with its size: the grain of Spark's own steps."""
_WIDEST_STEP = 0.25
"""The most that moves to either neighbour at once, so that what moves farther spreads like a bell: half is left in its
place. From a half on nothing would be, and weights would swing between even and odd places."""
_TINY = 1e-300
"""So that a batch that no hypothesis foretold leaves none without a weight."""

Costs = tuple[float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class HypothesesState:
    """Weights and speeds, and how far off the speeds may be; none of the arrays is ever changed."""

    log_row_parts: NDArray[np.float64]
    weights: NDArray[np.float64]
    log_overheads: NDArray[np.float64]
    variances: NDArray[np.float64]
    batches: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HypothesesState):
            return NotImplemented
        return (
            self.batches == other.batches
            and np.array_equal(self.log_row_parts, other.log_row_parts)
            and np.array_equal(self.weights, other.weights)
            and np.array_equal(self.log_overheads, other.log_overheads)
            and np.array_equal(self.variances, other.variances)
        )

    __hash__ = None  # type: ignore[assignment]


class CostHypotheses:
    r"""A bank of filters, one for each way to divide the time of a batch, weighted by how well each foretells batches.

    A batch that reads :math:`n` rows and keeps :math:`k` of them takes

    .. math:: \ln d = s + \ln\big(1 + x\,(k + \alpha\,(n - k))\big) + \varepsilon

    with :math:`e^s` the overhead on the machine as fast as it is now, :math:`x` what a kept row costs in parts of that,
    and :math:`\alpha` what reading one is of it. The speed :math:`s` moves from batch to batch, by :math:`q`;
    :math:`x` and :math:`\alpha` hardly do, and neither does the scatter :math:`\sigma`. Each triple of these is a
    hypothesis. Given one, :math:`s` is all that is left to learn, and a Kalman filter of one number learns it. It has
    three explanations for the error :math:`r` of each batch, with a variance :math:`S_i` of it by each:

    - *nothing happened*: :math:`S = v + q^2 + \sigma^2`;
    - *the machine is another one* from now on: the speed has jumped, :math:`S = v + q^2 + J^2 + \sigma^2`;
    - *an accident*, of this batch alone and never in its favour: :math:`S = v + q^2 + \sigma^2 + A^2`.

    .. math:: p_i \propto P_i\,S_i^{-1/2} e^{-r^2 / 2 S_i}, \quad
        s \leftarrow s + \sum_i p_i\,g_i\,r, \quad
        v \leftarrow \sum_i p_i \big(g_i\,\sigma_i^2 + (g_i r - \bar{g} r)^2\big), \quad
        w \leftarrow w \sum_i P_i\,S_i^{-1/2} e^{-r^2 / 2 S_i}

    with :math:`g` the gain of each. So a batch that is three times as long leaves the speed open, and the next one
    tells. A first cut that meets a neighbour is explained by both, a cost of reading and a slower machine, until one
    of them has to be wrong.

    Costs are never negative, a kept row never costs less than one that is dropped, and batches of one size leave all
    divisions as likely as they were, however long they go on: each explains them by its own speed. One linear filter
    of the three costs cannot say that. It moves the speed along the costs that it believes in, and so becomes sure of
    them, right or wrong. And who learns the scatter by itself, from batches that were as expected, takes a large one
    for a machine that jumps all the time, and follows each batch.

    Until rows are dropped nothing tells :math:`\alpha`; it is most likely to be small then, a quarter on average.

    References
    ----------
    Magill, "Optimal adaptive estimation of sampled stochastic processes", 1965, for the bank of filters; Bar-Shalom, Li
    and Kirubarajan, *Estimation with Applications to Tracking and Navigation*, 2001, section 11.6, for what becomes of
    several explanations in one filter.

    Examples
    --------
    Two sizes tell overhead from rows, one does not:

    >>> one, two = CostHypotheses(), CostHypotheses()
    >>> for rows in (10_000, 40_000) * 4:
    ...     _ = one.observe(20_000, 20_000, 0.6)
    ...     _ = two.observe(rows, rows, 0.2 + rows * 20e-6)
    >>> [round(hypotheses.mean[0], 2) for hypotheses in (one, two)]
    [0.29, 0.2]
    >>> weights, overheads_s, rows_s, _ = one.likely(1e-4)
    >>> round(float(weights @ (overheads_s + 20_000 * rows_s)), 1), bool(rows_s.min() < 0.01 * rows_s.max())
    (0.6, True)
    """

    def __init__(self, state: HypothesesState | None = None) -> None:
        self._take(state or _before_the_first())

    @classmethod
    def recalled(cls, costs: Costs, *, doubt: float) -> HypothesesState:
        """What an earlier time taught of overhead, a kept row and one that is read, each to within a part of it."""
        overhead_s, row_s, read_s = costs
        blank = _before_the_first()
        balance = math.log(row_s / overhead_s)
        likely = np.exp(-0.5 * ((blank.log_row_parts - balance) / (math.sqrt(2.0) * doubt)) ** 2)
        part_likely = np.exp(-0.5 * ((_read_parts() - read_s / row_s) / (doubt * max(read_s / row_s, _ANEW))) ** 2)
        # Overhead and rows are equal in a batch of o / t rows, and what that takes is what is known best.
        log_overheads = math.log(2.0 * overhead_s) - np.logaddexp(0.0, blank.log_row_parts - balance)
        return HypothesesState(
            blank.log_row_parts,
            _normalised(np.outer(likely, part_likely) + _ANEW * blank.weights / blank.weights.size),
            np.repeat(log_overheads[:, None], blank.weights.shape[1], axis=1),
            np.full(blank.weights.shape, doubt**2),
            batches=1,
        )

    @property
    def is_blank(self) -> bool:
        """Whether no batch was seen yet."""
        return self._state.batches == 0

    def snapshot(self) -> HypothesesState:
        """The whole state, to build equal ones from."""
        return self._state

    @cached_property
    def mean(self) -> Costs:
        """Overhead, cost of a kept row and cost of one that is read and dropped, all hypotheses together."""
        overhead_s, row_s, read_s = (float(np.vdot(self._state.weights, cost)) for cost in self._costs)
        return overhead_s, row_s, read_s

    @cached_property
    def covariance(self) -> list[list[float]]:
        """How the three are uncertain, each and together; the speed adds its part to all of them."""
        costs = np.stack([cost.ravel() for cost in self._costs])
        apart = costs - np.array(self.mean)[:, None]
        weights = self._state.weights.ravel()
        speed = (costs * weights * self._state.variances.ravel()) @ costs.T
        found: list[list[float]] = ((apart * weights) @ apart.T + speed).tolist()
        return found

    def likely(self, least: float) -> tuple[NDArray[np.float64], ...]:
        """Weights and the three costs of those that are not all but ruled out, in vectors."""
        weights = self._state.weights.ravel()
        kept = weights > least * weights.max()
        weights = weights[kept]
        return weights / weights.sum(), *(cost.ravel()[kept] for cost in self._costs)

    def move(self, speed: float, cost: float) -> None:
        """Let the truth have moved since the last batch: the speed by a part of it, and each cost by itself."""
        state = self._state
        weights = _spread(state.weights, cost, state.log_row_parts)
        weights = (1.0 - _ANEW) * weights + _ANEW * _before_the_first().weights
        self._take(evolve(state, weights=weights, variances=state.variances + speed**2))

    def surprise(self, read_rows: float, kept_rows: float, duration_s: float) -> tuple[float, float]:
        """How far a batch is from what is expected of it, in logarithms, and the variance of what is not known."""
        weights, errors = self._state.weights, self._errors(read_rows, kept_rows, duration_s)
        mean = float(np.vdot(weights, errors))
        return mean, float(np.vdot(weights, (errors - mean) ** 2 + self._state.variances))

    @cached_property
    def scatter(self) -> float:
        """How much batches scatter, as a part of their length."""
        return float(np.exp(np.vdot(self._state.weights.sum(axis=0), np.log(_scatters()))))

    def observe(self, read_rows: float, kept_rows: float, duration_s: float) -> None:
        """Learn from a batch."""
        state = self._state
        errors = self._errors(read_rows, kept_rows, duration_s)
        own = _scatters() ** 2 + (_CLOCK_S / duration_s) ** 2
        if self.is_blank:
            # All of it tells the speed by each hypothesis, and nothing of which one is right.
            variances = np.broadcast_to(own, errors.shape)
            self._take(evolve(state, log_overheads=errors, variances=variances, batches=1))
            return
        # What happened, by each hypothesis: nothing, the machine is another one, or this batch alone met an accident.
        moved = np.stack([state.variances, state.variances + _JUMP**2, state.variances])
        noise = np.stack([own, own, own + _ACCIDENT**2])[:, None, :]
        spread = moved + noise
        chances = np.array([1.0 - _JUMP_RATIO - _ACCIDENT_RATIO, _JUMP_RATIO, 2.0 * _ACCIDENT_RATIO])[:, None, None]
        likely = chances * np.exp(-0.5 * errors**2 / spread) / np.sqrt(spread)
        likely[2] *= errors > 0.0  # an accident makes no batch shorter
        all_likely = likely.sum(axis=0)
        likely /= np.maximum(all_likely, _TINY)
        gains = moved / spread
        steps = gains * errors
        step = (likely * steps).sum(axis=0)
        variances = (likely * (gains * noise + (steps - step) ** 2)).sum(axis=0)
        weights = _normalised(state.weights * all_likely + _TINY)
        log_overheads, batches = state.log_overheads + step, state.batches + 1
        self._take(evolve(state, weights=weights, log_overheads=log_overheads, variances=variances, batches=batches))

    def rescale_rows(self, factor: float, *, doubt: float) -> None:
        """Rows cost so many times as much from now on, to within a part of that; overhead stays."""
        state = self._state
        log_row_parts = state.log_row_parts + math.log(factor)
        weights = _spread(state.weights, doubt, log_row_parts)
        self._take(evolve(state, log_row_parts=log_row_parts, weights=weights))

    def _errors(self, read_rows: float, kept_rows: float, duration_s: float) -> NDArray[np.float64]:
        rows = kept_rows + _read_parts() * (read_rows - kept_rows)
        expected = np.log1p(np.exp(self._state.log_row_parts)[:, None] * rows)
        found: NDArray[np.float64] = math.log(duration_s) - expected - self._state.log_overheads
        return found

    def _take(self, state: HypothesesState) -> None:
        self._state = state
        for name in ("mean", "covariance", "scatter", "_costs"):
            self.__dict__.pop(name, None)

    @cached_property
    def _costs(self) -> tuple[NDArray[np.float64], ...]:
        overheads = np.exp(self._state.log_overheads)
        rows = overheads * np.exp(self._state.log_row_parts)[:, None]
        return overheads, rows, rows * _read_parts()


@cache
def _read_parts() -> NDArray[np.float64]:
    """What reading may be of a row's cost: from nothing to all, closer together where it is little."""
    parts: NDArray[np.float64] = np.tile(np.linspace(0.0, 1.0, _READ_PARTS) ** 2, len(_SCATTERS))
    return parts


@cache
def _scatters() -> NDArray[np.float64]:
    """How much batches may scatter, as a part of their length."""
    scatters: NDArray[np.float64] = np.repeat(np.array(_SCATTERS), _READ_PARTS)
    return scatters


@cache
def _before_the_first() -> HypothesesState:
    r"""All that can be, by weight: any row part alike; of read parts what Beta(1/2, 5/2) says, and some that are all.

    With the square root of :math:`\alpha` evenly spaced, :math:`(1 - \alpha)^{3 / 2}` is left of that density.
    """
    low, high = _ROW_DECADES
    log_row_parts = np.linspace(low, high, (high - low) * _PER_DECADE + 1) * math.log(10.0)
    likely = (1.0 - _read_parts()) ** 1.5
    likely[_read_parts() == 1.0] = _ONLY_READ * likely.sum() / len(_SCATTERS)
    weights = np.repeat(likely[None, :], log_row_parts.size, axis=0)
    return HypothesesState(log_row_parts, _normalised(weights), np.zeros_like(weights), np.zeros_like(weights))


def _normalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = weights / weights.sum()
    return found


def _spread(weights: NDArray[np.float64], deviation: float, log_row_parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Let what a row costs have moved by a deviation in logarithms: its variance goes to the neighbours, half each."""
    steps = (deviation / (log_row_parts[1] - log_row_parts[0])) ** 2 / 2.0
    times = max(1, math.ceil(steps / _WIDEST_STEP))
    for _ in range(times):
        padded = np.pad(weights, ((1, 1), (0, 0)), mode="edge")
        weights = weights + steps / times * (padded[:-2] + padded[2:] - 2.0 * weights)
    return weights
