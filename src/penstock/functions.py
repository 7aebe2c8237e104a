r"""Aggregates over rows of which some were dropped: unbiased, and with how sure they are.

A guard keeps row :math:`i` with probability :math:`p_i`, independently of the others, and gives it the weight
:math:`w_i = 1 / p_i`. The Horvitz-Thompson estimate of a sum over all rows, dropped ones included, and the estimate of
its variance from the kept rows alone are

.. math:: \hat t = \sum w_i x_i, \qquad \hat V = \sum w_i (w_i - 1)\, x_i^2

A count is the sum of ones; an average is the ratio of a sum and a count, whose variance is that of
:math:`x_i - \bar x` over the squared count (linearisation). The interval is the estimate plus and minus 1.96 standard
errors. Where nothing was dropped all weights are one, and the interval is the value itself.

Each function gives four columns, to be unpacked into ``agg``::

    import penstock.functions as pf

    rows.groupBy("key").agg(*pf.count(), *pf.avg("value"))
    # count, count_error, count_low, count_high, avg_value, avg_value_error, avg_value_low, avg_value_high

A guard with a key keeps or drops all rows of a key together. Estimates stay unbiased, but rows are then not independent
and the intervals too narrow; group by that key, or use a guard without one, where the intervals matter.

Reference: Horvitz and Thompson, "A generalization of sampling without replacement from a finite universe", 1952.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["avg", "count", "sum"]

_NORMAL_95 = 1.959963984540054


def count(weight: str = "weight", *, name: str = "count") -> list[Column]:
    """Number of rows, dropped ones included."""
    w = F.col(weight)
    return _with_interval(F.sum(w), F.sum(w * (w - 1.0)), name)


def sum(column: str, weight: str = "weight", *, name: str | None = None) -> list[Column]:  # noqa: A001 - Spark's word
    """Sum of a column over all rows, dropped ones included; nulls are left out."""
    x, w = F.col(column).cast("double"), F.col(weight)
    return _with_interval(F.sum(w * x), F.sum(w * (w - 1.0) * x * x), name or f"sum_{column}")


def avg(column: str, weight: str = "weight", *, name: str | None = None) -> list[Column]:
    """Average of a column over all rows, dropped ones included; nulls are left out."""
    x = F.col(column).cast("double")
    w = F.when(x.isNotNull(), F.col(weight))
    total, rows = F.sum(w * x), F.sum(w)
    mean = total / rows
    spread = w * (w - 1.0)
    squares = F.sum(spread * x * x) - 2.0 * mean * F.sum(spread * x) + mean * mean * F.sum(spread)
    return _with_interval(mean, F.greatest(squares, F.lit(0.0)) / (rows * rows), name or f"avg_{column}")


def _with_interval(estimate: Column, variance: Column, name: str) -> list[Column]:
    # Rounding may leave a variance a hair below zero, whose root would be NaN.
    error = F.sqrt(F.greatest(variance, F.lit(0.0)))
    return [
        estimate.alias(name),
        error.alias(f"{name}_error"),
        (estimate - _NORMAL_95 * error).alias(f"{name}_low"),
        (estimate + _NORMAL_95 * error).alias(f"{name}_high"),
    ]
