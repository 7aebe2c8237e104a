"""A fleet: several engines, the queries that may run on any of them, what happens to them and what is decided.

Events go to :class:`penstock.control.fleet.logic.FleetLogic`, decisions come back. Both are plain frozen data: live
they travel between the control side and the engines, in a simulation between the same logic and simulated engines.

An engine stands for a task manager of the paper, a query for a task instance. Queries that share the same ``task`` are
instances of one task: they read different partitions of the same streams, have one goal and one accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from penstock.errors import InvalidGraphError, InvalidSettingError
from penstock.model.action import ActionKind
from penstock.model.decision_base import Decision
from penstock.model.goal import Goal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.query import QueryName


class EngineKind(StrEnum):
    """How an engine gets its cores."""

    LOCAL = "local"
    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True)
class FleetEngine:
    """One engine: a Spark application that takes any number of queries.

    Examples
    --------
    >>> FleetEngine("east", cores=0)
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidSettingError: setting 'engines.east.cores' = 0 is not allowed: a number above zero
    """

    name: str
    cores: float = 1.0
    kind: EngineKind = EngineKind.LOCAL

    def __post_init__(self) -> None:
        if not (math.isfinite(self.cores) and self.cores > 0):
            raise InvalidSettingError(f"engines.{self.name}.cores", self.cores, "a number above zero")


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """One query instance, which may run on any engine.

    Parameters
    ----------
    name
        Its own name, the same wherever it runs.
    goal
        Priority, minimum accuracy and latency. What it hands on to queries behind it inherits from those (Eq. 1, 2).
    reads, writes
        Streams by name (``"topic:clicks"``); one query reads what another writes where the names are equal.
    task
        The task that it is an instance of; its own name where it is the only one.
    prefers
        Engines that are tried first; others are taken only where these have not the CPU that it needs.
    application
        Whom it belongs to, for people.
    is_guarded
        Whether rows may be dropped in it; without a guard its accuracy is always one.

    Examples
    --------
    >>> from penstock.model.query import QueryName
    >>> FleetQuery(QueryName("clicks-0"), reads=("topic:clicks",), task="clicks").task_name
    'clicks'
    """

    name: QueryName
    goal: Goal = field(default_factory=Goal)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    task: str = ""
    prefers: tuple[str, ...] = ()
    application: str = ""
    is_guarded: bool = True

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidGraphError("a query of a fleet has no name; name each, it is known by it wherever it runs")

    @property
    def task_name(self) -> str:
        """The task that it is an instance of."""
        return self.task or self.name


# ---- events ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EngineSeen:
    """An engine is there and answers.

    ``host_busy_cores`` is all CPU in use on its cores, foreign processes too, None where nobody measured it: then only
    the fleet's own queries count. ``own_busy_cores`` is what its queries used of that within the same time; where it is
    None their reports tell, which come at other moments.
    """

    engine: FleetEngine
    host_busy_cores: float | None = None
    own_busy_cores: float | None = None


@dataclass(frozen=True, slots=True)
class EngineLost:
    """An engine is gone, or has not answered for too long; its queries do not run any more."""

    engine: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StreamReport:
    """What one query did with one stream within the time of its report.

    Parameters
    ----------
    read_rows
        Rows taken from the stream, before its guard.
    kept_rows
        Rows of them that the guard kept.
    backlog_rows
        Rows that wait in the stream for this query at the end.
    arrived_rows
        Rows that came into the stream for this query; None where it follows from reading and backlog.
    """

    stream: str
    read_rows: float
    kept_rows: float
    backlog_rows: float = 0.0
    arrived_rows: float | None = None


@dataclass(frozen=True, slots=True)
class QueryReport:
    """What a query did on its engine within ``span_s`` seconds.

    Parameters
    ----------
    core_s
        Core-seconds that it kept busy.
    inputs
        One entry for each stream that it reads.
    rows_out
        Rows that it wrote, by stream.
    accuracy
        Part of the rows offered to it that it kept, as its guard counted; None where nobody did.
    latency_s
        Age of its newest results; None where unknown.
    """

    query: QueryName
    engine: str
    span_s: float
    core_s: float
    inputs: tuple[StreamReport, ...] = ()
    rows_out: Mapping[str, float] = field(default_factory=dict)
    accuracy: float | None = None
    latency_s: float | None = None


@dataclass(frozen=True, slots=True)
class QueryAdded:
    """A query is to run; ``engine`` says where it runs already, None where it has yet to be placed.

    The engine must have been seen before.
    """

    query: FleetQuery
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class QueryRemoved:
    """A query is not to run any more."""

    query: QueryName


@dataclass(frozen=True, slots=True)
class FleetGoalChanged:
    """Somebody asks for something else of a running query; ``asked_by`` says who."""

    query: QueryName
    goal: Goal
    asked_by: str = "user"


@dataclass(frozen=True, slots=True)
class MoveFinished:
    """A query runs where :class:`Place` or :class:`Move` wanted it.

    ``number`` is that of the decision; ``downtime_s`` is from the last batch on the old engine to the first on the new.
    """

    query: QueryName
    engine: str
    number: int
    downtime_s: float


@dataclass(frozen=True, slots=True)
class MoveFailed:
    """A query could not be brought to the engine that a decision named.

    ``running_on`` is the engine where it runs now, None where it does not run.
    """

    query: QueryName
    engine: str
    number: int
    reason: str
    running_on: str | None = None
    downtime_s: float | None = None


@dataclass(frozen=True, slots=True)
class FleetTick:
    """Time has passed: time-outs, and the cycle of ``fleet.every_s`` where it is due."""


FleetEvent = (
    EngineSeen | EngineLost | QueryReport | QueryAdded | QueryRemoved | FleetGoalChanged | MoveFinished | MoveFailed
    | FleetTick
)  # fmt: skip


# ---- decisions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Decision):
    """A query that runs nowhere is to start on an engine, from its checkpoint where it has one.

    ``number`` counts placements and moves; what comes of one names it (:attr:`MoveFinished.number`).
    """

    kind: ClassVar[ActionKind] = ActionKind.PLACE
    engine: str
    number: int

    @property
    def target(self) -> str:
        """The engine."""
        return self.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Decision):
    """A query is to stop on one engine and to start from its checkpoint on another; it does not come back meanwhile.

    ``expected`` has ``downtime_s``, and the core-seconds that are lost and gained (``cost_core_s``, ``gain_core_s``).
    """

    kind: ClassVar[ActionKind] = ActionKind.MOVE
    engine: str
    leaves: str
    number: int

    @property
    def target(self) -> str:
        """Both engines."""
        return f"{self.leaves} to {self.engine}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveDone(Decision):
    """A query runs where it was to; ``took_s`` is for how long it did not."""

    kind: ClassVar[ActionKind] = ActionKind.MOVE_DONE
    engine: str
    took_s: float

    @property
    def target(self) -> str:
        """The engine."""
        return self.engine

    @property
    def value(self) -> float | None:
        """Seconds."""
        return self.took_s

    @property
    def unit(self) -> str:
        """Seconds."""
        return "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamKeepRatio(Decision):
    """What a query is to keep of one stream from now on, Eq. 15.

    Parameters
    ----------
    stream
        The stream that it reads.
    keep_ratio
        Part of the rows *in the stream* that it keeps, ``d(t, t')``: for its guard where it reads, or for the producer
        where that one drops in its stead.
    path_keep_ratio
        Part of the application's input that is left behind that guard, the product along the path: its accuracy.
    producers
        Queries that write the stream; empty for a stream from outside, where only the source can drop.
    """

    kind: ClassVar[ActionKind] = ActionKind.STREAM_KEEP
    stream: str
    keep_ratio: float
    path_keep_ratio: float
    producers: tuple[str, ...] = ()
    previous_ratio: float | None = None

    @property
    def target(self) -> str:
        """The stream."""
        return self.stream

    @property
    def value(self) -> float | None:
        """The ratio."""
        return self.keep_ratio

    @property
    def previous(self) -> float | None:
        """The ratio before."""
        return self.previous_ratio

    @property
    def unit(self) -> str:
        """A ratio."""
        return "ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyBounds(Decision):
    """Between which accuracies a query's own engine may choose from now on.

    While a query warms up, all on its engine are held to their minimum accuracy: ``low`` and ``high`` are equal, and
    ``until_s`` is when the warm-up ends at the latest. When it is over, ``high`` is one again and ``until_s`` None.
    """

    kind: ClassVar[ActionKind] = ActionKind.ACCURACY_BOUNDS
    low: float
    high: float
    until_s: float | None = None

    @property
    def value(self) -> float | None:
        """The upper bound."""
        return self.high

    @property
    def unit(self) -> str:
        """A ratio."""
        return "ratio"


FLEET_DECISIONS: tuple[type[Decision], ...] = (Place, Move, MoveDone, StreamKeepRatio, AccuracyBounds)
