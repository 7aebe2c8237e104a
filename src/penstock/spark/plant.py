"""Spark as the loop sees it: what is there, and how decisions are put in force."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.control.events import ExecutorsSeen, ResizeEnded, UsageSeen
from penstock.model import EngineView, QueryName
from penstock.model.decision import Decision, Executors, KeepRatio, ReadLimit, Resize
from penstock.model.directive import Directive
from penstock.spark import internals
from penstock.spark.internals import Ability
from penstock.spark.watched import WatchedQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.control.events import Event
    from penstock.spark.executor_plant import ExecutorPlant
    from penstock.spark.sizing_plant import SizingPlant


class SparkPlant:
    """The streaming queries and executors of one session.

    Parameters
    ----------
    spark
        The session.
    missing
        Abilities that this Spark does not offer.
    executors
        Where the number of executors can be changed; None where it cannot or is not to be.
    sizing
        Where sizes are looked at; None where they are not.
    more_events
        Whatever else is to be looked at once a cycle, such as a file with goals.
    """

    def __init__(
        self,
        spark: SparkSession,
        missing: Collection[Ability],
        *,
        executors: ExecutorPlant | None = None,
        sizing: SizingPlant | None = None,
        more_events: Callable[[], Sequence[Event]] = tuple,
    ) -> None:
        self.executors, self.sizing = executors, sizing
        self.endpoint, self.token, self.timeout_s = "", "", 0.5
        self.missing = missing
        self.repay_days = 7.0
        self._spark, self._missing, self._more_events = spark, missing, more_events
        self._queries: dict[str, WatchedQuery] = {}
        self._lock = threading.Lock()
        self._view = EngineView()
        self._applied: tuple[Executors, EngineView] | None = None

    # Queries

    def watch(self, query: StreamingQuery) -> WatchedQuery:
        """Watch a query from now on; a second run from the same checkpoint takes the place of the first."""
        watched = WatchedQuery(self._spark, query, QueryName(query.name or str(query.id)), self._missing)
        watched.repay_days = self.repay_days
        with self._lock:
            known = self._queries.get(str(query.id))
            if known is not None and known.query.runId == query.runId:
                return known
            # At the end: of several runs under one name the newest is the last.
            self._queries.pop(str(query.id), None)
            self._queries[str(query.id)] = watched
            return watched

    def forget(self, query_id: str, run_id: str) -> WatchedQuery | None:
        """Watch a run of a query no longer; None where another run of it is there already."""
        with self._lock:
            known = self._queries.get(query_id)
            if known is None or str(known.query.runId) != run_id:
                return None
            return self._queries.pop(query_id)

    def find(self, name: str) -> WatchedQuery | None:
        """A query by its name or id; of several runs under one name the newest, unless only an older one is active.

        News of the end of a run may come after the start of the next one under its name.
        """
        with self._lock:
            known = dict(self._queries)
        if name in known:
            return known[name]
        runs = [each for each in reversed(known.values()) if each.name == name]
        return (
            next((each for each in runs if each.query.isActive), runs[0]) if len(runs) > 1 else next(iter(runs), None)
        )

    @property
    def watched(self) -> list[WatchedQuery]:
        """All queries that are watched."""
        with self._lock:
            return list(self._queries.values())

    @property
    def view(self) -> EngineView:
        """The executors as they were seen last; nobody where they are not scaled."""
        return self._view

    # The loop's side

    def observe(self) -> Sequence[Event]:
        """The executors, where anybody needs to know, and whatever else is looked at."""
        events: list[Event] = list(self._more_events())
        if self.sizing is not None:
            events += [ResizeEnded(outcome) for outcome in self.sizing.outcomes()]
            seen = self.sizing.observe()
            events += [] if seen is None else [UsageSeen(*seen)]
        if self.executors is not None:
            self._view = self.executors.observe()
            idle = frozenset(each.name for each in self.watched if each.is_governed and each.is_idle)
            return [*events, ExecutorsSeen(self._view, idle)]
        if Ability.EXECUTORS not in self._missing and sum(each.is_governed for each in self.watched) > 1:
            events.append(ExecutorsSeen(EngineView(cores=float(internals.engine_cores(self._spark)))))
        return events

    def apply(self, decision: Decision) -> None:
        """Put a decision in force."""
        if isinstance(decision, Executors):
            if self.executors is not None:
                view = self._view
                self.executors.apply(decision, view)
                self._applied = decision, view
            return
        if isinstance(decision, Resize):
            if self.sizing is not None:
                self.sizing.apply(decision)
            return
        watched = self.find(decision.query)
        if watched is None or not watched.is_governed or not watched.query.isActive:
            return  # one that is not governed may have the name of one that was
        if isinstance(decision, ReadLimit):
            watched.set_limit(decision.source, decision.units)
        elif isinstance(decision, KeepRatio):
            # What the batch itself asks for it has by then; this is for later ones that get no answer.
            self.tell(watched, Directive.from_decision(decision))

    def tell(self, watched: WatchedQuery, fallback: Directive | None) -> None:
        """Tell a query's tasks where to ask, and what holds without an answer: everything is kept without a fallback.

        With it goes when rows were dropped before: a batch that gets no answer gives out windows that miss them.
        """
        watched.tell(self.endpoint, self.token, fallback, self.timeout_s)

    def in_force(self, decision: Decision) -> bool:
        """Whether what a decision asks for is there; of a query that is gone, or not governed, nothing is asked."""
        if isinstance(decision, Executors):
            # Executors come and go by themselves: what is there is compared with what is asked for once in every view.
            applied = self._applied
            return self.executors is None or (
                applied is not None and applied[0] is decision and applied[1] is self._view
            )
        if isinstance(decision, Resize):
            return self.sizing is None or self.sizing.is_taken_on(decision)
        watched = self.find(decision.query)
        if not isinstance(decision, ReadLimit) or watched is None:
            return True
        if not watched.is_governed or not watched.query.isActive:
            return True
        return watched.has_limit(decision.source)

    def restore(self, query: QueryName) -> None:
        """Give a query back what it came with."""
        watched = self.find(query)
        if watched is not None:
            watched.is_governed = False
            watched.restore()

    def suspend(self, query: QueryName) -> None:
        """Let a query run under its own limits for now; its batches ask on, and keep everything without an answer."""
        watched = self.find(query)
        if watched is not None and watched.is_governed:
            watched.restore()
            if watched.has_guard:
                self.tell(watched, None)
