"""Tier two of ACES over a graph: what each element may put out (Eq. 8), and what it asks of those before it (Eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.control.feedback import ReaderReport, allowed_output, feeder_parts, smallest_output
from penstock.control.flow import FlowLaw, FlowState
from penstock.control.lqr import flow_gains

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.graph import ElementGraph

# Price of moving a rate, against that of a buffer away from its target, in the flow law.
_EFFORT = 4.0


class FlowPolicy(StrEnum):
    """Which of its readers a producer follows: the fastest (ACES) or the slowest (reliable delivery, Lock-Step)."""

    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True)
class TierTwoState:
    """What the next rates depend on beside the targets: last reports, the past of every flow law, who has ended."""

    reports: Mapping[str, ReaderReport] = field(default_factory=dict)
    laws: Mapping[str, FlowState] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()


class TierTwo:
    r"""Rates of the elements of a graph from what their readers last said.

    An element may put out what its fastest reader can take, and of a reader with several feeders each has its part
    :math:`p_{ji}` (:func:`~penstock.control.feedback.feeder_parts`):

    .. math:: r_{o,j} = \max \{p_{ji}\, (r_{max,i} - s_i)^+ : i \in \text{readers}\}

    with :math:`s_i` what a reader takes from outside, which nobody can slow down. With :attr:`FlowPolicy.MIN` the
    maximum is a minimum. A reader that stops reporting counts with its target from tier one
    (:func:`~penstock.control.feedback.allowed_output`), one that ended does not count.

    Live queries (:class:`~penstock.control.graph_flow.GraphFlow`) and fluid (:mod:`penstock.research.fluid`) go through
    this class; rows in virtual time (:mod:`penstock.research.element_control`) have the same rule over arrays.

    Examples
    --------
    Feeders of 90 and 10 rows/s, of which a reader takes all:

    >>> from penstock.model.graph import Element, ElementGraph, Engine, InputStream
    >>> graph = ElementGraph(
    ...     (Engine("east"),),
    ...     (InputStream("a", 90.0), InputStream("b", 10.0)),
    ...     (
    ...         Element("left", "east", ("a",), 900.0),
    ...         Element("right", "east", ("b",), 900.0),
    ...         Element("both", "east", ("left", "right"), 900.0, weight=1.0),
    ...     ),
    ... )
    >>> two = TierTwo(graph, {"left": 90.0, "right": 10.0, "both": 100.0}, stale_after_s=10.0)
    >>> two.report("both", rate_rows_per_s=100.0, buffer_rows=50.0, target_rows=50.0, step_s=1.0, now_s=1.0)
    100.0
    >>> two.allowed("left", now_s=1.0), two.allowed("right", now_s=1.0), two.allowed("both", now_s=1.0)
    (90.0, 10.0, None)
    """

    def __init__(
        self,
        graph: ElementGraph,
        targets_rows_per_s: Mapping[str, float],
        *,
        stale_after_s: float,
        policy: FlowPolicy = FlowPolicy.MAX,
        state: TierTwoState | None = None,
    ) -> None:
        state = state or TierTwoState()
        self._graph, self._stale_after_s, self._policy = graph, stale_after_s, policy
        self._targets: dict[str, float] = dict(targets_rows_per_s)
        self._gains = flow_gains(delay_steps=1, effort=_EFFORT)
        self._laws = {element.name: FlowLaw(self._gains, state.laws.get(element.name)) for element in graph.elements}
        self._reports: dict[str, ReaderReport] = dict(state.reports)
        self._gone = set(state.gone)
        self._parts = feeder_parts(graph, self._targets)

    def snapshot(self) -> TierTwoState:
        """What readers said, and the past of their flow laws."""
        return TierTwoState(
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
        self._parts = feeder_parts(self._graph, self._targets)

    def leave(self, element: str) -> None:
        """An element has ended: nobody follows it any more, even before there are new targets."""
        self._gone.add(element)

    def come_back(self, element: str) -> None:
        """An element that ended runs again."""
        self._gone.discard(element)

    def target(self, element: str) -> float:
        """Rows a second that an element was given by tier one."""
        return self._targets[element]

    def rate(self, element: str, able_rows_per_s: float, *, now_s: float) -> float:
        """Rows a second that an element takes in of those that it is able to, by what its readers allow."""
        allowed = self.allowed(element, now_s=now_s)
        selectivity = self._graph.elements[self._graph.element_index[element]].selectivity
        return able_rows_per_s if allowed is None else min(able_rows_per_s, allowed / selectivity)

    def report(
        self,
        element: str,
        *,
        rate_rows_per_s: float,
        buffer_rows: float,
        target_rows: float,
        step_s: float,
        now_s: float,
    ) -> float:
        """Eq. 7: what an element can take a second, for those before it to go by until its next report."""
        law = self._laws[element]
        maximum = law.maximum(rate=rate_rows_per_s * step_s, buffer=buffer_rows, target=target_rows)
        law.granted(maximum)
        self._reports[element] = ReaderReport(maximum / step_s, now_s)
        return maximum / step_s

    def asked(self, element: str) -> float | None:
        """What an element last said that it can take; None before it said anything."""
        report = self._reports.get(element)
        return None if report is None else report.maximum_rows_per_s

    def allowed(self, element: str, *, now_s: float) -> float | None:
        """Eq. 8: what an element may put out; None where nobody reads it."""
        index = self._graph.element_index[element]
        rates = []
        for reader in self._graph.readers[index]:
            name = self._graph.elements[reader].name
            if name in self._gone:
                continue
            rate = allowed_output(
                self._reports, {name: self._targets[name]}, now_s=now_s, stale_after_s=self._stale_after_s
            )
            if rate is not None:
                part = self._parts[reader][self._graph.feeders[reader].index(index)]
                rates.append(part * max(0.0, rate - sum(self._graph.stream_rows_per_s[reader])))
        return smallest_output(rates) if self._policy is FlowPolicy.MIN else max(rates, default=None)
