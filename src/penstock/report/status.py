"""How every query of an application is doing, in a word and in figures."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from penstock.model import APPLICATION, LimitUnit, Metric
from penstock.report.standing import (
    READ_ROWS,
    ExecutorsStanding,
    PointReader,
    Standing,
    is_shedding,
    newest_point,
    read_executors,
    read_standing,
)
from penstock.report.text import (
    APPLICATION_NAME,
    clean,
    clock_time,
    compact_number,
    html_table,
    shown_name,
    text_table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model import QueryName, RecordedAction
    from penstock.store.base import Store

TABLE_COLUMNS = 100
"""Widest line of a status as text."""

_HEAD = ("query", "state", "latency/goal", "kept/min", "backlog", "rows/s", "limit", "prio", "since")


class State(StrEnum):
    """How a query is doing; the first of these that holds, from fault to fine."""

    FAULT = "fault"
    OBSERVED = "observed"
    INFEASIBLE = "infeasible"
    SCALING = "scaling"
    SHEDDING = "shedding"
    CATCHING_UP = "catching up"
    FINE = "fine"

    @property
    def sentence(self) -> str:
        """The same for a person, to follow the name of the query."""
        return _SENTENCES[self]


_SENTENCES = {
    State.FAULT: "had a fault, and may run on without Penstock",
    State.OBSERVED: "is observed only: nothing is applied to it",
    State.INFEASIBLE: "cannot meet its goal with what there is",
    State.SCALING: "waits for executors of the application to start or to leave",
    State.SHEDDING: "is shedding: more arrives or waits than fits within its goal",
    State.CATCHING_UP: "is catching up: more waits than arrives within its goal",
    State.FINE: "is fine: it keeps up with what arrives",
}


_COLOURS = {
    State.FAULT: "#ad2317",
    State.OBSERVED: "#56636c",
    State.INFEASIBLE: "#ad2317",
    State.SCALING: "#2a5bb0",
    State.SHEDDING: "#8a5200",
    State.CATCHING_UP: "#735c00",
    State.FINE: "#2b6f3f",
}


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """What is known of a running query beyond the store; what is None is taken from there."""

    latency_s: float | None = None
    backlog_rows: float | None = None
    arrival_rows_per_s: float | None = None
    is_governed: bool | None = None


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """How one query is doing, with the figures behind it; what is unknown is None.

    Parameters
    ----------
    latency_s
        Age of the oldest row when the newest batch was out. Where that is not measured, the time of the newest batch
        and the wait before it: as long as another batch, or as working off the backlog takes.
    keep_ratio
        Of the newest batch; None where nothing guards the query.
    read_limit_units
        What a batch may read from all sources together, by unit.
    since_s
        Since when it is in this state, as far as the newest records tell.
    """

    query: QueryName
    state: State
    since_s: float | None = None
    latency_s: float | None = None
    goal_latency_s: float | None = None
    keep_ratio: float | None = None
    minimum_accuracy: float | None = None
    backlog_rows: float | None = None
    arrival_rows_per_s: float | None = None
    read_limit_units: Mapping[str, float] = field(default_factory=dict)
    priority: int | None = None
    executors_serving: int | None = None
    executors_target: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the status as plain data, units in the keys."""
        limits = {f"read_limit_{unit.value}": self.read_limit_units.get(unit.value) for unit in LimitUnit}
        return {
            "query": str(self.query),
            "state": self.state.value,
            "sentence": self.state.sentence,
            "since_s": self.since_s,
            "latency_s": self.latency_s,
            "goal_latency_s": self.goal_latency_s,
            "keep_ratio": self.keep_ratio,
            "minimum_accuracy": self.minimum_accuracy,
            "backlog_rows": self.backlog_rows,
            "arrival_rows_per_s": self.arrival_rows_per_s,
            **limits,
            "priority": self.priority,
            "executors_serving": self.executors_serving,
            "executors_target": self.executors_target,
        }

    def cells(self, *, now_s: float) -> tuple[str, ...]:
        """One line of a table."""
        limits = [f"{compact_number(units)} {unit}" for unit, units in sorted(self.read_limit_units.items())]
        kept = _pair(_hundredfold(self.keep_ratio), _hundredfold(self.minimum_accuracy))
        latency = _pair(self.latency_s, self.goal_latency_s)
        return (
            shown_name(self.query),
            self.state.value,
            f"{latency} s" if latency else "",
            f"{kept} %" if kept else "",
            "" if self.backlog_rows is None else compact_number(self.backlog_rows),
            "" if self.arrival_rows_per_s is None else compact_number(self.arrival_rows_per_s),
            "+".join(limits),
            "" if self.priority is None else str(self.priority),
            "" if self.since_s is None else clock_time(self.since_s, now_s=now_s),
        )


