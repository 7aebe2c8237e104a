"""The operator inside a Python worker: sheds, runs the user's function, and times rows.

Rows come in as Arrow batches with more columns, computed inside the JVM: a hash of the key, the number drawn for the
row where something tells it from all others, and its utility. What to keep of them, and what they cost, the driver is
asked for once a batch and worker. Rows that go never become Python objects. Rows that stay are handed to the function
as dictionaries. Until their costs are known, and in every fourth Arrow batch after that, the clock is read once after
each, so that the end of one row is the beginning of the next. What was learned and what happened go back in
accumulators.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import AccumulatorParam

from penstock.control.shedding import Decision, Rows
from penstock.errors import PenstockError
from penstock.spark.directive_task import TaskPlace, directive_of_task, place_of_task
from penstock.spark.operator_report import REPORT_FIELDS
from penstock.spark.operator_shares import SKETCH_COLUMNS, SKETCH_ROWS, costs_of, decide, empty_sketch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.accumulators import Accumulator

    from penstock.estimate.sketch import CostSketch
    from penstock.model.directive import Directive
    from penstock.spark.operator_report import Figures, TaskReports

Row = dict[str, Any]

KEY, DRAW, ARRIVAL, UTILITY = "__penstock_key", "__penstock_draw", "__penstock_arrival", "__penstock_utility"
HIDDEN = (KEY, DRAW, ARRIVAL, UTILITY)
_WEIGHT = "weight"
_US_PER_S = 1e6
_FIRST_ROWS = 16
"""Of two partitions that so many rows do not tell apart none would: they are all alike."""
_LONGEST_KEY_TEXT = 60
_MOST_TIMES_ESTIMATE = 10.0
_TIMED_EVERY = 4
"""Of so many Arrow batches of a task one is timed row by row, the first, once costs are known.

