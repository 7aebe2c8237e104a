"""The ratio rule of Spark's older streaming API (DStreams)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.control.scaling.base import Scaler
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards


@dataclass(frozen=True, slots=True)
class RatioState:
    """Batch times since the last decision, and when the next one is due."""

    ratio_sum: float = 0.0
    samples: int = 0
    due_s: float | None = None


class BatchRatio(Scaler):
    r"""Executors by the ratio of batch time to batch interval, looked at once a minute.

    - ratio of at least 0.9: add :math:`\max(1, round(ratio))`;
    - ratio of at most 0.3: remove one;

    with the mean ratio of all batches since the last look.

    Reference: ``org.apache.spark.streaming.scheduler.ExecutorAllocationManager`` and its defaults.

    Examples
    --------
    >>> rule = BatchRatio(every_s=60.0)
    >>> def seen(time_s, batch_s):
    ...     return ScalingSignal(time_s, 3, 3, 900.0, 900.0, 0.9, 0.0, 0.2, batch_s=batch_s, trigger_s=5.0)
    >>> [rule.decide(seen(time_s, 8.0)).executors for time_s in (0.0, 30.0, 60.0)]
    [3, 3, 5]
    """

    name: ClassVar[str] = "dstreams"

    def __init__(self, *, up: float = 0.9, down: float = 0.3, every_s: float = 60.0) -> None:
        self.up = up
        self.down = down
        self.every_s = every_s
        self._state = RatioState()

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample."""
        if signal.batch_s is None or not signal.trigger_s:
            return hold(signal, "no batch has ended, or batches have no interval")
        old = self._state
        due_s = signal.time_s + self.every_s if old.due_s is None else old.due_s
        total, samples = old.ratio_sum + signal.batch_s / signal.trigger_s, old.samples + 1
        if signal.time_s < due_s:
            self._state = RatioState(total, samples, due_s)
            return hold(signal, "not due yet")
        self._state = RatioState(0.0, 0, signal.time_s + self.every_s)
        ratio = total / samples
        target = signal.requested
        if ratio >= self.up:
            target += max(1, round(ratio))
        elif ratio <= self.down:
            target = max(1, target - 1)
        return towards(signal, target, f"batches take {ratio:.2f} of their interval")

    def snapshot(self) -> RatioState:
        """The state, which never changes."""
        return self._state

    def restore(self, snapshot: RatioState) -> None:
        """Go on from a snapshot."""
        self._state = snapshot