@dataclass(frozen=True, slots=True)
class ApplicationStatus:
    """How the queries of an application are doing, and its executors.

    It prints as a table, and shows as one in a notebook.
    """

    queries: tuple[QueryStatus, ...]
    executors: ExecutorsStanding
    time_s: float

    def rows(self) -> list[dict[str, Any]]:
        """One mapping a query, units in the keys; for ``pandas.DataFrame`` for one."""
        return [query.to_dict() for query in self.queries]

    def to_dict(self) -> dict[str, Any]:
        """Give the status as plain data."""
        executors = self.executors
        return {
            "time_s": self.time_s,
            "executors_serving": executors.serving,
            "executors_target": executors.target,
            "is_scaling": executors.is_scaling,
            "infeasible": None if executors.infeasible is None else executors.infeasible.action.reason,
            "fault": None if executors.fault is None else executors.fault.action.reason,
            "rows": self.rows(),
        }

    def application_line(self) -> str:
        """What there is to tell about the application as a whole; empty if nothing is."""
        executors = self.executors
        words = []
        if executors.serving is not None:
            words.append(f"{executors.serving} executors serve")
        if executors.target is not None and executors.decided is not None:
            since = clock_time(executors.decided.time_s, now_s=self.time_s)
            words.append(f"{executors.target} are to serve since {since}")
        for what, entry in (("infeasible", executors.infeasible), ("fault", executors.fault)):
            if entry is not None:
                words.append(f"{what} at {clock_time(entry.time_s, now_s=self.time_s)}: {clean(entry.action.reason)}")
        return f"{APPLICATION_NAME} {'; '.join(words)}" if words else ""

    def __str__(self) -> str:
        cells = [query.cells(now_s=self.time_s) for query in self.queries]
        table = text_table(_HEAD, cells, columns=TABLE_COLUMNS, shrink=0) if cells else "no queries yet"
        line = self.application_line()
        return f"{table}\n{_folded(line)}" if line else table

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = [query.cells(now_s=self.time_s) for query in self.queries]
        table = html_table(_HEAD, cells, caption=self.application_line())
        # The word stays; the colour is for whoever looks twice a day.
        for state in {query.state for query in self.queries}:
            mark = f'<td><span style="color:{_COLOURS[state]};font-weight:600">&#9679; {state.value}</span></td>'
            table = table.replace(f"<td>{state.value}</td>", mark)
        return table


def application_status(
    store: Store, *, live: Mapping[QueryName, LiveFigures] | None = None, now_s: float | None = None
) -> ApplicationStatus:
    """How every query that anything is recorded of is doing.

    Parameters
    ----------
    store
        Where decisions and observations are.
    live
        What is known of running queries beyond the store.
    now_s
        The time of the status, now if left out; what is older than a day is shown with its date.
    """
    executors = read_executors(store)
    figures = {} if live is None else live
    names = sorted({*store.queries(), *figures} - {APPLICATION})
    queries = tuple(query_status(store, name, executors, figures.get(name, LiveFigures())) for name in names)
    return ApplicationStatus(queries, executors, time.time() if now_s is None else now_s)


def query_status(
    store: Store, query: QueryName, executors: ExecutorsStanding, live: LiveFigures | None = None
) -> QueryStatus:
    """How one query is doing."""
    return status_of(store, read_standing(store, query), executors, live or LiveFigures())


