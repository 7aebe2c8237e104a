"""How old rows are when their batch is done, measured inside any query without touching its results."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

PREFIX = "penstock.ages"
_SHARES = [step / 40 for step in range(41)]
_numbers = itertools.count(1)


def aged(rows: DataFrame) -> DataFrame:
    """The same rows, whose arrival times (column ``timestamp``) go into the query's progress as quantiles."""
    arrival_s = F.col("timestamp").cast("double")
    quantiles = F.percentile_approx(arrival_s, F.array(*map(F.lit, _SHARES)), F.lit(200))
    return rows.observe(f"{PREFIX}.{next(_numbers)}", F.count(F.lit(1)).alias("rows"), quantiles.alias("arrivals_s"))


def ages_of(progress: Mapping[str, Any], finished_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ages of a batch's rows at a moment, as a sample and the rows that each of its members stands for."""
    ages, weights = [np.zeros(0)], [np.zeros(0)]
    for name, values in (progress.get("observedMetrics") or {}).items():
        if name.startswith(PREFIX) and values["rows"]:
            sample = finished_s - np.array(values["arrivals_s"], dtype=np.float64)
            ages.append(sample)
            weights.append(np.full(len(sample), values["rows"] / len(sample)))
    return np.concatenate(ages), np.concatenate(weights)
