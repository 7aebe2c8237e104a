"""The reactive policy of the thesis: scale up on a violation, down by one after ten quiet samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.control.scaling.base import Scaler
from penstock.control.scaling.batch_length import limit_of
from penstock.control.scaling.capacity import Capacity
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards


@dataclass(frozen=True, slots=True)
class ReactiveState:
    """What was learned of the capacity, the quiet samples in a row, and when samples count again."""

    capacity: Capacity = field(default_factory=Capacity)
    quiet: int = 0
    settled_s: float = float("-inf")


class Reactive(Scaler):
    r"""Add executors when the goal is missed, remove one when fewer would do for ten samples in a row.

    Algorithm 2 of "Supporting elasticity in Flink". With backlog ratio :math:`y_t`, workload :math:`w_t`, executors
    :math:`n_t` and learned capacity :math:`w_{max}`:

    - :math:`y_t \ge SLA`: learn the capacity, then :math:`n \leftarrow \max(n_t + 1, \lceil w_t / w_{max} \rceil)`;
    - :math:`n_t > \lceil w_t / (0.9\,w_{max}) \rceil` for the S-th time in a row: :math:`n \leftarrow n_t - 1`.

    The printed algorithm sets its counter to zero on every sample and so never scales down; here it lives across
    samples and ends with the first sample that needs all executors. Samples within ``settle_s`` after a change are
    discarded, as the thesis does: they show the change and not the size.

    Examples
    --------
    >>> policy = Reactive(limit=0.1, quiet_samples=2)
    >>> def seen(time_s, executors, demand, backlog_ratio):
    ...     return ScalingSignal(time_s, executors, executors, demand, demand, 0.5, 0.0, backlog_ratio)
    >>> policy.decide(seen(15, 1, 1_000.0, 0.2)).executors
    2
    >>> [policy.decide(seen(t, 2, 800.0, 0.01)).executors for t in (300, 315, 330)]
    [2, 1, 2]
    """

    name: ClassVar[str] = "reactive"

    def __init__(
        self, *, limit: float | None = None, fill: float = 0.9, quiet_samples: int = 10, settle_s: float = 0.0
    ) -> None:
        self.limit = limit
        self.fill = fill
        self.quiet_samples = quiet_samples
        self.settle_s = settle_s
        self._state = ReactiveState()

    @property
    def capacity(self) -> Capacity:
        """What is known of one executor."""
        return self._state.capacity

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample."""
        state = self._state
        demand, queue = signal.demand_rows_per_s, signal.backlog_ratio
        if demand is None or queue is None:
            return hold(signal, "demand or queue is unknown")
        if signal.time_s < state.settled_s or signal.executors != signal.requested:
            return hold(signal, "the last change is still settling")
        limit = limit_of(signal, self.limit)
        if queue >= limit:
            return self._up(signal, demand, queue, limit)
        needed = state.capacity.needed(demand, share=self.fill)
        quiet = state.quiet + 1 if needed is not None and signal.requested > needed else 0
        if quiet < self.quiet_samples:
            self._state = ReactiveState(state.capacity, quiet, state.settled_s)
            return hold(signal, f"backlog ratio {queue:.2f} is below {limit:g}")
        self._state = ReactiveState(state.capacity, 0, signal.time_s + self.settle_s)
        return ScaleDecision(
            signal.requested - 1, f"{needed} executors would do for {demand:.0f} rows/s, {quiet} samples in a row"
        )

    def _up(self, signal: ScalingSignal, demand: float, queue: float, limit: float) -> ScaleDecision:
        capacity = self._state.capacity.violated(demand, executors=signal.executors)
        self._state = ReactiveState(capacity, 0, signal.time_s + self.settle_s)
        target = max(signal.requested + 1, capacity.needed(demand) or 1)
        return towards(signal, target, f"backlog ratio {queue:.2f} has reached {limit:g} at {demand:.0f} rows/s")

    def snapshot(self) -> ReactiveState:
        """The state, which never changes."""
        return self._state

    def restore(self, snapshot: ReactiveState) -> None:
        """Go on from a snapshot."""
        self._state = snapshot
