"""The operator inside a Python worker: sheds, runs the user's function, and times every row.

Rows come in as Arrow batches with five more columns, computed inside the JVM: a hash of the key, the number drawn for
the row, its arrival, its age at the time of the batch, and its utility. Rows that go never become Python objects. Rows
that stay are handed to the function as dictionaries; the clock is read once after each, so that the end of one row is
the beginning of the next. What was learned goes back in an accumulator, what happened in one last row for each
partition, which the JVM takes out.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from penstock.control.schedule import KeepSchedule
from penstock.control.shedding import Rows
from penstock.errors import PenstockError
from penstock.spark.operator_report import REPORT_FIELDS
from penstock.spark.operator_shares import SKETCH_COLUMNS, SKETCH_ROWS, costs_of, decide, empty_sketch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.accumulators import Accumulator

    from penstock.control.shedding import Decision
    from penstock.estimate.sketch import CostSketch

Row = dict[str, Any]

KEY, DRAW, ARRIVAL, UTILITY = "__penstock_key", "__penstock_draw", "__penstock_arrival", "__penstock_utility"
AGE = "__penstock_age"
HIDDEN = (KEY, DRAW, ARRIVAL, UTILITY, AGE)
REPORT = "__penstock_report"
_REPORT_TYPE = pa.list_(pa.float64())
_LONGEST_KEY_TEXT = 60
_MOST_TIMES_ESTIMATE = 10.0
COST_PLACES = 3
"""Sketches that tasks can choose from: of the last batch, in case it runs again, of this one, and of the next."""
_SMALLEST_COST_S, _COST_STEP, _COUNT_STEP = 1e-8, 0.1, 0.1


class OperatorError(PenstockError):
    """A row that an operator cannot process, with the function, the row's key and the remedy."""


