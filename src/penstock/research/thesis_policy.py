"""The proactive policy of the thesis: executors for the load to come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.research.hysteresis import Gains

if TYPE_CHECKING:
    from collections.abc import Sequence


def smallest_size(capacities_rows_per_s: Sequence[float], demand_rows_per_s: float) -> int:
    """The fewest executors whose capacity carries a demand; the most there are where none does.

    Steps 2 to 4 of Algorithm 6 of "Supporting elasticity in Flink" try every size at every forecast point. The
    performance model is asked once when it is trained, for the largest demand that each size carries, and the highest
    forecast point decides: the same answer, by a look into a table.

    Examples
    --------
    >>> smallest_size([900.0, 1_800.0, 2_600.0], 1_850.0), smallest_size([900.0, 1_800.0], 9_999.0)
    (3, 2)
    """
    for place, capacity in enumerate(capacities_rows_per_s):
        if capacity >= demand_rows_per_s:
            return place + 1
    return len(capacities_rows_per_s)


def demand_with_backlog(
    demand_rows_per_s: float, *, backlog_rows: float, usual_s: float, now_rows_per_s: float, drain_s: float
) -> float:
    """Demand to size for while rows wait: those beyond the usual are to be worked off within ``drain_s``.

    Examples
    --------
    >>> demand_with_backlog(1_000.0, backlog_rows=16_000.0, usual_s=10.0, now_rows_per_s=1_000.0, drain_s=60.0)
    1100.0
    """
    excess = backlog_rows - usual_s * now_rows_per_s
    return demand_rows_per_s + max(0.0, excess) / drain_s


@dataclass(frozen=True, slots=True)
class ProactivePolicy:
    """From a demand to the next size: up at once with one gain, down once in a while with the other.

    ``due_down_s`` is when the next step down is due: the thesis decides once a minute.

    Examples
    --------
    >>> policy = ProactivePolicy()
    >>> policy, size = policy.step(0.0, current=4, target=8)
    >>> size
    8
    >>> policy, size = policy.step(15.0, current=8, target=2)
    >>> size
    8
    >>> policy.step(60.0, current=8, target=2)[1]
    5
    """

    gains: Gains = field(default_factory=Gains)
    down_every_s: float = 60.0
    due_down_s: float = 0.0

    def step(self, time_s: float, *, current: int, target: int) -> tuple[ProactivePolicy, int]:
        """The policy after the step, and the size."""
        if target < current and time_s < self.due_down_s:
            return self, current
        size = self.gains.step(current, target)
        if size == current:
            return self, size
        return ProactivePolicy(self.gains, self.down_every_s, time_s + self.down_every_s), size
