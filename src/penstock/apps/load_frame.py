"""Rows of the load source along a profile that starts at a moment, for runs that know when each row arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.load_options import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.model.profile import LoadProfile


def load_frame(
    spark: SparkSession, profile: LoadProfile, *, epoch_s: float, limit_rows: int | None = None, **options: object
) -> DataFrame:
    """The stream; ``limit_rows`` is the most that a batch takes, further options are the source's own."""
    reader = spark.readStream.format(FORMAT).options(**{name: str(value) for name, value in options.items()})
    if limit_rows is not None:
        reader = reader.option("maxRowsPerBatch", str(limit_rows))
    return reader.option("profile", profile.to_json()).option("startEpochSeconds", f"{epoch_s:.3f}").load()
