"""K nearest neighbours: one task with much to compute, which classifies points by the labelled points around them.

Every row is a point in the unit square. Its distance to all reference points is computed, the ``K`` nearest are taken,
and the label that most of them have is the answer. Instances of the query share out the partitions of the topic.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.model.rows import row_hash, unit_interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

K = 5
REFERENCES = 200
_SEED = 11


def reference_points(count: int = REFERENCES) -> list[tuple[float, float, int]]:
    """Points with their labels: 1 inside the circle around the middle, else 0.

    Examples
    --------
    >>> [(round(x, 3), round(y, 3), label) for x, y, label in reference_points(2)]
    [(0.406, 0.253, 1), (0.984, 0.022, 0)]
    """
    places = np.arange(count, dtype=np.int64)
    x, y = (unit_interval(row_hash(places, _SEED, column)) for column in (1, 2))
    labels = (x - 0.5) ** 2 + (y - 0.5) ** 2 < 1 / (2 * np.pi)
    return list(zip(x.tolist(), y.tolist(), labels.astype(int).tolist(), strict=True))


def points(rows: DataFrame) -> DataFrame:
    """Points out of plain rows."""
    return rows.withColumns(
        {
            "x": F.pmod(F.xxhash64(F.lit(1), "offset"), F.lit(1_000_000)) / 1e6,
            "y": F.pmod(F.xxhash64(F.lit(2), "offset"), F.lit(1_000_000)) / 1e6,
        }
    )


def classify(rows: DataFrame) -> DataFrame:
    """Each point with the label of most of its nearest neighbours."""
    # One literal: an array of structs built column by column makes a plan that takes Spark seconds to analyse.
    texts = [{"x": x, "y": y, "label": label} for x, y, label in reference_points()]
    references = F.from_json(F.lit(json.dumps(texts)), "array<struct<x:double,y:double,label:int>>")
    ranked = F.array_sort(
        F.transform(
            references,
            lambda other: F.struct(
                (F.pow(other["x"] - F.col("x"), 2) + F.pow(other["y"] - F.col("y"), 2)).alias("distance"),
                other["label"].alias("label"),
            ),
        )
    )
    votes = F.aggregate(F.slice(ranked, 1, K), F.lit(0), lambda total, near: total + near["label"])
    return points(rows).withColumn("label", (votes * 2 > K).cast("int"))
