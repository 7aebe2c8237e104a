"""Word count, the query of the quality-of-data paper's listing: minimum accuracy 0.7, priority 5.

Every row is a line of a few words. Counts are over the rows that were kept, weighted for those that were not, with
their intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import penstock.functions as pf
from penstock.model import Goal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GOAL = Goal(latency="5 seconds", minimum_accuracy=0.7, priority=5)
_WORDS_PER_LINE = 6
_VOCABULARY = 500


def lines(rows: DataFrame) -> DataFrame:
    """Lines out of plain rows: the words follow from the key."""
    words = [
        F.concat(F.lit("word"), F.pmod(F.xxhash64(F.lit(place), "key"), F.lit(_VOCABULARY)).cast("string"))
        for place in range(_WORDS_PER_LINE)
    ]
    return rows.withColumn("line", F.concat_ws(" ", *words))


def count_words(rows: DataFrame) -> DataFrame:
    """Occurrences of each word so far, with their interval."""
    is_guarded = "weight" in rows.columns
    weight, largest = (F.col("weight"), None) if is_guarded else (F.lit(1.0), 1.0)
    words = lines(rows).select(F.explode(F.split("line", " ")).alias("word"), weight.alias("weight"))
    return words.groupBy("word").agg(*pf.count(name="occurrences", largest_weight=largest))
