"""Counts, sums and averages over weighted rows: whether the intervals hold the truth as often as they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as fn

import penstock.functions as pf
from live.helpers import show

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

GROUPS = 2_000
LEAST_HELD = 0.94


def kept_rows(spark: SparkSession, strata: tuple[tuple[int, float], ...]) -> tuple[DataFrame, int]:
    """Groups of the same rows, each stratum kept with a probability of its own; gives the rows of a group as well."""
    size = sum(rows for rows, _ in strata)
    place, probability, first = fn.col("id") % size, fn.lit(1.0), 0
    for rows, share in strata:
        inside = (place >= first) & (place < first + rows)
        probability = fn.when(inside, fn.lit(share)).otherwise(probability)
        first += rows
    rows = spark.range(GROUPS * size, numPartitions=2).select(
        fn.expr(f"id div {size}").alias("group"), (place % 7).alias("value"), probability.alias("share")
    )
    return rows.where(fn.rand(seed=11) < fn.col("share")).withColumn("weight", 1.0 / fn.col("share")), size


@pytest.mark.parametrize(
    ("strata", "widest"),
    [
        (((600, 0.33),), 1.25),
        (((60, 0.33),), 1.25),
        (((600, 0.33), (200, 0.05)), 1.25),
        (((500, 1.0), (100, 0.05)), 1.25),
        # Ten rows are kept here: so few must say that they know little.
        (((200, 0.05),), 1.3),
    ],
)
def test_an_interval_of_a_count_holds_the_truth(
    spark: SparkSession, strata: tuple[tuple[int, float], ...], widest: float
) -> None:
    """Also where a few rows of large weight decide, for which plus and minus two errors hold it in 88 % only."""
    kept, size = kept_rows(spark, strata)
    counts = kept.groupBy("group").agg(*pf.count()).collect()
    held = sum(row.count_low <= size <= row.count_high for row in counts) / GROUPS
    unsure = [row for row in counts if row.count_error > 0]
    width = sum((row.count_high - row.count_low) / (2 * 1.96 * row.count_error) for row in unsure) / len(unsure)
    show(f"{strata}: {held:.1%} of the intervals hold the truth, {width:.2f} times as wide as the normal ones")
    assert held > LEAST_HELD
    assert width < widest
    assert abs(sum(row["count"] for row in counts) / GROUPS - size) < 0.02 * size


def test_intervals_of_sums_and_averages_hold_the_truth(spark: SparkSession) -> None:
    """Over rows that are kept with two different probabilities."""
    kept, size = kept_rows(spark, ((300, 0.4), (60, 0.1)))
    total = sum(place % 7 for place in range(size))
    found = kept.groupBy("group").agg(*pf.sum("value"), *pf.avg("value")).collect()
    sums = sum(row.sum_value_low <= total <= row.sum_value_high for row in found) / GROUPS
    averages = sum(row.avg_value_low <= total / size <= row.avg_value_high for row in found) / GROUPS
    show(f"sums {sums:.1%}, averages {averages:.1%}")
    assert 0.93 < sums < 0.99
    assert 0.93 < averages < 0.99


def test_nothing_dropped_is_exact(spark: SparkSession) -> None:
    """An interval of one value, and an error of none."""
    kept, size = kept_rows(spark, ((50, 1.0),))
    row = kept.groupBy("group").agg(*pf.count(), *pf.avg("value")).collect()[0]
    assert (row["count"], row.count_error, row.count_low, row.count_high) == (size, 0.0, size, size)
    assert row.avg_value_low == row.avg_value == row.avg_value_high
