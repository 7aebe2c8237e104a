"""The capacity calculator of the thesis: how many rows a second one executor serves within the goal."""

from __future__ import annotations

from dataclasses import dataclass

MORE_THAN_ANY_CLUSTER = 2**31 - 1
"""Executors that no cluster has: Spark counts them as Java's int."""


@dataclass(frozen=True, slots=True)
class Capacity:
    r"""Mean workload per executor at the moments when the goal was missed.

    Algorithm 1 of "Supporting elasticity in Flink": with :math:`k` values seen so far and a violation at workload
    :math:`w_t` on :math:`n_t` executors,

    .. math:: w_{max} \leftarrow \frac{k\,w_{max} + w_t / n_t}{k + 1}

    ``limit`` bounds :math:`k`, so that a capacity which changed is followed; the thesis has none.

    Examples
    --------
    >>> capacity = Capacity().violated(1_000.0, executors=1).violated(1_600.0, executors=2)
    >>> capacity.rows_per_s, capacity.count
    (900.0, 2)
    >>> capacity.needed(2_000.0), capacity.needed(1_800.0), capacity.needed(0.0)
    (3, 2, 1)
    """

    rows_per_s: float | None = None
    count: int = 0
    limit: int = 50

    def violated(self, demand_rows_per_s: float, *, executors: int) -> Capacity:
        """Learn from a sample in which the goal was missed."""
        if demand_rows_per_s <= 0 or executors < 1:
            return self
        seen = demand_rows_per_s / executors
        if self.rows_per_s is None:
            return Capacity(seen, 1, self.limit)
        mean = (self.count * self.rows_per_s + seen) / (self.count + 1)
        return Capacity(mean, min(self.count + 1, self.limit), self.limit)

    def needed(self, demand_rows_per_s: float, *, share: float = 1.0) -> int | None:
        """Executors for a workload, each filled to a share of its capacity; None while the capacity is unknown.

        Where the thesis says that scaling up "adds" w / w_max executors, a target of ceil(w / w_max) is meant: added to
        those that run it would double them.
        """
        if self.rows_per_s is None:
            return None
        return max(1, whole_executors(demand_rows_per_s / (self.rows_per_s * share)))


def whole_executors(executors: float) -> int:
    """Round up, but not for a hair: 3.0000000001 executors are three.

    A rate measured close to zero asks for more than a whole number can hold; the bounds of an application cut that as
    they cut any other excess.

    Examples
    --------
    >>> whole_executors(3.0000000001), whole_executors(3.01), whole_executors(0.0)
    (3, 4, 0)
    >>> whole_executors(float("inf")) == MORE_THAN_ANY_CLUSTER
    True
    """
    executors = min(executors, MORE_THAN_ANY_CLUSTER)
    nearest = round(executors)
    return nearest if abs(executors - nearest) < 1e-9 * max(1.0, executors) else int(-(-executors // 1))
