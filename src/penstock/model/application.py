"""An application as its user declares it: queries with goals, what each reads and writes, executors."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.errors import InvalidGraphError
from penstock.model.executors import ExecutorBounds
from penstock.model.goal import Goal
from penstock.model.query import QueryName

if TYPE_CHECKING:
    from collections.abc import Mapping


REPAY_NEVER, REPAY_WHEN_IDLE = "never", "when idle"
REPAY_CHOICES = (REPAY_NEVER, REPAY_WHEN_IDLE)


@dataclass(frozen=True, slots=True)
class QueryDeclaration:
    """One query: its goal, the streams that it reads and writes, by name (``"topic:clicks"``), and when it repays."""

    goal: Goal = field(default_factory=Goal)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    repay: str = REPAY_NEVER


@dataclass(frozen=True, slots=True)
class ExecutorsDeclaration:
    """How many executors the application may have, and who decides how many it has.

    Parameters
    ----------
    bounds
        Minimum, maximum, first size and standby.
    policy
        Name of a scaling policy (:data:`penstock.model.scaling.ONLINE_POLICIES`).
    budget_executor_hours_per_day
        Executor-hours within any 24 hours; None is no budget.
    """

    bounds: ExecutorBounds = field(default_factory=ExecutorBounds)
    policy: str = "proactive"
    budget_executor_hours_per_day: float | None = None


@dataclass(frozen=True, slots=True)
class Application:
    """Everything that one application is to have.

    Two queries are joined where one reads what the other writes; that is the application's graph.

    Examples
    --------
    >>> parse = QueryDeclaration(Goal(), reads=("topic:clicks",), writes=("topic:parsed",))
    >>> count = QueryDeclaration(Goal(weight=2.0), reads=("topic:parsed",))
    >>> application = Application({QueryName("parse"): parse, QueryName("count"): count})
    >>> application.producers(QueryName("count")), application.readers(QueryName("parse")), application.has_graph
    (('parse',), ('count',), True)
    >>> loop = QueryDeclaration(Goal(), reads=("topic:a",), writes=("topic:a",))
    >>> Application({QueryName("echo"): loop})
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidGraphError: query 'echo' reads what comes from itself: echo -> echo; a stream must not \
lead back to a query that it came from
    """

    queries: Mapping[QueryName, QueryDeclaration] = field(default_factory=dict)
    executors: ExecutorsDeclaration | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", MappingProxyType(dict(self.queries)))
        way = way_back(self.queries)
        if way:
            raise InvalidGraphError(
                f"query {str(way[0])!r} reads what comes from itself: {' -> '.join(way)}; a stream must not lead back "
                "to a query that it came from"
            )

    @classmethod
    def of_goals(cls, goals: Mapping[str, Goal]) -> Application:
        """The simple case: goals by query name, no graph, no executors."""
        return cls({QueryName(name): QueryDeclaration(goal) for name, goal in goals.items()})

    @property
    def has_graph(self) -> bool:
        """Whether some query reads what another writes."""
        return any(self.readers(name) for name in self.queries)

    def readers(self, name: QueryName) -> tuple[QueryName, ...]:
        """Queries that read what this one writes."""
        written = set(self.queries[name].writes) if name in self.queries else set()
        return tuple(other for other, query in self.queries.items() if written & set(query.reads))

    def producers(self, name: QueryName) -> tuple[QueryName, ...]:
        """Queries that write what this one reads."""
        read = set(self.queries[name].reads) if name in self.queries else set()
        return tuple(other for other, query in self.queries.items() if read & set(query.writes))

    def with_goal(self, name: QueryName, goal: Goal) -> Application:
        """The same with another goal for one query, which need not have had one before."""
        known = self.queries.get(name, QueryDeclaration())
        return replace(self, queries={**self.queries, name: replace(known, goal=goal)})

    def without(self, name: QueryName) -> Application:
        """The same without one query."""
        return replace(self, queries={other: query for other, query in self.queries.items() if other != name})


def way_back(queries: Mapping[QueryName, QueryDeclaration]) -> tuple[QueryName, ...]:
    """A shortest way from a query along what it writes back to itself; empty where there is none.

    Every query is looked at once from each start, so that a wide graph with very many ways takes no time.

    Examples
    --------
    >>> there = QueryDeclaration(reads=("topic:a",), writes=("topic:b",))
    >>> back = QueryDeclaration(reads=("topic:b",), writes=("topic:a",))
    >>> way_back({QueryName("there"): there, QueryName("back"): back})
    ('there', 'back', 'there')
    >>> way_back({QueryName("there"): there})
    ()
    """
    readers_of: dict[str, list[QueryName]] = {}
    for name, query in queries.items():
        for stream in query.reads:
            readers_of.setdefault(stream, []).append(name)
    for start in queries:
        before: dict[QueryName, QueryName] = {}
        waiting = deque([start])
        while waiting:
            name = waiting.popleft()
            for reader in (reader for stream in queries[name].writes for reader in readers_of.get(stream, ())):
                if reader == start:
                    return (*_way(before, name), start)
                if reader not in before:
                    before[reader] = name
                    waiting.append(reader)
    return ()


def _way(before: Mapping[QueryName, QueryName], name: QueryName) -> tuple[QueryName, ...]:
    """All names from the start to this one."""
    way = [name]
    while way[-1] in before:
        way.append(before[way[-1]])
    return tuple(reversed(way))