The clock takes 0.15 us a row, three hundredths of what a row of five microseconds takes. A fourth of the rows tells a
cost to within twice the error of all of them, and a task of up to ten thousand rows is timed whole.
"""
_COSTS_HEAD = struct.Struct("<4sHHI")
_COSTS_FORMAT = b"PSC1"
_CELL_TYPE = np.dtype("<f4")


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


class Chance:
    """What rows without an identity are drawn by: the same when a task of a batch runs again, other in every batch.

    A batch whose frame is read twice, or of which an executor is lost, must not have kept two sets of rows. Partitions
    that one task reads one after the other (``coalesce``) have the same place, and are told from each other by their
    first rows: with the same draws they would stay and go together, and intervals would be too narrow.
    """

    def __init__(self, place: TaskPlace | None, costs_name: str) -> None:
        self._place, self._costs_name = place, costs_name
        self._generator: np.random.Generator | None = None

    def draws(self, rows: pa.RecordBatch) -> NDArray[np.float64]:
        """A number from 0 to 1 for each row."""
        if self._generator is None:
            self._generator = np.random.default_rng(None if self._place is None else self._seed(self._place, rows))
        return np.asarray(self._generator.random(rows.num_rows))

    def _seed(self, place: TaskPlace, rows: pa.RecordBatch) -> list[int]:
        first = repr(rows.slice(0, _FIRST_ROWS).to_pydict())
        texts = [zlib.crc32(text.encode()) for text in (place.run_id, self._costs_name, first)]
        return [*texts, place.batch_id, place.partition]


@dataclass(frozen=True, slots=True)
class Orders:
    """What the driver wants of the batch that a task belongs to, and what rows are known to cost."""

    directive: Directive
    chance: Chance
    sketch: CostSketch | None = None

    @property
    def keep_ratio(self) -> float:
        """Part of the work of rows in time that is kept."""
        return min(1.0, self.directive.keep_ratio)


@dataclass(slots=True)
class Tally:
    """What one partition did."""

    keep_ratio: float
    answered: bool = False
    everything: bool = False
    offered_rows: int = 0
    kept_rows: int = 0
    oldest_s: float = math.inf
    newest_s: float = -math.inf
    offered_work: float = 0.0
    kept_work: float = 0.0
    function_s: float = 0.0
    late_rows: int = 0
    kept_late_rows: int = 0
    late_work: float = 0.0
    kept_late_work: float = 0.0
    learned: CostSketch = field(default_factory=empty_sketch)

    def values(self) -> Figures:
        """The figures in the order of :data:`~penstock.spark.operator_report.REPORT_FIELDS`."""
        values = (float(getattr(self, name)) for name in REPORT_FIELDS)
        return tuple(value if math.isfinite(value) else None for value in values)


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
    costs_name
        Under which the driver knows what its rows cost.
    arrival
        Timestamp column that says when a row arrived; None where there is none.
    learned
        Takes what is learned back to the driver.
    reported
        Takes what happened back to it.
    """

    function: Callable[[Row], Row | None]
    name: str
    key: str
    columns: tuple[str, ...]
    fields: pa.Schema
    strategy: str
    costs_name: str
    arrival: str | None = None
    learned: Accumulator[NDArray[np.float64]] | None = None
    reported: Accumulator[TaskReports] | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process a partition."""
        found = directive_of_task(self.costs_name)
        place = place_of_task()
        orders = Orders(found.directive, Chance(place, self.costs_name), costs_from_bytes(found.costs))
        tally = Tally(found.directive.keep_ratio, found.answered, found.directive.everything)
        for number, batch in enumerate(batch for batch in batches if batch.num_rows):
            is_timed = orders.sketch is None or number % _TIMED_EVERY == 0
            yield self._process(batch, orders, tally, is_timed=is_timed)
        if self.learned is not None:
            self.learned.add(tally.learned.cells)
        if self.reported is not None and place is not None:
            told = {place.stage: {place.partition: (place.attempt, [tally.values()])}}
            self.reported.add({place.run_id: {place.batch_id: told}})

    def _process(self, batch: pa.RecordBatch, orders: Orders, tally: Tally, *, is_timed: bool) -> pa.RecordBatch:
        keys = batch.column(KEY).to_numpy().view(np.uint64)
        self._count_arrivals(batch, tally)
        costs = costs_of(keys, orders.sketch)
        late = late_rows(batch, orders.directive, self.arrival)
        decision = self._decide(batch, keys, costs, late, orders)
        keep = decision.keep
        _count(tally, keep, late, costs)
        rows = batch.select(self.columns)
        if not keep.all():
            rows, keys, costs = rows.filter(pa.array(keep)), keys[keep], costs[keep]
        if is_timed:
            results, costs_s = self._timed(as_dictionaries(rows))
            _learn(tally, keys, costs_s, costs if orders.sketch is not None else None)
            took_s = float(costs_s.sum())
        else:
            results, took_s = self._untimed(as_dictionaries(rows))
        tally.function_s += took_s
        return self._to_arrow(results, decision.weights)

    def _decide(
        self,
        batch: pa.RecordBatch,
        keys: NDArray[np.uint64],
        costs: NDArray[np.float64],
        late: NDArray[np.bool_],
        orders: Orders,
    ) -> Decision:
        if orders.directive.everything:
            return Decision(np.ones(keys.size, np.bool_), np.ones(keys.size), drawn=True)
        columns = batch.schema.names
        utility = batch.column(UTILITY).to_numpy() if UTILITY in columns else None
        # Rows that nothing tells from each other are drawn by chance: a batch that runs again keeps others.
        draws = batch.column(DRAW).to_numpy() if DRAW in columns else orders.chance.draws(batch)
        rows = Rows(keys, np.zeros(keys.size), draws, costs_s=costs, utility=utility)
        keep_floor = orders.directive.keep_floor
        return decide(
            self.strategy, rows, orders.sketch, keep_ratio=orders.keep_ratio, keep_floor=keep_floor, late=late
        )

    def _untimed(self, rows: list[Row]) -> tuple[list[Row | None], float]:
        """Run the function; gives its results and the seconds that all rows took."""
        began = perf_counter_ns()
        results = self._all_of(map(self.function, rows), rows)
        return results, (perf_counter_ns() - began) * 1e-9

    def _timed(self, rows: list[Row]) -> tuple[list[Row | None], NDArray[np.float64]]:
        """Run the function; gives its results and the seconds that each row took.

        The loop is the interpreter's own, into one list in which a result and the time take turns. A loop in Python
        takes half a microsecond a row for the same, and a list of pairs more: ten thousand of them are as many objects
        for the collection of garbage, which then comes while rows are timed.
        """
        began = perf_counter_ns()
        pairs = zip(map(self.function, rows), iter(perf_counter_ns, None), strict=False)
        done = self._all_of(chain.from_iterable(pairs), rows, each=2)
        ticks = np.fromiter(done[1::2], np.int64, len(rows))
        return done[::2], np.diff(ticks, prepend=began) * 1e-9

    def _all_of(self, running: Iterator[Any], rows: list[Row], *, each: int = 1) -> list[Any]:
        """All that comes of some rows, so many things of each; a row that fails is named."""
        done: list[Any] = []
        try:
            # What is done stays in the list when a row fails, so that the row is known.
            done.extend(running)
        except Exception as error:
            raise self._failure(rows[len(done) // each], f"{type(error).__name__}: {error}") from error
        if len(done) < each * len(rows):
            # The one error that a loop of iterators takes for its end.
            raise self._failure(rows[len(done) // each], "StopIteration")
        return done

    def _to_arrow(self, results: list[Row | None], weights: NDArray[np.float64]) -> pa.RecordBatch:
        given = [row for row in results if row is not None]
        if len(given) < len(results):
            weights = weights[np.fromiter((row is not None for row in results), np.bool_, len(results))]
        columns = [self._column(given, entry) for entry in self.fields]
        return pa.RecordBatch.from_arrays([*columns, pa.array(weights)], names=[*self.fields.names, _WEIGHT])

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
        if self.arrival is None:
            return
        arrivals_us = _microseconds(batch, self.arrival)
        if arrivals_us.null_count < len(arrivals_us):
            ends = pc.min_max(arrivals_us)
            tally.oldest_s = min(tally.oldest_s, ends["min"].as_py() / _US_PER_S)
            tally.newest_s = max(tally.newest_s, ends["max"].as_py() / _US_PER_S)


def late_rows(batch: pa.RecordBatch, directive: Directive, arrival: str | None) -> NDArray[np.bool_]:
    """Which rows are too old to be out in time; none where rows tell no arrival, or where everything is kept."""
    late_before_s = directive.late_before_s
    if late_before_s is None or directive.everything or arrival is None:
        return np.zeros(batch.num_rows, np.bool_)
    # A null arrival is not a number, and that is never before anything.
    arrivals_us = _microseconds(batch, arrival).to_numpy(zero_copy_only=False)
    return np.asarray(arrivals_us / _US_PER_S < late_before_s)


def _microseconds(batch: pa.RecordBatch, arrival: str) -> pa.Int64Array:
    """Arrivals since the epoch, as Spark gives its timestamps to Python; nothing is copied."""
    return batch.column(arrival).view(pa.int64())


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


def costs_to_bytes(cells: NDArray[np.float64]) -> bytes:
    """A sketch as it goes to the tasks: format, shape and check sum, and the cells in single precision.

    Single precision is true to seven digits; a cost is known to two at most, and 8 KiB are sent and not 16.
    """
    content = cells.astype(_CELL_TYPE).tobytes()
    rows, columns, _ = cells.shape
    return _COSTS_HEAD.pack(_COSTS_FORMAT, rows, columns, zlib.crc32(content)) + content


def costs_from_bytes(content: bytes | None) -> CostSketch | None:
    """Read what :func:`costs_to_bytes` wrote; None for nothing, and for what is damaged or of another shape.

    Costs that are not known make every strategy uniform. Wrong ones would drop the wrong rows.

    Examples
    --------
    >>> sketch = empty_sketch()
    >>> key = np.array([7], np.uint64)
    >>> sketch.update(key, np.array([0.25]))
    >>> content = costs_to_bytes(sketch.cells)
    >>> len(content), float(costs_from_bytes(content).costs_s(key)[0])
    (8204, 0.25)
    >>> costs_from_bytes(content[:-1]) is None, costs_from_bytes(b"") is None, costs_from_bytes(None) is None
    (True, True, True)
    """
    sketch = empty_sketch()
    if content is None or len(content) != _COSTS_HEAD.size + sketch.cells.size * _CELL_TYPE.itemsize:
        return None
    cells = content[_COSTS_HEAD.size :]
    expected = (_COSTS_FORMAT, SKETCH_ROWS, SKETCH_COLUMNS, zlib.crc32(cells))
    if _COSTS_HEAD.unpack_from(content) != expected:
        return None
    sketch.cells = np.frombuffer(cells, _CELL_TYPE).astype(np.float64).reshape(sketch.cells.shape)
    return sketch if np.isfinite(sketch.cells).all() and (sketch.cells >= 0).all() else None