class SketchSum(AccumulatorParam["NDArray[np.float64]"]):
    """Adds up the sketches of all tasks."""

    def zero(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Nothing learned."""
        return np.zeros_like(value)

    def addInPlace(  # noqa: N802 - Spark's name
        self, value1: NDArray[np.float64], value2: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Give a new array: the driver may be reading the old one at this moment."""
        return value1 + value2


@dataclass(frozen=True, slots=True)
class Orders:
    """What the driver wants of the batch that a task belongs to."""

    told: float = 1.0
    smallest_share: float = 0.0
    sketch: CostSketch | None = None
    late_after_s: float = math.inf


@dataclass(slots=True)
class Tally:
    """What one partition did."""

    told: float
    offered_rows: int = 0
    kept_rows: int = 0
    oldest_s: float = math.inf
    arrival_sum_s: float = 0.0
    arrival_rows: int = 0
    offered_work: float = 0.0
    kept_work: float = 0.0
    function_s: float = 0.0
    late_rows: int = 0
    kept_late_rows: int = 0
    late_work: float = 0.0
    kept_late_work: float = 0.0
    learned: CostSketch = field(default_factory=empty_sketch)

    def values(self) -> list[float | None]:
        """The figures in the order of :data:`~penstock.spark.operator_report.REPORT_FIELDS`."""
        oldest_s = self.oldest_s if self.arrival_rows else None
        return [oldest_s if name == "oldest_s" else float(getattr(self, name)) for name in REPORT_FIELDS]


@dataclass(frozen=True, slots=True)
class OperatorTask:
    """One operator as its tasks know it.

    Parameters
    ----------
    function
        The user's: a row as a dictionary in, a row or None out.
    name
        What the function is called in messages.
    key
        Column whose values decide what a row costs.
    columns
        Columns that the function gets.
    fields
        Columns that it gives, the weight after them.
    strategy
        Who goes when not all fit.
    keep_property, floor_property, late_property, costs_property, batch_property
        Where the driver's orders are found.
    learned
        Takes what is learned back to the driver.
    """

    function: Callable[[Row], Row | None]
    name: str
    key: str
    columns: tuple[str, ...]
    fields: pa.Schema
    strategy: str
    keep_property: str
    floor_property: str
    late_property: str
    costs_property: str
    batch_property: str
    learned: Accumulator[NDArray[np.float64]] | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process a partition."""
        orders = self._orders()
        tally = Tally(told=orders.told)
        for batch in batches:
            if batch.num_rows:
                yield self._process(batch, orders, tally)
        if self.learned is not None:
            self.learned.add(tally.learned.cells)
        yield self._last_row(tally)

    def _orders(self) -> Orders:
        context = TaskContext.get()
        if context is None:
            return Orders()
        keep = context.getLocalProperty(self.keep_property)
        batch_id = int(context.getLocalProperty(self.batch_property) or 0)
        told = KeepSchedule.from_text(keep).fraction_at(batch_id) if keep else 1.0
        if not told > 0:
            raise OperatorError(
                f"operator {self.name}: a share of {told!r} cannot be kept, the weight of its rows would be without "
                "bound; set a minimum accuracy above zero"
            )
        floor = float(context.getLocalProperty(self.floor_property) or 0.0)
        late_after_s = float(context.getLocalProperty(self.late_property) or math.inf)
        sketch = costs_at(context.getLocalProperty, self.costs_property, batch_id)
        return Orders(told, floor, sketch, late_after_s)

    def _process(self, batch: pa.RecordBatch, orders: Orders, tally: Tally) -> pa.RecordBatch:
        keys = batch.column(KEY).to_numpy().view(np.uint64)
        self._count_arrivals(batch, tally)
        costs = costs_of(keys, orders.sketch)
        late = late_rows(batch, orders.late_after_s)
        decision = self._decide(batch, keys, costs, late, orders)
        keep = decision.keep
        _count(tally, keep, late, costs)
        rows = batch.select(self.columns)
        if not keep.all():
            rows, keys, costs = rows.filter(pa.array(keep)), keys[keep], costs[keep]
        results, costs_s = self._execute(as_dictionaries(rows))
        tally.function_s += float(costs_s.sum())
        _learn(tally, keys, costs_s, costs if orders.sketch is not None else None)
        return self._to_arrow(results, decision.weights)

    def _decide(
        self,
        batch: pa.RecordBatch,
        keys: NDArray[np.uint64],
        costs: NDArray[np.float64],
        late: NDArray[np.bool_],
        orders: Orders,
    ) -> Decision:
        utility = None
        if UTILITY in batch.schema.names and orders.told < 1.0:
            utility = batch.column(UTILITY).to_numpy(zero_copy_only=False)
            if not utility.min() >= 0 or not np.isfinite(utility.max()):
                raise OperatorError(
                    f"operator {self.name}: a utility is null, negative or not finite; give every row a number from "
                    "zero up (coalesce)"
                )
        rows = Rows(keys, np.zeros(keys.size), batch.column(DRAW).to_numpy(), costs_s=costs, utility=utility)
        return decide(
            self.strategy, rows, orders.sketch, share=orders.told, smallest_share=orders.smallest_share, late=late
        )

    def _execute(self, rows: list[Row]) -> tuple[list[Row | None], NDArray[np.float64]]:
        """Run the function; gives its results and the seconds that each row took."""
        function, clock = self.function, perf_counter_ns
        results: list[Row | None] = []
        ticks = [clock()]
        add, tick = results.append, ticks.append
        try:
            for row in rows:
                add(function(row))
                tick(clock())
        except Exception as error:
            raise self._failure(rows[len(ticks) - 1], f"{type(error).__name__}: {error}") from error
        return results, np.diff(np.array(ticks, np.float64)) * 1e-9

    def _to_arrow(self, results: list[Row | None], weights: NDArray[np.float64]) -> pa.RecordBatch:
        given = [row for row in results if row is not None]
        if len(given) < len(results):
            weights = weights[np.fromiter((row is not None for row in results), np.bool_, len(results))]
        columns = [self._column(given, entry) for entry in self.fields]
        schema = self._schema()
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(weights), pa.nulls(len(given), _REPORT_TYPE)], schema=schema
        )

    def _column(self, given: Sequence[Row], entry: pa.Field) -> pa.Array:
        name = entry.name
        try:
            return pa.array([row[name] for row in given], type=entry.type)
        except (KeyError, TypeError, IndexError) as error:
            wrong = next((row for row in given if not isinstance(row, dict) or name not in row), None)
            if wrong is None:
                raise self._misfit(name, entry, error) from error
            what = f"a row without {name!r}" if isinstance(wrong, dict) else f"a {type(wrong).__name__}"
            raise OperatorError(
                f"operator {self.name}: the function gave {what}; it must give None or a dict with "
                f"{', '.join(self.fields.names)}"
            ) from error
        except (pa.ArrowException, OverflowError) as error:
            raise self._misfit(name, entry, error) from error

    def _misfit(self, name: str, entry: pa.Field, error: Exception) -> OperatorError:
        return OperatorError(
            f"operator {self.name}: column {name!r} of the result does not fit its type {entry.type}: {error}; "
            "change the schema or what the function gives"
        )

    def _failure(self, row: Row, what: str) -> OperatorError:
        value = repr(row[self.key])[:_LONGEST_KEY_TEXT]
        return OperatorError(
            f"operator {self.name}: the function failed on a row with {self.key} = {value}: {what}; catch the error "
            "in the function and give None for rows to be left out"
        )

    def _count_arrivals(self, batch: pa.RecordBatch, tally: Tally) -> None:
        if ARRIVAL not in batch.schema.names:
            return
        arrivals = batch.column(ARRIVAL)
        known = len(arrivals) - arrivals.null_count
        if known:
            tally.arrival_rows += known
            tally.arrival_sum_s += pc.sum(arrivals).as_py()
            tally.oldest_s = min(tally.oldest_s, pc.min(arrivals).as_py())

    def _last_row(self, tally: Tally) -> pa.RecordBatch:
        columns = [pa.nulls(1, entry.type) for entry in self.fields]
        report = pa.array([tally.values()], type=_REPORT_TYPE)
        return pa.RecordBatch.from_arrays([*columns, pa.nulls(1, pa.float64()), report], schema=self._schema())

    def _schema(self) -> pa.Schema:
        return pa.schema([*self.fields, pa.field("weight", pa.float64()), pa.field(REPORT, _REPORT_TYPE)])


def late_rows(batch: pa.RecordBatch, late_after_s: float) -> NDArray[np.bool_]:
    """Which rows are too old to be out in time; none where rows tell no arrival."""
    if AGE not in batch.schema.names:
        return np.zeros(batch.num_rows, np.bool_)
    ages_s = batch.column(AGE).to_numpy(zero_copy_only=False)
    return np.asarray(ages_s > late_after_s)


def _count(tally: Tally, keep: NDArray[np.bool_], late: NDArray[np.bool_], costs: NDArray[np.float64]) -> None:
    kept_late = keep & late
    tally.offered_rows += keep.size
    tally.kept_rows += int(keep.sum())
    tally.late_rows += int(late.sum())
    tally.kept_late_rows += int(kept_late.sum())
    tally.offered_work += float(costs.sum())
    tally.kept_work += float(costs[keep].sum())
    tally.late_work += float(costs[late].sum())
    tally.kept_late_work += float(costs[kept_late].sum())


def _learn(
    tally: Tally, keys: NDArray[np.uint64], costs_s: NDArray[np.float64], estimates_s: NDArray[np.float64] | None
) -> None:
    """Count what rows cost, without what is not theirs.

    The first row of a task pays for imports and caches. Later ones are now and then interrupted for many milliseconds,
    by other processes or the collection of garbage: what exceeds ten times the estimate counts as that. A key that
    really became dearer is followed all the same, from batch to batch.
    """
    first = 1 if tally.kept_rows == costs_s.size > 1 else 0
    believed_s = costs_s if estimates_s is None else np.minimum(costs_s, _MOST_TIMES_ESTIMATE * estimates_s)
    tally.learned.update(keys[first:], believed_s[first:])


def as_dictionaries(rows: pa.RecordBatch) -> list[Row]:
    """Rows as dictionaries, column by column: several times faster than Arrow's own way, which goes row by row.

    Examples
    --------
    >>> as_dictionaries(pa.record_batch({"a": [1, 2], "b": ["x", None]}))
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': None}]
    """
    names = rows.schema.names
    columns = [column.to_pylist() for column in rows.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def sketch_texts(cells: NDArray[np.float64]) -> list[str]:
    """A sketch as short texts, one for each of its hash functions.

    It travels with every task of every batch, so a cell becomes two bytes: mean cost and number of rows, both on
    logarithmic scales and true within five per cent. That moves a probability by less than the lot does.
    """
    counts = cells[:, :, 0]
    means = np.divide(cells[:, :, 1], counts, out=np.full(counts.shape, _SMALLEST_COST_S), where=counts > 0)
    codes = np.stack(
        [
            np.log(means / _SMALLEST_COST_S) / _COST_STEP,
            np.ceil(np.log1p(counts) / _COUNT_STEP),
        ],
        axis=2,
    )
    whole = np.clip(np.rint(codes), 0, 255).astype(np.uint8)
    return [base64.b64encode(row.tobytes()).decode() for row in whole]


def sketch_from_texts(texts: Sequence[str]) -> CostSketch:
    """Read what :func:`sketch_texts` wrote.

    Examples
    --------
    >>> sketch = empty_sketch()
    >>> key = np.array([7], np.uint64)
    >>> sketch.update(key, np.array([0.25]))
    >>> texts = sketch_texts(sketch.cells)
    >>> len(texts), len(texts[0]), round(float(sketch_from_texts(texts).costs_s(key)[0]), 2)
    (4, 684, 0.24)
    """
    sketch = empty_sketch()
    codes = np.stack([np.frombuffer(base64.b64decode(text), np.uint8).reshape(SKETCH_COLUMNS, 2) for text in texts])
    counts = np.expm1(codes[:, :, 1] * _COUNT_STEP)
    sketch.cells = np.stack([counts, counts * _SMALLEST_COST_S * np.exp(codes[:, :, 0] * _COST_STEP)], axis=2)
    return sketch


def costs_messages(name: str, place: int, from_batch: int, cells: NDArray[np.float64]) -> list[tuple[str, str]]:
    """Properties that tell tasks what rows cost from a batch on, in the order in which they must be set.

    The batch comes last: a task that finds it finds all of the rest.
    """
    rows = [(f"{name}.{place}.{row}", text) for row, text in enumerate(sketch_texts(cells))]
    return [*rows, (f"{name}.{place}", str(from_batch))]


def costs_at(read: Callable[[str], str | None], name: str, batch_id: int) -> CostSketch | None:
    """The newest sketch that is meant for a batch, of the :data:`COST_PLACES` that there may be.

    Examples
    --------
    >>> sketch = empty_sketch()
    >>> sketch.update(np.array([7], np.uint64), np.array([0.25]))
    >>> properties = dict(costs_messages("costs", 0, 4, sketch.cells))
    >>> costs_at(properties.get, "costs", 3) is None, round(costs_at(properties.get, "costs", 4).mean_cost_s, 2)
    (True, 0.24)
    """
    found = [(int(text), place) for place in range(COST_PLACES) if (text := read(f"{name}.{place}"))]
    meant = [entry for entry in found if entry[0] <= batch_id]
    if not meant:
        return None
    _, place = max(meant)
    return sketch_from_texts([read(f"{name}.{place}.{row}") or "" for row in range(SKETCH_ROWS)])
