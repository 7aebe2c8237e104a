"""Tier two of ACES for queries in micro-batches: how many rows the next batch of each query of a graph may read."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.control.feedback import ReaderReport, allowed_output, smallest_output
from penstock.control.flow import FlowLaw, FlowState
from penstock.control.lqr import flow_gains
from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.graph import ElementGraph

# A batch that takes longer than its trigger's interval may make the next one larger by this factor at most: a larger
# batch spreads its fixed cost over more rows, but without a bound one slow batch would beget ever larger ones.
LONGEST_BATCH = 3.0
_STALE_AFTER_BATCHES = 5.0
_EFFORT = 4.0


class FlowPolicy(StrEnum):
    """Which of its readers a producer follows: the fastest (ACES) or the slowest (reliable delivery, Lock-Step)."""

    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class FlowReport:
    """What one finished batch of a query says: when, how many rows still waited, and the time since the one before."""

    element: str
    time_s: float
    lag_rows: float
    period_s: float


@dataclass(frozen=True, slots=True)
class GraphFlowState:
    """What the next limits depend on beside the targets: last reports, the past of every flow law, who has ended."""

    reports: Mapping[str, ReaderReport] = field(default_factory=dict)
    laws: Mapping[str, FlowState] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()


class GraphFlow:
    r"""Read limits for the queries of a graph, one step per batch, from what their readers last said.

    Section V of "Adaptive control of extreme-scale stream processing systems" with a query for an element, the lag of a
    topic for a buffer, and rows read in place of CPU: a query's target is :math:`\rho_j = h_j(c_j)` rows a second, what
    it may read of its input is

    .. math:: \min(\rho_j,\; r_{o,j} / s_j) \cdot T, \qquad r_{o,j} = \max \{r_{max,i} : i \in \text{readers}\}

    with selectivity :math:`s_j` and the time :math:`T` between its batches, and what it reports to the query before it
    is :math:`r_{max,j}` of Eq. 7, which keeps one batch waiting. With :attr:`FlowPolicy.MIN` the maximum is a minimum.

    A reader that stops reporting counts with its target from tier one (see
    :func:`~penstock.control.feedback.allowed_output`), so a dead reader neither stops nor floods anybody.

    Examples
    --------
    A producer of 30 rows/s with readers of 10 and 30; the slow one is 500 rows behind:

    >>> from penstock.model.graph import Element, ElementGraph, Engine, InputStream
    >>> graph = ElementGraph(
    ...     (Engine("east"),),
    ...     (InputStream("clicks", 30.0),),
    ...     (
    ...         Element("parse", "east", ("clicks",), 100.0),
    ...         Element("slow", "east", ("parse",), 30.0, weight=1.0),
    ...         Element("fast", "east", ("parse",), 90.0, weight=1.0),
    ...     ),
    ... )
    >>> targets = {"parse": 30.0, "slow": 10.0, "fast": 30.0}
    >>> def rows(policy):
    ...     flow = GraphFlow(graph, targets, batch_s=1.0, policy=policy)
    ...     for reader, lag_rows in (("slow", 500.0), ("fast", 30.0)):
    ...         _ = flow.on_batch(FlowReport(reader, 1.0, lag_rows, 1.0))
    ...     return flow.on_batch(FlowReport("parse", 1.0, 0.0, 1.0))
    >>> rows(FlowPolicy.MAX), rows(FlowPolicy.MIN)
    (30, 1)
    """

    def __init__(
        self,
        graph: ElementGraph,
        targets_rows_per_s: Mapping[str, float],
        *,
        batch_s: float,
        policy: FlowPolicy = FlowPolicy.MAX,
        state: GraphFlowState | None = None,
    ) -> None:
        if not batch_s > 0:
            raise InvalidSettingError("batch_s", batch_s, "seconds above zero")
        state = state or GraphFlowState()
        self._graph = graph
        self._batch_s = batch_s
        self._policy = policy
        self._targets: dict[str, float] = dict(targets_rows_per_s)
        self._gains = flow_gains(delay_steps=1, effort=_EFFORT)
        self._laws = {element.name: FlowLaw(self._gains, state.laws.get(element.name)) for element in graph.elements}
        self._reports: dict[str, ReaderReport] = dict(state.reports)
        self._gone = set(state.gone)

    def snapshot(self) -> GraphFlowState:
        """What readers said, and the past of their flow laws."""
        return GraphFlowState(
            dict(self._reports), {name: law.snapshot() for name, law in self._laws.items()}, frozenset(self._gone)
        )

    def retarget(self, targets_rows_per_s: Mapping[str, float], graph: ElementGraph | None = None) -> None:
        """Take over new targets of tier one, of another graph where it changed; what readers reported stays."""
        self._targets = dict(targets_rows_per_s)
        if graph is not None:
            self._graph = graph
            self._laws = {
                element.name: self._laws.get(element.name, FlowLaw(self._gains)) for element in graph.elements
            }
            self._reports = {name: report for name, report in self._reports.items() if name in self._laws}

    def leave(self, element: str) -> None:
        """A query has ended: nobody follows it any more, even before there are new targets."""
        self._gone.add(element)

    def come_back(self, element: str) -> None:
        """A query that ended runs again."""
        self._gone.discard(element)

    def first_limit(self, element: str) -> int:
        """Rows of the very first batch, before anybody has reported."""
        return max(1, round(self._targets[element] * self._batch_s))

    def on_batch(self, batch: FlowReport) -> int:
        """Rows that the next batch of a query may read; its report to those before it is kept."""
        name = batch.element
        law, rows = self._laws[name], self._rate(name, batch.time_s) * self._batch_s
        maximum = law.maximum(rate=rows, buffer=batch.lag_rows, target=rows)
        law.granted(maximum)
        self._reports[name] = ReaderReport(maximum / self._batch_s, batch.time_s)
        return self.limit_rows(name, period_s=batch.period_s, now_s=batch.time_s)

    def limit_rows(self, element: str, *, period_s: float, now_s: float) -> int:
        """Rows that a query may read in a batch, by its target and what its readers last said."""
        period_s = min(max(period_s, self._batch_s), LONGEST_BATCH * self._batch_s)
        # At least one row: a query without a batch reports nothing, and nobody would learn that it could go on.
        return max(1, round(self._rate(element, now_s) * period_s))

    def _rate(self, name: str, now_s: float) -> float:
        index, target = self._graph.element_index[name], self._targets[name]
        allowed = self._allowed(index, now_s)
        return target if allowed is None else min(target, allowed / self._graph.elements[index].selectivity)

    def _allowed(self, index: int, now_s: float) -> float | None:
        stale_after_s = _STALE_AFTER_BATCHES * LONGEST_BATCH * self._batch_s
        rates = []
        for reader in self._graph.readers[index]:
            name = self._graph.elements[reader].name
            if name in self._gone:
                continue
            rate = allowed_output(self._reports, {name: self._targets[name]}, now_s=now_s, stale_after_s=stale_after_s)
            if rate is not None:
                # A merge of several streams leaves each of them its part.
                rates.append(rate * self._graph.feeder_parts[reader][self._graph.feeders[reader].index(index)])
        return smallest_output(rates) if self._policy is FlowPolicy.MIN else max(rates, default=None)
