"""How long a batch takes, as a function of the rows it reads and the rows it keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.estimate.batch_cost import TOLD_APART
from penstock.estimate.batch_costs import BatchCosts, CostBeliefs
from penstock.estimate.bisection import largest_that_holds
from penstock.estimate.cost_hypotheses import CostHypotheses, HypothesesState
from penstock.model.evolve import evolve

_PRIOR_OVERHEAD_STD_S = 2.0
"""Spark's own steps take a tenth of a second to two: how far off a guess of none may be before the first batch."""
_PRIOR_ROW_STD_S = 1e-2
"""Rows of a hundredth of a second each are the most expensive that a first guess allows for."""
READ_PART = 0.1
"""What reading a dropped row is taken to cost where nobody has learned it, in parts of a kept one.

An order of magnitude less, until the first batch that drops rows tells.
"""
_FIRST_NOISE = 0.10
_MIN_NOISE, _MAX_NOISE = 0.03, 0.5
"""How far batches are from what is predicted of them, as a part of that: at first as on an engine with nothing beside
it, never less than its clocks and collections make it, and never so much that no length would be in time."""
_NOISE_BATCHES = 10.0
"""Batches over which deviations are averaged: of ten, a standard deviation is known to a quarter."""
HEEDED = 3.0
"""Deviations, of scatter and of what is not known, that count of a batch: more is an accident or a jump, one of 400."""
_MIN_ROW_S = 1e-9
"""No row costs less than a nanosecond: a cost of nothing would mean that any size fits."""
_UNKNOWNS = 3
BATCHES_TO_KNOW = 2 * _UNKNOWNS
"""Overhead, read cost and work cost are three unknowns; twice as many batches tell them from noise."""
_REMEMBERED_BATCHES = 32
"""Batches of which it is remembered how far off they were: one of so many, late, is as much as may be late at all."""
_FEWEST_OVERRUNS = 8
"""Of fewer batches a single one that took too long would be more than an eighth."""
_RECALLED_BATCHES = 4
"""Batches that what an earlier run taught counts as: two more of this one, and it counts as known."""
_LEAST_RECALLED_S = 0.01
"""No batch of Spark's has less overhead; one that was learned from others' figures may."""
_RESCALED_DOUBT = 0.5
"""Twice the cores may make rows cost half, or, where something else holds them up, seven tenths: half of the change, as
a logarithm, is open."""
_RULED_OUT = 1e-4
"""Readings that are so many times less likely than the likeliest one change no decision: ten thousand would have to
agree, and there are four thousand."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How much the truth moves from one batch to the next, as parts of itself.

    ``speed`` is the machine's, which makes all parts of a batch longer or shorter together; ``cost`` that of each part
    by itself.
    """

    speed: float = 0.03
    cost: float = 0.02


class Overrun(NamedTuple):
    """A batch over what was predicted of it, and how long it took."""

    factor: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class BatchTimeState:
    """Snapshot of a :class:`BatchTimeModel`.

    ``deviation_variance`` is of batches from what was predicted, as parts of a batch. ``overruns`` are the newest
    batches over what was predicted of them.
    """

    costs: HypothesesState
    batches: int = 0
    deviation_variance: float = _FIRST_NOISE**2
    overruns: tuple[Overrun, ...] = ()


