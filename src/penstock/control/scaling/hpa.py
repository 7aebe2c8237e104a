"""The rule of the Kubernetes horizontal pod autoscaler, with its stabilisation window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.control.scaling.base import Scaler
from penstock.control.scaling.capacity import whole_executors
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards


@dataclass(frozen=True, slots=True)
class Stabilised:
    r"""Recommendations of the last minutes, and what they allow.

    - Scaling down takes the largest recommendation of the last ``down_s`` seconds (300 by default).
    - Scaling up is immediate, but adds no more than four executors or doubles them within 15 seconds.

    Reference: the HorizontalPodAutoscaler's default behaviour in the documentation of Kubernetes.

    Examples
    --------
    >>> seen = Stabilised()
    >>> seen, allowed = seen.allow(0.0, current=4, wanted=30, down_s=300.0)
    >>> allowed
    8
    >>> seen, allowed = seen.allow(60.0, current=8, wanted=3, down_s=300.0)
    >>> allowed
    8
    >>> seen.allow(400.0, current=8, wanted=3, down_s=300.0)[1]
    3
    """

    past: tuple[tuple[float, int], ...] = ()

    def allow(self, time_s: float, *, current: int, wanted: int, down_s: float) -> tuple[Stabilised, int]:
        """The state after a recommendation, and the number that it comes to."""
        past = [(time, count) for time, count in self.past if time > time_s - down_s]
        # A recommendation below a newer one never decides again: without it the list stays short.
        while past and past[-1][1] <= wanted:
            past.pop()
        past.append((time_s, wanted))
        raised = min(wanted, max(current + 4, 2 * current))
        return Stabilised(tuple(past)), raised if wanted > current else min(current, past[0][1])


class HorizontalPod(Scaler):
    r"""Executors so that the mean utilisation comes to a target.

    .. math:: n \leftarrow \lceil n_t\,u_t / u^* \rceil

    unless the ratio is within a tolerance of 0.1 around one; then :class:`Stabilised`.

    Examples
    --------
    >>> rule = HorizontalPod(target_share=0.8)
    >>> rule.decide(ScalingSignal(0.0, 4, 4, 900.0, 900.0, 0.99, 0.0, 0.1)).executors
    5
    """

    name: ClassVar[str] = "hpa"

    def __init__(self, *, target_share: float = 0.8, tolerance: float = 0.1, down_s: float = 300.0) -> None:
        self.target_share = self.fill = target_share
        self.tolerance = tolerance
        self.down_s = down_s
        self._state = Stabilised()

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample."""
        if signal.busy_share is None:
            return hold(signal, "utilisation is unknown")
        ratio = signal.busy_share / self.target_share
        wanted = signal.requested
        if abs(ratio - 1.0) > self.tolerance:
            wanted = max(1, whole_executors(signal.executors * ratio))
            # Executors that are starting count as there, and idle: the controller of Kubernetes does not add twice.
            wanted = max(wanted, signal.requested) if ratio > 1.0 else wanted
        self._state, allowed = self._state.allow(
            signal.time_s, current=signal.requested, wanted=wanted, down_s=self.down_s
        )
        return towards(signal, allowed, f"utilisation {signal.busy_share:.2f}, target {self.target_share:g}")

    def snapshot(self) -> Stabilised:
        """The state, which never changes."""
        return self._state

    def restore(self, snapshot: Stabilised) -> None:
        """Go on from a snapshot."""
        self._state = snapshot
