"""A logic that weighs nothing: queries run where they are told to, and elsewhere when that engine is lost.

Benchmarks and tests of moves decide by it, so that what they see is the way a move is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.model.fleet import (
    EngineLost,
    EngineSeen,
    FleetTick,
    Move,
    MoveFailed,
    MoveFinished,
    Place,
    QueryAdded,
)

if TYPE_CHECKING:
    from penstock.model import QueryName
    from penstock.model.decision import Decision
    from penstock.model.fleet import FleetEvent


@dataclass(slots=True)
class ByHand:
    """Places every query on the first engine, and moves those that it is told to.

    ``finished`` and ``failed`` are what came of placements and moves, oldest first.
    """

    engines: list[str] = field(default_factory=list)
    where: dict[QueryName, str | None] = field(default_factory=dict)
    finished: list[MoveFinished] = field(default_factory=list)
    failed: list[MoveFailed] = field(default_factory=list)
    _wanted: dict[QueryName, str] = field(default_factory=dict)
    _number: int = 0

    def move(self, query: QueryName, engine: str) -> None:
        """Have a query moved to an engine with the next cycle."""
        self._wanted[query] = engine

    def on_event(self, event: FleetEvent, now_s: float) -> list[Decision]:  # noqa: ARG002 - as every logic is asked
        """Decide on what happened."""
        if isinstance(event, EngineSeen) and event.engine.name not in self.engines:
            self.engines.append(event.engine.name)
        elif isinstance(event, EngineLost):
            self.engines = [name for name in self.engines if name != event.engine]
            lost = [query for query, engine in self.where.items() if engine == event.engine]
            return [decision for query in lost for decision in self._place(query, f"engine {event.engine} is lost")]
        elif isinstance(event, QueryAdded):
            self.where[event.query.name] = event.engine
            return [] if event.engine else self._place(event.query.name, "it is new")
        elif isinstance(event, MoveFinished):
            self.where[event.query] = event.engine
            self.finished.append(event)
        elif isinstance(event, MoveFailed):
            return self._on_failure(event)
        elif isinstance(event, FleetTick):
            return self._moves()
        return []

    def _on_failure(self, event: MoveFailed) -> list[Decision]:
        self.failed.append(event)
        self.where[event.query] = event.running_on
        if not event.number:
            return []  # it was no order that failed, and the query comes as a new one
        return [] if event.running_on else self._place(event.query, event.reason)

    def _place(self, query: QueryName, why: str) -> list[Decision]:
        if not self.engines:
            self.where[query] = None
            return []
        self._number += 1
        self.where[query] = self.engines[0]
        return [Place(query=query, cause="by hand", reason=why, engine=self.engines[0], number=self._number)]

    def _moves(self) -> list[Decision]:
        wanted, self._wanted = self._wanted, {}
        moves: list[Decision] = []
        for query, engine in wanted.items():
            leaves = self.where.get(query)
            if leaves is not None and leaves != engine:
                self._number += 1
                told = {"cause": "by hand", "reason": "asked for", "number": self._number}
                moves.append(Move(query=query, engine=engine, leaves=leaves, **told))  # type: ignore[arg-type]
        unplaced = [query for query, engine in self.where.items() if engine is None]
        return moves + [decision for query in unplaced for decision in self._place(query, "an engine is there")]
