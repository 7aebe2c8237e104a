"""Both tiers of ACES for queries in micro-batches: targets from what rows cost, read limits from what readers say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.control.graph_flow import BatchDone, FlowPolicy, GraphFlow
from penstock.control.planner import AllocationPlanner
from penstock.model.graph import ElementGraph

if TYPE_CHECKING:
    from penstock.control.planner import Plan

# How fast the idea of a query's cost and of a stream's rate follows the last batch.
_GAIN = 0.3
# How much more or fewer cores are planned with from one period to the next, and at most.
_LARGEST_STEP = 1.3
_LARGEST_SCALE = 4.0


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What a finished batch read, and for how long its tasks kept cores busy; None where Spark did not say."""

    rows: int
    core_s: float | None


class GraphGovernor:
    """Learns what rows cost and how many come, plans targets periodically, and limits what each query reads.

    ``a`` of ``h(c) = a c - b`` follows what rows cost beyond the fixed cost of a batch, ``b / a`` cores for its length.
    That fixed cost stays as it was given: batches of a governed query are all about as large, which does not tell it
    from the cost of rows. Without it, small batches would seem dear, be allowed few rows, and stay small.

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
        self._planner = AllocationPlanner(period_s=period_s)
        self.plan: Plan = self._planner.plan(graph, now_s=now_s)
        self._flow = GraphFlow(graph, self.targets_rows_per_s, batch_s=batch_s, policy=policy)
        self._lags: dict[str, float] = {}
        self._used_cores: dict[str, float] = {}
        self._scale = 1.0
        self._period_s = period_s
        self._scaled_s = now_s

    @property
    def targets_rows_per_s(self) -> dict[str, float]:
        """What each query is to take in, on average."""
        return dict(self.plan.allocation.input_rows_per_s)

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
            self._flow.retarget(self.targets_rows_per_s)
        return self._flow.on_batch(batch)

    def _scaled(self) -> ElementGraph:
        engines = tuple(replace(engine, cores=engine.cores * self._scale) for engine in self._graph.engines)
        return ElementGraph(engines, self._graph.streams, self._graph.elements)

    def _scale_cores(self, now_s: float) -> None:
        """Plan with more or fewer cores than there are, until those that batches really keep busy are all of them.

        What rows cost is learned from batches of the size that targets allow. Where that makes them seem too dear, all
        targets are too small and cores idle, and no single batch tells: only the sum of busy cores does.
        """
        self._scaled_s = now_s
        used = sum(self._used_cores.values())
        if len(self._used_cores) < len(self._graph.elements) or used <= 0:
            return
        there = sum(engine.cores for engine in self._graph.engines)
        step = min(_LARGEST_STEP, max(1.0 / _LARGEST_STEP, there / used))
        self._scale = min(_LARGEST_SCALE, max(1.0 / _LARGEST_SCALE, self._scale * step))

    def _learn(self, batch: BatchDone, cost: BatchCost) -> None:
        graph, place = self._graph, self._graph.element_index[batch.element]
        element, streams = graph.elements[place], graph.streams
        before = self._lags.get(batch.element)
        self._lags[batch.element] = batch.lag_rows
        if cost.core_s is not None:
            used = cost.core_s / batch.period_s
            known = self._used_cores.get(batch.element, used)
            self._used_cores[batch.element] = known + _GAIN * (used - known)
        if cost.core_s and cost.rows:
            # A batch of few rows, with all of its fixed cost, must not count as much as a full one.
            gain = _GAIN * min(1.0, cost.rows / self._flow.first_limit(batch.element))
            fixed_cores = element.idle_rows_per_s / element.rows_per_core_s
            before_s = 1.0 / element.rows_per_core_s
            # A batch that came cheaper than its fixed cost says little: no row counts less than a tenth of before.
            seen_s = max(0.1 * before_s, (cost.core_s - fixed_cores * self._batch_s) / cost.rows)
            rate = 1.0 / ((1.0 - gain) * before_s + gain * seen_s)
            element = replace(element, rows_per_core_s=rate, idle_rows_per_s=fixed_cores * rate)
        if before is not None and len(element.reads) == 1 and element.reads[0] in graph.stream_index:
            arrived = max(0.0, (cost.rows + batch.lag_rows - before) / batch.period_s)
            streams = tuple(
                replace(each, rate_rows_per_s=each.rate_rows_per_s + _GAIN * (arrived - each.rate_rows_per_s))
                if each.name == element.reads[0]
                else each
                for each in streams
            )
        elements = (*graph.elements[:place], element, *graph.elements[place + 1 :])
        self._graph = ElementGraph(graph.engines, streams, elements)
