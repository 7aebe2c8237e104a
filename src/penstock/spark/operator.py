"""The operator: a user's row function whose cost per key Penstock learns, with the guard in the same Python stage.

A guard in front of a Python function would be told how many rows to keep, and drop dear and cheap ones alike. The
operator knows what each row costs: every execution is timed, and counted by key in a count-min sketch (load-aware
shedding, section III). Tasks send their sketches back in an accumulator; the driver merges them after each batch, and
gives the result to the tasks of later batches together with their directives (:mod:`penstock.spark.directives`).
"""

from __future__ import annotations

import itertools
import logging
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.errors import InvalidGuardError
from penstock.spark import guard_spec
from penstock.spark.collector import BY_CHANCE, GUARD_PREFIX
from penstock.spark.guard import WEIGHT, check_columns, draw_of_row, utility_of
from penstock.spark.identity import NO_IDENTITY, row_identity
from penstock.spark.operator_report import ReportSum, reports
from penstock.spark.operator_shares import STRATEGIES, empty_sketch
from penstock.spark.operator_worker import (
    ARRIVAL,
    DRAW,
    HIDDEN,
    KEY,
    UTILITY,
    OperatorTask,
    SketchSum,
    costs_to_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.accumulators import Accumulator
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.spark.operator_worker import Row

logger = logging.getLogger("penstock")

_KEY_SEED = 60_317
_MEMORY_ROWS = 200_000.0
_KEY_TYPES = (T.IntegralType, T.StringType, T.BinaryType, T.BooleanType, T.DateType)
_numbers = itertools.count(1)


class Operator:
    """A row function in a query's plan, and what its rows were found to cost.

    Made by :meth:`penstock.spark.attach.Penstock.operator`.
    """

    def __init__(
        self, spark: SparkSession, name: str, meaning: str, key_type: T.DataType, *, by_chance: bool = False
    ) -> None:
        self.name = name
        self.mark = f"{GUARD_PREFIX}{BY_CHANCE if by_chance else ''}.operator.{next(_numbers)}"
        # The same after a restart, so that a batch that runs again finds the costs of the first time.
        self.costs_name = f"{name} {zlib.crc32(meaning.encode()):08x}"
        self.sums: Accumulator[NDArray[np.float64]] = spark.sparkContext.accumulator(empty_sketch().cells, SketchSum())
        self._spark = spark
        self._key_type = key_type
        self._taken = empty_sketch().cells
        self._sketch = empty_sketch()

    @property
    def rows_learned(self) -> float:
        """Rows that the present costs rest on; older ones have faded."""
        return float(self._sketch.cells[0, :, 0].sum())

    @property
    def mean_cost_s(self) -> float:
        """Mean seconds that a row takes in the function; not a number before the first."""
        return self._sketch.mean_cost_s

    def costs_s(self, values: Sequence[Any]) -> list[float]:
        """Learned seconds per row for values of the key."""
        frame = self._spark.createDataFrame([(value,) for value in values], T.StructType().add("key", self._key_type))
        hashes = np.array([row[0] for row in frame.select(key_hash("key")).collect()], np.int64)
        return [float(cost) for cost in self._sketch.costs_s(hashes.view(np.uint64))]

    def absorb(self) -> None:
        """Take in what tasks have sent back since the last time; memory of older rows fades."""
        sums = self.sums.value
        fresh = sums - self._taken
        self._taken = sums
        self._sketch.cells *= min(1.0, _MEMORY_ROWS / max(1.0, self.rows_learned + float(fresh[0, :, 0].sum())))
        self._sketch.merge(fresh)

    def costs(self) -> bytes | None:
        """The costs as they go to the tasks that ask under :attr:`costs_name`; None before anything is learned."""
        return costs_to_bytes(self._sketch.cells) if self.rows_learned else None


def run_operator(
    rows: DataFrame,
    function: Callable[[Row], Row | None],
    schema: T.StructType | str,
    key: str,
    *,
    strategy: str = "economic",
    utility: str | Column | None = None,
    arrival: str | None = "timestamp",
    identity: str | Sequence[str] | None = None,
) -> tuple[DataFrame, Operator]:
    """Run a row function that learns what its rows cost, and sheds in front of it.

    Parameters
    ----------
    rows
        A stream or a batch frame; nothing is dropped from the latter.
    function
        Gets each row as a dictionary; gives a dictionary with the columns of ``schema``, or None to leave the row out.
    schema
        Columns that the function gives, as a ``StructType`` or in DDL. ``weight`` is added after them.
    key
        Column whose values decide what a row costs: whole number, text, bytes, boolean or date, and never null.
    strategy
        Who goes when not all fit: ``uniform``, ``economic``, ``semantic`` or ``las``
        (:mod:`penstock.spark.operator_shares`).
    utility
        Column or expression, zero or more: what a row is worth, for ``economic`` and ``semantic``. Null, not a number
        and negative count as zero.
    arrival
        Timestamp column that says when a row arrived, for its age; None where there is none.
    identity
        Columns that together tell every row from all others, as for a guard (:func:`~penstock.spark.guard.guard_rows`).

    Raises
    ------
    InvalidGuardError
        A column that is not there or not of a kind that serves, or a strategy that is not known.
    """
    fields = _fields(schema)
    _check(rows, fields, key, strategy, utility, arrival)
    name = getattr(function, "__name__", type(function).__name__)
    found = row_identity(rows, identity)
    by_chance = rows.isStreaming and not found
    if by_chance:
        logger.warning("operator %s: %s", name, NO_IDENTITY)
    meaning = f"{name} {key} {rows.schema.simpleString()} {fields.simpleString()} {strategy}"
    operator = Operator(rows.sparkSession, name, meaning, rows.schema[key].dataType, by_chance=by_chance)
    reported = rows.sparkSession.sparkContext.accumulator({}, ReportSum()) if rows.isStreaming else None
    task = OperatorTask(
        function=function,
        name=name,
        key=key,
        columns=tuple(rows.columns),
        fields=to_arrow_schema(fields, timezone="UTC"),
        strategy=strategy,
        costs_name=operator.costs_name,
        arrival=_arrival_column(rows, arrival),
        learned=operator.sums,
        reported=reported,
    )
    hidden = {KEY: key_hash(key)}
    if found:
        # Rows without an identity are drawn in the worker: Spark's own rand is compiled anew in every batch.
        hidden[DRAW] = draw_of_row(rows, identity=found)
    if arrival is not None and task.arrival == ARRIVAL:
        hidden[ARRIVAL] = F.col(arrival).cast("timestamp")
    if utility is not None:
        hidden[UTILITY] = utility_of(rows, utility)
    # A function may give nothing for a column, whatever the user's schema promises.
    given = T.StructType([T.StructField(entry.name, entry.dataType) for entry in fields])
    # The operator is found in a plan by the name of its function, which stands first, and by that of its weights.
    run = _named(task, operator.mark)
    result = rows.withColumns(hidden).mapInArrow(run, given.add(operator.mark, T.DoubleType()))
    if reported is not None:
        guard_spec.book.operators[operator.mark] = f"{name} ({strategy})"
        reports.add(operator.mark, reported)
    return result.withColumnRenamed(operator.mark, WEIGHT), operator


def _named(task: OperatorTask, mark: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task under a name that Spark writes into its plans, where the last of many columns are left out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task.run(batches)

    run.__name__ = mark
    return run


def _arrival_column(rows: DataFrame, arrival: str | None) -> str | None:
    """The column that tells the worker when rows arrived: the user's, unless its moments depend on a time zone."""
    if arrival is None:
        return None
    return arrival if isinstance(rows.schema[arrival].dataType, T.TimestampType) else ARRIVAL


def key_hash(key: str) -> Column:
    """A 64-bit hash of a key, the same in every process and after every restart."""
    remedy = f"operator key {key!r} is null: fill it (coalesce) or filter those rows before the operator"
    bits = F.xxhash64(F.lit(_KEY_SEED), F.col(key))
    return F.when(F.col(key).isNull(), F.raise_error(F.lit(remedy)).cast("bigint")).otherwise(bits)


def _fields(schema: T.StructType | str) -> T.StructType:
    fields = T.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(fields, T.StructType) or not fields.names:
        raise InvalidGuardError(f"operator schema {schema!r} names no columns: write it as 'name type, name type'")
    return fields


def _check(
    rows: DataFrame,
    fields: T.StructType,
    key: str,
    strategy: str,
    utility: str | Column | None,
    arrival: str | None,
) -> None:
    check_columns(rows, key, arrival, place="operator")
    kind = rows.schema[key].dataType
    if not isinstance(kind, _KEY_TYPES):
        raise InvalidGuardError(
            f"operator key {key!r} is of type {kind.simpleString()}: it must be a whole number, text, bytes, a boolean "
            "or a date; derive such a column (cast, date_trunc, round) and use it as the key"
        )
    if strategy not in STRATEGIES:
        raise InvalidGuardError(f"operator strategy {strategy!r} is not known: use one of {', '.join(STRATEGIES)}")
    if strategy == "semantic" and utility is None:
        raise InvalidGuardError("operator strategy 'semantic' needs utility=: a column or expression from zero up")
    if utility is not None and strategy not in ("economic", "semantic"):
        raise InvalidGuardError(
            f"operator strategy {strategy!r} takes no utility: use 'semantic', or leave utility= out"
        )
    taken = {WEIGHT, *HIDDEN} & set(fields.names)
    if taken:
        raise InvalidGuardError(f"operator schema has the column {min(taken)!r}, which Penstock adds itself: rename it")