def status_of(store: PointReader, standing: Standing, executors: ExecutorsStanding, live: LiveFigures) -> QueryStatus:
    """How the query that stands so is doing."""
    backlog_rows = _first(live.backlog_rows, _newest_value(store, standing.query, Metric.LAG_ROWS))
    arrival_rows_per_s = _first(
        live.arrival_rows_per_s, _newest_value(store, standing.query, Metric.ARRIVAL_ROWS_PER_S)
    )
    in_force = standing.is_governed and live.is_governed is not False
    measured_keep = _newest_value(store, standing.query, Metric.KEEP_RATIO) if in_force else None
    status = QueryStatus(
        standing.query,
        State.FINE,
        latency_s=_first(live.latency_s, _latency_s(store, standing.query, backlog_rows)),
        goal_latency_s=standing.latency_s,
        keep_ratio=_first(_keep_ratio(standing) if in_force else None, measured_keep),
        minimum_accuracy=standing.minimum_accuracy,
        backlog_rows=backlog_rows,
        arrival_rows_per_s=arrival_rows_per_s,
        read_limit_units=_limits_by_unit(standing) if in_force else {},
        priority=standing.priority,
        executors_serving=executors.serving,
        executors_target=executors.target,
    )
    state, since_s = _state(store, standing, executors, status, in_force=in_force)
    return replace(status, state=state, since_s=since_s)


def _state(
    store: PointReader, standing: Standing, executors: ExecutorsStanding, status: QueryStatus, *, in_force: bool
) -> tuple[State, float | None]:
    """The first state that holds, and since when."""
    governed_s = _time_of(standing.governed)
    is_behind, behind_s = _behind(store, status)
    states = (
        (State.FAULT, standing.fault is not None, _time_of(standing.fault)),
        (State.OBSERVED, not in_force, governed_s),
        (State.INFEASIBLE, standing.infeasible is not None, _time_of(standing.infeasible)),
        (State.SCALING, executors.is_scaling, _time_of(executors.decided)),
        (State.SHEDDING, is_shedding(standing.keep), standing.keep_since_s),
        (State.CATCHING_UP, is_behind, behind_s),
    )
    for state, holds, since_s in states:
        if holds:
            return state, since_s
    return State.FINE, max(filter(None, (governed_s, standing.keep_since_s)), default=None)


def _behind(store: PointReader, status: QueryStatus) -> tuple[bool, float | None]:
    """Whether more waits than arrives within the goal, and since when; what is unknown argues against it."""
    backlog_rows, rate_rows_per_s, goal_s = status.backlog_rows, status.arrival_rows_per_s, status.goal_latency_s
    if backlog_rows is None or rate_rows_per_s is None or goal_s is None or backlog_rows <= rate_rows_per_s * goal_s:
        return False, None
    points = [point for point in store.points(status.query, Metric.LAG_ROWS, last=READ_ROWS) if not point.subject]
    behind = list(takewhile(lambda point: point.value > rate_rows_per_s * goal_s, reversed(points)))
    return True, behind[-1].time_s if behind else None


def _latency_s(store: PointReader, query: QueryName, backlog_rows: float | None) -> float | None:
    age = newest_point(store, query, Metric.OLDEST_ROW_AGE_S)
    duration = newest_point(store, query, Metric.BATCH_DURATION_S)
    if age is not None and (duration is None or age.time_s >= duration.time_s):
        return age.value
    if duration is None:
        return None
    rate_rows_per_s = _newest_value(store, query, Metric.PROCESSED_ROWS_PER_S)
    wait_s = backlog_rows / rate_rows_per_s if backlog_rows and rate_rows_per_s else 0.0
    return duration.value + max(duration.value, wait_s)


def _keep_ratio(standing: Standing) -> float | None:
    if standing.keep is None or standing.keep.action.value is None:
        return None
    return min(1.0, standing.keep.action.value)


def _limits_by_unit(standing: Standing) -> dict[str, float]:
    units: dict[str, float] = {}
    for entry in standing.limits:
        if entry.action.value is not None:
            unit = entry.action.unit or LimitUnit.ROWS.value
            units[unit] = units.get(unit, 0.0) + entry.action.value
    return units


def _newest_value(store: PointReader, query: QueryName, metric: Metric) -> float | None:
    point = newest_point(store, query, metric)
    return None if point is None else point.value


def _time_of(entry: RecordedAction | None) -> float | None:
    return None if entry is None else entry.time_s


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _hundredfold(ratio: float | None) -> float | None:
    return None if ratio is None else 100.0 * ratio


def _pair(value: float | None, bound: float | None) -> str:
    if value is None and bound is None:
        return ""
    shown = "?" if value is None else _figure(value)
    return shown if bound is None else f"{shown}/{_figure(bound)}"


def _figure(value: float) -> str:
    return compact_number(float(f"{value:.3g}"))


def _folded(line: str) -> str:
    import textwrap  # noqa: PLC0415 - only a status that is printed needs it

    return textwrap.fill(line, TABLE_COLUMNS, subsequent_indent="  ")
