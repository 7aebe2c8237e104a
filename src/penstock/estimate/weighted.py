r"""How sure an estimate over weighted rows is, or that it cannot be known.

A row :math:`i` is kept with probability :math:`p_i`, independently of the others, and has the weight :math:`w_i = 1 /
p_i`. With :math:`v_i = w_i (w_i - 1)`, sums over the kept rows estimate without bias the sum of :math:`x` over all
rows, the variance of that estimate, its third cumulant, and its covariance with the estimate of its variance:

.. math:: \hat t = \sum w_i x_i, \quad \hat V = \sum v_i x_i^2, \quad \hat C = \sum v_i (w_i - 1) x_i^3, \quad
          \hat K = \sum v_i (w_i - 2) x_i^3

A count is the sum of ones. An average :math:`r` is a ratio of two sums; to first order its error is that of the sum of
:math:`x_i - r`, over the count (linearisation).

Few rows of large weight make an estimate skewed, and the estimate of its variance follows it: where too few were kept
both are too small. The first terms of the Edgeworth expansion of :math:`T = (\hat t - t) / \sqrt{\hat V}` are undone by
Hall's cubic, which has an inverse, so that for the normal quantile :math:`z = 1.96`

.. math:: t \in \Big[\hat t - \sqrt{\hat V}\, g(z),\; \hat t - \sqrt{\hat V}\, g(-z)\Big], \qquad
          g(z) = \frac{\sqrt[3]{1 + 3 a (z - b)} - 1}{a}, \quad
          a = \frac{3 \hat C - \hat K}{6 \hat V^{3/2}}, \quad b = \frac{\hat K}{6 \hat V^{3/2}}

No interval can be right where the variance rests on a handful of rows, because the next row would change it: this is
refused. Let :math:`v^*` be the largest term of :math:`\hat V`, or that of a row that may have been there and left
nothing behind (of the largest weight that was in force, of mean square): an interval is given where
:math:`\hat V / v^* \ge 10`. Ten was chosen among 10, 12 and
15 by the coverage of simulated groups (``penstock bench coverage``), not derived.

So a small group is shown only if luck kept enough of it, and then it is estimated too high. Of a count the limits are
those of groups that are shown: the probability of what was kept is divided by that of being shown at all, which lowers
both. How near the cut-off a group is, :math:`d`, is counted in standard errors of the variance, with half a row for
counts being whole numbers:

.. math:: d = \frac{\hat V - 10 v^* + v_{max} / 2}{\sqrt{\sum v_i (w_i - 1)^2}}, \quad
          z_{low} = 1.96 + 2.5 e^{-1.4 d^2} - 0.2 e^{-1.9 (d - 2.4)^2}, \quad z_{high} = 1.96 - 0.9 e^{-3.9 d}

The exponentials are fitted to the exact limits of rows of one weight (the mid-p binomial distribution from ten on,
solved for the number of rows and put through Hall's cubic). The truth of a group of whose rows fewer than fifteen are
to be expected cannot lie above an upper limit, so the lower limit has all five per cent there: this is the second term.
Of rows of one weight, expected to be 4.5 to 60, kept with 0.01 to 0.5, 97 % of all group sizes of which a twentieth is
shown are held in 93 to 97 %, the worst in 92.7 %. Nothing of it is left at thirty kept rows.

Where no row was dropped at all, and every weight is one, the estimate is the truth.

References: Horvitz and Thompson, "A generalization of sampling without replacement from a finite universe", 1952; Hall,
"On the removal of skewness by transformation", 1992.

Examples
--------
Forty rows were kept with probability 0.1:

>>> import numpy as np
>>> rows = weighted_rows(np.full(40, 10.0))
>>> found = interval(count_moments(rows, NUMPY), 1.0, NUMPY)
>>> [round(float(value), 1) for value in (found.estimate, found.error, found.low, found.high)]
[400.0, 60.0, 293.9, 534.1]

Of ten, hardly more is known than that there were ten; of nine, too little; and if rows of weight 60 may have been there
as well, forty tell as little:

>>> for kept in (10, 9):
...     found = interval(count_moments(weighted_rows(np.full(kept, 10.0)), NUMPY), 1.0, NUMPY)
...     [round(float(value), 1) for value in (found.estimate, found.low, found.high)]
[100.0, 10.0, 156.5]
[90.0, nan, nan]
>>> float(interval(count_moments(rows, NUMPY), 60.0, NUMPY).low)
nan

Weights of one are exact where nothing was dropped, and only there:

>>> whole = count_moments(weighted_rows(np.ones(5)), NUMPY)
>>> [(float(found.low), float(found.error)) for found in (interval(whole, 1.0, NUMPY), interval(whole, 10.0, NUMPY))]
[(5.0, 0.0), (nan, nan)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Value = Any
"""A number, an array of numbers, or a column of Spark: the formulas are written once for all of them."""

NORMAL_95 = 1.959963984540054
LEAST_ROWS = 10.0
"""An interval rests on at least so many rows like the one that weighs most."""

_ROUNDING = 1e-9
"""A variance below this part of its own terms is what rounding has left of them."""

_TINY, _HUGE = 1e-300, 1e300

_STRAIGHT = 1e-6
"""A skewness below which the cubic is a straight line, and its formula would divide by nothing."""


class Arithmetic(Protocol):
    """What the formulas need beside plus, minus and times."""

    def total(self, terms: Value) -> Value:
        """Sum over the rows of a group."""

    def largest(self, terms: Value) -> Value:
        """The largest of the rows of a group."""

    def smallest(self, terms: Value) -> Value:
        """The smallest of the rows of a group."""

    def sqrt(self, value: Value) -> Value:
        """Square root."""

    def cbrt(self, value: Value) -> Value:
        """Cube root, of negative numbers too."""

    def square(self, value: Value) -> Value:
        """Times itself, which need not be written out twice."""

    def exp(self, value: Value) -> Value:
        """The exponential function."""

    def absolute(self, value: Value) -> Value:
        """Without its sign."""

    def larger(self, one: Value, other: Value) -> Value:
        """The larger of two."""

    def smaller(self, one: Value, other: Value) -> Value:
        """The smaller of two."""

    def divide(self, one: Value, other: Value) -> Value:
        """A quotient; unknown where the divisor is zero."""

    def choose(self, condition: Value, one: Value, other: Value) -> Value:
        """One where a condition holds, the other where it does not."""

    def only(self, condition: Value, value: Value) -> Value:
        """A value where a condition holds, unknown where it does not."""


class _NumpyArithmetic:
    """Groups are the leading dimensions of arrays, rows the last; unknown is not a number."""

    def total(self, terms: Value) -> Value:
        return np.nansum(terms, axis=-1)  # of rows that are not there nothing is added

    def largest(self, terms: Value) -> Value:
        return np.max(np.where(np.isnan(terms), -np.inf, terms), axis=-1)

    def smallest(self, terms: Value) -> Value:
        return np.min(np.where(np.isnan(terms), np.inf, terms), axis=-1)

    def sqrt(self, value: Value) -> Value:
        return np.sqrt(np.maximum(value, 0.0))

    def cbrt(self, value: Value) -> Value:
        return np.cbrt(value)

    def square(self, value: Value) -> Value:
        return np.square(value)

    def exp(self, value: Value) -> Value:
        return np.exp(value)

    def absolute(self, value: Value) -> Value:
        return np.abs(value)

    def larger(self, one: Value, other: Value) -> Value:
        return np.maximum(one, other)

    def smaller(self, one: Value, other: Value) -> Value:
        return np.minimum(one, other)

    def divide(self, one: Value, other: Value) -> Value:
        shape = np.broadcast_shapes(np.shape(one), np.shape(other))
        return np.divide(one, other, out=np.full(shape, np.nan), where=np.not_equal(other, 0.0))

    def choose(self, condition: Value, one: Value, other: Value) -> Value:
        return np.where(condition, one, other)

    def only(self, condition: Value, value: Value) -> Value:
        return np.where(condition, value, np.nan)


NUMPY: Arithmetic = _NumpyArithmetic()


@dataclass(frozen=True, slots=True)
class Rows:
    """Weights and values of kept rows; rows without a value are not a number, or null, in both."""

    weights: Value
    values: Value = 1.0

    @property
    def variance_factors(self) -> Value:
        """What the square of each value is multiplied with in the variance."""
        return self.weights * (self.weights - 1.0)


def weighted_rows(weights: NDArray[np.float64], values: NDArray[np.float64] | float = 1.0) -> Rows:
    """Rows in arrays; those that were dropped, or have no value, are not a number."""
    known = ~(np.isnan(weights) | np.isnan(values))
    return Rows(np.where(known, weights, np.nan), np.where(known, values, np.nan))


@dataclass(frozen=True, slots=True)
class Skew:
    """Third cumulant of an estimate, and its covariance with the estimate of its variance."""

    third: Value
    covariance: Value


@dataclass(frozen=True, slots=True)
class Luck:
    """What tells how much luck a count needed to be shown.

    The standard error of its variance, the largest term of that variance, and how many rows were kept.
    """

    error: Value
    largest: Value
    rows: Value


@dataclass(frozen=True, slots=True)
class Moments:
    """What the interval of an estimate rests on.

    Parameters
    ----------
    estimate
        Of the whole, dropped rows included.
    variance
        Of the estimate.
    support
        How many rows like the one that adds most the variance rests on.
    mean_square
        What a row of the mean kind adds to the variance, for each unit of its variance factor.
    terms
        What the variance was computed from; where it is far smaller it is what rounding has left.
    weight
        The largest of the kept rows.
    skew
        Of counts and sums. None for a ratio, whose numerator and denominator err together: its interval is even on both
        sides, by the t distribution with two degrees of freedom for each row of its support.
    luck
        Of counts.
    """

    estimate: Value
    variance: Value
    support: Value
    mean_square: Value
    terms: Value
    weight: Value
    skew: Skew | None = None
    luck: Luck | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, its standard error and the limits of its 95 % interval; unknown ones are not a number, or null."""

    estimate: Value
    error: Value
    low: Value
    high: Value


