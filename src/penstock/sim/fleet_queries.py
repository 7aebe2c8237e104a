"""Queries of a simulated fleet: queues of rows with their ages, costs, and what each did since its last report."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.model.fleet import QueryReport, StreamReport

if TYPE_CHECKING:
    from penstock.model.fleet import FleetQuery

_ROUNDING = 1e-9
_COLD_HALF_LIFE_S = 5.0
"""Time in which the extra cost of a query that has just started halves: code is being compiled."""


@dataclass(frozen=True, slots=True)
class SimulatedFleetQuery:
    """One query in numbers.

    Parameters
    ----------
    core_s_per_row
        Core-seconds for a row that it keeps.
    read_part
        Part of that which a row costs that it reads and drops.
    selectivity
        Rows written for each row kept.
    cold
        How many times dearer rows are when it has just started.
    """

    query: FleetQuery
    core_s_per_row: float
    read_part: float = 0.02
    selectivity: float = 1.0
    cold: float = 2.0


class RowQueue:
    """Rows that wait, oldest first, each with the moment at which it came into the application.

    Examples
    --------
    >>> queue = RowQueue()
    >>> queue.put(0.0, 10.0), queue.put(1.0, 10.0)
    (None, None)
    >>> queue.take(15.0), queue.rows
    ([(0.0, 10.0), (1.0, 5.0)], 5.0)
    """

    def __init__(self) -> None:
        self._rows: deque[tuple[float, float]] = deque()
        self.rows = 0.0

    def put(self, born_s: float, rows: float) -> None:
        """Rows come in."""
        if rows > 0:
            self._rows.append((born_s, rows))
            self.rows += rows

    def take(self, rows: float) -> list[tuple[float, float]]:
        """The oldest so many rows go out."""
        taken: list[tuple[float, float]] = []
        left = min(rows, self.rows)
        self.rows -= left
        while left > _ROUNDING and self._rows:
            born_s, there = self._rows.popleft()
            part = min(there, left)
            taken.append((born_s, part))
            left -= part
            if there > part:
                self._rows.appendleft((born_s, there - part))
        return taken


@dataclass(slots=True)
class Done:
    """What a query did with one stream since its last report."""

    read_rows: float = 0.0
    kept_rows: float = 0.0


@dataclass(slots=True)
class RunningQuery:
    """A query as it runs: where, since when, what waits for it, and what it is told to keep."""

    spec: SimulatedFleetQuery
    engine: str | None = None
    started_s: float = 0.0
    keep: dict[str, float] = field(default_factory=dict)
    queues: dict[str, RowQueue] = field(default_factory=dict)
    done: dict[str, Done] = field(default_factory=dict)
    rows_out: float = 0.0
    core_s: float = 0.0
    reported_s: float = 0.0
    path_keep_ratio: float = 1.0

    def __post_init__(self) -> None:
        for stream in self.spec.query.reads:
            self.queues[stream] = RowQueue()
            self.done[stream] = Done()

    @property
    def backlog_rows(self) -> float:
        """Rows that wait in all its streams."""
        return sum(queue.rows for queue in self.queues.values())

    def cost_core_s(self, stream: str, now_s: float) -> float:
        """Core-seconds for a row read from a stream, as much of it as is kept."""
        keep = self.keep.get(stream, 1.0)
        cold: float = 1.0 + (self.spec.cold - 1.0) * 0.5 ** ((now_s - self.started_s) / _COLD_HALF_LIFE_S)
        return self.spec.core_s_per_row * cold * (keep + self.spec.read_part * (1.0 - keep))

    def work_core_s(self, now_s: float) -> float:
        """Core-seconds for all that waits."""
        return sum(queue.rows * self.cost_core_s(stream, now_s) for stream, queue in self.queues.items())

    def process(self, budget_core_s: float, now_s: float) -> list[tuple[float, float]]:
        """Work off what the budget allows, of all streams the same part; gives the rows that come out."""
        work = self.work_core_s(now_s)
        part = 1.0 if work <= budget_core_s else budget_core_s / work
        out: list[tuple[float, float]] = []
        for stream, queue in self.queues.items():
            keep = self.keep.get(stream, 1.0)
            taken = queue.take(queue.rows * part)
            read = sum(rows for _, rows in taken)
            self.done[stream].read_rows += read
            self.done[stream].kept_rows += read * keep
            self.rows_out += read * keep * self.spec.selectivity
            out.extend((born_s, rows * keep * self.spec.selectivity) for born_s, rows in taken)
        self.core_s += min(work, budget_core_s)
        return [(born_s, rows) for born_s, rows in out if rows > 0]

    def report(self, now_s: float) -> QueryReport:
        """What was done since the last report; counting begins anew."""
        assert self.engine is not None, "only a query that runs reports"
        report = QueryReport(
            query=self.spec.query.name,
            engine=self.engine,
            span_s=now_s - self.reported_s,
            core_s=self.core_s,
            inputs=tuple(
                StreamReport(stream, done.read_rows, done.kept_rows, self.queues[stream].rows)
                for stream, done in self.done.items()
            ),
            rows_out=dict.fromkeys(self.spec.query.writes, self.rows_out),
        )
        self.done = {stream: Done() for stream in self.done}
        self.rows_out = self.core_s = 0.0
        self.reported_s = now_s
        return report
