"""Several topics: what a row of each costs, so that their loads add up to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.estimate.rls import RecursiveLeastSquares, RlsState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FORGETTING = 0.995
_NOISE_SHARE = 0.05
_LEAST_SHARE = 0.01


class TopicCosts:
    r"""Executor-seconds per row of each topic, learned from samples of all of them together.

    The busy executors of a sample are :math:`u\,n = \sum_k c_k\,w_k` over the topics' rates :math:`w_k`; recursive
    least squares give the costs :math:`c_k`, and the load of all topics in rows of the usual cost :math:`c` is

    .. math:: w = \sum_k w_k \, c_k / c

    So a policy for one topic serves several whose rows cost differently: a
    shift towards dear rows is demand, though the number of rows stays the same. The thesis adds up the rates.

    Parameters
    ----------
    topics
        Their names.
    rows_per_s
        What one executor is thought to do before anything was learned.

    Examples
    --------
    >>> costs = TopicCosts(["clicks", "views"], rows_per_s=1_000.0)
    >>> for step in range(200):
    ...     rates = {"clicks": 500.0 + step, "views": 900.0 - 2 * step}
    ...     costs.update(rates, busy_executors=rates["clicks"] / 500.0 + rates["views"] / 4_000.0)
    >>> [round(1.0 / cost) for cost in costs.costs_s.values()]
    [500, 4000]
    >>> round(costs.demand({"clicks": 1_000.0, "views": 0.0}) / costs.demand({"clicks": 0.0, "views": 1_000.0}), 1)
    8.0
    """

    def __init__(self, topics: Sequence[str], *, rows_per_s: float, state: RlsState | None = None) -> None:
        self.topics = tuple(topics)
        self._usual_s = 1.0 / rows_per_s
        # In units of the usual cost the numbers are near one, whatever the rows cost.
        count = len(self.topics)
        self._fit = RecursiveLeastSquares((1.0,) * count, (100.0,) * count, state)

    @property
    def costs_s(self) -> dict[str, float]:
        """Executor-seconds per row; a topic that seems to cost nothing has a hundredth of the usual."""
        costs = (max(_LEAST_SHARE, share) * self._usual_s for share in self._fit.theta)
        return dict(zip(self.topics, costs, strict=True))

    def update(self, rates_rows_per_s: Mapping[str, float], *, busy_executors: float) -> None:
        """Learn from a sample; topics that are not named had no rows."""
        loads = tuple(rates_rows_per_s.get(topic, 0.0) * self._usual_s for topic in self.topics)
        if not any(loads) or busy_executors <= 0:
            return
        noise = max((_NOISE_SHARE * busy_executors) ** 2, 1e-12)
        self._fit.update(loads, busy_executors, noise_variance=noise, forgetting=_FORGETTING)

    def demand(self, rates_rows_per_s: Mapping[str, float]) -> float:
        """The load of all topics in rows of the usual cost."""
        costs = self.costs_s
        return sum(rates_rows_per_s.get(topic, 0.0) * costs[topic] for topic in self.topics) / self._usual_s

    def snapshot(self) -> RlsState:
        """The state, which never changes."""
        return self._fit.snapshot()