def count_moments(rows: Rows, math: Arithmetic) -> Moments:
    """Of the number of rows."""
    w, v = rows.weights, rows.variance_factors
    variance, covariance = math.total(v), math.total(v * (w - 1.0))
    largest = math.largest(v)
    return Moments(
        estimate=math.total(w),
        variance=variance,
        support=math.divide(variance, largest),
        mean_square=1.0,
        terms=variance,
        weight=math.largest(w),
        skew=Skew(covariance - variance, covariance),
        luck=Luck(math.sqrt(math.total(v * math.square(w - 1.0))), largest, math.total(w * 0.0 + 1.0)),
    )


def sum_moments(rows: Rows, math: Arithmetic) -> Moments:
    """Of the sum of a column."""
    w, x, v = rows.weights, rows.values, rows.variance_factors
    variance = math.total(v * x * x)
    covariance = math.total(v * (w - 1.0) * x * x * x)
    return Moments(
        estimate=math.total(w * x),
        variance=variance,
        support=math.divide(variance, math.largest(v * x * x)),
        mean_square=math.divide(math.total(w * x * x), math.total(w)),
        terms=variance,
        weight=math.largest(w),
        skew=Skew(math.total(v * (w - 2.0) * x * x * x), covariance),
    )


def average_moments(rows: Rows, math: Arithmetic) -> Moments:
    """Of the average of a column: the ratio of its sum and the count.

    Sums of powers are taken of the values themselves and turned into those of their distances to the average, since
    that is not known before the last row. So the spread of values must not be tiny beside their size.
    """
    return ratio_moments(rows, 1.0, math)


