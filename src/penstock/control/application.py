"""The one logic of an application: events in, decisions out.

It owns admission and keep ratios of every query, priorities between them, the flow of their graph and the number of
executors. It has no clock, no randomness and no way to touch the world: the same events give the same decisions, live,
in a test and in a simulation (docs/adr/0014-one-loop.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.control.engine import EngineCoordinator, EngineState
from penstock.control.events import (
    BatchFinished,
    BatchPlanned,
    Event,
    ExecutorsSeen,
    GoalChanged,
    KeepBoundsChanged,
    QueryEnded,
    QueryStarted,
    ResizeEnded,
    Tick,
    UsageSeen,
)
from penstock.control.priority import KeepBounds
from penstock.control.query_logic import QueryLogic, QueryState
from penstock.control.scaling.by_name import guarded
from penstock.control.scaling_numbers import scaler_setup
from penstock.control.scaling_tier import ScalingTier, ScalingTierState
from penstock.control.sizing_tier import BY_HAND, SizingTier
from penstock.control.workload import QueryWorkload, Workload, WorkloadState, sum_of
from penstock.model import APPLICATION, Metric, SeriesPoint
from penstock.model.decision import Decision, Govern, Hold, Infeasible, ReadLimit, Unmanaged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.control.graph_tier import GraphTier
    from penstock.control.scaling.base import Scaler
    from penstock.model import Application, BatchSignal, Goal, QueryName
    from penstock.model.sizing import Resource
    from penstock.settings import Settings

_SHED = 0.999
"""A keep ratio below this drops rows; above it is rounding."""


@dataclass(slots=True)
class _Query:
    """One governed query."""

    logic: QueryLogic
    workload: QueryWorkload
    query_id: str


@dataclass(frozen=True, slots=True)
class ApplicationState:
    """Snapshot of an :class:`ApplicationLogic`, part by part."""

    queries: Mapping[QueryName, QueryState] = field(default_factory=dict)
    engine: EngineState | None = None
    graph: object | None = None
    scaling: ScalingTierState | None = None
    workloads: Mapping[QueryName, WorkloadState] = field(default_factory=dict)
    bounds: Mapping[QueryName, KeepBounds] = field(default_factory=dict)


class ApplicationLogic:
    """Decides everything about one application.

    Parameters
    ----------
    application
        What its user declared.
    settings
        Of every tier.
    cores
        Cores of the engine, until its executors are seen.
    enforced
        Whether decisions are applied; in observe-only mode a source cannot be blamed for ignoring a limit.
    policy
        A scaling policy in place of the declared one. It wears the same guards: bounds and budget are the declared
        ones.
    learned
        What earlier runs taught of executors, to begin with.
    resizes
        Number of the last change of shape on record: numbers go on from there.
    """

    def __init__(
        self,
        application: Application,
        settings: Settings,
        *,
        cores: float = 1.0,
        enforced: bool = True,
        policy: Scaler | None = None,
        learned: ScalingTierState | None = None,
        resizes: int = 0,
    ) -> None:
        self.application = application
        self._settings = settings
        self._enforced = enforced
        self._policy, self._learned = policy, learned
        self._resizes = resizes
        self._queries: dict[QueryName, _Query] = {}
        self._bounds: dict[QueryName, KeepBounds] = {}
        self._engine = EngineCoordinator(cores=cores)
        self._graph = self._new_graph()
        self._scaling: ScalingTier | None = None
        self._sizing: SizingTier | None = None
        self._left_resources: dict[Resource, str] = {}
        self._workload = Workload()
        self._points: list[SeriesPoint] = []
        self._has_seen_cores = False
        self._now_s = 0.0

    def on_event(self, event: Event, now_s: float) -> list[Decision]:
        """Decide on what happened; an empty list means that all stays as it is."""
        self._now_s = now_s
        decide: Mapping[type[Event], Callable[[Any], list[Decision]]] = {
            QueryStarted: self._on_started,
            QueryEnded: self._on_ended,
            BatchPlanned: self._on_planned,
            BatchFinished: self._on_finished,
            ExecutorsSeen: self._on_executors,
            GoalChanged: self._on_goal,
            KeepBoundsChanged: self._on_keep_bounds,
            UsageSeen: self._on_usage,
            ResizeEnded: self._on_resized,
            Tick: self._on_tick,
        }
        return decide[type(event)](event)

    def snapshot(self) -> ApplicationState:
        """Everything that the next decision depends on."""
        return ApplicationState(
            {name: query.logic.snapshot() for name, query in self._queries.items()},
            self._engine.snapshot(),
            None if self._graph is None else self._graph.snapshot(),
            None if self._scaling is None else self._scaling.snapshot(),
            {name: query.workload.snapshot() for name, query in self._queries.items()},
            dict(self._bounds),
        )

    def query(self, name: QueryName) -> QueryLogic | None:
        """What decides about one query; None for one that is not governed."""
        found = self._queries.get(name)
        return None if found is None else found.logic

    def set_enforced(self, *, enforced: bool) -> None:
        """Whether decisions are applied from now on."""
        self._enforced = enforced
        for query in self._queries.values():
            query.logic.set_enforced(enforced=enforced)

    @property
    def governed(self) -> tuple[QueryName, ...]:
        """Queries that are decided about."""
        return tuple(self._queries)

    @property
    def scaling(self) -> ScalingTier | None:
        """What decides about executors; None where none are declared, or no query had a latency goal yet."""
        return self._scaling

    @property
    def sizing(self) -> SizingTier | None:
        """What decides about the shape of executors; None where sizes are not looked at, or were not seen yet."""
        return self._sizing

    @property
    def workload(self) -> Workload:
        """What all queries together had to do when the executors were last seen."""
        return self._workload

    # Queries come and go, and their goals change

    def _on_started(self, event: QueryStarted) -> list[Decision]:
        spec, settings = event.spec, self._settings
        logic = QueryLogic(
            spec,
            event.goal,
            settings.admission,
            settings.shedding if event.has_guard else None,
            enforced=self._enforced,
            asks=event.asks,
            warm_start=event.warm_start,
            answered=event.answered,
        )
        self._queries[spec.name] = _Query(logic, QueryWorkload(), event.query_id)
        if spec.name in self._bounds:
            logic.set_keep_bounds(self._bounds[spec.name])
        self.application = self.application.with_goal(spec.name, event.goal)
        if self._graph is not None:
            self._graph.query_started(spec.name)
        self._scale_for_goals()
        decisions: list[Decision] = [self._govern(spec.name, event.goal, event.cause)]
        decisions += [
            Unmanaged(
                query=spec.name, cause=event.cause, reason=f"{source.description}: {source.reason}", source=source.index
            )
            for source in spec.sources
            if not source.is_limitable
        ]
        # A query that was running already is judged by what it did; limits in between were never in force.
        past = [decision for signal in event.past for decision in logic.on_batch(signal)]
        newest = {each.source: each for each in past if isinstance(each, ReadLimit)}
        return [*decisions, *(newest.values() or logic.on_start())]

    def _on_ended(self, event: QueryEnded) -> list[Decision]:
        name = event.query
        was_governed = self._queries.pop(name, None) is not None
        self._engine.forget(name)
        if self._graph is not None:
            self._graph.query_ended(name)
        self._scale_for_goals()
        if was_governed:
            self._relieve()
        return []

    def _on_goal(self, event: GoalChanged) -> list[Decision]:
        self.application = self.application.with_goal(event.query, event.goal)
        found = self._queries.get(event.query)
        if found is None:
            return []
        found.logic.set_goal(event.goal)
        if self._graph is not None:
            self._graph.goal_changed(event.query, event.goal)
        self._scale_for_goals()
        return [self._govern(event.query, event.goal, f"asked by {event.asked_by}")]

    def _on_keep_bounds(self, event: KeepBoundsChanged) -> list[Decision]:
        """Whoever plans for all engines knows what this one's own queries cannot tell: its bounds win over theirs."""
        self._bounds.pop(event.query, None)
        if event.bounds != KeepBounds():
            self._bounds[event.query] = event.bounds
        found = self._queries.get(event.query)
        if found is not None:
            found.logic.set_keep_bounds(event.bounds)
        return []

    def _govern(self, name: QueryName, goal: Goal, cause: str) -> Govern:
        target_s = self._queries[name].logic.target_batch_s
        if goal.latency_s is None or target_s is None:
            reason = "no latency goal, so only the flow of its graph limits what it reads"
            expected: dict[str, float] = {}
        else:
            reason = f"rows may be {goal.latency_s:g} s old, so a batch may take {target_s:.2f} s"
            expected = {"target_batch_s": target_s}
        return Govern(
            query=name,
            cause=cause,
            reason=reason,
            expected=expected,
            query_id=self._queries[name].query_id,
            latency_s=goal.latency_s,
            minimum_accuracy=goal.minimum_accuracy,
            priority=goal.priority,
            weight=goal.weight,
        )

    # Batches

    def _on_planned(self, event: BatchPlanned) -> list[Decision]:
        found = self._queries.get(event.query)
        if found is None:
            return []
        self._hold_to_graph(found)
        answer = found.logic.on_planned(
            event.batch_id,
            event.planned,
            is_rerun=event.is_rerun,
            is_estimate=event.is_estimate,
            relief_s=0.0 if self._scaling is None else self._scaling.relief_s(self._now_s),
        )
        if answer is None:
            return []
        if answer.keep_ratio < _SHED:
            self._press(found, f"{event.query} sheds rows")
        else:
            self._relieve()
        return [answer]

    def _on_finished(self, event: BatchFinished) -> list[Decision]:
        signal = event.signal
        found = self._queries.get(signal.query)
        if found is None:
            return []
        contention = self._divide_engine(found, signal, event.core_s)
        cap_rows = None
        if self._graph is not None:
            self._graph.observe_batch(signal, event.core_s, found.logic.arrival_rows_per_s, self._now_s)
            if not self._hold_to_graph(found):
                cap_rows = self._graph.limit_rows(signal.query, self._now_s)
        decisions = found.logic.on_batch(signal, contention=contention, cap_rows=cap_rows)
        found.workload.observe_batch(signal)
        for decision in decisions:
            if isinstance(decision, Infeasible):
                self._press(found, decision.reason)
            elif isinstance(decision, Hold):
                self._relieve()
        return [*decisions, *self._plan_graph()]

    def _hold_to_graph(self, found: _Query) -> bool:
        """Let a query that can drop rows read all that comes and keep what the plan of its graph gives it, as of now.

        Gives whether it does so.
        """
        name = found.logic.spec.name
        if self._graph is None or not found.logic.can_shed:
            return False
        bounds = self._graph.keep_bounds(name, self._now_s)
        if bounds is None:
            return False
        found.logic.set_keep_bounds(self._bounds.get(name, bounds))
        return True

    def _on_tick(self, _: Tick) -> list[Decision]:
        return self._plan_graph()

    def _plan_graph(self) -> list[Decision]:
        """Targets of the graph, where they changed; minima that do not fit are the slow tier's business at once."""
        decisions = self._graph.plan(self._now_s) if self._graph is not None else []
        if self._scaling is not None:
            for decision in decisions:
                if isinstance(decision, Infeasible):
                    self._scaling.on_pressure(self._now_s, reason=decision.reason)
        return decisions

    def _divide_engine(self, found: _Query, signal: BatchSignal, core_s: float | None) -> float:
        """Hold a query to what its priority leaves it, as soon as it is not the only governed one.

        Gives how much faster or slower its batches would be if all queries kept to their parts.
        """
        logic = found.logic
        if len(self._queries) <= 1:
            # Bounds of a plan, or of neighbours, that are gone would hold it for ever.
            logic.set_keep_bounds(self._bounds.get(signal.query, KeepBounds()))
            return 1.0
        self._engine.observe_batch(
            signal.query,
            logic.goal,
            signal.finished_s,
            logic.arrival_rows_per_s or 0.0,
            batch_s=logic.target_batch_s or signal.duration_s,
            read_rows=signal.rows,
            kept_rows=signal.work_rows,
            core_s=core_s,
            can_shed=logic.has_guard,
            lag_rows=signal.lag_rows,
            duration_s=signal.duration_s,
        )
        logic.set_keep_bounds(self._bounds.get(signal.query) or self._engine.bounds(signal.query, signal.finished_s))
        return self._engine.contention_correction(signal.query, signal.finished_s)

    # Executors

    def _on_executors(self, event: ExecutorsSeen) -> list[Decision]:
        self._take_cores(max(1.0, event.view.cores))
        if self._graph is not None:
            self._graph.set_cores(self._engine.cores)
        self._workload = self._sum_workloads(event.idle)
        if self._scaling is None:
            return []
        decisions = self._scaling.observe(event.view, self._workload, self._now_s)
        self._points += self._scaling.points
        return decisions

    def _on_usage(self, event: UsageSeen) -> list[Decision]:
        settings = self._settings.sizing
        if settings.mode == "off":
            return []
        if self._sizing is None:
            self._sizing = SizingTier(
                settings,
                event.shape,
                is_acting=self._enforced and settings.mode == "apply",
                scales_executors=self.application.executors is not None,
                first_number=self._resizes,
            )
            for resource, reason in self._left_resources.items():
                self._sizing.engine.block(resource, reason)
        decisions = self._sizing.observe(
            event.signal, event.shape, event.capacity, is_asked_for=event.is_asked_for and self._enforced
        )
        # Whoever reads the windows later is to see, too, what the operator has taken over.
        self._points += [
            SeriesPoint(event.signal.time_s, APPLICATION, Metric.SIZING, 1.0, subject=f"{BY_HAND}{resource.value}")
            for resource in sorted(self._sizing.engine.hands_off)
        ]
        return decisions

    def _on_resized(self, event: ResizeEnded) -> list[Decision]:
        return [] if self._sizing is None else self._sizing.on_outcome(event.outcome)

    def leave_resource(self, resource: Resource, reason: str) -> None:
        """Do not decide about a resource of executors any more."""
        self._left_resources[resource] = reason
        if self._sizing is not None:
            self._sizing.engine.block(resource, reason)

    def take_points(self) -> list[SeriesPoint]:
        """What was measured of executors since the last call: how long they take to come and to go."""
        points, self._points = self._points, []
        return points

    def _take_cores(self, cores: float) -> None:
        """Executors that came or went make rows cheaper or dearer at once: nobody need learn that anew."""
        before, self._engine.cores = self._engine.cores, cores
        if self.application.executors is None or before == cores or not self._has_seen_cores:
            self._has_seen_cores = True
            return
        for query in self._queries.values():
            query.logic.on_cores(cores / before, self._now_s)

    def _scale_for_goals(self) -> None:
        """Let the slow tier go by the goals and triggers that there are.

        There is one from the first query with a latency goal on: without any there is nothing to scale for. When the
        last such query has ended, what it asked for stands until the next one comes.
        """
        declared, settings = self.application.executors, self._settings.scaling
        goals = [query.logic.goal.latency_s for query in self._queries.values()]
        known = [goal_s for goal_s in goals if goal_s is not None]
        if declared is None or not known:
            return
        goal_s = min(known)
        trigger_s = max(query.logic.spec.trigger_interval_s for query in self._queries.values()) or None
        if self._scaling is None:
            self._scaling = ScalingTier(
                declared,
                settings,
                goal_s=goal_s,
                trigger_s=trigger_s,
                state=self._learned,
                scaler=None if self._policy is None else guarded(self._policy, scaler_setup(declared, settings)),
                is_acting=self._enforced,
            )
        self._scaling.goal_s, self._scaling.trigger_s = goal_s, trigger_s

    def _sum_workloads(self, idle: frozenset[QueryName]) -> Workload:
        return sum_of(
            query.workload.at(
                self._now_s,
                arrival_rows_per_s=query.logic.arrival_rows_per_s,
                arrived=query.logic.arrived,
                idle=name in idle,
            )
            for name, query in self._queries.items()
        )

    def _press(self, found: _Query, reason: str) -> None:
        """Tell the slow tier at once that the fast one is at its end; demand is what arrives, shed rows included."""
        if self._scaling is not None:
            demand = found.logic.arrival_rows_per_s or 0.0
            self._scaling.on_pressure(self._now_s, demand_rows_per_s=demand, reason=reason)

    def _relieve(self) -> None:
        """Leave the slow tier to its policy again, once no query sheds or misses its goal."""
        if self._scaling is not None and not any(query.logic.is_short for query in self._queries.values()):
            self._scaling.on_relief()

    def _new_graph(self) -> GraphTier | None:
        if not self.application.has_graph:
            return None
        from penstock.control.graph_tier import GraphTier  # noqa: PLC0415 - brings solvers, which few need
        from penstock.control.tier_two import FlowPolicy  # noqa: PLC0415 - as above

        graph = self._settings.graph
        return GraphTier(
            self.application,
            plan_every_s=graph.plan_every_s,
            batch_s=graph.batch_s,
            cores=self._engine.cores,
            policy=FlowPolicy(graph.policy),
            growth_factor=self._settings.admission.growth_factor,
        )
