r"""Aggregates over rows of which some were dropped: unbiased, and with how sure they are.

A guard keeps row :math:`i` with probability :math:`p_i`, independently of the others, and gives it the weight
:math:`w_i = 1 / p_i`. The Horvitz-Thompson estimate of a sum over all rows, dropped ones included, and the estimate of
its variance from the kept rows alone are

.. math:: \hat t = \sum w_i x_i, \qquad \hat V = \sum w_i (w_i - 1)\, x_i^2

A count is the sum of ones; an average is the ratio of a sum and a count, whose variance is that of
:math:`x_i - \bar x` over the squared count (linearisation). Where nothing was dropped all weights are one, and the
interval is the value itself.

Few rows of large weight, such as late ones that were nearly all dropped, make a count skewed: mostly a little too
small, with a variance that is too small as well, because the row that would have shown it was dropped. So its interval
is that of a gamma distribution with the mean and variance of the estimate (Fay and Feuer), upwards with two more rows
like those that make up the estimate added, its quantiles by the approximation of Wilson and Hilferty:

.. math:: q_\pm(t, V) = t \Big(1 - \frac{1}{9 m} \pm \frac{1.96}{3 \sqrt m}\Big)^3, \quad m = t^2 / V, \qquad
          \big[\,q_-(\hat t, \hat V),\; q_+(\hat t + w, \hat V + w (w - 1))\,\big], \quad
          w = 2\,\sum w_i^2 / \sum w_i

which needs no more than the two sums. Intervals of sums and averages, whose values may be negative, are the estimate
plus and minus 1.96 standard errors.

Each function gives four columns, to be unpacked into ``agg``::

    import penstock.functions as pf

    rows.groupBy("key").agg(*pf.count(), *pf.avg("value"))
    # count, count_error, count_low, count_high, avg_value, avg_value_error, avg_value_low, avg_value_high

A guard with a key keeps or drops all rows of a key together. Estimates stay unbiased, but rows are then not independent
and the intervals too narrow; group by that key, or use a guard without one, where the intervals matter.

References: Horvitz and Thompson, "A generalization of sampling without replacement from a finite universe", 1952; Fay
and Feuer, "Confidence intervals for directly standardized rates: a method based on the gamma distribution", 1997.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["avg", "count", "sum"]

_NORMAL_95 = 1.959963984540054
_ROWS_MISSED = 2.0


def count(weight: str = "weight", *, name: str = "count") -> list[Column]:
    """Number of rows, dropped ones included."""
    w = F.col(weight)
    rows, variance = F.sum(w), F.sum(w * (w - 1.0))
    missed = _ROWS_MISSED * (variance / rows + 1.0)
    low = _gamma_quantile(rows, variance, -_NORMAL_95)
    high = _gamma_quantile(rows + missed, variance + missed * (missed - 1.0), _NORMAL_95)
    return _columns(name, rows, variance, low, high)


def sum(column: str, weight: str = "weight", *, name: str | None = None) -> list[Column]:  # noqa: A001 - Spark's word
    """Sum of a column over all rows, dropped ones included; nulls are left out."""
    x, w = F.col(column).cast("double"), F.col(weight)
    return _with_normal_interval(name or f"sum_{column}", F.sum(w * x), F.sum(w * (w - 1.0) * x * x))


def avg(column: str, weight: str = "weight", *, name: str | None = None) -> list[Column]:
    """Average of a column over all rows, dropped ones included; nulls are left out."""
    x = F.col(column).cast("double")
    w = F.when(x.isNotNull(), F.col(weight))
    total, rows = F.sum(w * x), F.sum(w)
    mean = total / rows
    spread = w * (w - 1.0)
    squares = F.sum(spread * x * x) - 2.0 * mean * F.sum(spread * x) + mean * mean * F.sum(spread)
    return _with_normal_interval(name or f"avg_{column}", mean, F.greatest(squares, F.lit(0.0)) / (rows * rows))


def _gamma_quantile(mean: Column, variance: Column, normal: float) -> Column:
    deviation = F.sqrt(variance) / mean
    root = 1.0 - deviation * deviation / 9.0 + normal / 3.0 * deviation
    return mean * F.pow(F.greatest(root, F.lit(0.0)), F.lit(3.0))


def _with_normal_interval(name: str, estimate: Column, variance: Column) -> list[Column]:
    half = _NORMAL_95 * F.sqrt(F.greatest(variance, F.lit(0.0)))
    return _columns(name, estimate, variance, estimate - half, estimate + half)


def _columns(name: str, estimate: Column, variance: Column, low: Column, high: Column) -> list[Column]:
    # Rounding may leave a variance a hair below zero, whose root would be NaN.
    error = F.sqrt(F.greatest(variance, F.lit(0.0)))
    is_exact = variance <= 0.0
    return [
        estimate.alias(name),
        error.alias(f"{name}_error"),
        F.when(is_exact, estimate).otherwise(low).alias(f"{name}_low"),
        F.when(is_exact, estimate).otherwise(high).alias(f"{name}_high"),
    ]
