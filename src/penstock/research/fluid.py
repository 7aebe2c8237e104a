"""A graph as fluid, step by step, to see whether tier two settles, and if not, why.

Rows are fractions and costs constant, so whatever keeps moving is the controllers' doing. The controllers are those of
:mod:`penstock.control`: :class:`~penstock.control.tier_two.TierTwo`, :class:`~penstock.control.tokens.TokenBucket` and
:func:`~penstock.control.cpu.cpu_shares`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.cpu import cpu_shares
from penstock.control.flow import FlowState
from penstock.control.tier_two import TierTwo, TierTwoState
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
        self._buckets = [TokenBucket(cores[element.name], depth_s=1.0) for element in graph.elements]
        self._members = [
            [index for index, element in enumerate(graph.elements) if element.engine == engine.name]
            for engine in graph.engines
        ]
        self._targets = {element.name: cores[element.name] * element.rows_per_core_s for element in graph.elements}
        errors = zip(graph.elements, initial_errors, strict=True)
        past = TierTwoState(laws={element.name: FlowState((), (error,)) for element, error in errors})
        self._tier_two = TierTwo(graph, self._targets, stale_after_s=10 * STEP_S, state=past)
        self._rates = np.array([self._targets[element.name] for element in graph.elements])
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

    def _step(self) -> None:
        elements = self._graph.elements
        bounds = np.array(
            [
                self._tier_two.rate(element.name, np.inf, now_s=self._now_s) / element.rows_per_core_s
                for element in elements
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
                asked = self._tier_two.asked(element.name)
                # A merge of a stream and elements asks of each its part; here streams are read alone.
                arrived[index] += offered if asked is None else min(offered, asked * STEP_S)
        self._brought = arrived / STEP_S
        self._buffers = np.minimum(self._capacity, self._buffers - processed + arrived)

    def _report(self) -> None:
        self._now_s += STEP_S
        self._asked = np.zeros(len(self._graph.elements))
        for index, element in enumerate(self._graph.elements):
            # Over some steps, and at least what its target gives: a core that serves another element in this step will
            # come back. Reports of nothing and of a whole core in turn would stop and flood the feeders for ever.
            self._rates[index] += RATE_GAIN * (self._able[index] - self._rates[index])
            able = max(self._rates[index], self._targets[element.name])
            self._asked[index] = self._tier_two.report(
                element.name,
                rate_rows_per_s=self._tier_two.rate(element.name, able, now_s=self._now_s),
                buffer_rows=self._buffers[index],
                target_rows=self._capacity / 2,
                step_s=STEP_S,
                now_s=self._now_s,
            )

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
