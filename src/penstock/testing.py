"""Try an application without Spark: the same logic and the same loop on a simulated engine, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from penstock.control.application import ApplicationLogic
from penstock.loop import Loop
from penstock.model import BatchSignal, Mode, QueryName
from penstock.model.decision import Decision, from_action
from penstock.settings import Settings
from penstock.sim.clock import ManualClock
from penstock.sim.engine import SimulatedEngine
from penstock.sim.simulated_executors import SimulatedExecutors
from penstock.sim.simulated_query import BatchOutcome, QueryRun, SimulatedQuery
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.control.events import Event
    from penstock.model import Application
    from penstock.store import Store

__all__ = [
    "BatchOutcome",
    "FakePlant",
    "ManualClock",
    "QueryRun",
    "SimulatedEngine",
    "SimulatedExecutors",
    "SimulatedQuery",
    "SimulatedRun",
    "simulate",
]

Kind = TypeVar("Kind", bound=Decision)


@dataclass
class FakePlant:
    """A plant that only remembers: what it was told to apply, in order, and which queries it gave back."""

    events: list[Event] = field(default_factory=list)
    applied: list[Decision] = field(default_factory=list)
    restored: list[QueryName] = field(default_factory=list)
    lost: list[Decision] = field(default_factory=list)

    def observe(self) -> Sequence[Event]:
        """Whatever was put into ``events``, once."""
        seen, self.events = self.events, []
        return seen

    def apply(self, decision: Decision) -> None:
        """Remember it."""
        self.applied.append(decision)

    def in_force(self, decision: Decision) -> bool:
        """Whether it was applied and not put into ``lost`` since."""
        if decision in self.lost:
            self.lost.remove(decision)
            return False
        return decision in self.applied

    def restore(self, query: QueryName) -> None:
        """Remember it."""
        self.restored.append(query)

    suspend = restore


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A simulated application: engine, logic, loop and the log."""

    engine: SimulatedEngine
    loop: Loop
    logic: ApplicationLogic
    store: Store

    def run_until(self, time_s: float) -> SimulatedRun:
        """Go on until a moment of virtual time."""
        self.engine.run_until(time_s)
        return self

    def run_batches(self, name: str, batches: int) -> SimulatedRun:
        """Go on until so many more batches of a query are done."""
        self.engine.run_batches(name, batches)
        return self

    def query(self, name: str) -> QueryRun:
        """What became of a query."""
        return self.engine.queries[QueryName(name)]

    def signals(self, name: str) -> list[BatchSignal]:
        """Reports of the batches of a query."""
        return [batch.signal for batch in self.query(name).batches]

    def decisions(self, kind: type[Kind], name: str | None = None) -> list[Kind]:
        """Decisions of a kind on record, of one query or of all, oldest first."""
        query = None if name is None else QueryName(name)
        found = (from_action(record.action) for record in self.store.actions(query=query, kinds=[kind.kind]))
        return [decision for decision in found if isinstance(decision, kind)]


def simulate(
    application: Application,
    queries: Mapping[str, SimulatedQuery],
    *,
    settings: Settings | None = None,
    cores: float = 1.0,
    executors: SimulatedExecutors | None = None,
    mode: Mode = Mode.ACT,
    store: Store | None = None,
    cycle_every_s: float = 1.0,
    tick_s: float = 0.0,
    limit_delay_batches: int = 1,
    core_reports_late_every: int = 0,
) -> SimulatedRun:
    """An application on a simulated engine, at time zero.

    Queries that the application does not declare run ungoverned. Where it declares executors and none are described,
    they are of one core each.

    Examples
    --------
    Three times what fits, of a query that may drop down to a twentieth:

    >>> from penstock.model import Application, Goal
    >>> goals = Application.of_goals({"clicks": Goal(latency=5, minimum_accuracy=0.05)})
    >>> flood = SimulatedQuery(lambda now_s: 135_000.0, cost_per_row_s=20e-6, has_guard=True)
    >>> clicks = simulate(goals, {"clicks": flood}).run_until(120.0).query("clicks")
    >>> 0.28 < clicks.kept_ratio_since(60.0) < 0.36, clicks.late_share_since(60.0)
    (True, 0.0)
    """
    declared = application.executors
    if declared is not None and executors is None:
        executors = SimulatedExecutors(first=declared.bounds.first)
    engine = SimulatedEngine(
        queries,
        cores=cores,
        executors=executors,
        cycle_every_s=cycle_every_s,
        tick_s=tick_s,
        limit_delay_batches=limit_delay_batches,
        core_reports_late_every=core_reports_late_every,
    )
    first_cores = cores if engine.pool is None else engine.pool.cores(0.0)
    logic = ApplicationLogic(application, settings or Settings(), cores=first_cores, enforced=mode is Mode.ACT)
    log = MemoryStore() if store is None else store
    loop = Loop(logic, engine, log, mode=mode, clock=engine.clock)
    engine.connect(loop, {name: query.goal for name, query in application.queries.items()})
    return SimulatedRun(engine, loop, logic, log)
