"""The guard: the place in a query's plan where rows may be dropped, entirely inside the JVM.

A constant that is worked out while the batch is optimised, in the driver, asks for the batch's directive
(:mod:`penstock.spark.directive_task`): no job, no Python worker, no subquery (ADR 30). Spark hands the answer to the
filter: no row leaves the JVM. Which rows are kept is a hash of the row's identity (:mod:`penstock.spark.identity`), or
of a key, against the keep ratio, so that a task or a batch that runs again keeps the same rows again.

The answer is an array. Spark writes plain numbers into the Java text that it generates, and would compile it anew for
every other number; an array it passes by. For the same reason there is no clock in the plan: which rows are late is
told by a moment in the array, not by their age. Spark optimises whatever stands in the plan, and writes it as code, in
every batch anew: so little does. Guards with a utility, and a Spark without the members that the constant needs, ask by
a subquery of one row.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from penstock.errors import InvalidGuardError
from penstock.model.directive import FLOOR_AT, KEEP_RATIO_AT, LATE_BEFORE_AT, RATIO_AT
from penstock.spark import guard_spec, internals
from penstock.spark.collector import BY_CHANCE, GUARD_PREFIX, UTILITY_BINS
from penstock.spark.directive_task import directive_of_batch
from penstock.spark.guard_counts import counts
from penstock.spark.guard_filters import KEPT, LATE_GONE, OFFERED, Counted, drawn_bits, passes, sampling
from penstock.spark.guard_spec import GuardSpec, SourceReading
from penstock.spark.identity import NO_IDENTITY, UNHASHABLE, row_identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.model.directive import Directive

logger = logging.getLogger("penstock")

WEIGHT = "weight"
_DRAW_SEED = 20_077
_OWN = _CHANCE, _DIRECTIVE, _DRAW, _LATE, _RATIO, _UTILITY = tuple(
    f"__penstock_{name}" for name in ("chance", "directive", "draw", "late", "ratio", "utility")
)
_LARGEST_UTILITY = 1e100
_UTILITY_BINS = 32
_DRAW_BLOCKS = 2.0**20
_UTILITY_SAMPLE = 16
"""One row in so many tells its utility: a batch of a thousand rows shows sixty, enough for a curve to the nearest
tenth, and the others pay next to nothing."""
_numbers = itertools.count(1)
guard_keys: dict[str, str | None] = {}
"""Keys of the guards of this process by the names of their observations, for whoever looks at a plan."""
_requested: WeakKeyDictionary[SparkSession, Column] = WeakKeyDictionary()
_folded: WeakKeyDictionary[SparkSession, Column] = WeakKeyDictionary()


def guard_rows(
    rows: DataFrame,
    *,
    key: str | None = None,
    arrival: str | None = "timestamp",
    utility: str | Column | None = None,
    identity: str | Sequence[str] | None = None,
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
        sides of a join stay matched. Without it each row is drawn for itself.
    arrival
        Timestamp column that says when a row arrived; None where there is none. While rows must go, those that are too
        old to be out in time go first, unless there is a key.
    utility
        Column or expression from 0 to 1: rows are kept with a probability in proportion to it. Null, not a number and
        negative count as zero: such rows are kept at the floor that the minimum accuracy sets.
    identity
        Columns that together tell every row from all others, and are the same when the row is read again. They are not
        needed behind Kafka and the load source, which number their rows. Without any, rows are drawn by chance, and a
        batch that runs again keeps other rows.

    Raises
    ------
    InvalidGuardError
        A column that is not there, or not of a kind that serves.
    """
    check_columns(rows, key, arrival)
    found = row_identity(rows, identity)
    if not rows.isStreaming:
        return rows.withColumn(WEIGHT, F.lit(1.0))
    is_by_chance = key is None and not found
    if is_by_chance:
        logger.warning("guard: %s", NO_IDENTITY)
    name = f"{GUARD_PREFIX}{BY_CHANCE if is_by_chance else ''}.{next(_numbers)}"
    has_counts = internals.counts_rows(rows.sparkSession)
    is_counted = utility is None and has_counts
    is_folded = is_counted and internals.is_folded(rows.sparkSession)
    requested = folded_values(rows.sparkSession) if is_folded else requested_values(rows.sparkSession)
    guard_spec.book.specs[name] = _spec(rows, key, arrival, utility, found)
    guard_keys[name] = key
    if is_counted:
        return _counted(rows, name, requested, key=key, arrival=arrival, identity=found)
    drawn = drawn_bits(rows.sparkSession, F.col(_DIRECTIVE)) if is_by_chance and has_counts else None
    decided = decide(rows, requested, key=key, arrival=arrival, utility=utility, identity=found, drawn=drawn)
    # Spark counts outside of its compiled loop, and nothing is moved past the counts: so what is decided below them is
    # decided once, and both the counts and the filter above them read it.
    observed = decided.observe(name, *_observations(arrival, utility))
    # Not "is not null": Spark joins this condition with the filters that follow, and asks for nulls last of all, so
    # that a dropped row would first be put through whatever the query's own filter computes.
    return observed.where(F.col(WEIGHT) > 0.0).drop(*_OWN)


