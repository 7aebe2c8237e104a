"""A query of the simulated engine: what it is, and what became of its batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.model import LimitUnit, QueryName, QuerySpec, SourceSpec
from penstock.sim.arrivals import ArrivalCurve, Arrivals, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from penstock.model import BatchSignal

_DRAWS = 1_024
ACCIDENT = 3.0


@dataclass(frozen=True, slots=True)
class SimulatedQuery:
    """One query in numbers.

    Parameters
    ----------
    arrivals
        Rows a second as a function of time or as an array with a rate for each second; or the name of a stream that
        other queries of the engine write.
    overhead_s
        Time of the driver for a batch before its tasks begin.
    cost_per_row_s
        Core seconds for a row, or a function of the time at which its batch is planned.
    read_part
        Part of that cost that is paid for reading a row, kept or not.
    task_overhead_core_s
        Core seconds of a batch whatever its size.
    commit_s
        Time of the driver after the tasks of a batch.
    backlog_rows
        Rows that wait at the start.
    warm_up
        How much dearer the first batch is: code is still being compiled.
    warm_up_left
        Part of that by which each batch is still dearer than the one before was.
    noise, seed
        Standard deviation of the logarithm of batch times, and where its random numbers begin.
    accident_ratio
        Part of the batches that take three times as long.
    trigger_interval_s
        How often a batch begins; 0 is batch after batch.
    has_guard
        Whether its batches ask what to keep.
    tells_arrival
        Whether its rows tell when they arrived.
    clock_behind_s
        How far the clock that rows tell their arrival by is behind at a time; None for rows that tell only that of the
        oldest, so that nothing is learned of it.
    utility_gain
        What the guard keeps of what it is asked to keep: one that goes by the utility of rows does not hit the ratio.
    writes
        Streams that get what its batches kept.
    rows_out_per_row
        Rows that are written for each that is kept.
    """

    arrivals: Callable[[float], float] | NDArray[np.float64] | str
    overhead_s: float = 0.2
    cost_per_row_s: float | Callable[[float], float] = 20e-6
    read_part: float = 0.0
    task_overhead_core_s: float = 0.0
    commit_s: float = 0.0
    backlog_rows: float = 0.0
    warm_up: float = 0.0
    warm_up_left: float = 0.5
    noise: float = 0.0
    seed: int = 1
    accident_ratio: float = 0.0
    trigger_interval_s: float = 0.0
    has_guard: bool = False
    tells_arrival: bool = True
    clock_behind_s: Callable[[float], float] | None = None
    utility_gain: float = 1.0
    writes: tuple[str, ...] = ()
    rows_out_per_row: float = 1.0

    def spec(self, name: str) -> QuerySpec:
        """The query as the logic is told of it: one source, limited in rows."""
        source = SourceSpec(0, f"source of {name}", LimitUnit.ROWS)
        return QuerySpec(QueryName(name), (source,), self.trigger_interval_s)


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of the rows of one batch, numbered as they arrived; rows before ``cut_row`` count as late.

    ``late_kept_rows`` were kept and were older than the latency goal when the batch was done.
    """

    signal: BatchSignal
    first_row: float
    cut_row: float
    end_row: float
    late_part: float
    on_time_part: float
    kept_rows: float
    late_kept_rows: float
    core_s: float


@dataclass(slots=True)
class QueryRun:
    """A query while it runs: limits, rows taken, sums over its batches, and the batches themselves where wanted."""

    name: QueryName
    query: SimulatedQuery
    source: Arrivals
    latency_s: float
    limit_delay_batches: int = 1
    keeps_batches: bool = True
    limit_rows: float = math.inf
    next_limit_rows: float = math.inf
    batch_id: int = 0
    taken_rows: float = 0.0
    offered_rows: float = 0.0
    kept_rows: float = 0.0
    late_rows: float = 0.0
    late_kept_rows: float = 0.0
    batches: list[BatchOutcome] = field(default_factory=list)
    owed_core_s: float = 0.0
    _rng: np.random.Generator = field(init=False)
    _accidents: np.random.Generator = field(init=False)
    _draws: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw_anew()

    def draw_anew(self) -> None:
        """Take random numbers from their beginning: two runs that are held against each other then meet the same."""
        self._rng = np.random.default_rng(self.query.seed)
        self._accidents = np.random.default_rng((self.query.seed, 1))
        self._draws = []

    def noise_factor(self) -> float:
        """What the next batch's time is multiplied by."""
        ratio = self.query.accident_ratio
        accident = ACCIDENT if ratio and self._accidents.random() < ratio else 1.0
        return accident * self._scatter()

    def _scatter(self) -> float:
        if not self.query.noise:
            return 1.0
        if not self._draws:
            self._draws = self._rng.standard_normal(_DRAWS)[::-1].tolist()
        return math.exp(self.query.noise * self._draws.pop())

    def warm_up_factor(self) -> float:
        """What the next batch costs more than one on compiled code."""
        return 1.0 + self.query.warm_up * self.query.warm_up_left**self.batch_id

    def cost_s(self, now_s: float) -> float:
        """Core seconds for a row of a batch that is planned now."""
        cost = self.query.cost_per_row_s
        return cost(now_s) if callable(cost) else cost

    def clock_behind_s(self, now_s: float) -> float:
        """How far the clock of arrival times is behind."""
        behind = self.query.clock_behind_s
        return 0.0 if behind is None else behind(now_s)

    @property
    def kept_ratio(self) -> float:
        """Kept over offered rows; one before the first batch."""
        return self.kept_rows / self.offered_rows if self.offered_rows else 1.0

    @property
    def late_share(self) -> float:
        """Part of the kept rows that were out later than the goal."""
        return self.late_kept_rows / self.kept_rows if self.kept_rows else 0.0

    def since(self, time_s: float) -> list[BatchOutcome]:
        """Batches that were planned at a moment or later."""
        return [batch for batch in self.batches if batch.signal.started_s >= time_s]

    def kept_ratio_since(self, time_s: float) -> float:
        """Kept over offered rows of the batches that began at a moment or later."""
        own = self.since(time_s)
        return sum(batch.kept_rows for batch in own) / max(1, sum(batch.signal.rows for batch in own))

    def late_share_since(self, time_s: float) -> float:
        """Part of the kept rows of the batches that began at a moment or later which were out later than the goal."""
        own = self.since(time_s)
        return sum(batch.late_kept_rows for batch in own) / max(1.0, sum(batch.kept_rows for batch in own))

    def ages(self, since_s: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ages of kept rows when their batch was done, and how many had each."""
        ages: list[float] = []
        rows: list[float] = []
        for batch in self.since(since_s):
            finished_s = batch.signal.finished_s
            for first, end, part in (
                (batch.first_row, batch.cut_row, batch.late_part),
                (batch.cut_row, batch.end_row, batch.on_time_part),
            ):
                for arrived_s, count in self.source.between(first, end):
                    ages.append(finished_s - arrived_s)
                    rows.append(part * count)
        return np.array(ages), np.array(rows)


def source_of(query: SimulatedQuery, topics: Mapping[str, Topic]) -> Arrivals:
    """The rows that a query reads."""
    if isinstance(query.arrivals, str):
        return topics[query.arrivals]
    return ArrivalCurve(query.arrivals, backlog_rows=query.backlog_rows)