class BatchTimeModel:
    r"""Batch time as fixed overhead, plus a cost for each kept row, plus a smaller one for each row that is dropped.

    .. math:: d = o + t\,k + a\,(n - k)

    for :math:`n` rows read of which :math:`k` are kept: reading a row costs :math:`a`, and keeping it :math:`c = t - a`
    more. Every division of the time between the three is a hypothesis with a speed of the machine and a weight of its
    own (:class:`~penstock.estimate.cost_hypotheses.CostHypotheses`). So a neighbour on the machine, a slow recovery and
    code that warms up are one movement of the speed, followed within a batch or two, while what tells overhead from
    cost is kept. Batches of one size leave that open: overhead and cost are then uncertain each, and certain together.

    How much batches scatter, as a part of their length, is one of the things that a hypothesis says. A batch that is
    far too long is an accident or a machine that has become slower, and the next one tells which.

    Parameters
    ----------
    drift
        How much the truth moves between batches.
    state
        Snapshot to go on from.

    Examples
    --------
    >>> model = BatchTimeModel()
    >>> for rows in (1_000, 4_000, 16_000, 64_000):
    ...     model.update(rows, rows, 0.2 + rows * 20e-6)
    >>> round(model.overhead_s, 2), round(model.cost_per_kept_row_s(1.0) * 1e6)
    (0.2, 20)
    >>> round(model.kept_rows_within(2.5, 1.0), -3)
    115000.0
    """

    def __init__(self, drift: Drift | None = None, state: BatchTimeState | None = None) -> None:
        self._drift = drift or Drift()
        self._hypotheses = CostHypotheses(state.costs if state else None)
        self._state = state or BatchTimeState(self._hypotheses.snapshot())

    @classmethod
    def recalled(cls, *, overhead_s: float, read_cost_s: float, work_cost_s: float, doubt: float) -> BatchTimeState:
        """The state of a model that knows the costs of an earlier time, each to within a part of it.

        Examples
        --------
        >>> state = BatchTimeModel.recalled(overhead_s=0.2, read_cost_s=1e-6, work_cost_s=9e-6, doubt=0.25)
        >>> model = BatchTimeModel(state=state)
        >>> round(model.predict_s(100_000, 100_000), 1), model.is_certain(100_000, 1.0, within=0.15)
        (1.2, False)
        >>> for _ in range(3):
        ...     model.update(100_000, 100_000, 1.2)
        >>> model.is_certain(100_000, 1.0, within=0.15)
        True
        """
        costs = max(overhead_s, _LEAST_RECALLED_S), max(read_cost_s + work_cost_s, _MIN_ROW_S), read_cost_s
        return BatchTimeState(CostHypotheses.recalled(costs, doubt=doubt), _RECALLED_BATCHES)

    @property
    def batches(self) -> int:
        """How many batches were learned from; what was recalled counts as a few."""
        return self._state.batches

    @property
    def relative_noise(self) -> float:
        """Standard deviation of batches of one size, as a part of their length."""
        return self._hypotheses.scatter

    @property
    def relative_deviation(self) -> float:
        """Standard deviation of batches from what was predicted of them, as a part of that."""
        return math.sqrt(self._state.deviation_variance)

    @property
    def overruns(self) -> tuple[Overrun, ...]:
        """How many times as long as predicted each of the newest batches took; none until there are enough of them.

        Unlike scatter this has jumps of the machine's speed in it. A jump tells nothing of the batches after it, but
        the one that meets it is late, and a machine that jumps again and again is not a steady one.
        """
        return self._state.overruns if len(self._state.overruns) >= _FEWEST_OVERRUNS else ()

    @property
    def overhead_s(self) -> float:
        """Seconds that a batch takes whatever its size."""
        return self._mean[0]

    @property
    def row_error_s(self) -> float:
        """How far off the cost of a kept row may be."""
        return self.uncertainty_s(1.0, 1.0, of_overhead=False)

    @property
    def is_told_apart(self) -> bool:
        """Whether it is known what a row costs beside what a batch does: batches of one size do not tell."""
        return self.row_error_s <= TOLD_APART * self._mean[1]

    @property
    def read_cost_s(self) -> float:
        """Seconds that each row read adds, kept or not."""
        return self._mean[2]

    @property
    def work_cost_s(self) -> float:
        """Seconds that each kept row adds to that; never nothing, or a batch of any size would fit."""
        return max(self._mean[1] - self._mean[2], _MIN_ROW_S)

    def cost_per_kept_row_s(self, ratio: float) -> float:
        """Seconds that each kept row adds, with the reading of those that are dropped for it."""
        return self.read_cost_s / ratio + self.work_cost_s

    def predict_s(self, read_rows: float, kept_rows: float) -> float:
        """Expected duration of a batch."""
        return self.overhead_s + self.read_cost_s * read_rows + self.work_cost_s * kept_rows

    def uncertainty_s(self, read_rows: float, kept_rows: float, *, of_overhead: bool = True) -> float:
        """How far off that may be because costs are not known better, scatter not counted."""
        fixed, dropped_rows = float(of_overhead), read_rows - kept_rows
        if self._hypotheses.is_blank:
            return math.hypot(fixed * _PRIOR_OVERHEAD_STD_S, kept_rows * _PRIOR_ROW_STD_S)
        (o_o, o_t, o_a), (_, t_t, t_a), (_, _, a_a) = self._hypotheses.covariance
        variance = fixed * (o_o + 2.0 * (o_t * kept_rows + o_a * dropped_rows))
        variance += t_t * kept_rows**2 + 2.0 * t_a * kept_rows * dropped_rows + a_a * dropped_rows**2
        return math.sqrt(max(0.0, variance))

    @property
    def costs(self) -> BatchCosts:
        """What batches cost, by all that is known."""
        return BatchCosts(self.overhead_s, self.read_cost_s, self.work_cost_s)

    @property
    def beliefs(self) -> CostBeliefs:
        """All that batches may cost, by what was seen of them."""
        more = math.exp(self.relative_noise**2 / 2.0)
        weights, overheads, rows, reads = self._hypotheses.likely(_RULED_OUT)
        return CostBeliefs(weights, more * overheads, more * reads, more * np.maximum(rows - reads, _MIN_ROW_S))

    def kept_rows_within(self, duration_s: float, ratio: float) -> float:
        """Kept rows of a batch that takes so long at a ratio; 0 where the overhead alone takes longer."""
        return max(0.0, duration_s - self.overhead_s) / self.cost_per_kept_row_s(ratio)

    def keep_ratio_within(self, duration_s: float, read_rows: float) -> float:
        """Ratio of so many rows that can be kept if they are to take so long; 0 where reading alone takes longer."""
        left_s = duration_s - self.overhead_s - self.read_cost_s * read_rows
        return max(0.0, left_s) / (self.work_cost_s * read_rows)

    def surely_within(self, duration_s: float, ratio: float, *, at_most_rows: float, deviations: float) -> float:
        """Kept rows of a batch that takes no longer than that even if costs are off by so many deviations."""

        def is_within(kept_rows: float) -> bool:
            read_rows = kept_rows / ratio
            worst_s = self.predict_s(read_rows, kept_rows) + deviations * self.uncertainty_s(read_rows, kept_rows)
            return worst_s <= duration_s

        return largest_that_holds(is_within, 0.0, at_most_rows)

    def is_certain(self, kept_rows: float, ratio: float, *, within: float) -> bool:
        """Whether the duration of a batch is known to within that part of it."""
        read_rows = kept_rows / ratio
        return self.uncertainty_s(read_rows, kept_rows) <= within * self.predict_s(read_rows, kept_rows)

    def update(self, read_rows: int, kept_rows: int, duration_s: float) -> None:
        """Learn from a finished batch; batches without rows tell nothing of the cost of rows."""
        if kept_rows <= 0 or duration_s <= 0:
            return
        if self._hypotheses.is_blank:
            self._hypotheses.observe(read_rows, kept_rows, duration_s)
            self._state = evolve(self._state, costs=self._hypotheses.snapshot(), batches=1)
            return
        self._hypotheses.move(self._drift.speed, self._drift.cost)
        error, unknown = self._hypotheses.surprise(read_rows, kept_rows, duration_s)
        self._hypotheses.observe(read_rows, kept_rows, duration_s)
        self._state = evolve(
            self._state,
            costs=self._hypotheses.snapshot(),
            overruns=self._overruns_with(Overrun(math.exp(error), duration_s), math.sqrt(unknown)),
            batches=self._state.batches + 1,
            deviation_variance=self._deviations_with(error, unknown),
        )

    def rescale(self, factor: float) -> None:
        """Rows cost so many times as much from now on, for the engine has more or fewer cores; overhead stays.

        What was learned of the parts stays, and what was not: it is no better known than before. The change itself may
        be off by half, for cores do not always add up.

        Examples
        --------
        >>> model = BatchTimeModel()
        >>> for rows in (1_000, 4_000, 16_000, 64_000):
        ...     model.update(rows, rows, 0.2 + rows * 20e-6)
        >>> model.rescale(0.5)
        >>> round(model.predict_s(100_000, 100_000), 1)
        1.2
        """
        if not self._state.batches:
            return
        self._hypotheses.rescale_rows(factor, doubt=_RESCALED_DOUBT * abs(math.log(factor)))
        self._state = evolve(self._state, costs=self._hypotheses.snapshot())

    def snapshot(self) -> BatchTimeState:
        """The whole state, to build an equal model from."""
        return self._state

    @property
    def _mean(self) -> tuple[float, float, float]:
        """Costs on average: logarithms that scatter evenly are batches of which the long ones count for more."""
        if self._hypotheses.is_blank:
            return 0.0, 0.0, 0.0
        more = math.exp(self.relative_noise**2 / 2.0)
        overhead_s, row_s, read_s = self._hypotheses.mean
        return more * overhead_s, more * row_s, more * read_s

    def _deviations_with(self, deviation: float, unknown: float) -> float:
        """How far batches are from what was predicted of them, with one more."""
        deviations = self._state.deviation_variance
        heeded = min(deviation**2, HEEDED**2 * (self._hypotheses.scatter**2 + unknown))
        return _bounded(deviations + (heeded - deviations) / _NOISE_BATCHES)

    def _overruns_with(self, overrun: Overrun, unknown: float) -> tuple[Overrun, ...]:
        """How many times as long as predicted the newest batches took, with one more if its size was known."""
        if self._state.batches < BATCHES_TO_KNOW or unknown > self.relative_deviation:
            return self._state.overruns
        return (*self._state.overruns, overrun)[-_REMEMBERED_BATCHES:]


def _bounded(variance: float) -> float:
    return min(max(variance, _MIN_NOISE**2), _MAX_NOISE**2)
