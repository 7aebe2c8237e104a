"""What an engine is asked to run and what it reports, as plain data that fits into JSON.

An engine is a long-lived process with its own Spark application. The control side and the engine's agent exchange
nothing but these.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the agent checks requests by these annotations when it runs
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from penstock.model.goal import Goal


class RunState(StrEnum):
    """How far a query on an engine is."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class QueryRun:
    """One run of a query on one engine.

    Parameters
    ----------
    application, query
        Whose query it is, and its name.
    entry
        The function that builds it, ``"ads.queries:clicks"``.
    checkpoint
        Where it goes on from, and keeps how far it is.
    number
        Counts the runs of the query over all engines. A checkpoint that a run with a larger number has taken over is
        refused to all smaller ones.
    options
        What the function is given.
    latency_s, minimum_accuracy, priority, weight
        Its goal.
    keep_low, keep_high
        Bounds of what it keeps of its rows, until others are told.
    served_priority
        The highest priority of the results that its rows go into; None where that is its own.
    """

    application: str
    query: str
    entry: str
    checkpoint: str
    number: int
    options: Mapping[str, Any] = field(default_factory=dict)
    latency_s: float | None = None
    minimum_accuracy: float = 1.0
    priority: int = 1
    weight: float = 1.0
    keep_low: float = 0.0
    keep_high: float = 1.0
    served_priority: int | None = None

    @property
    def goal(self) -> Goal:
        """What it must deliver."""
        return Goal(self.latency_s, self.minimum_accuracy, self.priority, self.weight)

    def to_dict(self) -> dict[str, Any]:
        """Give the request as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RunReport:
    """How one query on an engine is doing; what is unknown is None.

    Parameters
    ----------
    keep_low, keep_high
        Bounds of what it keeps that are in force.
    rows, kept_rows, out_rows, core_s, batches
        Totals of this run: rows read, kept and written, seconds that its stages kept cores busy, batches that are done.
    source_rows, source_backlog_rows
        Rows read in this run, and rows that wait, of each of its sources.
    first_batch_s, last_batch_s
        When its first and its last batch were done, in seconds since the epoch.
    arrival_rows_per_s, backlog_rows, latency_s, keep_ratio
        As :class:`penstock.report.QueryStatus` has them.
    is_in_batch
        Whether it is at work now, on rows that are in none of the totals yet.
    error
        Why it failed, one line.
    """

    query: str
    application: str
    state: RunState
    number: int
    checkpoint: str
    started_s: float
    keep_low: float = 0.0
    keep_high: float = 1.0
    rows: float = 0.0
    kept_rows: float = 0.0
    out_rows: float = 0.0
    core_s: float = 0.0
    batches: int = 0
    source_rows: tuple[float, ...] = ()
    source_backlog_rows: tuple[float | None, ...] = ()
    last_batch: int | None = None
    first_batch_s: float | None = None
    last_batch_s: float | None = None
    arrival_rows_per_s: float | None = None
    processed_rows_per_s: float | None = None
    backlog_rows: float | None = None
    latency_s: float | None = None
    keep_ratio: float | None = None
    has_guard: bool = False
    is_in_batch: bool = False
    error: str | None = None

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> RunReport:
        """What an agent sent; keys of a newer one are left out."""
        sources = {name: tuple(tree.get(name, ())) for name in ("source_rows", "source_backlog_rows")}
        return cls(**{**_known(cls, tree), **sources, "state": RunState(tree["state"])})

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain data."""
        return {**asdict(self), "state": self.state.value}


@dataclass(frozen=True, slots=True)
class EngineReport:
    """An engine as it is now.

    Parameters
    ----------
    name, kind
        As they are declared.
    pid, started_s
        Its process, and the moment it began: another process may have the id later.
    cores
        Cores that its queries may keep busy.
    busy_cores
        Cores of those that anybody keeps busy, measured on the host; None where its executors are elsewhere.
    foreign_cores
        Cores of those that processes other than the engine's own keep busy.
    waited_cores
        For how much more its own threads were ready to run, and had no core.
    lease_left_s
        How long its queries may run on without a word of the control side; None where it needs none.
    """

    name: str
    kind: str
    pid: int
    started_s: float
    cores: float
    time_s: float
    busy_cores: float | None = None
    foreign_cores: float | None = None
    waited_cores: float | None = None
    lease_left_s: float | None = None
    queries: tuple[RunReport, ...] = ()

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> EngineReport:
        """What an agent sent; keys of a newer one are left out.

        Examples
        --------
        >>> report = EngineReport("left", "local", 7, 1.0, 1.0, 2.0)
        >>> EngineReport.from_dict(report.to_dict() | {"colour": "red"}) == report
        True
        """
        queries = tuple(RunReport.from_dict(each) for each in tree.get("queries", ()))
        return cls(**{**_known(cls, tree), "queries": queries})

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain data."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "queries"}
        return {**own, "queries": [query.to_dict() for query in self.queries]}

    def query(self, name: str) -> RunReport | None:
        """The query of a name, if the engine knows it."""
        return next((each for each in self.queries if each.query == name), None)


def _known(kind: type[RunReport | EngineReport], tree: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in tree.items() if name in names}
