"""The flow of an application's graph: targets from what rows cost, read limits from what readers say."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.control.allocation_minima import fit_minima
from penstock.control.graph_flow import LONGEST_BATCH, FlowReport, GraphFlow
from penstock.control.graph_shape import GraphShape
from penstock.control.min_flow import min_flow_rates
from penstock.control.planner import AllocationPlanner, PlannerState
from penstock.control.priority import KeepBounds
from penstock.control.tier_two import FlowPolicy, TierTwoState
from penstock.errors import InvalidSettingError
from penstock.estimate.query_load import MEMORY_BATCHES, DecayedSum, QueryLoad
from penstock.model.decision import Decision, GraphPlan, Hold, Infeasible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.errors import InfeasibleError
    from penstock.model.application import Application
    from penstock.model.goal import Goal
    from penstock.model.graph import ElementGraph
    from penstock.model.query import QueryName
    from penstock.model.signal import BatchSignal

# Batches of known cost that a query needs before it is planned with: the first one is dear, as nothing is compiled yet.
_FEWEST_BATCHES = 2
# A query that is silent for so many batches has no rows to read, and nobody waits for it.
_SILENT_AFTER_BATCHES = 15.0
# Targets that differ from those in force by less are not put in force.
_SAME_TARGET = 0.03
# Fewer cores are planned with than there are, more of them again by so much from one period to the next, and so many
# of them at the least and at the most.
_RECOVERY_STEP = 1.2
_SMALLEST_SCALE, _LARGEST_SCALE = 0.5, 1.0
# Where all that comes needs less than this part of the cores, nobody is held to targets; from the second on all are.
_FITS_BELOW, _FITS_NO_MORE = 0.8, 0.95
_ALL_OF_IT = 0.97
_WAITS_AT_MOST = 0.5
"""Part of its latency goal for which a row may wait; the rest is for the batch that it waits for."""
_MOVED = 0.2
"""Part by which the cores that targets need must have changed for a plan before its time: batches scatter by less."""
_DROPS = 1.02
"""Rows read for each that is kept, from which on rows are dropped: less is chance."""
# Rows that were sent and rows that arrived are compared after so many batches, and a small difference is none.
_COMPARED_AFTER = 15
_SAME_SELECTIVITY = 0.1
_LEAST_SELECTIVITY, _MOST_SELECTIVITY = 1e-3, 1e3
_FIT_AGAIN = "the minimum accuracies fit again"


@dataclass(frozen=True, slots=True)
class GraphTierState:
    """All that the decisions of a :class:`GraphTier` depend on beside the application and its settings."""

    running: frozenset[QueryName] = frozenset()
    loads: Mapping[QueryName, QueryLoad] = field(default_factory=dict)
    sent: Mapping[tuple[QueryName, QueryName], DecayedSum] = field(default_factory=dict)
    selectivities: Mapping[QueryName, float] = field(default_factory=dict)
    planner: PlannerState = field(default_factory=PlannerState)
    graph: ElementGraph | None = None
    flow: TierTwoState = field(default_factory=TierTwoState)
    targets_rows_per_s: Mapping[str, float] = field(default_factory=dict)
    scale: float = 1.0
    scaled_s: float | None = None
    first_s: float | None = None
    asked: str | None = None
    fits: bool = False
    is_infeasible: bool = False


class GraphTier:
    """Learns what the batches of a graph's queries cost, plans what each is to read, and limits what each may read.

    The graph follows from what the declared queries read and write. Streams that no query of the application writes
    come from outside. Two writers of one stream are a merge, of which each has the part that it sends. **Results are
    what no other running query reads**, and count with the weight and the minimum accuracy of their goal; all others
    have none of their own: their rows are worth what their readers make of them.

    Nothing is calibrated. Until every query that runs has two batches of known cost (or is silent for long, for want
    of rows) nothing is limited from here, but for what a query keeps of rows that will be late anyway. Where all that
    comes fits easily, a batch may read what all cores can do. Else tier one of ACES
    (:func:`~penstock.control.allocation.allocate`) gives targets, on deployment, on departure, when batches cost
    another amount than was planned with, and periodically, and tier two
    (:class:`~penstock.control.graph_flow.GraphFlow`) read limits. With :attr:`FlowPolicy.MIN` targets are those of
    :func:`~penstock.control.min_flow.min_flow_rates`.

    Minima that do not fit are lowered together, the same part of all of one priority
    (:func:`~penstock.control.allocation_minima.fit_minima`); that is said once, with what would help.

    Parameters
    ----------
    plan_every_s
        Seconds between two plans.
    batch_s
        Seconds of rows that a batch is to read at least.
    cores
        Cores that the queries of the graph may keep busy together.
    growth_factor
        How many times its largest batch a query may process while it is open what its rows cost.
    state
        A :meth:`snapshot` to go on from.

    Examples
    --------
    A parser of 100 rows a core second and a counter of 50, on one core, with 100 rows a second to read:

    >>> from penstock.model.application import Application, QueryDeclaration
    >>> from penstock.model.query import QueryName
    >>> from penstock.model.goal import Goal
    >>> from penstock.model.signal import BatchSignal, SourceSignal
    >>> parse, count = QueryName("parse"), QueryName("count")
    >>> tier = GraphTier(
    ...     Application({
    ...         parse: QueryDeclaration(reads=("topic:clicks",), writes=("topic:parsed",)),
    ...         count: QueryDeclaration(Goal(minimum_accuracy=0.1), reads=("topic:parsed",)),
    ...     }),
    ...     plan_every_s=5.0, batch_s=1.0,
    ... )
    >>> for name in (parse, count):
    ...     tier.query_started(name)
    >>> for number, rows in enumerate([20, 40, 80, 60]):
    ...     for name, row_s in ((parse, 0.01), (count, 0.02)):
    ...         batch = BatchSignal(name, number, number, 0.9, rows, (SourceSignal(0, rows, None, 0.0),))
    ...         tier.observe_batch(batch, rows * row_s, 100.0 if name == parse else None, number + 0.9)
    >>> tier.limit_rows(count, 4.0) is None
    True
    >>> [plan] = tier.plan(4.0)
    >>> {name: round(rate) for name, rate in plan.targets_rows_per_s.items()}
    {'parse': 32, 'count': 32}
    >>> tier.limit_rows(count, 4.0)
    32.0
    """

    def __init__(
        self,
        application: Application,
        *,
        plan_every_s: float,
        batch_s: float,
        cores: float = 1.0,
        policy: FlowPolicy = FlowPolicy.MAX,
        growth_factor: float = 4.0,
        state: GraphTierState | None = None,
    ) -> None:
        if not batch_s > 0:
            raise InvalidSettingError("batch_s", batch_s, "seconds above zero")
        state = copy.deepcopy(state or GraphTierState())
        self.application = application
        self.cores = cores
        self._plan_every_s, self._batch_s, self._policy = plan_every_s, batch_s, policy
        self._growth_factor = growth_factor
        self._running = set(state.running)
        self._loads = dict(state.loads)
        self._sent = dict(state.sent)
        self._selectivities = dict(state.selectivities)
        self._planner = AllocationPlanner(period_s=plan_every_s, state=state.planner)
        self._graph = state.graph
        self.targets_rows_per_s: Mapping[str, float] = dict(state.targets_rows_per_s)
        self._flow: GraphFlow | None = None
        if state.graph is not None:
            self._flow = GraphFlow(
                state.graph, self.targets_rows_per_s, batch_s=batch_s, policy=policy, state=state.flow
            )
        self._scale, self._scaled_s, self._first_s = state.scale, state.scaled_s, state.first_s
        self._asked, self._fits, self._is_infeasible = state.asked, state.fits, state.is_infeasible

    def snapshot(self) -> GraphTierState:
        """The whole state; a tier that is built from it decides as this one does."""
        return copy.deepcopy(
            GraphTierState(
                running=frozenset(self._running),
                loads=self._loads,
                sent=self._sent,
                selectivities=self._selectivities,
                planner=self._planner.snapshot(),
                graph=self._graph,
                flow=TierTwoState() if self._flow is None else self._flow.snapshot(),
                targets_rows_per_s=self.targets_rows_per_s,
                scale=self._scale,
                scaled_s=self._scaled_s,
                first_s=self._first_s,
                asked=self._asked,
                fits=self._fits,
                is_infeasible=self._is_infeasible,
            )
        )

    @property
    def promised_cores(self) -> float:
        """Cores that the targets in force keep busy, by what batches cost when they were planned; none without any."""
        if self._graph is None or not self._running:
            return 0.0
        return _promised(self._graph, self.targets_rows_per_s)

    # What happens

    def query_started(self, name: QueryName) -> None:
        """A query of the application runs; it is planned with as soon as it is known what its batches cost."""
        if self.application.readers(name) or self.application.producers(name):
            self._running.add(name)
            if self._flow is not None:
                self._flow.come_back(name)

    def query_ended(self, name: QueryName) -> None:
        """A query is gone: nobody follows it from now on, and the next plan is without it."""
        self._running.discard(name)
        if name in self._loads:
            self._loads[name].pause()
        if self._flow is not None:
            self._flow.leave(name)

    def goal_changed(self, name: QueryName, goal: Goal) -> None:
        """A query is worth something else, or needs another minimum: plan anew."""
        self.application = self.application.with_goal(name, goal)
        if name in self._running:
            self._asked = f"goal of {name}"

    def set_cores(self, cores: float) -> None:
        """There are more or fewer cores: plan anew."""
        if cores != self.cores:
            self._asked = f"{cores:g} cores instead of {self.cores:g}"
            self.cores = cores

    def observe_batch(
        self, signal: BatchSignal, core_s: float | None, arrival_rows_per_s: float | None, now_s: float
    ) -> None:
        """Learn from a finished batch.

        ``core_s`` is for how long it kept cores busy: None where nobody knows, zero where its job is yet to be counted,
        and then comes with the next batch. ``arrival_rows_per_s`` is what comes to the query, where that is known.
        """
        name = signal.query
        if name not in self._running:
            return
        if self._first_s is None:
            self._first_s = now_s
        load = self._loads.setdefault(name, QueryLoad(self._batch_s))
        load.on_batch(signal, core_s, arrival_rows_per_s, self.limit_rows(name, now_s))
        for reader in self.application.readers(name):
            if reader in self._loads and self._loads[reader].heard_s is not None:
                sent = self._sent.setdefault((name, reader), DecayedSum(MEMORY_BATCHES * self._batch_s))
                sent.add(signal.work_rows, signal.finished_s)
        self._learn_selectivity(name, signal.started_s)
        if load.selectivity is not None:
            self._selectivities[name] = min(_MOST_SELECTIVITY, max(_LEAST_SELECTIVITY, load.selectivity))
        if self._flow is not None and name in self.targets_rows_per_s:
            lag_rows = self.targets_rows_per_s[name] * self._batch_s if load.lag_rows is None else load.lag_rows
            self._flow.on_batch(FlowReport(name, now_s, lag_rows, load.period_s))
        if self._fits and load.period_s > LONGEST_BATCH * self._batch_s:
            self._asked = f"batches of {name} every {load.period_s:.1f} s"

    # What is decided

    def limit_rows(self, query: QueryName, now_s: float) -> float | None:
        """The most rows that the next batch of a query may read; None for no limit from here.

        Where all that comes fits, that is what all cores can do within the longest batch: a number and not None, which
        would leave a small limit from harder times in force.
        """
        if self._flow is None or query not in self._running or query not in self.targets_rows_per_s:
            return None
        load = self._loads[query]
        if self._fits:
            rows = self.cores * LONGEST_BATCH * self._batch_s / load.cost.row_core_s
        else:
            rows = self._rows(query, now_s)
        return float(max(1, round(load.read_per_work * rows)))

    def keep_bounds(self, query: QueryName, now_s: float) -> KeepBounds | None:
        """The most rows that a batch of a query with a guard keeps; None for a query that is not planned with.

        A query that may drop rows reads all of them, and keeps as many as it would be allowed to read if it could not.
        A read limit instead would keep the others waiting: under overload their age is how long the overload lasts. A
        part of what arrives instead would be too little for as long as batches read less than arrives, as they do
        after a start, and too much of a batch that reads what waited.
        """
        if query not in self._running:
            return None
        if self._flow is None or query not in self.targets_rows_per_s:
            return KeepBounds(most_rows=self._reach_rows(query)) if self._is_left_behind(query) else None
        if self._fits:
            return KeepBounds()
        return KeepBounds(most_rows=self._rows(query, now_s))

    def plan(self, now_s: float) -> list[Decision]:
        """Plan anew where it is time to; gives what changed."""
        shape = self._shape(now_s)
        if shape is None:
            return []
        graph = shape.graph(self.cores * self._scale)
        cause = self._asked or self._planner.due(graph, now_s=now_s) or self._moved(graph)
        if cause is None:
            return []
        self._asked = None
        self._scale_cores(shape, now_s)
        graph, error = fit_minima(shape.graph(self.cores * self._scale))
        plan = self._planner.plan(graph, now_s=now_s, cause=cause)
        targets = min_flow_rates(graph) if self._policy is FlowPolicy.MIN else dict(plan.allocation.input_rows_per_s)
        decisions = self._minima_decisions(error, cause)
        self._judge_fit(graph, targets)
        if self._flow is None:
            # What was busy before there were limits says nothing of what they let be busy.
            for load in self._loads.values():
                load.used_cores = None
            self._flow = GraphFlow(graph, targets, batch_s=self._batch_s, policy=self._policy)
        elif self.promised_cores <= self.cores and not _differ(self.targets_rows_per_s, targets):
            return decisions
        self._graph, self.targets_rows_per_s = graph, targets
        self._flow.retarget(targets, graph)
        return [*decisions, self._graph_plan(graph, cause)]

    def _moved(self, graph: ElementGraph) -> str | None:
        """Why the targets in force are out of date before their time; None where they are not."""
        if self._graph is None:
            return None
        before, now = self.promised_cores, _promised(graph, self.targets_rows_per_s)
        if abs(now - before) > _MOVED * before:
            return f"batches cost {now / before:.2f} times what was planned with"
        return None

    def _reach_rows(self, query: QueryName) -> float:
        """Rows of the largest batch that may be tried; no bound where it is known what rows cost.

        Some times the largest batch yet. If rows cost all that there was to pay for, the batches of all queries of
        which that is open still fit into the longest one that a flow makes. Not a bound of targets: whoever feeds a
        query would have to wait until that one has grown, and the graph would grow query by query.
        """
        load = self._loads[query]
        if load.cost.is_told_apart:
            return math.inf
        is_open = sum(not self._loads[name].cost.is_told_apart for name in self._running if name in self._loads)
        room_core_s = self.cores * LONGEST_BATCH * self._batch_s / is_open
        seen = load.cost.largest_rows
        return max(seen, min(self._growth_factor * seen, seen * room_core_s / load.cost.core_s(seen)))

    def _is_left_behind(self, query: QueryName) -> bool:
        """Whether rows of a query that nobody has planned with yet wait for so long that they will be late.

        It need not work them off one by one, the oldest first: by then all that came meanwhile would be late as well.
        """
        load, latency_s = self._loads.get(query), self.application.queries[query].goal.latency_s
        if load is None or not load.cost.known or not load.lag_rows or latency_s is None:
            return False
        return load.lag_rows > _WAITS_AT_MOST * latency_s * (load.arrival_rows_per_s or math.inf)

    def _rows(self, query: QueryName, now_s: float) -> float:
        """Rows that the next batch of a query may process, by its target, its readers and what was seen of it."""
        assert self._flow is not None
        rows = self._flow.limit_rows(query, period_s=self._loads[query].period_s, now_s=now_s)
        return min(float(rows), max(1.0, self._reach_rows(query)))

    def _shape(self, now_s: float) -> GraphShape | None:
        """The queries to plan with, and what is known of them; None before enough is known."""
        silent_s = _SILENT_AFTER_BATCHES * self._batch_s
        known = [
            name
            for name in self.application.queries
            if name in self._running and name in self._loads and self._is_known(self._loads[name])
        ]
        unknown = self._running - set(known)
        is_waited_for = self._first_s is None or now_s - self._first_s < silent_s
        if not known or (unknown and self._flow is None and is_waited_for):
            return None
        drain_s = max(self._plan_every_s, LONGEST_BATCH * self._batch_s)
        return GraphShape(
            self.application, {name: self._loads[name] for name in known}, self._selectivities, now_s, silent_s, drain_s
        )

    def _is_known(self, load: QueryLoad) -> bool:
        # A batch that takes far too long says enough: the next one would take longer still.
        fewest = 1 if load.period_s > LONGEST_BATCH * self._batch_s else _FEWEST_BATCHES
        return load.cost.known >= fewest

    def _scale_cores(self, shape: GraphShape, now_s: float) -> None:
        """Plan with fewer cores than there are, until those that batches really keep busy are no more than these.

        Batches that get in each other's way keep more cores busy than was planned: only the sum of busy cores tells.
        """
        if self._scaled_s is None:
            self._scaled_s = now_s
        if now_s - self._scaled_s < self._plan_every_s:
            return
        self._scaled_s = now_s
        used = [load.used_cores for load in shape.loads.values() if not shape.is_silent(load)]
        busy = sum(cores for cores in used if cores is not None)
        if busy <= 0 or any(cores is None for cores in used):
            return
        # Squared: cores that are all busy look little overloaded, however much waits for them.
        step = min(_RECOVERY_STEP, (self.cores / busy) ** 2)
        is_short = any(load.lag_rows or load.read_per_work > _DROPS for load in shape.loads.values())
        if step > 1.0 and not is_short:
            # Nobody waits for cores; a scale that grew meanwhile would overload them when somebody does.
            step = 1.0
        self._scale = min(_LARGEST_SCALE, max(_SMALLEST_SCALE, self._scale * step))

    def _learn_selectivity(self, reader: QueryName, now_s: float) -> None:
        """Compare what arrived at a reader with what its producers sent; for those whose sink does not tell."""
        declared = self.application.queries[reader]
        producers = self.application.producers(reader)
        written = {stream for name in producers for stream in self.application.queries[name].writes}
        load = self._loads[reader]
        if not producers or load.arrivals < _COMPARED_AFTER or not set(declared.reads) <= written:
            return
        sent = sum(
            self._selectivities.get(name, 1.0) * self._sent[name, reader].at(now_s)
            for name in producers
            if (name, reader) in self._sent
        )
        if sent <= 0 or load.arrived.at(now_s) <= 0:
            return
        ratio = load.arrived.at(now_s) / sent
        if abs(ratio - 1.0) <= _SAME_SELECTIVITY:
            return
        for name in (each for each in producers if self._loads[each].selectivity is None):
            known = self._selectivities.get(name, 1.0)
            self._selectivities[name] = min(_MOST_SELECTIVITY, max(_LEAST_SELECTIVITY, known * ratio))

    def _judge_fit(self, graph: ElementGraph, targets: Mapping[str, float]) -> None:
        needed = _promised(graph, targets) / self.cores
        takes_all = all(
            targets[element.name] >= _ALL_OF_IT * rows
            for element, rows in zip(graph.elements, graph.available_rows_per_s, strict=True)
        )
        self._fits = takes_all and needed <= (_FITS_NO_MORE if self._fits else _FITS_BELOW)

    def _minima_decisions(self, error: InfeasibleError | None, cause: str) -> list[Decision]:
        if (error is not None) == self._is_infeasible:
            return []
        self._is_infeasible = error is not None
        if error is None:
            return [Hold(cause=cause, reason=_FIT_AGAIN)]
        return [Infeasible(cause=cause, reason=str(error))]

    def _graph_plan(self, graph: ElementGraph, cause: str) -> GraphPlan:
        targets = self.targets_rows_per_s
        promised = _promised(graph, targets)
        if self._fits:
            bottleneck = f"all that comes fits, with {promised:.2f} of {self.cores:g} cores"
        else:
            shares = {
                element.name: targets[element.name] / rows
                for element, rows in zip(graph.elements, graph.available_rows_per_s, strict=True)
                if rows > 0
            }
            least = min(shares, key=lambda name: shares[name], default=None)
            behind = "" if least is None else f", and {least} takes {shares[least]:.1%} of what comes and waits"
            bottleneck = f"cores are the bottleneck: {promised:.2f} of {self.cores:g} are promised{behind}"
        rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in targets.items())
        weights = {element.name: (element.weight or 0.0) * element.selectivity for element in graph.elements}
        weighted = sum(weights[name] * rate for name, rate in targets.items())
        return GraphPlan(
            cause=cause,
            reason=f"{bottleneck}; rows/s: {rates}",
            expected={"weighted_rows_per_s": weighted, "cores": promised},
            targets_rows_per_s=dict(targets),
        )


def _promised(graph: ElementGraph, targets: Mapping[str, float]) -> float:
    return sum(
        (targets[element.name] + element.idle_rows_per_s) / element.rows_per_core_s
        for element in graph.elements
        if targets[element.name] > 0
    )


def _differ(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    if set(before) != set(after):
        return True
    return any(abs(after[name] - rate) > _SAME_TARGET * max(rate, after[name]) for name, rate in before.items())
