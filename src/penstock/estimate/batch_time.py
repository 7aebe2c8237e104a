"""How long a batch takes, as a function of the rows it reads and the rows it keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.estimate.batch_cost import TOLD_APART
from penstock.estimate.batch_costs import BatchCosts
from penstock.estimate.bisection import largest_that_holds
from penstock.estimate.rls import RecursiveLeastSquares, RlsState
from penstock.model.evolve import evolve

_PRIOR_OVERHEAD_STD_S = 2.0
_PRIOR_ROW_STD_S = 1e-2
"""Rows of a hundredth of a second each are the most expensive that a first guess allows for."""
READ_PART, _READ_PART_STD = 0.1, 0.5
"""What reading a dropped row costs, in parts of a kept one, until batches tell: little, but it may be all of it.

Were a tenth all but certain, batches that drop rows and are no shorter for it would pass for a machine that has become
slower; rows would seem dearer, and ever more of them would be dropped for nothing.
"""
_FIRST_NOISE = 0.10
_MIN_NOISE, _MAX_NOISE = 0.03, 0.5
_NOISE_BATCHES = 10.0
"""Batches over which deviations are averaged."""
_CLOCK_S = 0.02
"""Scatter of a batch that has nothing to do with its size: the grain of Spark's own steps."""
_PLAUSIBLE = 3.0
"""Deviations, of scatter and of what is not known together, beyond which a batch time is cut: one of 400 by chance."""
_MIN_ROW_S = 1e-9
"""No row costs less than a nanosecond: a cost of nothing would mean that any size fits."""
_SMALL_PART = 0.1
"""A part that seems to be less than this of a batch moves as if it were: what is nothing today may be something soon.

Parts that move in proportion to themselves would stay nothing for ever.
"""
_UNKNOWNS = 3
BATCHES_TO_KNOW = 2 * _UNKNOWNS
"""Overhead, read cost and work cost are three unknowns; twice as many batches tell them from noise."""
_REMEMBERED_BATCHES = 32
"""Batches of which it is remembered how far off they were: one of so many, late, is as much as may be late at all."""
_FEWEST_OVERRUNS = 8
"""Of fewer batches a single one that took too long would be more than an eighth."""
_CUTS_THAT_PROVE = 2
"""Batches that dropped rows and were long for it before reading is believed to be what makes batches long: an accident
in three batches of a hundred makes both long in one pair of a thousand."""
_RECALLED_BATCHES = 4
_RESCALED_DOUBT = 0.5


@dataclass(frozen=True, slots=True)
class Drift:
    """How much the truth moves from one batch to the next, as parts of itself.

    ``speed`` is the machine's, which makes all parts of a batch longer or shorter together; ``cost`` that of each part
    by itself.
    """

    speed: float = 0.08
    cost: float = 0.02


@dataclass(frozen=True, slots=True)
class BatchTimeState:
    """Snapshot of a :class:`BatchTimeModel`.

    ``deviation_variance`` is of batches from what was predicted, ``scatter_variance`` of batches themselves, both as
    parts of a batch. ``overruns`` are the newest batches over what was predicted of them. ``told_read_costs_s`` is what
    reading would cost by each of the newest batches that dropped rows, were all else as it was believed then.
    """

    filter: RlsState
    batches: int = 0
    deviation_variance: float = _FIRST_NOISE**2
    scatter_variance: float = _FIRST_NOISE**2
    has_dropped: bool = False
    was_too_long: bool = False
    overruns: tuple[float, ...] = ()
    told_read_costs_s: tuple[float, ...] = ()