def ratio_moments(rows: Rows, sizes: Value, math: Arithmetic) -> Moments:
    """Of the sum of a column over the sum of another, the rows' sizes; as :func:`average_moments` otherwise."""
    w, x, v, y = rows.weights, rows.values, rows.variance_factors, sizes
    size = math.total(w * y)
    ratio = math.divide(math.total(w * x), size)
    square = (y * y, x * y, x * x)
    fourth = (y * y * y * y, x * (y * y * y), x * x * (y * y), x * x * x * y, x * x * x * x)
    # The term of a row is the square of a value less the ratio times a size, which is known at the last row only: the
    # largest is taken for twice the mean, each term counted by its own size.
    variance = math.larger(_square_of_rest([math.total(v * power) for power in square], ratio), 0.0)
    quartic = _quartic_of_rest([math.total(v * v * power) for power in fourth], ratio)
    mean_square = _square_of_rest([math.total(w * power) for power in square], ratio)
    per_size = math.divide(1.0, size * size)
    return Moments(
        estimate=ratio,
        variance=variance * per_size,
        support=math.divide(variance * variance, 2.0 * math.larger(quartic, _TINY)),
        mean_square=math.divide(math.larger(mean_square, _TINY), math.total(w * (y * 0.0 + 1.0))) * per_size,
        terms=math.total(v * x * x) * per_size,
        weight=math.largest(w),
    )


