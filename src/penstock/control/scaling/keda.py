"""The lag rule of KEDA's Kafka scaler."""

from __future__ import annotations

from typing import ClassVar

from penstock.control.scaling.base import Scaler
from penstock.control.scaling.capacity import whole_executors
from penstock.control.scaling.hpa import Stabilised
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards


class KafkaLag(Scaler):
    r"""One executor for every so many rows of lag.

    .. math:: n \leftarrow \lceil lag / lagThreshold \rceil

    KEDA hands the number to a horizontal pod autoscaler, whose tolerance and stabilisation apply. The threshold of ten
    rows that KEDA starts with fits no stream of this size; a fair one is what an executor works off in the time that
    rows wait when all is well.

    Examples
    --------
    >>> KafkaLag(threshold_rows=5_000.0).decide(ScalingSignal(0.0, 2, 2, 900.0, 900.0, 0.9, 14_000.0, 0.2)).executors
    3
    """

    name: ClassVar[str] = "keda"

    def __init__(self, threshold_rows: float, *, tolerance: float = 0.1, down_s: float = 300.0) -> None:
        self.threshold_rows = threshold_rows
        self.tolerance = tolerance
        self.down_s = down_s
        self._state = Stabilised()

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample."""
        if signal.backlog_rows is None:
            return hold(signal, "the lag is unknown")
        exact = signal.backlog_rows / self.threshold_rows
        wanted = signal.requested
        if abs(exact / signal.requested - 1.0) > self.tolerance:
            wanted = max(1, whole_executors(exact))
        self._state, allowed = self._state.allow(
            signal.time_s, current=signal.requested, wanted=wanted, down_s=self.down_s
        )
        return towards(signal, allowed, f"lag {signal.backlog_rows:.0f} rows, {self.threshold_rows:.0f} an executor")

    def snapshot(self) -> Stabilised:
        """The state, which never changes."""
        return self._state

    def restore(self, snapshot: Stabilised) -> None:
        """Go on from a snapshot."""
        self._state = snapshot
