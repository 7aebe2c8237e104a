"""Both tiers of ACES for queries in micro-batches: targets from what rows cost, read limits from what readers say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.control.graph_flow import BatchDone, FlowPolicy, GraphFlow
from penstock.control.min_flow import min_flow_rates
from penstock.control.planner import AllocationPlanner
from penstock.estimate.batch_cost import BatchCostTracker
from penstock.model.graph import ElementGraph

if TYPE_CHECKING:
    from penstock.control.planner import Plan
    from penstock.model.graph import Element, InputStream

# How fast the idea of a stream's rate and of busy cores follows the last batch.
_GAIN = 0.3
# How much more cores are planned with from one period to the next, and how many more or fewer in all. Costs that were
# measured too dear leave cores idle until they are learned: a scale that grows as fast would then overload them.
_LARGEST_STEP = 1.05
_RECOVERY_STEP = 1.2
_LARGEST_SCALE = 1.25
_SMALLEST_SCALE = 0.5


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What a finished batch read, and for how long its tasks kept cores busy; None where Spark did not say."""

    rows: int
    core_s: float | None


class GraphGovernor:
    """Learns what rows cost and how many come, plans targets periodically, and limits what each query reads.

    What a batch costs follows :class:`~penstock.estimate.batch_cost.BatchCostTracker`, so that targets times costs are
    the cores that are really busy at the batch sizes in use. Targets too small leave cores idle and are raised, which
    makes batches larger and rows cheaper: that way leads up, never down, to small batches of dear rows.

    With :attr:`FlowPolicy.MIN` targets are those of :func:`~penstock.control.min_flow.min_flow_rates`.

    Examples
    --------
    >>> from penstock.model.graph import Element, Engine, InputStream
    >>> graph = ElementGraph(
    ...     (Engine("east"),),
    ...     (InputStream("clicks", 100.0),),
    ...     (Element("parse", "east", ("clicks",), 100.0), Element("count", "east", ("parse",), 50.0, weight=1.0)),
    ... )
    >>> governor = GraphGovernor(graph, batch_s=1.0, period_s=5.0, now_s=0.0)
    >>> {name: round(rate, 1) for name, rate in governor.targets_rows_per_s.items()}
    {'parse': 33.3, 'count': 33.3}
    >>> governor.on_batch(BatchDone("count", 1.0, 33.0, 1.0), BatchCost(rows=33, core_s=0.66))
    33
    """

    def __init__(
        self,
        graph: ElementGraph,
        *,
        batch_s: float,
        period_s: float,
        now_s: float,
        policy: FlowPolicy = FlowPolicy.MAX,
    ) -> None:
        self._graph = graph
        self._batch_s = batch_s
        self._policy = policy
        self._costs = {
            element.name: BatchCostTracker(
                fixed_core_s=batch_s * element.idle_rows_per_s / element.rows_per_core_s,
                row_core_s=1.0 / element.rows_per_core_s,
            )
            for element in graph.elements
        }
        self._planner = AllocationPlanner(period_s=period_s)
        self.plan: Plan = self._planner.plan(graph, now_s=now_s)
        self.targets_rows_per_s = self._targets(graph)
        self._flow = GraphFlow(graph, self.targets_rows_per_s, batch_s=batch_s, policy=policy)
        self._lags: dict[str, float] = {}
        self._used_cores: dict[str, float] = {}
        self._scale = 1.0
        self._period_s = period_s
        self._scaled_s = now_s

    @property
    def rows_per_core_s(self) -> dict[str, float]:
        """What each query takes in with a second of a core, as far as it is known."""
        return {element.name: element.rows_per_core_s for element in self._graph.elements}

    def first_limit(self, element: str) -> int:
        """Rows of the very first batch of a query."""
        return self._flow.first_limit(element)

    def on_batch(self, batch: BatchDone, cost: BatchCost) -> int:
        """Learn from a batch; gives the rows that the next batch of this query may read."""
        self._learn(batch, cost)
        if batch.time_s - self._scaled_s >= self._period_s:
            self._scale_cores(batch.time_s)
        plan = self._planner.plan(self._scaled(), now_s=batch.time_s)
        if plan.cause is not None:
            self.plan = plan
            self.targets_rows_per_s = self._targets(self._scaled())
            self._flow.retarget(self.targets_rows_per_s)
        return self._flow.on_batch(batch)

    def _targets(self, graph: ElementGraph) -> dict[str, float]:
        if self._policy is FlowPolicy.MIN:
            return min_flow_rates(graph)
        return dict(self.plan.allocation.input_rows_per_s)

    def _scaled(self) -> ElementGraph:
        engines = tuple(replace(engine, cores=engine.cores * self._scale) for engine in self._graph.engines)
        return ElementGraph(engines, self._graph.streams, self._graph.elements)

    def _scale_cores(self, now_s: float) -> None:
        """Plan with more or fewer cores than there are, until those that batches really keep busy are all of them.

        A query that finds fewer rows than it may read leaves cores idle that others could use, and batches that get in
        each other's way keep more of them busy than was planned: only the sum of busy cores tells.
        """
        self._scaled_s = now_s
        used = sum(self._used_cores.values())
        if len(self._used_cores) < len(self._graph.elements) or used <= 0:
            return
        there = sum(engine.cores for engine in self._graph.engines)
        # Squared: cores that are all busy look little overloaded, however much waits for them.
        step = min(_LARGEST_STEP if self._scale >= 1.0 else _RECOVERY_STEP, (there / used) ** 2)
        if step > 1.0 and not any(self._lags.values()):
            # Nobody waits for cores; a scale that grew meanwhile would overload them when somebody does.
            step = 1.0
        self._scale = min(_LARGEST_SCALE, max(_SMALLEST_SCALE, self._scale * step))

    def _learn(self, batch: BatchDone, cost: BatchCost) -> None:
        before = self._lags.get(batch.element)
        self._lags[batch.element] = batch.lag_rows
        if cost.core_s is not None:
            used = cost.core_s / max(batch.period_s, self._batch_s)
            known = self._used_cores.get(batch.element, used)
            self._used_cores[batch.element] = known + _GAIN * (used - known)
            self._costs[batch.element].on_batch(rows=cost.rows, core_s=cost.core_s)
        self._graph = ElementGraph(self._graph.engines, self._streams(batch, cost, before), self._elements())

    def _elements(self) -> tuple[Element, ...]:
        return tuple(
            replace(
                element,
                rows_per_core_s=1.0 / (costs.factor * costs.row_core_s),
                idle_rows_per_s=costs.fixed_core_s / (costs.row_core_s * self._batch_s),
            )
            for element, costs in ((element, self._costs[element.name]) for element in self._graph.elements)
        )

    def _streams(self, batch: BatchDone, cost: BatchCost, lag_before: float | None) -> tuple[InputStream, ...]:
        reads = self._graph.elements[self._graph.element_index[batch.element]].reads
        if lag_before is None or len(reads) != 1:
            return self._graph.streams
        arrived = max(0.0, (cost.rows + batch.lag_rows - lag_before) / batch.period_s)
        return tuple(
            replace(each, rate_rows_per_s=each.rate_rows_per_s + _GAIN * (arrived - each.rate_rows_per_s))
            if each.name == reads[0]
            else each
            for each in self._graph.streams
        )
