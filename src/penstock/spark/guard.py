"""The guard: the place in a query's plan where rows may be dropped, entirely inside the JVM.

A subquery of one row asks the driver for the batch's directive (:mod:`penstock.spark.directive_task`) while the batch
is planned, and Spark hands the answer to the filter: no row leaves the JVM. Which rows are kept is a hash of the row's
identity, or of a key, against the keep ratio, so that a task or a batch that runs again keeps the same rows again.

The answer is an array. Spark writes plain numbers into the Java text that it generates, and would compile it anew for
every other number; an array it passes by. For the same reason there is no clock in the plan: which rows are late is
told by a moment in the array, not by their age.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from penstock.errors import InvalidGuardError
from penstock.spark.collector import GUARD_PREFIX, REQUESTED
from penstock.spark.directive_task import directive_of_task

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WEIGHT = "weight"
_DRAW_SEED = 20_077
_CHANCE = "__penstock_chance"
_KAFKA_IDENTITY = ("topic", "partition", "offset")
_LOAD_IDENTITY = ("offset",)
_UNHASHABLE = (T.MapType, T.VariantType)
_SMALLEST_RATIO = 1e-6
_numbers = itertools.count(1)
_requested: WeakKeyDictionary[SparkSession, Column] = WeakKeyDictionary()


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
    name = f"{GUARD_PREFIX}.{next(_numbers)}"
    identified = rows if key is not None or _identity(rows) else rows.withColumn(_CHANCE, F.rand(_DRAW_SEED))
    decision = _decide(identified, key, arrival, utility)
    # Spark counts outside of its compiled loop. Right behind the source there is none that would be broken up, so the
    # counts come first and the columns that the decision needs are worked out in either place: it is cheaper so.
    observed = identified.observe(name, *_observations(decision, arrival))
    return observed.where(decision.kept).withColumn(WEIGHT, 1.0 / decision.keep_ratio).drop(_CHANCE)


@dataclass(frozen=True, slots=True)
class _Decision:
    """What becomes of a row, as columns."""

    keep_ratio: Column
    kept: Column
    late: Column


def _decide(rows: DataFrame, key: str | None, arrival: str | None, utility: str | Column | None) -> _Decision:
    requested = requested_values(rows.sparkSession)
    keep_ratio, keep_floor, late_before_s = requested[0], requested[1], requested[2]
    everything = keep_ratio >= 1.0
    # Rows of one key must all have the same ratio, or the two sides of a join would not match. And while everything is
    # kept no row is asked for its arrival.
    late = F.lit(False)
    if arrival is not None and key is None:
        late = (keep_ratio < 1.0) & F.coalesce(arrival_s(arrival) < late_before_s, F.lit(False))
    ratio = keep_ratio if utility is None else keep_ratio * utility_of(rows, utility).cast("double")
    # Asked for one or more, everything is kept; otherwise no row with less than the floor, and late ones with just
    # that.
    floor = F.greatest(keep_floor, F.lit(_SMALLEST_RATIO))
    wanted = F.when(late, floor).otherwise(F.greatest(floor, ratio))
    row_ratio = F.when(everything, F.lit(1.0)).otherwise(F.least(F.lit(1.0), wanted))
    # While everything is kept nothing is hashed; but a null key must not wait for the first overload to be found.
    surely = everything if key is None else everything & F.col(key).isNotNull()
    return _Decision(row_ratio, surely | (draw_of_row(rows, key) < row_ratio), late)


def requested_values(spark: SparkSession) -> Column:
    """The directive of the batch as an array (:meth:`~penstock.model.directive.Directive.to_array`).

    The driver is asked once a batch. What it asks for is reported with the batch, from here, where there is one row
    only.
    """
    # One subquery for all guards of a session: Spark sees that they are the same, and runs it once a batch.
    if spark not in _requested:
        _requested[spark] = _requested_subquery(spark)
    return _requested[spark]


def _requested_subquery(spark: SparkSession) -> Column:
    @F.udf("array<double>", useArrow=False)
    def ask_driver(_: int) -> list[float]:
        found = directive_of_task()
        return found.directive.to_array(answered=found.answered)

    # Unless it is said to be nondeterministic Spark runs it once, when the query is optimised, and never again.
    array = F.col("directive")
    found = spark.range(0, 1, 1, 1).select(ask_driver.asNondeterministic()("id").alias("directive"))
    reported = (F.max(array[0]).alias("keep_ratio"), F.min(array[3]).alias("answered"))
    return found.observe(REQUESTED, *reported).scalar()


def arrival_s(arrival: str) -> Column:
    """When a row arrived, in seconds since the epoch."""
    return F.col(arrival).cast("timestamp").cast("double")


def draw_of_row(rows: DataFrame, key: str | None = None) -> Column:
    """A number from 0 to 1 for each row, always the same for the same row or key."""
    if key is not None:
        remedy = f"guard key {key!r} is null: fill it (coalesce) or filter those rows before the guard"
        present = F.when(F.col(key).isNull(), F.raise_error(F.lit(remedy)).cast(rows.schema[key].dataType))
        return _unit_interval(F.xxhash64(F.lit(_DRAW_SEED), present.otherwise(F.col(key))))
    identity = _identity(rows)
    if identity:
        return _unit_interval(F.xxhash64(F.lit(_DRAW_SEED), *(F.col(name) for name in identity)))
    return F.col(_CHANCE) if _CHANCE in rows.columns else F.rand(_DRAW_SEED)


def _identity(rows: DataFrame) -> tuple[str, ...]:
    """Columns that tell each row from all others; none where there are none."""
    columns = set(rows.columns)
    return next((names for names in (_KAFKA_IDENTITY, _LOAD_IDENTITY) if set(names) <= columns), ())


def _unit_interval(bits: Column) -> Column:
    return F.shiftrightunsigned(bits, 11) * F.lit(2.0**-53)


def _observations(decision: _Decision, arrival: str | None) -> list[Column]:
    observations = [
        F.count(F.lit(1)).alias("offered_rows"),
        F.count_if(decision.kept).alias("kept_rows"),
        F.count_if(decision.late).alias("late_rows"),
        F.count_if(decision.late & decision.kept).alias("kept_late_rows"),
    ]
    if arrival is not None:
        arrived = F.col(arrival).cast("timestamp")
        mean_s = F.avg(F.unix_micros(arrived)) * F.lit(1e-6)
        observations += [F.min(arrived).cast("double").alias("oldest_s"), mean_s.alias("mean_s")]
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
