"""What is known of every query of a fleet, one column of numbers each, so that a plan takes no loop over queries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from penstock.control.fleet.shape import Flags, Floats
    from penstock.model.fleet import QueryReport
    from penstock.settings import FleetSettings

_COLUMNS = {
    "arrived_rows_per_s": 0.0,
    "kept_rows_per_s": 0.0,
    "cores": 0.0,
    "core_s_per_row": math.nan,
    "cost_core_s": 0.0,
    "cost_rows": 0.0,
    "backlog_rows": math.nan,
    "arrived_turn": 0.0,
    "kept_turn": 0.0,
    "cores_turn": 0.0,
    "planned_rows_per_s": 0.0,
    "planned_backlog_s": 0.0,
    "engine": -1.0,
    "is_held": 0.0,
    "is_below_minimum": 0.0,
}
_JUMP = 1.5
"""A rate that in two reports is this many times what it was, or less than that part of it, is a change, no scatter."""
_DROPPED_ROW = 0.05
"""What a dropped row costs of a kept one: it is read and hashed, and nothing more."""
_NEWS = 0.1
"""A rate that differs from the planned one by a tenth is worth a new plan before the next cycle."""
_WAITING_NEWS_S = 1.0
"""So is a backlog that grew by a second of input."""


def cost_of_a_row(report: QueryReport) -> float | None:
    """Core-seconds of a row that is kept; None where less than one was."""
    rows = costing_rows(report)
    return report.core_s / rows if rows >= 1.0 else None


def costing_rows(report: QueryReport) -> float:
    """Rows that were kept, and what those that were dropped come to in such rows.

    A row that is dropped counts as a twentieth of one: by kept rows alone, a query that drops nearly all of them seems
    ever dearer, is given ever less, and ends with nothing.

    Examples
    --------
    >>> from penstock.model.fleet import QueryReport, StreamReport
    >>> from penstock.model.query import QueryName
    >>> inputs = (StreamReport("topic:in", read_rows=1000, kept_rows=100),)
    >>> report = QueryReport(QueryName("clicks"), "a", span_s=1.0, core_s=0.145, inputs=inputs)
    >>> round(costing_rows(report), 6), round(cost_of_a_row(report), 6)
    (145.0, 0.001)
    """
    kept = float(sum(each.kept_rows for each in report.inputs))
    dropped = max(0.0, float(sum(each.read_rows for each in report.inputs)) - kept)
    return kept + _DROPPED_ROW * dropped


class QueryTable:
    """Measured rates, costs and backlogs by query; rows are in no particular order.

    Examples
    --------
    >>> from penstock.model.fleet import QueryReport, StreamReport
    >>> from penstock.model.query import QueryName
    >>> from penstock.settings import FleetSettings
    >>> table = QueryTable()
    >>> table.add("clicks")
    >>> inputs = (StreamReport("topic:in", read_rows=500, kept_rows=250, backlog_rows=80),)
    >>> table.observe(QueryReport(QueryName("clicks"), "a", span_s=5.0, core_s=1.05, inputs=inputs), FleetSettings())
    True
    >>> table["arrived_rows_per_s"].tolist(), table["core_s_per_row"].tolist(), table["cores"].round(3).tolist()
    ([100.0], [0.004], [0.21])
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.place: dict[str, int] = {}
        self._columns = {name: np.full(8, default) for name, default in _COLUMNS.items()}

    def __getitem__(self, column: str) -> Floats:
        return self._columns[column][: len(self.names)]

    @property
    def known(self) -> Flags:
        """Queries of which it is measured what a row costs."""
        return ~np.isnan(self["core_s_per_row"])

    def add(self, name: str) -> None:
        """A row of which nothing is known."""
        place = len(self.names)
        for column, default in _COLUMNS.items():
            if place == self._columns[column].size:
                self._columns[column] = np.concatenate([self._columns[column], np.full(place, default)])
            self._columns[column][place] = default
        self.names.append(name)
        self.place[name] = place

    def remove(self, name: str) -> None:
        """Delete a row; the last one takes its place."""
        place, last = self.place.pop(name), len(self.names) - 1
        if place != last:
            self.names[place] = self.names[last]
            self.place[self.names[place]] = place
            for values in self._columns.values():
                values[place] = values[last]
        self.names.pop()

    def observe(self, report: QueryReport, settings: FleetSettings, *, learn_cost: bool = True) -> bool:
        """Take in a report; gives whether it is news that a plan should not wait for."""
        place = self.place[report.query]
        backlog = float(sum(each.backlog_rows for each in report.inputs))
        if report.span_s <= 0:
            return False
        arrived = self._arrived_rows(report, place, backlog)
        kept = float(sum(each.kept_rows for each in report.inputs)) / report.span_s
        keep = 0.5 ** (report.span_s / settings.rate_memory_s)
        if arrived is not None:
            self._follow("arrived_rows_per_s", "arrived_turn", place, arrived / report.span_s, keep)
        self._follow("kept_rows_per_s", "kept_turn", place, kept, keep)
        self._follow("cores", "cores_turn", place, report.core_s / report.span_s, keep)
        self._columns["backlog_rows"][place] = backlog
        if learn_cost or math.isnan(self["core_s_per_row"][place]):
            self._learn_cost(report, place, 0.5 ** (report.span_s / settings.memory_s))
        return self._is_news(place)

    def _learn_cost(self, report: QueryReport, place: int, keep: float) -> None:
        """Core-seconds over rows, both as they fade: each row counts alike.

        By reports instead, one of a batch with a single row, which costs as much as its whole batch, would count as
        much as one with thousands.
        """
        rows = costing_rows(report)
        if rows < 1.0:
            return
        core_s = self._columns["cost_core_s"][place] = keep * self["cost_core_s"][place] + report.core_s
        all_rows = self._columns["cost_rows"][place] = keep * self["cost_rows"][place] + rows
        self._columns["core_s_per_row"][place] = core_s / all_rows

    def _arrived_rows(self, report: QueryReport, place: int, backlog: float) -> float | None:
        """As reported, else what was read and what the backlog grew by (the paper's section 6).

        None for the first report after a move: what was read then had waited, and says nothing of the rate.
        """
        told = [each.arrived_rows for each in report.inputs if each.arrived_rows is not None]
        if len(told) == len(report.inputs):
            return float(sum(told))
        before = float(self["backlog_rows"][place])
        read = float(sum(each.read_rows for each in report.inputs))
        if math.isnan(before):
            return None if self["arrived_rows_per_s"][place] > 0 else read
        return max(0.0, read + backlog - before)

    def _follow(self, column: str, turn: str, place: int, value: float, keep: float) -> None:
        """Smooth what scatters, and believe at once what has turned: the second of two in the same direction."""
        old = float(self._columns[column][place])
        turned = (value > old * _JUMP) - (value < old / _JUMP)
        is_change = old == 0 or (turned != 0 and turned == self._columns[turn][place])
        self._columns[turn][place] = turned
        self._columns[column][place] = value if is_change else keep * old + (1 - keep) * value

    def start_anew(self, name: str) -> None:
        """It runs elsewhere now: how its backlog grew meanwhile is not known."""
        self["backlog_rows"][self.place[name]] = math.nan

    def set_cost(self, name: str, core_s_per_row: float) -> None:
        """What a row costs now that the query is warm: what was measured before does not count any more."""
        place = self.place[name]
        self["core_s_per_row"][place] = core_s_per_row
        self["cost_rows"][place] = min(1.0, self["cost_rows"][place])
        self["cost_core_s"][place] = core_s_per_row * self["cost_rows"][place]

    def _is_news(self, place: int) -> bool:
        rate, planned = float(self["arrived_rows_per_s"][place]), float(self["planned_rows_per_s"][place])
        waiting_s = self["backlog_rows"][place] / rate if rate > 0 else 0.0
        grew = waiting_s > float(self["planned_backlog_s"][place]) + _WAITING_NEWS_S
        return abs(rate - planned) > _NEWS * max(rate, planned) or bool(grew)

    def mark_planned(self) -> None:
        """Remember what a plan was made for."""
        rate = self["arrived_rows_per_s"]
        self["planned_rows_per_s"][:] = rate
        waiting = np.nan_to_num(self["backlog_rows"])
        np.divide(waiting, rate, out=self["planned_backlog_s"], where=rate > 0)

    def snapshot(self) -> dict[str, Any]:
        """All numbers, as plain data; unknown is None."""
        columns = {
            name: [None if math.isnan(value) else value for value in self[name].tolist()] for name in self._columns
        }
        return {"names": list(self.names), "columns": columns}

    @classmethod
    def restored(cls, snapshot: dict[str, Any]) -> QueryTable:
        """The table of a snapshot."""
        table = cls()
        for name in snapshot["names"]:
            table.add(name)
        for name, values in snapshot["columns"].items():
            table[name][:] = [math.nan if value is None else value for value in values]
        return table