def _counted(
    rows: DataFrame,
    name: str,
    requested: Column,
    *,
    key: str | None,
    arrival: str | None,
    identity: tuple[str, ...],
) -> DataFrame:
    """A guard whose rows are counted by its own filters (:mod:`penstock.spark.guard_filters`)."""
    spark, told = rows.sparkSession, F.col(_DIRECTIVE)
    collector, enters = None, passes(OFFERED)
    if arrival is not None:
        number = _row_number(rows, identity) if identity else F.col(_CHANCE)
        collector, tells = sampling(spark, told, number, F.col(arrival).cast("timestamp"))
        enters = enters & tells
    counts.add(name, collector)
    counted = Counted(name, enters)
    drawn = None if identity else drawn_bits(spark, told)
    decided = decide(
        rows, requested, key=key, arrival=arrival, utility=None, identity=identity, counted=counted, drawn=drawn
    )
    weight = F.col(f"`{name}`")
    if arrival is not None and key is None:
        decided = decided.where(passes(LATE_GONE) & (~F.col(_LATE) | weight.isNotNull()))
    return decided.where(passes(KEPT) & (weight > 0.0)).withColumnRenamed(name, WEIGHT).drop(*_OWN)


def _row_number(rows: DataFrame, identity: Sequence[str]) -> Column:
    """A whole number of a row whose last digits are as good as drawn: the offset that its source gave it, or a hash."""
    last = identity[-1]
    is_offset = tuple(identity) == row_identity(rows) and isinstance(rows.schema[last].dataType, T.LongType)
    return F.col(last) if is_offset else F.xxhash64(*(F.col(each) for each in identity))


def dropped_rows(
    rows: DataFrame,
    told: Directive,
    *,
    key: str | None,
    arrival: str | None,
    utility: str | Column | None,
    identity: tuple[str, ...],
) -> DataFrame:
    """Those of some rows that a guard dropped when it was told so; without a weight, as nobody stands for others."""
    array = F.array(*(F.lit(value) for value in told.to_array(answered=True)))
    decided = decide(rows, array, key=key, arrival=arrival, utility=utility, identity=identity)
    return decided.where(F.col(WEIGHT).isNull()).drop(*_OWN, WEIGHT)


def seed() -> int:
    """What the draw is seeded with: a batch drawn with another cannot be drawn again."""
    return _DRAW_SEED


def _spec(
    rows: DataFrame, key: str | None, arrival: str | None, utility: str | Column | None, identity: tuple[str, ...]
) -> GuardSpec:
    source, is_at_source = internals.source_of(rows)
    return GuardSpec(
        seed=_DRAW_SEED,
        identity=identity,
        key=key,
        arrival=arrival,
        utility=utility if isinstance(utility, str) else None,
        has_utility=utility is not None,
        source=None if source is None else SourceReading.of(source.name, source.options, source.schema_json),
        is_at_source=is_at_source,
    )


