"""Aggregates over rows of which some were dropped: unbiased, and with how sure they are.

Each of :func:`count`, :func:`sum`, :func:`avg` and :func:`ratio` gives four columns, to be unpacked into ``agg``: the
estimate over all rows, dropped ones included; its standard error; and the limits of its 95 % interval
(:mod:`penstock.estimate.weighted` has the formulas)::

    import penstock.functions as pf

    rows.groupBy("key").agg(*pf.count(), *pf.avg("value"))
    # count, count_error, count_low, count_high, avg_value, avg_value_error, avg_value_low, avg_value_high

- Where every weight is one *and* no batch in the life of the group dropped rows, the interval is the value itself.
- Where too few rows were kept to know, the limits are null; and so is the error where nothing is known of it.

That no batch dropped rows cannot be seen in the rows that stayed. The batch that gives a result out is told by the
driver when its query last dropped rows, and how many (:func:`largest_weight`). A window says when it began::

    since = pf.window_start("timestamp", "10 seconds")
    rows.groupBy(F.window("timestamp", "10 seconds")).agg(*pf.count(largest_weight=pf.largest_weight(since)))

A guard with a key keeps or drops all rows of a key together: :func:`count_by_key` and :func:`sum_by_key` give results
by key, and totals over keys, whose intervals take keys, not rows, for what was drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.errors import InvalidGuardError
from penstock.estimate.weighted import (
    Arithmetic,
    Moments,
    Rows,
    average_moments,
    count_moments,
    interval,
    ratio_moments,
    sum_moments,
)
from penstock.model.directive import HISTORY_AT, LARGEST_WEIGHT_AT
from penstock.model.shed_history import LEVELS
from penstock.spark.guard import aggregated_values, draw_of_key, requested_values

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = [
    "avg",
    "count",
    "count_by_key",
    "joined_weight",
    "largest_weight",
    "ratio",
    "sum",
    "sum_by_key",
    "window_start",
]


def count(weight: str = "weight", *, name: str = "count", largest_weight: Column | float | None = None) -> list[Column]:
    """Number of rows, dropped ones included.

    Parameters
    ----------
    weight
        Column with the rows' weights.
    name
        Of the estimate; the others are called after it.
    largest_weight
        The largest weight that any row of the group may have had, also one that was dropped; 1.0 says that nothing was
        dropped. Asked of the driver by default (:func:`largest_weight`).
    """
    return _columns(name, count_moments(Rows(F.col(weight)), _SPARK), largest_weight)


def sum(  # noqa: A001 - Spark's word
    column: str, weight: str = "weight", *, name: str | None = None, largest_weight: Column | float | None = None
) -> list[Column]:
    """Sum of a column over all rows, dropped ones included; nulls are left out. Arguments as for :func:`count`."""
    return _columns(name or f"sum_{column}", sum_moments(_rows(column, weight), _SPARK), largest_weight)


def avg(
    column: str, weight: str = "weight", *, name: str | None = None, largest_weight: Column | float | None = None
) -> list[Column]:
    """Average of a column over all rows, dropped ones included; nulls are left out. Arguments as for :func:`count`.

    Of values whose spread is less than some ten-thousandth of their size the interval is null: subtract a constant
    first.
    """
    return _columns(name or f"avg_{column}", average_moments(_rows(column, weight), _SPARK), largest_weight)


def ratio(
    numerator: str,
    denominator: str,
    weight: str = "weight",
    *,
    name: str | None = None,
    largest_weight: Column | float | None = None,
) -> list[Column]:
    """Sum of one column over the sum of another, over all rows; an average over keys is one of these."""
    known = F.col(numerator).isNotNull() & F.col(denominator).isNotNull()
    rows = Rows(F.when(known, F.col(weight)), F.col(numerator).cast("double"))
    moments = ratio_moments(rows, F.when(known, F.col(denominator).cast("double")), _SPARK)
    return _columns(name or f"{numerator}_per_{denominator}", moments, largest_weight)


def largest_weight(since: Column | None = None) -> Column:
    """The largest weight that was in force in the life of a group, as the driver tells the batch that gives it out.

    Parameters
    ----------
    since
        When the first row of the group may have arrived, such as :func:`window_start`; by default when the query began,
        so that once rows were dropped no group is called exact any more.

    In steps of a factor of two. Outside a stream it is not known whether rows were dropped before a frame was stored:
    pass ``largest_weight=1.0`` to the aggregate where you know that none were.
    """
    if since is None:
        return requested_values(_session())[LARGEST_WEIGHT_AT]
    since_s = since.cast("timestamp").cast("double")
    moments_s = F.slice(aggregated_values(_session()), HISTORY_AT + 1, LEVELS)
    # Among the moments in their order there are as many before a window's beginning as it does not have to know of.
    # By functions that take a subquery, and with a single mention of what the driver tells.
    place = F.array_position(F.sort_array(F.concat(moments_s, F.array(since_s))), since_s)
    return F.when(place > LEVELS, F.lit(1.0)).otherwise(F.pow(F.lit(2.0), F.lit(LEVELS + 0.5) - place))


def _session() -> SparkSession:
    session = SparkSession.getActiveSession()
    if session is None:
        raise InvalidGuardError("there is no active Spark session: make one first, or pass largest_weight=1.0")
    return session


def window_start(column: str, length: str) -> Column:
    """A moment before which no row of a window arrived, for :func:`largest_weight`: its earliest row less its length.

    Rows arrive after their timestamps; where a producer's clock is fast, give a length that is as much longer.
    """
    return F.min(F.col(column).cast("timestamp")) - F.expr(f"interval {length}")


def joined_weight(*weights: str) -> Column:
    """The weight of a joined row, from the weights of its sides: the largest.

    Both sides must be behind guards with the same key, joined on it. A key that is kept at the smaller of two ratios is
    kept at the larger as well, so the pair is there with the smaller probability; neither one side's weight nor the
    product is right. A side that an outer join has left empty counts as one.
    """
    if not weights:
        raise InvalidGuardError("joined_weight needs the names of the sides' weight columns")
    return F.greatest(*(F.coalesce(F.col(weight), F.lit(1.0)) for weight in weights), F.lit(1.0))


def count_by_key(
    key: str, weight: str = "weight", *, name: str = "count", largest_weight: Column | float | None = None
) -> list[Column]:
    """Number of rows of a key behind a guard with that key: group by the key.

    Keys were sampled, rows of a key were not. The columns are ``count``, rows that were seen; ``count_weight``, how
    many keys this one stands for, for totals over keys; ``count_complete``, whether no row of this key was dropped, so
    that its count is exact; and ``count_share`` with ``count_share_weight``, for averages. A total over keys, with the
    variance of keys as what was drawn, is then ``pf.sum("count", "count_weight")``, an average over all rows
    ``pf.ratio("sum_value_share", "count_share", "count_share_weight")``.
    """
    weights = F.col(weight)
    seen, standing = F.sum(F.when(weights.isNotNull(), F.lit(1.0))), F.sum(weights)
    return [
        seen.alias(name),
        F.try_divide(standing, seen).alias(f"{name}_weight"),
        *_of_key(key, standing, weights, name, largest_weight),
    ]


def sum_by_key(
    column: str,
    key: str,
    weight: str = "weight",
    *,
    name: str | None = None,
    largest_weight: Column | float | None = None,
) -> list[Column]:
    """Sum of a column over the rows of a key behind a guard with that key; nulls are left out.

    The columns are ``sum_value``, of the rows that were seen; ``sum_value_complete``, as of :func:`count_by_key`; and
    ``sum_value_share`` with ``sum_value_share_weight``, for totals over keys:
    ``pf.sum("sum_value_share", "sum_value_share_weight")``.

    Where rows of a key have several weights, no weight makes of ``sum_value`` what stands for all keys: of +10 with
    weight 1 and -9 with weight 2.5 it would be -12.5. The share is the sum of the rows by their weights, over the
    largest of these.
    """
    rows = _rows(column, weight)
    name = name or f"sum_{column}"
    return [
        F.sum(F.when(rows.weights.isNotNull(), rows.values)).alias(name),
        *_of_key(key, F.sum(rows.weights * rows.values), F.col(weight), name, largest_weight),
    ]


def _of_key(key: str, standing: Column, weights: Column, name: str, largest: Column | float | None) -> list[Column]:
    """Whether a key is complete, and its share in totals: what stands for all keys, over the largest of its weights.

    That weight is of the key and not of its values, so that shares of counts and of sums have the same.
    """
    # One key has one draw: it was never dropped where even the smallest ratio in force lies above it.
    draw = F.max(F.when(weights.isNotNull(), draw_of_key(F.col(key))))
    # The largest weight is told to within a factor of the root of two.
    is_complete = draw * _largest(largest) * F.lit(2.0**0.5) < 1.0
    nothing_dropped = _largest(largest) <= 1.0
    return [
        (is_complete | nothing_dropped).alias(f"{name}_complete"),
        F.try_divide(standing, F.max(weights)).alias(f"{name}_share"),
        F.max(weights).alias(f"{name}_share_weight"),
    ]


class _SparkArithmetic:
    """Rows are columns, groups are Spark's; unknown is null. A zero divisor must not end the query (ANSI mode)."""

    def total(self, terms: Any) -> Column:  # noqa: ANN401 - a column, or a plain number
        return F.sum(terms)

    def largest(self, terms: Any) -> Column:  # noqa: ANN401 - as above
        return F.max(terms)

    def smallest(self, terms: Any) -> Column:  # noqa: ANN401 - as above
        return F.min(terms)

    def sqrt(self, value: Any) -> Column:  # noqa: ANN401 - as above
        return F.sqrt(value)

    def cbrt(self, value: Any) -> Column:  # noqa: ANN401 - as above
        return F.cbrt(value)

    def square(self, value: Any) -> Column:  # noqa: ANN401 - as above
        return F.pow(_column(value), F.lit(2.0))

    def exp(self, value: Any) -> Column:  # noqa: ANN401 - as above
        return F.exp(value)

    def absolute(self, value: Any) -> Column:  # noqa: ANN401 - as above
        return F.abs(value)

    def larger(self, one: Any, other: Any) -> Column:  # noqa: ANN401 - as above
        return F.greatest(_column(one), _column(other))

    def smaller(self, one: Any, other: Any) -> Column:  # noqa: ANN401 - as above
        return F.least(_column(one), _column(other))

    def divide(self, one: Any, other: Any) -> Column:  # noqa: ANN401 - as above
        return F.try_divide(_column(one), _column(other))

    def choose(self, condition: Any, one: Any, other: Any) -> Column:  # noqa: ANN401 - as above
        return F.when(condition, one).otherwise(other)

    def only(self, condition: Any, value: Any) -> Column:  # noqa: ANN401 - as above
        return F.when(condition, value)


_SPARK: Arithmetic = _SparkArithmetic()


def _column(value: Any) -> Column:  # noqa: ANN401 - as above
    return F.lit(value) if isinstance(value, int | float) else value


def _rows(column: str, weight: str) -> Rows:
    x = F.col(column).cast("double")
    return Rows(F.when(x.isNotNull(), F.col(weight)), x)


def _largest(given: Column | float | None) -> Column:
    if given is not None:
        return _column(given)
    # A group has no fewer than no rows: which place that is, Spark does not know before it has counted.
    place = F.lit(LARGEST_WEIGHT_AT) + F.least(F.count(F.lit(1)), F.lit(0)).cast("int")
    return aggregated_values(_session())[place]


def _columns(name: str, moments: Moments, largest: Column | float | None) -> list[Column]:
    found = interval(moments, _largest(largest), _SPARK)
    return [
        found.estimate.alias(name),
        found.error.alias(f"{name}_error"),
        found.low.alias(f"{name}_low"),
        found.high.alias(f"{name}_high"),
    ]
