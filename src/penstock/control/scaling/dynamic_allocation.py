"""Spark's own dynamic allocation, as a baseline: executors for pending tasks, gone when idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.control.scaling.base import Scaler
from penstock.control.scaling.capacity import whole_executors
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards


@dataclass(frozen=True, slots=True)
class AllocationState:
    """Executors to add next, since when executors are idle (None while they are not), and what was asked for last."""

    adding: int = 1
    idle_since_s: float | None = None
    asked: int = 0


class DynamicAllocation(Scaler):
    r"""Add executors while tasks wait, twice as many each round; remove those that idle.

    - Tasks wait while a batch is in work for longer than ``backlog_s`` (1 s): 1, 2, 4, ... executors are added, up to
      one for every task slot that the stage could use.
    - An executor that idles for ``idle_s`` (60 s) is removed. A stream that has a batch at least every minute gives
      every executor a task in that time, so none is ever idle: which is why Spark's guide advises against it there.

    Rounds follow each other every second in Spark; here there is one in each sample.

    Reference: ``org.apache.spark.ExecutorAllocationManager`` and its defaults.

    Examples
    --------
    >>> rule = DynamicAllocation()
    >>> def seen(time_s, executors, busy, batch_s):
    ...     return ScalingSignal(time_s, executors, executors, 9e3, 9e3, busy, 0.0, 0.2, batch_s=batch_s, trigger_s=5.0)
    >>> [rule.decide(seen(15.0 * step, 2**step, 0.9, 4.5)).executors for step in range(4)]
    [2, 4, 8, 16]
    >>> rule.decide(seen(60.0, 16, 0.0, 0.0)).executors, rule.decide(seen(121.0, 16, 0.0, 0.0)).executors
    (16, 1)
    """

    name: ClassVar[str] = "spark"

    def __init__(self, *, backlog_s: float = 1.0, idle_s: float = 60.0) -> None:
        self.backlog_s = backlog_s
        self.idle_s = idle_s
        self._state = AllocationState()

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample."""
        if signal.busy_share is None or signal.batch_s is None:
            return hold(signal, "no batch has ended")
        state, now_s = self._state, signal.time_s
        if signal.batch_s > self.backlog_s and signal.busy_share > 0:
            useful = signal.useful_executors
            # Where fewer came than were asked for, the cluster is at its bounds, and Spark begins with one again.
            adding = state.adding if signal.requested >= state.asked else 1
            target = signal.requested + adding
            target = target if useful is None else max(signal.requested, min(target, whole_executors(useful)))
            self._state = AllocationState(2 * adding, asked=target)
            return towards(signal, target, f"tasks wait for {signal.batch_s:.1f} s")
        if signal.busy_share > 0:
            self._state = AllocationState()
            return hold(signal, "no task waits, and every executor had one within the last minute")
        since_s = now_s if state.idle_since_s is None else state.idle_since_s
        self._state = AllocationState(1, since_s)
        if now_s - since_s < self.idle_s:
            return hold(signal, "executors idle, but not for long enough")
        return towards(signal, 1, f"executors were idle for {now_s - since_s:.0f} s")

    def snapshot(self) -> AllocationState:
        """The state, which never changes."""
        return self._state

    def restore(self, snapshot: AllocationState) -> None:
        """Go on from a snapshot."""
        self._state = snapshot