def decide(
    rows: DataFrame,
    requested: Column,
    *,
    key: str | None,
    arrival: str | None,
    utility: str | Column | None,
    identity: tuple[str, ...],
    counted: Counted | None = None,
    drawn: Column | None = None,
) -> DataFrame:
    """The rows with the weight of those that stay, null for those that go, and whether they are late.

    ``requested`` is what the running batch asked for (:func:`requested_values`), or what an earlier one was told: the
    same directive always decides the same, unless rows have no identity: ``drawn`` are 64 bits for each of those, where
    Spark's own ``rand`` need not do. Where its own filters count, what is decided is decided once, below those that
    follow.
    """
    told = F.col(_DIRECTIVE)
    floor, late = told[FLOOR_AT], F.lit(False)
    # Rows of one key must all have the same ratio, or the two sides of a join would not match. And while everything is
    # kept, the floor is one, and no row is asked for its arrival.
    has_late = arrival is not None and key is None
    if has_late:
        late = (floor < 1.0) & F.coalesce(arrival_s(str(arrival)) < told[LATE_BEFORE_AT], F.lit(False))
    # The floor stands right behind the ratio: an index that is worked out takes Spark less time in every batch than a
    # choice between the two that is a column of its own.
    ratio = told[F.lit(RATIO_AT) + F.col(_LATE).cast("int")] if has_late else told[RATIO_AT]
    columns = {_LATE: late}
    draw = draw_of_row(rows, key, identity)
    chance = drawn
    if key is None and not identity:
        draw, chance = (draw, F.rand(_DRAW_SEED)) if drawn is None else (_unit_interval(draw), drawn)
    if utility is not None:
        # No row with less than the floor: one of a weight far above all others leaves no interval that holds the truth.
        own = F.least(F.lit(1.0), F.greatest(floor, told[KEEP_RATIO_AT] * F.col(_UTILITY)))
        own = F.when(F.col(_LATE), floor).otherwise(own) if has_late else own
        columns = {_UTILITY: utility_of(rows, utility), _DRAW: draw, **columns, _RATIO: own}
        ratio, draw = F.col(_RATIO), F.col(_DRAW)
    # What is kept for sure is not hashed; but a null key must not wait for the first overload to be found.
    surely = ratio >= 1.0
    surely = surely if key is None else surely & F.col(key).isNotNull()
    stays = surely | (draw < ratio)
    columns[WEIGHT if counted is None else counted.name] = F.when(
        stays if counted is None else passes(KEPT) & stays, 1.0 / ratio
    )
    # Chance is drawn in a step of its own: an expression that draws cannot stand inside another that is counted.
    decided = rows.withColumn(_DIRECTIVE, requested)
    decided = decided if chance is None else decided.withColumn(_CHANCE, chance)
    decided = decided if counted is None else decided.where(counted.enters)
    for name, column in columns.items():
        decided = decided.withColumn(name, column)
    return decided


def requested_values(spark: SparkSession) -> Column:
    """The directive of the batch as an array (:meth:`~penstock.model.directive.Directive.to_array`).

    Raises
    ------
    InvalidGuardError
        The rule of Spark's optimiser by which a batch asks is switched off.
    """
    if not internals.is_asked(spark):
        raise InvalidGuardError(
            f"batches cannot ask what they may keep: take {internals.EVALUATED_BY} out of "
            "spark.sql.optimizer.excludedRules"
        )
    # One subquery for all guards of a session: Spark sees that they are the same, and plans it once a batch.
    if spark not in _requested:
        asked = internals.asked_text(spark, directive_of_batch, "directive")
        _requested[spark] = asked.select(F.split("directive", ",").cast("array<double>").alias("directive")).scalar()
    return _requested[spark]


def folded_values(spark: SparkSession) -> Column:
    """The same array without a subquery, for a projection of its own (:func:`~penstock.spark.internals.folded_text`).

    The condition is always true, and Spark does not know it. Otherwise every number of the array would take the place
    of its mention, and be compiled anew whenever it is another.
    """
    if spark not in _folded:
        _folded[spark] = F.when(passes(OFFERED), _constant_values())
    return _folded[spark]


