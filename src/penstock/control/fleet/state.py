"""What a fleet's logic remembers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.fleet.cpu import by_engine
from penstock.control.fleet.engines import EngineBook
from penstock.control.fleet.needs import FleetGraph, graph_of
from penstock.control.fleet.scheduler import UNKNOWN_CORES
from penstock.control.fleet.table import QueryTable
from penstock.errors import InvalidGraphError

if TYPE_CHECKING:
    from penstock.control.fleet.ledger import MoveLedger
    from penstock.control.fleet.shape import Floats, Indices
    from penstock.model.fleet import FleetQuery
    from penstock.settings import FleetSettings


@dataclass(slots=True)
class FleetState:
    """Queries, engines, measurements and moves; the graph of the queries as it was last built."""

    settings: FleetSettings
    moves: MoveLedger
    queries: dict[str, FleetQuery] = field(default_factory=dict)
    engines: EngineBook = field(default_factory=EngineBook)
    table: QueryTable = field(default_factory=QueryTable)
    sent: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    _readers: dict[str, set[str]] = field(default_factory=dict)
    _graph: FleetGraph | None = None
    _sent_ratios: Floats | None = None

    # ---- queries -------------------------------------------------------------------------------------------------

    def add_query(self, query: FleetQuery) -> None:
        """A query is there; one that would read what comes from itself is refused, and nothing changes."""
        self._check_way_back(query)
        self._forget_reader(query.name)
        for stream in query.reads:
            self._readers.setdefault(stream, set()).add(query.name)
        if query.name not in self.table.place:
            self.table.add(query.name)
        self.queries[query.name] = query
        self.forget_graph()

    def remove_query(self, name: str) -> bool:
        """A query is gone; gives whether it was there."""
        if name not in self.queries:
            return False
        self.forget_graph()  # before the row goes: what is in force is told by the rows as they are
        self._forget_reader(name)
        del self.queries[name]
        self.table.remove(name)
        self.moves.forget(name)
        return True

    def _forget_reader(self, name: str) -> None:
        for stream in self.queries[name].reads if name in self.queries else ():
            self._readers[stream].discard(name)

    def _check_way_back(self, query: FleetQuery) -> None:
        """Walk along what it writes; a plan could not be made for ever after if a circle got in."""
        ahead, seen = list(query.writes), set(query.writes)
        while ahead:
            stream = ahead.pop()
            if stream in query.reads:
                raise InvalidGraphError(
                    f"query {str(query.name)!r} reads {stream!r}, which comes from itself; a stream must not lead back "
                    "to a query that it came from"
                )
            behind = {each for reader in self._readers.get(stream, ()) for each in self.queries[reader].writes}
            ahead += sorted(behind - seen)
            seen |= behind

    # ---- the graph -----------------------------------------------------------------------------------------------

    @property
    def graph(self) -> FleetGraph:
        """Graph and goals; built anew when queries or goals have changed."""
        if self._graph is None:
            self._graph = graph_of([self.queries[name] for name in self.table.names], self.settings)
        return self._graph

    def forget_graph(self) -> None:
        """Queries or goals have changed."""
        self.sent = self.sent_ratios_by_input()
        self._graph = self._sent_ratios = None

    def task_minimum(self, query: str) -> float:
        """Minimum accuracy of a query's task, which may be inherited (Eq. 2)."""
        shape = self.graph.shape
        return float(shape.of_sinks(self.graph.minimum)[shape.task_of[self.table.place[query]]])

    @property
    def served_priority(self) -> Indices:
        """Of each query, the highest priority of the results that its rows go into (Eq. 1)."""
        shape = self.graph.shape
        return shape.served_priority(self.graph.priority)[shape.task_of]

    # ---- keep ratios in force ------------------------------------------------------------------------------------

    @property
    def sent_ratios(self) -> Floats:
        """Of each input (row) keep ratio and path keep ratio as last sent; one where none was, NaN to send it again."""
        if self._sent_ratios is None:
            shape, names = self.graph.shape, self.table.names
            inputs = zip(shape.input_instance.tolist(), shape.input_stream, strict=True)
            sent = [self.sent.get((names[place], stream), (1.0, 1.0)) for place, stream in inputs]
            self._sent_ratios = np.array(sent).reshape(-1, 2)
        return self._sent_ratios

    def sent_ratios_by_input(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Keep ratios and path keep ratios in force by query and stream."""
        if self._sent_ratios is None or self._graph is None:
            return self.sent
        shape, names = self._graph.shape, self.table.names
        rows = zip(shape.input_instance.tolist(), shape.input_stream, self._sent_ratios.tolist(), strict=True)
        return {(names[place], stream): (ratio, path) for place, stream, (ratio, path) in rows}

    def resend(self, query: str) -> None:
        """Its new engine knows no keep ratios of it."""
        self.sent_ratios[self.graph.shape.input_instance == self.table.place[query]] = math.nan

    # ---- places --------------------------------------------------------------------------------------------------

    def engine_place(self, query: str) -> int:
        """Place of the engine that a query is on or goes to; -1 where it is nowhere."""
        return int(self.table["engine"][self.table.place[query]])

    def set_engine(self, query: str, engine: str | None) -> None:
        """A query is on an engine, or on none."""
        self.table["engine"][self.table.place[query]] = -1 if engine is None else self.engines.place.get(engine, -1)

    def barred_engines(self, now_s: float) -> Indices:
        """Of each query the engine that it does not go back to, -1 for none."""
        barred = np.full(len(self.table.names), -1, dtype=np.intp)
        for query in list(self.moves.has_left):
            engine = self.moves.barred(query, now_s)
            if engine is not None and query in self.table.place:
                barred[self.table.place[query]] = self.engines.place.get(engine, -1)
        return barred

    def expected_cores_of_all(self) -> Floats:
        """Cores that each query is taken to need; one of which nothing is known a whole core (section 4)."""
        needed = self.table["core_s_per_row"] * self.table["arrived_rows_per_s"]
        return np.where(self.table.known, needed, UNKNOWN_CORES)

    def free_cores(self) -> Floats:
        """Cores of each engine that neither its queries nor foreign processes are taken to need."""
        used = by_engine(self.expected_cores_of_all(), self.table["engine"].astype(np.intp), len(self.engines.names))
        return self.engines.cores - self.engines.foreign_cores - used

    def warming_engines(self) -> dict[int, float]:
        """Places of engines on which somebody warms up, and until when at the latest."""
        until: dict[int, float] = {}
        for warm in self.moves.warming.values():
            place = self.engines.place[warm.engine]
            until[place] = max(until.get(place, 0.0), warm.until_s)
        return until

    def warming_priority(self) -> Indices:
        """Of each engine, the highest priority that warms up there; 0 where nobody does, and at -1, for nowhere."""
        highest = np.zeros(len(self.engines.names) + 1, dtype=np.intp)
        if not self.moves.warming:
            return highest  # nearly always, and every cycle asks
        served = self.served_priority
        for query, warm in self.moves.warming.items():
            place = self.engines.place[warm.engine]
            highest[place] = max(highest[place], served[self.table.place[query]])
        return highest
