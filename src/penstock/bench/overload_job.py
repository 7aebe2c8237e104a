"""The job of the overload benchmark: a row function whose cost depends on the key, and counts by window and region."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import penstock.functions as pf
from penstock.apps.load_frame import load_frame
from penstock.spark.operator_worker import as_dictionaries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.model.profile import LoadProfile
    from penstock.spark.attach import Penstock

KINDS = 64
ROUNDS_PER_UNIT = 64
REGIONS = 100
"""Counts by window and region are held against the truth: some 1,300 intervals in a run. Of the 260 that twenty regions
give, one run in sixteen has less than 93 % where each holds the truth with 95 %; of these one in three hundred at
the most."""
WINDOW_S = 5
WORK = "bench.work"
_RESULT = "timestamp timestamp, region bigint, units bigint"


def analyse(row: dict[str, Any]) -> dict[str, Any]:
    """Work of 1 to 64 units, by the key: that many times 64 rounds of key derivation."""
    units = 1 + row["key"] % KINDS
    hashlib.pbkdf2_hmac("sha256", b"penstock", b"bench", ROUNDS_PER_UNIT * units)
    return {"timestamp": row["timestamp"], "region": row["offset"] % REGIONS, "units": units}


def rows_of(spark: SparkSession, profile: LoadProfile, *, epoch_s: float, limit_rows: int | None = None) -> DataFrame:
    """Rows along a profile that begins at a moment."""
    return load_frame(spark, profile, epoch_s=epoch_s, limit_rows=limit_rows, keys=KINDS)


def plain_job(rows: DataFrame) -> DataFrame:
    """The job as anybody would write it."""
    return _counted(rows.mapInArrow(_analyse_all, _RESULT).withColumn("weight", F.lit(1.0)), largest_weight=1.0)


def shedding_job(rows: DataFrame, pen: Penstock, strategy: str) -> DataFrame:
    """The same job with its function in an operator."""
    since = pf.window_start("timestamp", f"{WINDOW_S} seconds")
    analysed = pen.operator(rows, analyse, _RESULT, "key", strategy=strategy)
    return _counted(analysed, largest_weight=pf.largest_weight(since))


def _counted(analysed: DataFrame, *, largest_weight: Column | float) -> DataFrame:
    watched = analysed.observe(WORK, F.coalesce(F.sum("units"), F.lit(0)).alias("units"))
    return watched.groupBy(F.window("timestamp", f"{WINDOW_S} seconds"), "region").agg(
        *pf.count(largest_weight=largest_weight)
    )


def _analyse_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([("timestamp", pa.timestamp("us", tz="UTC")), ("region", pa.int64()), ("units", pa.int64())])
    for batch in batches:
        results = [analyse(row) for row in as_dictionaries(batch)]
        columns = [pa.array([row[entry.name] for row in results], type=entry.type) for entry in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
