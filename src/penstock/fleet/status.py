"""How a fleet is doing: its engines, and where every query runs and how."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.report.text import clean, compact_number, text_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.fleet.plant import EngineFleet
    from penstock.model.engine_report import RunReport

_COLUMNS = 140
_ENGINE_HEAD = ("engine", "kind", "state", "cores", "busy", "foreign", "queries")
_QUERY_HEAD = (
    "application", "query", "engine", "state", "prio", "kept/min", "latency/goal", "backlog", "rows/s", "cores",
    "down s", "error",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineLine:
    """One engine."""

    engine: str
    kind: str
    state: str
    cores: float | None
    busy_cores: float | None
    foreign_cores: float | None
    queries: int


@dataclass(frozen=True, slots=True)
class QueryLine:
    """One query; ``downtime_s`` is that of its last start or move."""

    application: str
    query: str
    engine: str | None
    state: str
    priority: int
    minimum_accuracy: float
    goal_latency_s: float | None
    keep_ratio: float | None
    latency_s: float | None
    backlog_rows: float | None
    arrival_rows_per_s: float | None
    used_cores: float | None
    downtime_s: float | None
    error: str | None


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """All engines and queries at one moment; it prints as two tables."""

    time_s: float
    engines: tuple[EngineLine, ...]
    queries: tuple[QueryLine, ...]
    page_url: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the status as plain data, units in the keys."""
        return {
            "time_s": self.time_s,
            "engines": [asdict(line) for line in self.engines],
            "rows": [asdict(line) for line in self.queries],
            "page_url": self.page_url,
        }

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> FleetStatus:
        """What the control side sent."""
        return cls(
            float(tree["time_s"]),
            tuple(EngineLine(**line) for line in tree["engines"]),
            tuple(QueryLine(**line) for line in tree["rows"]),
            tree.get("page_url"),
        )

    def __str__(self) -> str:
        engines = [tuple(_cell(value) for value in asdict(line).values()) for line in self.engines]
        queries = [_query_cells(line) for line in self.queries]
        first = text_table(_ENGINE_HEAD, engines, columns=_COLUMNS, shrink=0)
        second = text_table(_QUERY_HEAD, queries, columns=_COLUMNS, shrink=len(_QUERY_HEAD) - 1)
        return f"{first}\n\n{second}" + ("" if self.page_url is None else f"\n\ndashboard: {clean(self.page_url)}")


def fleet_status(fleet: EngineFleet, now_s: float) -> FleetStatus:
    """How a fleet is doing now, by the newest reports of its engines."""
    engines = []
    for name, declared in fleet.declaration.engines.items():
        report = fleet.reports.get(name)
        count = sum(standing.engine == name for standing in fleet.standing.values())
        if report is None:
            engines.append(EngineLine(name, declared.kind, "down", None, None, None, count))
        else:
            busy, foreign = report.busy_cores, report.foreign_cores
            engines.append(EngineLine(name, declared.kind, "up", report.cores, busy, foreign, count))
    return FleetStatus(now_s, tuple(engines), tuple(_query_lines(fleet)))


def _query_lines(fleet: EngineFleet) -> Sequence[QueryLine]:
    lines = []
    for name, declared in fleet.declaration.queries.items():
        standing, goal = fleet.standing[name], fleet.goals[name]
        report = fleet.reports.get(standing.engine or "")
        found = None if report is None else report.query(str(name))
        order = fleet.runs.in_flight(name)
        state = f"to {order.engine}" if order is not None else "waiting" if found is None else found.state.value
        line = QueryLine(
            declared.application, str(name), standing.engine, state, goal.priority, goal.minimum_accuracy,
            goal.latency_s, *_figures(found), downtime_s=standing.downtime_s, error=standing.error,
        )  # fmt: skip
        lines.append(line)
    return lines


def _figures(
    found: RunReport | None,
) -> tuple[float | None, float | None, float | None, float | None, float | None]:
    if found is None:
        return None, None, None, None, None
    spent_s = (found.last_batch_s or found.started_s) - found.started_s
    used_cores = found.core_s / spent_s if spent_s > 0 else None
    return found.keep_ratio, found.latency_s, found.backlog_rows, found.arrival_rows_per_s, used_cores


def _query_cells(line: QueryLine) -> tuple[str, ...]:
    kept = "?" if line.keep_ratio is None else f"{100 * line.keep_ratio:.0f}"
    goal = "" if line.goal_latency_s is None else f"/{line.goal_latency_s:g} s"
    latency = "?" if line.latency_s is None else f"{line.latency_s:.1f}"
    return (
        line.application, line.query, line.engine or "-", line.state, str(line.priority),
        f"{kept}/{100 * line.minimum_accuracy:.0f} %", f"{latency}{goal}", _cell(line.backlog_rows),
        _cell(line.arrival_rows_per_s), _cell(line.used_cores), _cell(line.downtime_s), line.error or "",
    )  # fmt: skip


def _cell(value: object) -> str:
    if value is None:
        return ""
    return compact_number(float(f"{value:.3g}")) if isinstance(value, float) else str(value)
