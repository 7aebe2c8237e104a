"""A graph as fluid, step by step, to see whether tier two settles, and if not, why.

Rows are fractions and costs constant, so whatever keeps moving is the controllers' doing. The controllers are those of
:mod:`penstock.control`: :class:`~penstock.control.flow.FlowLaw`, :class:`~penstock.control.tokens.TokenBucket`,
:func:`~penstock.control.cpu.cpu_shares` and :func:`~penstock.control.feedback.allowed_output`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.cpu import cpu_shares
from penstock.control.feedback import ReaderReport, allowed_output
from penstock.control.flow import FlowLaw, FlowState
from penstock.control.lqr import flow_gains
from penstock.control.tokens import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.model.graph import ElementGraph

STEP_S = 0.02
SETTLED_WITHIN = 0.05
# How fast the rate that an element reports follows what it could process in the last step.
RATE_GAIN = 0.2
_MEASURED_SHARE = 0.2
_CLEARLY = 1e-3


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where one buffer ended up, with averages over the time that was judged, and a sentence why.

    ``settled``
        Within 5 % of its target.
    ``starved``
        Below it, and its inputs bring less than it asked for.
    ``overrun``
        Above it, and its inputs bring more than it asked for, since a faster reader of theirs asks for more.
    ``unsettled``
        Neither of these: its control failed.
    """

    element: str
    outcome: str
    buffer_rows: float
    brought_rows_per_s: float
    asked_rows_per_s: float
    able_rows_per_s: float
    processed_rows_per_s: float
    reason: str


class FluidGraph:
    """A graph under tier two, from any buffers and any past rate errors."""

    def __init__(
        self,
        graph: ElementGraph,
        cores: Mapping[str, float],
        *,
        buffer_rows: float,
        initial_rows: Sequence[float],
        initial_errors: Sequence[float],
    ) -> None:
        self._graph = graph
        self._capacity = buffer_rows
        self._buffers = np.array(initial_rows, np.float64)
        gains = flow_gains(delay_steps=1, effort=4.0)
        self._laws = [FlowLaw(gains, FlowState((), (error,))) for error in initial_errors]
        self._buckets = [TokenBucket(cores[element.name], depth_s=1.0) for element in graph.elements]
        self._members = [
            [index for index, element in enumerate(graph.elements) if element.engine == engine.name]
            for engine in graph.engines
        ]
        self._targets = {element.name: cores[element.name] * element.rows_per_core_s for element in graph.elements}
        self._parts = [1.0 / max(1, len(feeders)) for feeders in graph.feeders]
        self._rates = np.array([self._targets[element.name] for element in graph.elements])
        self._reports: dict[str, ReaderReport] = {}
        self._now_s = 0.0
        self._brought = np.zeros(len(graph.elements))
        self._able = np.zeros(len(graph.elements))
        self._asked = np.zeros(len(graph.elements))
        self._processed = np.zeros(len(graph.elements))

    def run(self, steps: int) -> list[Verdict]:
        """Run and judge the last fifth of the steps."""
        measured = max(1, int(_MEASURED_SHARE * steps))
        sums = np.zeros((5, self._buffers.size))
        for step in range(steps):
            asked = self._asked
            self._step()
            if step >= steps - measured:
                sums += [self._buffers, self._brought, asked, self._able, self._processed]
        means = sums / measured
        return [self._judge(index, *(float(mean) for mean in means[:, index])) for index in range(means.shape[1])]

    def _allowed(self, index: int) -> float:
        targets = {
            self._graph.elements[reader].name: self._targets[self._graph.elements[reader].name] * self._parts[reader]
            for reader in self._graph.readers[index]
        }
        rate = allowed_output(self._reports, targets, now_s=self._now_s, stale_after_s=10 * STEP_S)
        return np.inf if rate is None else rate

    def _step(self) -> None:
        elements = self._graph.elements
        bounds = np.array(
            [
                self._allowed(index) / (element.selectivity * element.rows_per_core_s)
                for index, element in enumerate(elements)
            ]
        )
        shares = np.zeros(len(elements))
        for engine, members in zip(self._graph.engines, self._members, strict=True):
            for index in members:
                self._buckets[index].elapse(STEP_S)
            tokens = np.array([self._buckets[index].cores_for(STEP_S) for index in members])
            # An empty buffer has a foot in the door, or it could never begin.
            shares[members] = cpu_shares(tokens, self._buffers[members] + 1e-3, bounds[members], engine.cores)
        self._able = shares * np.array([element.rows_per_core_s for element in elements])
        processed = np.minimum(self._buffers, self._able * STEP_S)
        self._processed = processed / STEP_S
        self._deliver(processed)
        self._report()

    def _deliver(self, processed: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        elements = self._graph.elements
        arrived = np.zeros(processed.size)
        for index, element in enumerate(elements):
            self._buckets[index].spend(processed[index] / element.rows_per_core_s)
            for reader in self._graph.readers[index]:
                arrived[reader] += element.selectivity * processed[index]
            if self._graph.stream_rows_per_s[index]:
                offered = sum(self._graph.stream_rows_per_s[index]) * STEP_S
                report = self._reports.get(element.name)
                arrived[index] += min(offered, report.maximum_rows_per_s * STEP_S) if report else offered
        self._brought = arrived / STEP_S
        self._buffers = np.minimum(self._capacity, self._buffers - processed + arrived)

    def _report(self) -> None:
        self._now_s += STEP_S
        self._asked = np.zeros(len(self._graph.elements))
        for index, element in enumerate(self._graph.elements):
            law = self._laws[index]
            # Over some steps, and at least what its target gives: a core that serves another element in this step will
            # come back. Reports of nothing and of a whole core in turn would stop and flood the feeders for ever.
            self._rates[index] += RATE_GAIN * (self._able[index] - self._rates[index])
            rate = min(max(self._rates[index], self._targets[element.name]), self._allowed(index) / element.selectivity)
            maximum = law.maximum(rate=rate * STEP_S, buffer=self._buffers[index], target=self._capacity / 2)
            law.granted(maximum)
            self._asked[index] = maximum / STEP_S
            self._reports[element.name] = ReaderReport(maximum / STEP_S * self._parts[index], self._now_s)

    def _judge(self, index: int, buffer: float, brought: float, asked: float, able: float, processed: float) -> Verdict:
        element, target = self._graph.elements[index], self._capacity / 2
        inputs = f"{' and '.join(element.reads)} bring {brought:.3g} rows/s"
        others = self._siblings(index)
        if abs(buffer - target) <= SETTLED_WITHIN * target:
            outcome, reason = "settled", f"{buffer:.3g} rows wait, within 5 % of {target:.3g}"
        elif buffer < target and brought < asked * (1.0 - _CLEARLY):
            outcome, reason = "starved", f"{inputs}, and it asks for {asked:.3g}"
        elif buffer > target and brought > asked * (1.0 + _CLEARLY) and others:
            outcome, reason = "overrun", f"{inputs}, following the faster {' and '.join(others)}"
        else:
            outcome, reason = "unsettled", f"{buffer:.3g} rows wait, though {inputs} and it asks for {asked:.3g}"
        text = f"{element.name} is {outcome}: {reason}"
        return Verdict(element.name, outcome, buffer, brought, asked, able, processed, text)

    def _siblings(self, index: int) -> list[str]:
        found = {reader for feeder in self._graph.feeders[index] for reader in self._graph.readers[feeder]} - {index}
        return [self._graph.elements[reader].name for reader in sorted(found)]