def interval(moments: Moments, largest_weight: Value, math: Arithmetic) -> Interval:
    """An estimate with its 95 % interval.

    Parameters
    ----------
    moments
        Of the kept rows.
    largest_weight
        That any row of the group may have had, also one of which none was kept; one where nothing was dropped.
    math
        For the kind of values that the moments are.
    """
    estimate, variance = moments.estimate, moments.variance
    in_force = math.larger(moments.weight, largest_weight)
    error = math.sqrt(variance)
    if moments.skew is None:
        # The first term of the expansion of the quantile of t; there are twenty degrees of freedom or more.
        half = error * (NORMAL_95 + (NORMAL_95**3 + NORMAL_95) / 8.0 * math.divide(1.0, moments.support))
        low, high = estimate - half, estimate + half
    else:
        below, above = NORMAL_95, NORMAL_95
        if moments.luck is not None:
            below, above = _quantiles_of_shown(variance, moments.luck, in_force, math)
        low, high = _skewed_limits(estimate, variance, moments.skew, (below, above), math)
        if moments.luck is not None:
            low = math.larger(low, moments.luck.rows)
    # The largest weight with which a row that is not seen would still be one of ten that the variance rests on. Every
    # value is compared with it once: a column of Spark is written out wherever it is used.
    is_rounding = variance <= _ROUNDING * moments.terms
    bearable = 0.5 + math.sqrt(0.25 + math.divide(variance, LEAST_ROWS * moments.mean_square))
    known_up_to = math.choose(moments.support < LEAST_ROWS, 0.0, bearable)
    is_shown = in_force <= math.choose(is_rounding, 1.0, known_up_to)
    return Interval(
        estimate,
        math.only(in_force <= math.choose(is_rounding, 1.0, _HUGE), error),
        math.only(is_shown, math.choose(is_rounding, estimate, low)),
        math.only(is_shown, math.choose(is_rounding, estimate, high)),
    )


def _quantiles_of_shown(variance: Value, luck: Luck, in_force: Value, math: Arithmetic) -> tuple[Value, Value]:
    """What stands in the place of 1.96 in the lower and in the upper limit of a count."""
    # The variance at the cut-off is ten times that of one row of the largest weight in force.
    at_cut_off = LEAST_ROWS * (math.square(in_force - 0.5) - 0.25)
    d = math.larger(math.divide(variance - at_cut_off + 0.5 * luck.largest, luck.error), 0.0)
    below = NORMAL_95 + 2.5 * math.exp(-1.4 * math.square(d)) - 0.2 * math.exp(-1.9 * math.square(d - 2.4))
    return below, NORMAL_95 - 0.9 * math.exp(-3.9 * d)


def _skewed_limits(
    estimate: Value, variance: Value, skew: Skew, quantiles: tuple[Value, Value], math: Arithmetic
) -> tuple[Value, Value]:
    """Limits by Hall's cubic."""
    error = math.sqrt(variance)
    cubed = 6.0 * variance * error
    # Never quite zero, since it is divided by: so small it makes the cubic a straight line.
    a = math.divide(3.0 * skew.covariance - skew.third, cubed) + _STRAIGHT
    b = math.divide(skew.third, cubed)
    low, high = (
        estimate - error * math.divide(math.cbrt(1.0 + 3.0 * a * (z - b)) - 1.0, a)
        for z in (quantiles[0], -quantiles[1])
    )
    return low, high


def _square_of_rest(sums: list[Value], ratio: Value) -> Value:
    """Sum of (x - ratio y) squared, from the sums of y y, x y and x x."""
    return sums[2] - 2.0 * ratio * sums[1] + ratio * ratio * sums[0]


def _quartic_of_rest(sums: list[Value], ratio: Value) -> Value:
    """Sum of (x - ratio y) to the fourth, from the sums of y y y y, x y y y, x x y y, x x x y and x x x x."""
    found = sums[4] - 4.0 * ratio * sums[3] + 6.0 * ratio * ratio * sums[2]
    return found - 4.0 * ratio * ratio * ratio * sums[1] + ratio * ratio * ratio * ratio * sums[0]