def aggregated_values(spark: SparkSession) -> Column:
    """The same array for the columns of an aggregation, which take no condition that Spark does not know.

    It is a constant, which compiled code gets by reference. A number that is read from it at a known place is one, too,
    and is written into the code: so a place must depend on an aggregate. Every mention of a subquery, by which it is
    asked where constants are not worked out, takes some milliseconds of each batch.
    """
    return _constant_values() if internals.is_folded(spark) else requested_values(spark)


def _constant_values() -> Column:
    return F.split(internals.folded_text(directive_of_batch), ",").cast("array<double>")


def arrival_s(arrival: str) -> Column:
    """When a row arrived, in seconds since the epoch."""
    return F.col(arrival).cast("timestamp").cast("double")


def draw_of_row(rows: DataFrame, key: str | None = None, identity: Sequence[str] = ()) -> Column:
    """A number from 0 to 1 for each row, always the same for the same row or key; by chance without identity."""
    if key is not None:
        remedy = f"guard key {key!r} is null: fill it (coalesce) or filter those rows before the guard"
        present = F.when(F.col(key).isNull(), F.raise_error(F.lit(remedy)).cast(rows.schema[key].dataType))
        return draw_of_key(present.otherwise(F.col(key)))
    if identity:
        return _unit_interval(F.xxhash64(F.lit(_DRAW_SEED), *(F.col(name) for name in identity)))
    return F.col(_CHANCE)


def draw_of_key(key: Column) -> Column:
    """The draw of a key: it stays in every batch whose keep ratio is above it."""
    return _unit_interval(F.xxhash64(F.lit(_DRAW_SEED), key))


def _unit_interval(bits: Column) -> Column:
    return F.shiftrightunsigned(bits, 11) * F.lit(2.0**-53)


def _observations(arrival: str | None, utility: str | Column | None) -> list[Column]:
    is_kept = F.col(WEIGHT).isNotNull()
    observations = [
        F.count(F.lit(1)).alias("offered_rows"),
        F.count(WEIGHT).alias("kept_rows"),
        F.count_if(F.col(_LATE)).alias("late_rows"),
        F.count_if(F.col(_LATE) & is_kept).alias("kept_late_rows"),
    ]
    if arrival is not None:
        ends = {"oldest_s": F.min(arrival), "newest_s": F.max(arrival)}
        observations += [end.cast("timestamp").cast("double").alias(name) for name, end in ends.items()]
    if utility is not None:
        # Any digits but the first: which rows tell must not depend on which are kept.
        tells = F.col(_DRAW) * _DRAW_BLOCKS % 1.0 < 1.0 / _UTILITY_SAMPLE
        told = F.when(tells, F.least(F.col(_UTILITY), F.lit(1.0)))
        observations.append(F.histogram_numeric(told, F.lit(_UTILITY_BINS)).alias(UTILITY_BINS))
    return observations


def utility_of(rows: DataFrame, utility: str | Column) -> Column:
    """A utility as numbers: the name of a column, an expression in SQL, or a column already.

    A row without one, or with one that means nothing, is worth nothing: an error would end a query at its first
    overload, the moment in which it is needed most.
    """
    column = utility
    if isinstance(utility, str):
        column = F.col(utility) if utility in rows.columns else F.expr(utility)
    number = column.cast("double")  # type: ignore[union-attr]
    return F.when(number.isNull() | F.isnan(number) | (number < 0), F.lit(0.0)).otherwise(
        F.least(number, F.lit(_LARGEST_UTILITY))
    )


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
        if isinstance(rows.schema[key].dataType, UNHASHABLE):
            kind = rows.schema[key].dataType.simpleString()
            raise InvalidGuardError(
                f"{place} key {key!r} is of type {kind}, which cannot be hashed: use a simple column"
            )
    if WEIGHT in rows.columns:
        raise InvalidGuardError(f"the column {WEIGHT!r} is there already: rename it, or use one guard only")
