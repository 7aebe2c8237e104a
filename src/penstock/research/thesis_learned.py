"""What the proactive scaler knows of an engine: a value that never changes, and how the next one follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.research.thesis_settings import ScalingMode

if TYPE_CHECKING:
    from penstock.research.thesis_performance import PerformanceModel
    from penstock.research.thesis_stability import Stability

NEAR_FRONTIER = 0.95
_RATE_WEIGHT = 0.2
_FULLY_BUSY = 0.95
_FADING = 0.9998
_BELOW_VIOLATION = 0.97


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known of the engine at the moment.

    ``capacities`` is the largest demand that each size carries by the model, ``seen`` the loads and sizes that it was
    fitted to, in twentieths, ``frontier`` the largest load per executor that was seen to go well, ``ceiling`` one a
    little below the smallest that did not, ``true_rate`` what an executor does in a second of busy time.

    Examples
    --------
    >>> known = Learned().with_rate(1_000.0, 0.5, can_follow=True).with_rate(700.0, 0.2, can_follow=True)
    >>> round(known.true_rate, 1), round(known.with_rate(600.0, 1.0, can_follow=False).true_rate, 1)
    (999.8, 872.0)
    >>> known.with_load(900.0, 0.1, limit=0.4).with_load(950.0, 0.6, limit=0.4).ceiling
    921.5
    """

    mode: ScalingMode = ScalingMode.EXPLORATION
    recent_rate: float | None = None
    true_rate: float | None = None
    frontier: float = 0.0
    ceiling: float = float("inf")
    model: PerformanceModel | None = None
    capacities: tuple[float, ...] = ()
    seen: frozenset[tuple[int, int]] = frozenset()
    stability: Stability | None = None
    until_training: int = 0
    trainings: int = 0
    changes: int = 0
    executors: int = 0
    changed_s: float = float("-inf")
    settled_s: float = float("-inf")

    def with_(self, **changes: Any) -> Learned:  # noqa: ANN401 - any of the fields
        """The same with some fields changed."""
        values = {name: getattr(self, name) for name in Learned.__slots__}  # replace() takes five times as long
        values.update(changes)
        return Learned(**values)

    def with_rate(self, rate: float, busy: float, *, can_follow: bool) -> Learned:
        """Follow what an executor does in a second of busy time."""
        known = self.true_rate
        is_full = busy >= _FULLY_BUSY
        if is_full and can_follow:
            # Batch follows batch though little is to do: all that is known is that it can do what it does.
            return self.with_(true_rate=None if known is None else max(known, rate))
        old = self.recent_rate
        recent = rate if old is None else old + _RATE_WEIGHT * (rate - old)
        # Little to do makes batches of mostly overhead, and rates that say nothing of full ones: the highest rate
        # counts, until it fades or a query that cannot follow shows a lower one.
        highest = recent if is_full else max(recent, _FADING * (known or 0.0))
        return self.with_(recent_rate=recent, true_rate=highest)

    def with_load(self, load: float, queue: float, *, limit: float) -> Learned:
        """Learn from a load per executor and the queue that it led to."""
        if queue < limit:
            return self.with_(frontier=max(self.frontier, load), ceiling=self.ceiling / _FADING)
        if load >= NEAR_FRONTIER * self.frontier:
            # Below what has gone well, a queue is one that was left over, and says nothing of the load.
            return self.with_(ceiling=min(self.ceiling, _BELOW_VIOLATION * load))
        return self
