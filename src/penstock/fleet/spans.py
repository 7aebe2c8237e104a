"""From totals that engines report to what queries did between two reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.fleet.contention import CpuParts
from penstock.model import QueryName
from penstock.model.engine_report import RunState
from penstock.model.fleet import QueryReport, StreamReport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.fleet_declaration import FleetDeclaration
    from penstock.model.engine_report import EngineReport, RunReport

_IDLE_AFTER_S = 10.0
"""A run that finished no batch for so long, and is not in the middle of one, is reported as idle."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """Up to where a run is counted."""

    time_s: float
    run: RunReport


class Spans:
    """Remembers what was counted of every run.

    Batches end when they end: counted second by second, a query with batches of two seconds would seem to do twice its
    work in one and nothing in the next. So a span ends with a batch, or when there has been none for a while.
    """

    def __init__(self, declaration: FleetDeclaration) -> None:
        self._declaration = declaration
        self._parts = CpuParts()
        self._counted: dict[tuple[str, int], _Counted] = {}

    def streams(self, query: QueryName) -> tuple[str, ...]:
        """What a query reads; a name of its own where its user has named nothing."""
        return self._declaration.queries[query].query.reads or (f"input of {query}",)

    def reports(self, report: EngineReport) -> Iterator[QueryReport]:
        """What the queries of an engine did since they were last counted."""
        self._parts.observe(report)
        for run in report.queries:
            if run.state is not RunState.RUNNING or QueryName(run.query) not in self._declaration.queries:
                continue
            key = (run.query, run.number)
            before = self._counted.get(key)
            if before is None:
                self._counted = {known: entry for known, entry in self._counted.items() if known[0] != run.query}
                self._counted[key] = _Counted(report.time_s, run)
                continue
            span_s = report.time_s - before.time_s
            is_idle = span_s > _IDLE_AFTER_S and not run.is_in_batch
            if span_s > 0 and (run.batches > before.run.batches or is_idle):
                self._counted[key] = _Counted(report.time_s, run)
                yield self._span(report.name, before.run, run, span_s)

    def _span(self, engine: str, before: RunReport, now: RunReport, span_s: float) -> QueryReport:
        rows, kept_rows = now.rows - before.rows, now.kept_rows - before.kept_rows
        kept = kept_rows / rows if rows > 0 else 1.0
        earlier = before.source_rows or (0.0,) * len(now.source_rows)
        read = [one - other for one, other in zip(now.source_rows, earlier, strict=False)]
        names = self.streams(QueryName(now.query))
        if len(names) != len(read):
            # Its user has named more or fewer streams than it has sources: all of it counts for the first.
            read = [rows, *(0.0 for _ in names[1:])]
        waiting = [each or 0.0 for each in now.source_backlog_rows]
        if len(waiting) != len(names):
            waiting = [sum(waiting), *(0.0 for _ in names[1:])]
        inputs = tuple(
            StreamReport(name, read_rows, read_rows * kept, backlog_rows)
            for name, read_rows, backlog_rows in zip(names, read, waiting, strict=True)
        )
        writes = self._declaration.queries[QueryName(now.query)].query.writes
        return QueryReport(
            QueryName(now.query),
            engine,
            span_s,
            max(0.0, now.core_s - before.core_s) * self._parts.part(engine),
            inputs,
            dict.fromkeys(writes, now.out_rows - before.out_rows),
            accuracy=kept if now.has_guard and rows > 0 else None,
            latency_s=now.latency_s,
        )
