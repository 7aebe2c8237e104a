"""The formulas behind penstock.functions: what is known, what is refused, and how often intervals hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.bench.coverage import AGGREGATES, HOLDS, LEAST_SHOWN, bench_coverage, cases
from penstock.estimate.weighted import (
    NUMPY,
    Interval,
    average_moments,
    count_moments,
    interval,
    ratio_moments,
    sum_moments,
    weighted_rows,
)


def estimate_of(aggregate: str, weights: list[float], values: list[float], largest_weight: float = 1.0) -> Interval:
    moments = {"count": count_moments, "sum": sum_moments, "avg": average_moments}[aggregate]
    rows = weighted_rows(np.array(weights), np.array(values) if aggregate != "count" else 1.0)
    return interval(moments(rows, NUMPY), largest_weight, NUMPY)


@pytest.mark.parametrize("aggregate", ["count", "sum", "avg"])
def test_whole_groups_are_exact_only_where_nothing_was_dropped(aggregate: str) -> None:
    """Weights of one are exact where the driver says that no row had another weight, and unknown elsewhere."""
    exact = estimate_of(aggregate, [1.0] * 30, [float(value) for value in range(30)])
    assert exact.low == exact.estimate == exact.high
    assert exact.error == 0.0
    unknown = estimate_of(aggregate, [1.0] * 30, [float(value) for value in range(30)], largest_weight=10.0)
    assert unknown.estimate == exact.estimate
    assert np.isnan([unknown.error, unknown.low, unknown.high]).all()


def test_an_average_of_one_kept_row_has_no_error() -> None:
    """One row of weight 100 says nothing of the others: no error of zero, and no interval."""
    found = estimate_of("avg", [100.0], [7.0])
    assert found.estimate == 7.0
    assert np.isnan([found.error, found.low, found.high]).all()


def test_a_sum_of_zeros_is_not_certain() -> None:
    """Forty kept zeros at weight ten leave 360 rows of which nobody knows."""
    found = estimate_of("sum", [10.0] * 40, [0.0] * 40)
    assert found.estimate == 0.0
    assert np.isnan([found.error, found.low, found.high]).all()


def test_one_heavy_row_refuses_the_interval() -> None:
    """A hundred rows of weight two and one of weight a thousand: the variance rests on the one."""
    assert not np.isnan(estimate_of("count", [2.0] * 100, []).low)
    assert np.isnan(estimate_of("count", [2.0] * 100 + [1000.0], []).low)


def test_a_ratio_of_ones_is_an_average() -> None:
    """Sizes of one give the average's interval."""
    rng = np.random.default_rng(5)
    weights, values = np.full(200, 4.0), rng.normal(10.0, 2.0, 200)
    average = interval(average_moments(weighted_rows(weights, values), NUMPY), 1.0, NUMPY)
    ratio = interval(ratio_moments(weighted_rows(weights, values), np.ones(200), NUMPY), 1.0, NUMPY)
    assert [float(average.low), float(average.high)] == pytest.approx([float(ratio.low), float(ratio.high)])


REFUSED = {
    "late rows, 300 at 0.4 and 300 late at 0.05": ("sum", "avg"),
    "300 rows at 0.4 and 300 late at 0.005": ("count", "sum", "avg"),
    "tiny group, 10 rows at 0.1": ("count", "sum", "avg"),
    "tiny group, 20 rows whole and then 10 at 0.1": ("count", "sum", "avg"),
    "small group of skewed values, 100 rows at 0.1": ("sum", "avg"),
}
"""Groups that are too small to know. All others must have intervals, those with late rows too."""


def test_every_case_is_right_or_refused() -> None:
    """Seeded trials of every way to draw: no bias, and the truth in 93 to 97 % of intervals, or no interval.

    Which cases are refused is fixed: intervals that nobody gets would be right as well.
    """
    wanted = {
        (case.name, aggregate): "refused" if aggregate in REFUSED.get(case.name, ()) else "right"
        for case in cases()
        for aggregate in AGGREGATES
    }
    assert {(each.case, each.aggregate): each.verdict for each in bench_coverage()} == wanted
    assert set(REFUSED) < {name for name, _ in wanted}


@pytest.mark.parametrize("probability", [0.01, 0.05, 0.1, 0.2, 0.33, 0.5])
def test_counts_near_the_cut_off_are_right(probability: float) -> None:
    """Of groups that luck lets pass with ten rows as many hold the truth as of others; computed, not drawn."""
    kept = np.arange(10, 131)
    is_there = np.arange(130) < kept[:, np.newaxis]
    moments = count_moments(weighted_rows(np.where(is_there, 1.0 / probability, np.nan)), NUMPY)
    found = interval(moments, 1.0 / probability, NUMPY)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, int(61 / probability))))])
    held = []
    for rows in range(int(4.5 / probability), int(60 / probability), max(1, int(0.25 / probability))):
        k = kept[kept <= rows]
        ways = factorials[rows] - factorials[k] - factorials[rows - k]
        chances = np.exp(ways + k * np.log(probability) + (rows - k) * np.log1p(-probability))
        if chances.sum() >= LEAST_SHOWN:
            is_held = (found.low <= rows) & (rows <= found.high)
            held.append(chances[is_held[: k.size]].sum() / chances.sum())
    assert len(held) > 60
    assert min(held) > 0.925
    assert max(held) < 0.99
    assert np.mean((np.array(held) >= HOLDS[0]) & (np.array(held) <= HOLDS[1])) > 0.9


def test_a_count_is_never_less_than_what_was_seen() -> None:
    """Ten kept rows are just enough: nothing is said against there having been no more."""
    found = estimate_of("count", [10.0] * 10, [])
    assert (found.estimate, found.low) == (100.0, 10.0)
    assert found.high == pytest.approx(149.4, rel=0.05)
