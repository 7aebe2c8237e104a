"""The guard: the place in a query's plan where rows may be dropped, entirely inside the JVM.

The share to keep reaches the tasks as a property of the query's session: a
:class:`~penstock.control.schedule.KeepSchedule` as text. A subquery of one row reads it once a batch, and Spark
compiles the number into the filter: no row leaves the JVM. Which rows are kept is a hash of the row's identity, or of a
key, against that number, so that a task or a batch that runs again keeps the same rows again. A row's age is that at
the time of its batch, which Spark writes down before the batch runs.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from penstock.control.schedule import KeepSchedule
from penstock.errors import InvalidGuardError
from penstock.spark.collector import GUARD_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KEEP_PROPERTY = "spark.penstock.keep"
FLOOR_PROPERTY = "spark.penstock.floor"
LATE_PROPERTY = "spark.penstock.late"
NEVER_LATE_S = 1e12
WEIGHT = "weight"
BATCH_ID_PROPERTY = "streaming.sql.batchId"
_DRAW_SEED = 20_077
_TOLD, _SHARE, _KEPT, _LATE = "__penstock_told", "__penstock_share", "__penstock_kept", "__penstock_late"
_KAFKA_IDENTITY = ("topic", "partition", "offset")
_LOAD_IDENTITY = ("offset",)
_UNHASHABLE = (T.MapType, T.VariantType)
_SMALLEST_SHARE = 1e-6
_numbers = itertools.count(1)


def guard_rows(
    rows: DataFrame,
    *,
    key: str | None = None,
    arrival: str | None = "timestamp",
    utility: str | Column | None = None,
) -> DataFrame:
    """Let rows be dropped here, and give those that stay the weight of those that went.

    Place it as early as possible: right after the source. The result has a column ``weight``, one over the probability
    with which the row was kept, for :mod:`penstock.functions`. Nothing is dropped unless the query is governed, its
    goal has a minimum accuracy below one, and its load does not fit.

    Parameters
    ----------
    rows
        A stream; a batch frame is given back with weights of one.
    key
        Column whose values are kept or dropped as a whole. Guards with the same key type keep the same values, so both
        sides of a join stay matched. Without it each row is drawn for itself, by its identity where it has one (Kafka's
        topic, partition and offset; the load source's offset) and else by chance.
    arrival
        Timestamp column that says when a row arrived; None where there is none. While rows must go, those that are too
        old to be out in time go first, unless there is a key.
    utility
        Column or expression from 0 to 1: rows are kept with a probability in proportion to it.

    Raises
    ------
    InvalidGuardError
        A column that is not there, or not of a kind that serves.
    """
    check_columns(rows, key, arrival)
    if not rows.isStreaming:
        return rows.withColumn(WEIGHT, F.lit(1.0))
    told, floor, late_after_s = control_values(rows.sparkSession)
    share = F.col(_TOLD) if utility is None else F.col(_TOLD) * utility_of(rows, utility).cast("double")
    # Told one or more, everything is kept; otherwise no row with less than the floor, and late ones with just that.
    wanted = F.when(F.col(_LATE), floor).otherwise(F.greatest(floor, F.lit(_SMALLEST_SHARE), share))
    kept_share = F.when(F.col(_TOLD) >= 1.0, F.lit(1.0)).otherwise(F.least(F.lit(1.0), wanted))
    # Rows of one key must all have the same share, or the two sides of a join would not match.
    no_row = F.lit(False)
    late = no_row if arrival is None or key is not None else F.coalesce(age_s(arrival) > late_after_s, no_row)
    marked = rows.withColumns({_TOLD: told, _LATE: late})
    marked = marked.withColumn(_SHARE, kept_share).withColumn(_KEPT, draw_of_row(rows, key) < F.col(_SHARE))
    observed = marked.observe(f"{GUARD_PREFIX}.{next(_numbers)}", *_observations(arrival))
    return observed.where(F.col(_KEPT)).withColumn(WEIGHT, 1.0 / F.col(_SHARE)).drop(_TOLD, _SHARE, _KEPT, _LATE)


def control_values(spark: SparkSession) -> tuple[Column, Column, Column]:
    """Numbers that the driver can change while the query runs, read once a batch.

    The share of rows to keep, the smallest share of any row, and the age in seconds from which a row is late.
    """

    @F.udf("array<double>", useArrow=False)
    def read(_: int) -> list[float]:
        context = TaskContext.get()
        if context is None:
            return [1.0, _SMALLEST_SHARE, NEVER_LATE_S]
        keep, floor, late = (context.getLocalProperty(name) for name in (KEEP_PROPERTY, FLOOR_PROPERTY, LATE_PROPERTY))
        batch_id = int(context.getLocalProperty(BATCH_ID_PROPERTY) or 0)
        told = KeepSchedule.from_text(keep).fraction_at(batch_id) if keep else 1.0
        return [told, float(floor or _SMALLEST_SHARE), float(late or NEVER_LATE_S)]

    # Without this Spark would run it once, when the query is optimised, and never again. All three columns are the same
    # subquery, so that Spark runs it once a batch.
    values = spark.range(0, 1, 1, 1).select(read.asNondeterministic()("id")).scalar()
    return values[0], values[1], values[2]


def age_s(arrival: str) -> Column:
    """Age of a row in seconds at the time of its batch."""
    return F.current_timestamp().cast("double") - F.col(arrival).cast("timestamp").cast("double")


def draw_of_row(rows: DataFrame, key: str | None = None) -> Column:
    """A number from 0 to 1 for each row, always the same for the same row or key."""
    if key is not None:
        remedy = f"guard key {key!r} is null: fill it (coalesce) or filter those rows before the guard"
        present = F.when(F.col(key).isNull(), F.raise_error(F.lit(remedy)).cast(rows.schema[key].dataType))
        return _unit_interval(F.xxhash64(F.lit(_DRAW_SEED), present.otherwise(F.col(key))))
    for identity in (_KAFKA_IDENTITY, _LOAD_IDENTITY):
        if set(identity) <= set(rows.columns):
            return _unit_interval(F.xxhash64(F.lit(_DRAW_SEED), *(F.col(name) for name in identity)))
    return F.rand(_DRAW_SEED)


def _unit_interval(bits: Column) -> Column:
    return F.shiftrightunsigned(bits, 11) * F.lit(2.0**-53)


def _observations(arrival: str | None) -> list[Column]:
    observations = [
        F.count(F.lit(1)).alias("offered_rows"),
        F.count_if(F.col(_KEPT)).alias("kept_rows"),
        F.count_if(F.col(_LATE)).alias("late_rows"),
        F.count_if(F.col(_KEPT) & F.col(_LATE)).alias("kept_late_rows"),
        F.max(_TOLD).alias("told"),
    ]
    if arrival is not None:
        seconds = F.col(arrival).cast("timestamp").cast("double")
        observations += [F.min(seconds).alias("oldest_s"), F.avg(seconds).alias("mean_s")]
    return observations


def utility_of(rows: DataFrame, utility: str | Column) -> Column:
    """A utility as a column: the name of one, an expression in SQL, or a column already."""
    if not isinstance(utility, str):
        return utility
    return F.col(utility) if utility in rows.columns else F.expr(utility)


def check_columns(rows: DataFrame, key: str | None, arrival: str | None, *, place: str = "guard") -> None:
    """Refuse columns that are not there, or not of a kind that serves a guard or an operator."""
    columns = ", ".join(rows.columns)
    if arrival is not None:
        if arrival not in rows.columns:
            raise InvalidGuardError(
                f"arrival column {arrival!r} is not there; name one of: {columns}, or pass arrival=None"
            )
        if not isinstance(rows.schema[arrival].dataType, T.TimestampType | T.TimestampNTZType):
            kind = rows.schema[arrival].dataType.simpleString()
            raise InvalidGuardError(f"arrival column {arrival!r} is of type {kind}: cast it to timestamp")
    if key is not None:
        if key not in rows.columns:
            raise InvalidGuardError(f"{place} key {key!r} is not there; name one of: {columns}")
        if isinstance(rows.schema[key].dataType, _UNHASHABLE):
            kind = rows.schema[key].dataType.simpleString()
            raise InvalidGuardError(
                f"{place} key {key!r} is of type {kind}, which cannot be hashed: use a simple column"
            )
    if WEIGHT in rows.columns:
        raise InvalidGuardError(f"the column {WEIGHT!r} is there already: rename it, or use one guard only")
