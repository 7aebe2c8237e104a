"""What is known of one query of a graph from its batches: cost, rows that come and wait, cores that it keeps busy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.estimate.batch_cost import BatchCostTracker

if TYPE_CHECKING:
    from penstock.estimate.batch_cost import CoreCosts
    from penstock.model.signal import BatchSignal

# How fast the idea of a rate and of busy cores follows the last batch.
_GAIN = 0.3
# Batches over which rows sent and rows arrived are compared.
MEMORY_BATCHES = 20.0
# A source that does not tell what waits, read up to its limit, has more to give than was read.
_UNSEEN = 1.25
_AT_LIMIT = 0.98
_MOST_READ_PER_WORK = 20.0


@dataclass(slots=True)
class DecayedSum:
    """A sum in which older parts count less, by ``exp(-age / memory)``.

    Examples
    --------
    >>> rows = DecayedSum(memory_s=10.0)
    >>> rows.add(100.0, 0.0)
    >>> rows.add(100.0, 10.0)
    >>> round(rows.at(10.0)), round(rows.at(20.0))
    (137, 50)
    """

    memory_s: float
    value: float = 0.0
    time_s: float | None = None

    def add(self, amount: float, now_s: float) -> None:
        """Count something that happened now."""
        self.value = self.at(now_s) + amount
        self.time_s = now_s if self.time_s is None else max(now_s, self.time_s)

    def at(self, now_s: float) -> float:
        """The sum as it counts now."""
        return 0.0 if self.time_s is None else self.value * math.exp(-max(0.0, now_s - self.time_s) / self.memory_s)


@dataclass(slots=True)
class QueryLoad:
    """Learned from every batch of a query, and from nothing else.

    Parameters
    ----------
    batch_s
        Shortest time that counts as the period of a query's batches.
    cost
        Core seconds of a batch, by the rows that were processed in full.
    arrival_rows_per_s
        Rows that come in a second; None before anybody could tell.
    lag_rows
        Rows that its last batch left waiting; None where the source does not tell.
    period_s
        From the start of a batch to the start of the next.
    used_cores
        Cores that it keeps busy on average.
    read_per_work
        Rows read for each row that was processed in full; above one where rows are shed.
    kept_rows_per_s, dropped_rows_per_s
        Rows that were processed in full, and rows that were read and dropped.
    arrived
        Rows that came lately, of which :attr:`arrivals` batches tell.
    worked, written
        Rows that were processed and that its sink wrote lately, in batches whose sink tells.
    """

    batch_s: float
    cost: BatchCostTracker = field(default_factory=BatchCostTracker)
    arrival_rows_per_s: float | None = None
    lag_rows: float | None = None
    period_s: float = 0.0
    used_cores: float | None = None
    read_per_work: float = 1.0
    kept_rows_per_s: float = 0.0
    dropped_rows_per_s: float = 0.0
    arrived: DecayedSum = field(init=False)
    worked: DecayedSum = field(init=False)
    written: DecayedSum = field(init=False)
    arrivals: int = 0
    heard_s: float | None = None
    _started_s: float | None = None
    _unpaid_s: float = 0.0

    def __post_init__(self) -> None:
        memory_s = MEMORY_BATCHES * self.batch_s
        self.arrived, self.worked, self.written = (DecayedSum(memory_s) for _ in range(3))

    @property
    def selectivity(self) -> float | None:
        """Rows written for each that was processed, lately; None where the sink does not tell."""
        return self.written.value / self.worked.value if self.worked.value > 0 else None

    def fixed_cores(self, costs: CoreCosts) -> float:
        """Cores that its batches keep busy whatever they keep: for themselves, and for rows that they drop.

        No more rows are dropped than come, in the long run: those of a backlog are gone once it is read.
        """
        dropped = self.dropped_rows_per_s
        if self.arrival_rows_per_s is not None:
            dropped = min(dropped, self.arrival_rows_per_s)
        return costs.fixed_core_s / self.batch_s + self.cost.dropped_core_s * dropped

    def on_batch(
        self, signal: BatchSignal, core_s: float | None, arrival_rows_per_s: float | None, limit_rows: float | None
    ) -> None:
        """Learn from a batch, which was allowed to read so many rows."""
        is_first = self._started_s is None
        since_s = 0.0 if self._started_s is None else signal.started_s - self._started_s
        self.period_s = max(signal.duration_s, since_s)
        self._learn_arrival(signal, arrival_rows_per_s, limit_rows, is_first=is_first)
        self._started_s = signal.started_s
        self.heard_s = signal.finished_s
        self.lag_rows = signal.lag_rows
        if signal.work_rows > 0:
            self.read_per_work = min(_MOST_READ_PER_WORK, signal.rows / signal.work_rows)
        if self.period_s > 0:
            self.kept_rows_per_s += _GAIN * (signal.work_rows / self.period_s - self.kept_rows_per_s)
            dropped = max(0, signal.rows - signal.work_rows) / self.period_s
            self.dropped_rows_per_s += _GAIN * (dropped - self.dropped_rows_per_s)
        if signal.output_rows is not None and signal.work_rows > 0:
            self.worked.add(signal.work_rows, signal.finished_s)
            self.written.add(signal.output_rows, signal.finished_s)
        self._learn_cost(signal, core_s)

    def pause(self) -> None:
        """The query ends; what it costs is remembered, what came and waited is not."""
        self._started_s = self.lag_rows = self.used_cores = self.heard_s = self.arrival_rows_per_s = None
        self._unpaid_s = self.kept_rows_per_s = self.dropped_rows_per_s = 0.0

    def _learn_arrival(
        self, signal: BatchSignal, arrival_rows_per_s: float | None, limit_rows: float | None, *, is_first: bool
    ) -> None:
        lag_rows, arrived = signal.lag_rows, None
        if lag_rows is not None and self.lag_rows is not None and not is_first:
            arrived = max(0.0, signal.rows + lag_rows - self.lag_rows)
            self.arrived.add(arrived, signal.started_s)
            self.arrivals += 1
        if arrival_rows_per_s is not None:
            self.arrival_rows_per_s = arrival_rows_per_s
            return
        if lag_rows is None:
            at_limit = limit_rows is not None and signal.rows >= _AT_LIMIT * limit_rows
            arrived = (_UNSEEN if at_limit else 1.0) * signal.rows
        if arrived is not None and self.period_s > 0:
            seen = arrived / self.period_s
            known = seen if self.arrival_rows_per_s is None else self.arrival_rows_per_s
            self.arrival_rows_per_s = known + _GAIN * (seen - known)

    def _learn_cost(self, signal: BatchSignal, core_s: float | None) -> None:
        self.cost.on_batch(rows=signal.work_rows, core_s=core_s, dropped=max(0, signal.rows - signal.work_rows))
        self._unpaid_s += max(self.period_s, self.batch_s)
        if core_s is None or (core_s <= 0 and signal.rows > 0):
            return
        used = core_s / self._unpaid_s
        self._unpaid_s = 0.0
        known = used if self.used_cores is None else self.used_cores
        self.used_cores = known + _GAIN * (used - known)
