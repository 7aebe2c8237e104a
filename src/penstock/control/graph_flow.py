"""Tier two of ACES for queries in micro-batches: how many rows the next batch of each query of a graph may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.tier_two import FlowPolicy, TierTwo, TierTwoState
from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.graph import ElementGraph

# A batch that takes longer than its trigger's interval may make the next one larger by this factor at most: a larger
# batch spreads its fixed cost over more rows, but without a bound one slow batch would beget ever larger ones.
LONGEST_BATCH = 3.0
_STALE_AFTER_BATCHES = 5.0


@dataclass(frozen=True, slots=True)
class FlowReport:
    """What one finished batch of a query says: when, how many rows still waited, and the time since the one before."""

    element: str
    time_s: float
    lag_rows: float
    period_s: float


class GraphFlow:
    r"""Read limits for the queries of a graph, one step per batch, from what their readers last said.

    Section V of "Adaptive control of extreme-scale stream processing systems" with a query for an element, the lag of a
    topic for a buffer, and rows read in place of CPU: a query's target is :math:`\rho_j = h_j(c_j)` rows a second, what
    it may read of its input is

    .. math:: \min(\rho_j,\; r_{o,j} / s_j) \cdot T, \qquad r_{o,j} = \max \{r_{max,i} : i \in \text{readers}\}

    with selectivity :math:`s_j` and the time :math:`T` between its batches, and what it reports to the query before it
    is :math:`r_{max,j}` of Eq. 7, which keeps one batch waiting. With :attr:`FlowPolicy.MIN` the maximum is a minimum.

    Eq. 7 and 8 and what a silent reader counts for are those of :class:`~penstock.control.tier_two.TierTwo`.

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
        state: TierTwoState | None = None,
    ) -> None:
        if not batch_s > 0:
            raise InvalidSettingError("batch_s", batch_s, "seconds above zero")
        self._batch_s = batch_s
        stale_after_s = _STALE_AFTER_BATCHES * LONGEST_BATCH * batch_s
        self._tier_two = TierTwo(graph, targets_rows_per_s, stale_after_s=stale_after_s, policy=policy, state=state)

    def snapshot(self) -> TierTwoState:
        """What readers said, and the past of their flow laws."""
        return self._tier_two.snapshot()

    def retarget(self, targets_rows_per_s: Mapping[str, float], graph: ElementGraph | None = None) -> None:
        """Take over new targets of tier one, of another graph where it changed; what readers reported stays."""
        self._tier_two.retarget(targets_rows_per_s, graph)

    def leave(self, element: str) -> None:
        """A query has ended: nobody follows it any more, even before there are new targets."""
        self._tier_two.leave(element)

    def come_back(self, element: str) -> None:
        """A query that ended runs again."""
        self._tier_two.come_back(element)

    def on_batch(self, batch: FlowReport) -> int:
        """Rows that the next batch of a query may read; its report to those before it is kept."""
        name = batch.element
        rate = self.rate_rows_per_s(name, now_s=batch.time_s)
        self._tier_two.report(
            name,
            rate_rows_per_s=rate,
            buffer_rows=batch.lag_rows,
            target_rows=rate * self._batch_s,
            step_s=self._batch_s,
            now_s=batch.time_s,
        )
        return self.limit_rows(name, period_s=batch.period_s, now_s=batch.time_s)

    def limit_rows(self, element: str, *, period_s: float, now_s: float) -> int:
        """Rows that a query may read in a batch, by its target and what its readers last said."""
        period_s = min(max(period_s, self._batch_s), LONGEST_BATCH * self._batch_s)
        # At least one row: a query without a batch reports nothing, and nobody would learn that it could go on.
        return max(1, round(self.rate_rows_per_s(element, now_s=now_s) * period_s))

    def rate_rows_per_s(self, element: str, *, now_s: float) -> float:
        """Rows a second that a query may process, by its target and what its readers last said."""
        return self._tier_two.rate(element, self._tier_two.target(element), now_s=now_s)