class BatchTimeModel:
    r"""Batch time as fixed overhead, plus a cost for each kept row, plus a smaller one for each row that is dropped.

    .. math:: d = o + t\,k + a\,(n - k)

    for :math:`n` rows read of which :math:`k` are kept: reading a row costs :math:`a`, and keeping it :math:`c = t - a`
    more. The three parts are the state of a Kalman filter. From batch to batch they move together, because the machine
    gets slower or faster, and a little each by itself:

    .. math:: P \leftarrow P + q_s^2\,\theta \theta^T + q_c^2\,\mathrm{diag}(\theta^2)

    So a neighbour on the machine, a slow recovery and code that warms up are one movement of the speed, followed within
    a batch or two, while what tells overhead from cost is kept. Batches of one size leave that open, and the covariance
    says so: overhead and cost are then uncertain each, and certain together. The scatter of a batch is a part of its
    length, learned from how far off the predictions were. A single batch that is longer than that by more than three
    deviations counts for three at the most; a second one, or one that is shorter by so much, shows that the speed has
    jumped.

    Until rows are dropped nothing tells what dropping saves: reading is then taken for a tenth of a row's cost, and
    believed to be anything between nothing and all of it.

    Parameters
    ----------
    drift
        How much the truth moves between batches.
    state
        Snapshot to go on from.

    References
    ----------
    Kalman, "A new approach to linear filtering and prediction problems", 1960.

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
        self._filter = RecursiveLeastSquares(
            prior=(0.0, 0.0, 0.0),
            prior_variance=(_PRIOR_OVERHEAD_STD_S**2, _PRIOR_ROW_STD_S**2, (_READ_PART_STD * _PRIOR_ROW_STD_S) ** 2),
            state=state.filter if state else None,
        )
        self._state = state or BatchTimeState(self._filter.snapshot())

    @classmethod
    def recalled(cls, *, overhead_s: float, read_cost_s: float, work_cost_s: float, doubt: float) -> BatchTimeState:
        """The state of a model that knows the costs of an earlier time, each to within a part of it.

        Examples
        --------
        >>> state = BatchTimeModel.recalled(overhead_s=0.2, read_cost_s=1e-6, work_cost_s=9e-6, doubt=0.25)
        >>> model = BatchTimeModel(state=state)
        >>> round(model.predict_s(100_000, 100_000), 2), model.is_certain(100_000, 1.0, within=0.15)
        (1.2, False)
        >>> for _ in range(3):
        ...     model.update(100_000, 100_000, 1.2)
        >>> model.is_certain(100_000, 1.0, within=0.15)
        True
        """
        row_s = read_cost_s + work_cost_s
        theta = (overhead_s, row_s, read_cost_s)
        floors = (0.01, 0.02 * row_s, 0.02 * row_s)
        variance = tuple((doubt * max(value, floor)) ** 2 for value, floor in zip(theta, floors, strict=True))
        known = RecursiveLeastSquares(prior=theta, prior_variance=variance)
        # What reading costs was learned then: it must be neither assumed nor proven anew.
        told_s = (read_cost_s,) * _CUTS_THAT_PROVE
        return BatchTimeState(known.snapshot(), _RECALLED_BATCHES, has_dropped=True, told_read_costs_s=told_s)

    @property
    def batches(self) -> int:
        """How many batches were learned from; what was recalled counts as a few."""
        return self._state.batches

    @property
    def relative_noise(self) -> float:
        """Standard deviation of batches of one size, as a part of their length."""
        return math.sqrt(self._state.scatter_variance)

    @property
    def relative_deviation(self) -> float:
        """Standard deviation of batches from what was predicted of them, as a part of that."""
        return math.sqrt(self._state.deviation_variance)

    @property
    def overruns(self) -> tuple[float, ...]:
        """How many times as long as predicted each of the newest batches took; none until there are enough of them.

        Unlike scatter this has jumps of the machine's speed in it. A jump tells nothing of the batches after it, but
        the one that meets it is late, and a machine that jumps again and again is not a steady one.
        """
        return self._state.overruns if len(self._state.overruns) >= _FEWEST_OVERRUNS else ()

    @property
    def overhead_s(self) -> float:
        """Seconds that a batch takes whatever its size."""
        return self._filter.theta[0]

    @property
    def row_error_s(self) -> float:
        """How far off the cost of a kept row may be."""
        return self._filter.standard_errors()[1]

    @property
    def proven_read_cost_s(self) -> float:
        """What reading a row costs at least: what each of the last cuts has told, or a tenth of a row until then.

        A batch that takes longer than expected passes for a cost of reading while little is known of that. One may have
        met an accident, or a machine that had just become slower; two of them hardly have.
        """
        told_s = self._state.told_read_costs_s
        if len(told_s) < _CUTS_THAT_PROVE:
            return min(self.read_cost_s, READ_PART * self._filter.theta[1])
        return min(self.read_cost_s, *told_s)

    @property
    def is_told_apart(self) -> bool:
        """Whether it is known what a row costs beside what a batch does: batches of one size do not tell."""
        return self.row_error_s <= TOLD_APART * self._filter.theta[1]

    @property
    def read_cost_s(self) -> float:
        """Seconds that each row read adds, kept or not."""
        return min(self._filter.theta[2], self._filter.theta[1])

    @property
    def work_cost_s(self) -> float:
        """Seconds that each kept row adds to that; never nothing, or a batch of any size would fit."""
        return max(self._filter.theta[1] - self._filter.theta[2], _MIN_ROW_S)

    def cost_per_kept_row_s(self, ratio: float) -> float:
        """Seconds that each kept row adds, with the reading of those that are dropped for it."""
        return self.read_cost_s / ratio + self.work_cost_s

    def predict_s(self, read_rows: float, kept_rows: float) -> float:
        """Expected duration of a batch."""
        return self.overhead_s + self.read_cost_s * read_rows + self.work_cost_s * kept_rows

    def uncertainty_s(self, read_rows: float, kept_rows: float) -> float:
        """How far off that may be because costs are not known better, scatter not counted."""
        return self._filter.prediction_std(_regressor(read_rows, kept_rows))

    @property
    def costs(self) -> BatchCosts:
        """What batches cost, by all that is known."""
        return BatchCosts(self.overhead_s, self.read_cost_s, self.work_cost_s)

    def costs_if(self, errors: float) -> BatchCosts:
        """What batches cost if rows cost so many errors more than is believed, or less.

        Batches of about one size leave open how much of their time is overhead: what rows do not cost is overhead then,
        and batches of the size that was seen take what they took.

        Examples
        --------
        >>> model = BatchTimeModel()
        >>> for _ in range(9):
        ...     model.update(10_000, 10_000, 1.0)
        >>> less = model.costs_if(-1.0)
        >>> less.overhead_s > model.overhead_s, round(less.predict_s(10_000, 10_000), 2)
        (True, 1.0)
        """
        row_s = max(_MIN_ROW_S, self._filter.theta[1] + errors * self.row_error_s)
        overhead_s, _, read_s = self._filter.given(1, row_s)
        overhead_s = max(self.overhead_s if errors < 0.0 else 0.0, overhead_s)
        read_s = min(row_s - _MIN_ROW_S, max(0.0, min(self.read_cost_s, read_s)))
        return BatchCosts(overhead_s, read_s, row_s - read_s)

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
        regressor = _regressor(read_rows, kept_rows)
        has_dropped = self._state.has_dropped or kept_rows < read_rows
        if self._state.batches:
            self._move(self._sizes(regressor))
        predicted_s = self.predict_s(read_rows, kept_rows)
        level_s = predicted_s if self._state.batches else duration_s
        unknown_s = self._filter.prediction_std(regressor)
        scatter = self._state.scatter_variance * level_s**2 + _CLOCK_S**2
        told_read_costs_s = self._told_read_costs_with(read_rows, kept_rows, duration_s, math.sqrt(scatter))
        error_s = duration_s - predicted_s
        plausible_s = _PLAUSIBLE * math.hypot(unknown_s, math.sqrt(scatter))
        # The first ones can be anything.
        is_implausible = self._state.batches >= _UNKNOWNS and abs(error_s) > plausible_s
        # An accident makes a batch longer, never shorter: one that is too short is believed at once.
        has_jumped = is_implausible and (error_s < 0.0 or self._state.was_too_long)
        is_too_long = is_implausible and not has_jumped
        observed_s = duration_s
        if has_jumped:
            self._filter.spread(self._sizes(regressor), abs(error_s) / predicted_s)
        elif is_too_long:
            # One that takes a little longer than can be may be a neighbour's doing, and is heeded as far as it can be.
            # One that takes several times as long is an accident: the longer, the less it counts. Were it a change, the
            # next batch will say so.
            observed_s = predicted_s + min(1.0, predicted_s / error_s) * plausible_s
        self._filter.update(regressor, observed_s, noise_variance=scatter, forgetting=1.0)
        self._filter.hold_above((0.0, _MIN_ROW_S, 0.0), ordered=(1, 2))
        if not has_dropped:
            self._assume_read_part()
        self._state = evolve(
            self._state,
            filter=self._filter.snapshot(),
            overruns=self._overruns_with(duration_s / max(predicted_s, _CLOCK_S), unknown_s / level_s),
            batches=self._state.batches + 1,
            told_read_costs_s=told_read_costs_s,
            has_dropped=has_dropped,
            was_too_long=is_too_long,
            # A jump is no scatter: batches around the new speed are as regular as those before.
            **({} if has_jumped else self._deviations_with((observed_s - predicted_s) / level_s, unknown_s / level_s)),
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
        overhead_s, *costs_s = self._filter.theta
        self._filter.scale((1.0, max(1.0, factor), max(1.0, factor)))
        self._filter.place((overhead_s, *(factor * cost_s for cost_s in costs_s)))
        for part, cost_s in enumerate(costs_s, start=1):
            self._filter.spread(_along(part, abs(1.0 - factor) * cost_s), _RESCALED_DOUBT)
        told_s = tuple(factor * cost_s for cost_s in self._state.told_read_costs_s)
        self._state = evolve(self._state, filter=self._filter.snapshot(), told_read_costs_s=told_s)

    def snapshot(self) -> BatchTimeState:
        """The whole state, to build an equal model from."""
        return self._state

    def _sizes(self, regressor: tuple[float, ...]) -> tuple[float, ...]:
        """The parts as they move: none that a batch of this size tells of as if it were nothing."""
        theta = self._filter.theta
        level_s = _SMALL_PART * sum(value * rows for value, rows in zip(theta, regressor, strict=True))
        return tuple(
            max(value, level_s / rows) if rows > 0 else value for value, rows in zip(theta, regressor, strict=True)
        )

    def _move(self, sizes: tuple[float, ...]) -> None:
        """Let the truth have moved since the last batch."""
        self._filter.spread(self._filter.theta, self._drift.speed)
        for part, value in enumerate(sizes):
            self._filter.spread(_along(part, value), self._drift.cost)

    def _deviations_with(self, deviation: float, unknown: float) -> dict[str, float]:
        r"""How far batches are from what was predicted of them, and how much of that is their own, with one more.

        A deviation is scatter and what was not known of costs, on average :math:`\delta^2 = \sigma^2 + u^2`. So a batch
        tells :math:`\delta^2 - u^2` of the scatter, and the less the more of it was not known: its weight is
        :math:`(\sigma^2 / (\sigma^2 + u^2))^2`, one over the variance of that. Were what is not known taken off the
        deviations of all batches instead, the batch of which least is known would be believed most.
        """
        if not self._state.batches:
            return {}
        deviations, scatter = self._state.deviation_variance, self._state.scatter_variance
        weight = (scatter / (scatter + unknown**2)) ** 2
        deviations += (deviation**2 - deviations) / _NOISE_BATCHES
        scatter += weight * (deviation**2 - unknown**2 - scatter) / _NOISE_BATCHES
        return {"deviation_variance": _bounded(deviations), "scatter_variance": _bounded(scatter)}

    def _overruns_with(self, overrun: float, unknown: float) -> tuple[float, ...]:
        """How many times as long as predicted the newest batches took, with one more if its size was known."""
        if self._state.batches < BATCHES_TO_KNOW or unknown > self.relative_deviation:
            return self._state.overruns
        return (*self._state.overruns, overrun)[-_REMEMBERED_BATCHES:]

    def _told_read_costs_with(
        self, read_rows: int, kept_rows: int, duration_s: float, scatter_s: float
    ) -> tuple[float, ...]:
        """What each of the newest cuts tells of reading, with one more if it dropped enough to tell."""
        dropped_rows, row_s = read_rows - kept_rows, self._filter.theta[1]
        if not self._state.batches or dropped_rows * row_s <= _PLAUSIBLE * scatter_s:
            return self._state.told_read_costs_s
        read_s = (duration_s - self.overhead_s - row_s * kept_rows) / dropped_rows
        return (*self._state.told_read_costs_s, min(max(read_s, 0.0), row_s))[-_CUTS_THAT_PROVE:]

    def _assume_read_part(self) -> None:
        """Nothing tells reading from keeping yet: noise must not drift into a guess that is believed."""
        overhead_s, row_s, _ = self._filter.theta
        self._filter.place((overhead_s, row_s, READ_PART * row_s))
        # A part of a cost that is not known itself is known no better. By the estimate alone, rows that seem to cost
        # nothing after a lucky batch would have reading cost nothing for sure, and no cut would ever tell otherwise.
        self._filter.reset_part(2, _READ_PART_STD * math.hypot(row_s, self.row_error_s))


def _bounded(variance: float) -> float:
    return min(max(variance, _MIN_NOISE**2), _MAX_NOISE**2)


def _along(part: int, value: float) -> tuple[float, ...]:
    return tuple(value if index == part else 0.0 for index in range(_UNKNOWNS))


def _regressor(read_rows: float, kept_rows: float) -> tuple[float, float, float]:
    return 1.0, float(kept_rows), float(read_rows - kept_rows)
