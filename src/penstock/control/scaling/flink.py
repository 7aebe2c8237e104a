"""The target formula of the Flink Kubernetes operator's autoscaler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.control.scaling.base import Scaler
from penstock.control.scaling.capacity import whole_executors
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards


def target_rate_rows_per_s(
    *, lag_rows: float, input_rows_per_s: float, utilisation: float, catch_up_s: float, restart_s: float
) -> float:
    r"""Rows per second that a job must be able to do.

    .. math:: \frac{LAG}{CATCH\_UP} + \frac{INPUT \cdot RESTART}{CATCH\_UP} + \frac{INPUT}{UTIL}

    Examples
    --------
    >>> target_rate_rows_per_s(
    ...     lag_rows=36_000.0, input_rows_per_s=700.0, utilisation=0.7, catch_up_s=1_800.0, restart_s=300.0
    ... )
    1136.6666666666667
    """
    catch_up = (lag_rows + input_rows_per_s * restart_s) / catch_up_s if catch_up_s > 0 else 0.0
    return catch_up + input_rows_per_s / utilisation


@dataclass(frozen=True, slots=True)
class FlinkState:
    """Samples of the metrics window, when they count, and since when fewer executors would do."""

    samples: tuple[tuple[float, float, float], ...] = ()
    began_s: float | None = None
    stable_s: float = float("-inf")
    wishes: tuple[tuple[float, int], ...] = ()


class FlinkAutoscaler(Scaler):
    """Capacity for the input at a target utilisation, for the lag, and for the rows that a restart lets pile up.

    Defaults are the operator's: utilisation 0.7, left alone from 0.4 to 1, catch-up within 30 minutes, restarts of
    5 minutes at most (what was measured here is far less: ``restart_s`` is the start-up of an executor), no samples in
    the 5 minutes after a change, no decision before a full window of 15 minutes, and down to the largest size that was
    recommended within the last hour. Where the lag is more than 10 minutes of processing, the measured rate counts
    without waiting for the window: the operator's rule for jobs that work off a backlog.

    Examples
    --------
    >>> rule = FlinkAutoscaler(restart_s=30.0, window_s=60.0)
    >>> def seen(time_s):
    ...     return ScalingSignal(time_s, 4, 4, 1_400.0, 900.0, 1.0, 20_000.0, 0.9)
    >>> [rule.decide(seen(time_s)).executors for time_s in (0.0, 30.0, 60.0)]
    [4, 4, 10]
    """

    name: ClassVar[str] = "flink"

    def __init__(
        self,
        *,
        utilisation: float = 0.7,
        boundary: float = 0.3,
        catch_up_s: float = 1_800.0,
        restart_s: float = 300.0,
        window_s: float = 900.0,
        stabilisation_s: float = 300.0,
        down_s: float = 3_600.0,
        backlog_s: float = 600.0,
    ) -> None:
        self.utilisation = self.fill = utilisation
        self.boundary = boundary
        self.catch_up_s = catch_up_s
        self.restart_s = restart_s
        self.window_s = window_s
        self.stabilisation_s = stabilisation_s
        self.down_s = down_s
        self.backlog_s = backlog_s
        self._state = FlinkState()

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample."""
        rate, state = signal.true_rate_rows_per_s, self._state
        if rate is None or signal.demand_rows_per_s is None or signal.backlog_rows is None:
            return hold(signal, "nothing was processed, or the lag is unknown")
        now_s = signal.time_s
        if now_s < state.stable_s or signal.executors != signal.requested:
            self._state = FlinkState((), None, state.stable_s, state.wishes)
            return hold(signal, "the last change is still settling")
        began_s = now_s if state.began_s is None else state.began_s
        kept = tuple(sample for sample in state.samples if sample[0] > now_s - self.window_s)
        samples = (*kept, (now_s, signal.demand_rows_per_s, rate))
        is_full = now_s - began_s >= self.window_s
        is_behind = signal.backlog_rows > self.backlog_s * rate * signal.executors
        if not is_full and not is_behind:
            self._state = FlinkState(samples, began_s, state.stable_s, state.wishes)
            return hold(signal, "the window of metrics is not full yet")
        demand = sum(sample[1] for sample in samples) / len(samples)
        rate = sum(sample[2] for sample in samples) / len(samples)
        wished = self._target(signal, demand, rate)
        wishes = (*(wish for wish in state.wishes if wish[0] > now_s - self.down_s), (now_s, wished))
        target = wished if wished >= signal.requested else min(signal.requested, max(count for _, count in wishes))
        is_whole_hour = now_s - wishes[0][0] >= self.down_s - self.window_s
        if target == signal.requested or (target < signal.requested and not is_whole_hour):
            self._state = FlinkState(samples, began_s, state.stable_s, wishes)
            return hold(signal, f"input {demand:.0f} rows/s is within the bounds of utilisation, or fell just now")
        self._state = FlinkState((), None, now_s + self.stabilisation_s, wishes)
        return towards(signal, target, f"input {demand:.0f} rows/s, one executor does {rate:.0f}")

    def _target(self, signal: ScalingSignal, demand: float, rate: float) -> int:
        assert signal.backlog_rows is not None
        wanted = {"lag_rows": signal.backlog_rows, "input_rows_per_s": demand}
        times = {"catch_up_s": self.catch_up_s, "restart_s": self.restart_s}
        bounds = (self.utilisation - self.boundary, min(1.0, self.utilisation + self.boundary))
        least, most = (target_rate_rows_per_s(utilisation=bound, **wanted, **times) for bound in reversed(bounds))
        if least <= signal.executors * rate <= most:
            return signal.requested
        exact = target_rate_rows_per_s(utilisation=self.utilisation, **wanted, **times)
        return max(1, whole_executors(exact / rate))

    def snapshot(self) -> FlinkState:
        """The state, which never changes."""
        return self._state

    def restore(self, snapshot: FlinkState) -> None:
        """Go on from a snapshot."""
        self._state = snapshot
