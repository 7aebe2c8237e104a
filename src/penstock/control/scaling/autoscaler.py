"""The proactive scaler: executors for the upper forecast of the load, by what a batch was measured to take."""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from penstock.control.scaling.autoscaler_settings import AutoscalerSettings
from penstock.control.scaling.base import Scaler
from penstock.control.scaling.batch_length import planned_batch_s
from penstock.control.scaling.batch_times import BatchTimes
from penstock.control.scaling.capacity import whole_executors
from penstock.estimate.forecast import Combined, Level, LinearTrend, Seasonal
from penstock.model.evolve import evolve
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards

# The thesis looks back ten minutes; what rises within two is seen by a line through fewer.
_TREND_WINDOWS_S = (600.0, 150.0, 50.0)


class Autoscaler(Scaler):
    r"""Scale ahead of the load, by a forecast and by what batches were measured to take.

    With overhead :math:`o` and seconds per row :math:`c` of an executor
    (:class:`~penstock.estimate.performance_line.PerformanceLine`), trigger :math:`T` and the batch :math:`D` that the
    goal leaves room for (:func:`~penstock.control.scaling.batch_length.planned_batch_s`), one executor carries

    .. math:: w_1 = \frac{D - o}{c\,\max(T, D)}

    rows a second, and :math:`n = \lceil \hat w / w_1 \rceil` executors carry the upper forecast :math:`\hat w` of the
    time that an executor takes to come and two decisions. Rows that wait beyond what a planned batch leaves waiting are
    to be worked off within the goal, and count as load. Fewer executors only where they sufficed for ``down_after_s``.

    Demand is what arrives, shed rows included. Reference: chapter 3 of "Supporting elasticity in Flink", whose
    performance model of the queue is not used: see docs/adr/0020-scale-by-batch-time.md.

    Examples
    --------
    >>> scaler = Autoscaler(AutoscalerSettings(start_s=30.0))
    >>> def seen(time_s, demand):
    ...     batch_s = 0.5 + 0.001 * demand * 5.0 / 4
    ...     return ScalingSignal(
    ...         time_s, 4, 4, demand, demand, batch_s / 5.0, 5.0 * demand, 0.2, batch_s, 5.0, 5.0 * demand, goal_s=30.0
    ...     )
    >>> sizes = [scaler.decide(seen(15.0 * step, 1_000.0 + 50.0 * step)).executors for step in range(40)]
    >>> sizes[0], sizes[39]
    (4, 4)
    >>> scaler.decide(seen(600.0, 3_900.0)).reason
    '5419 rows/s expected within 60 s, 6 executors carry 950 rows/s each'
    """

    name: ClassVar[str] = "proactive"

    def __init__(self, settings: AutoscalerSettings | None = None) -> None:
        self.settings = settings or AutoscalerSettings()
        trends = [LinearTrend(window_s=window_s) for window_s in _TREND_WINDOWS_S]
        self.forecast = Combined(
            [*trends, Level(), Seasonal(period_s=self.settings.season_s)],
            ahead_s=self._ahead_s(None),
            quantile=self.settings.quantile,
            memory_s=self.settings.forecast_memory_s,
        )
        self.batch_times = BatchTimes(memory_s=self.settings.memory_s, deviations=self.settings.deviations)
        self._targets: deque[tuple[float, int]] = deque()
        self._foretold: float | None = None

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample."""
        demand, goal_s = signal.demand_rows_per_s, signal.goal_s
        if demand is None or goal_s is None:
            return hold(signal, "the demand is unknown, or there is no latency goal")
        ahead_s = self.forecast.ahead_s = self._ahead_s(signal.start_s)
        self.forecast.update(signal.time_s, demand)
        notice = self.batch_times.observe(signal)
        decision = self._size(signal, demand, goal_s, ahead_s)
        return decision if notice is None else evolve(decision, notice=notice)

    def _size(self, signal: ScalingSignal, demand: float, goal_s: float, ahead_s: float) -> ScaleDecision:
        line = self.batch_times.line()
        if line is None:
            return hold(signal, "no batch with rows was measured yet")
        trigger_s = signal.trigger_s or 0.0
        batch_s = planned_batch_s(
            goal_s, trigger_s, spread=self.batch_times.spread, deviations=self.settings.deviations
        )
        each = max(0.0, batch_s - line.overhead_s) / max(line.row_s, 1e-12) / max(trigger_s, batch_s)
        if each <= 0:
            return hold(
                signal,
                f"a batch takes {line.overhead_s:.1f} s without any rows, more than the {batch_s:.1f} s that the goal "
                "leaves: executors do not help, a longer goal does",
            )
        newest = max(demand, signal.newest_rows_per_s or 0.0)
        upper = self._expected(newest, ahead_s)
        # A report tells the mean of a cycle: the first one of a burst is partly from before it, so what surprises
        # counts twice.
        surprise = 0.0 if self._foretold is None else max(0.0, newest - self._foretold)
        self._foretold = upper
        overdue = self._overdue(signal, newest, max(trigger_s, batch_s) + batch_s)
        expected = upper + surprise + overdue / goal_s
        target = self._held(signal, max(1, whole_executors(expected / each)))
        return towards(
            signal,
            target,
            f"{expected:.0f} rows/s expected within {ahead_s:g} s, {target} executors carry {each:.0f} rows/s each",
        )

    def _ahead_s(self, start_s: float | None) -> float:
        """As long as executors take to come, and two decisions: one that is just over, and the next."""
        return (self.settings.start_s if start_s is None else start_s) + 2.0 * self.settings.interval_s

    def _expected(self, demand: float, ahead_s: float) -> float:
        guesses = [self.forecast.predict(share * ahead_s) or 0.0 for share in (0.5, 1.0)]
        return max(demand, self.forecast.bound(max(guesses)))

    @staticmethod
    def _overdue(signal: ScalingSignal, demand: float, usual_s: float) -> float:
        """Rows that wait beyond those of a planned cycle."""
        return max(0.0, (signal.backlog_rows or 0.0) - demand * usual_s)

    def _held(self, signal: ScalingSignal, target: int) -> int:
        """Up at once; down to the most that was needed of late."""
        targets, now_s = self._targets, signal.time_s
        if not targets:
            # Before so much time was seen nobody knows whether fewer suffice.
            targets.append((now_s, signal.requested))
        while targets and targets[0][0] <= now_s - self.settings.down_after_s:
            targets.popleft()
        while targets and targets[-1][1] <= target:
            targets.pop()
        targets.append((now_s, target))
        return target if target >= signal.requested else min(signal.requested, targets[0][1])

    def remembered(self) -> dict[str, Any]:
        """What is worth keeping over a restart, as plain data: forecast, batch times, what was needed of late."""
        return {**self.snapshot(), "batch_times": self.batch_times.remembered()}

    def recall(self, learned: dict[str, Any]) -> None:
        """Begin with what an earlier run learned; a snapshot that went through JSON."""
        self.batch_times.recall(learned["batch_times"])
        self.restore({**learned, "batch_times": self.batch_times.snapshot()})

    def snapshot(self) -> dict[str, Any]:
        """Forecast, batch times, and what was needed of late."""
        return {
            "forecast": self.forecast.snapshot(),
            "batch_times": self.batch_times.snapshot(),
            "targets": tuple(self._targets),
            "foretold": self._foretold,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.forecast.restore(snapshot["forecast"])
        self.batch_times.restore(snapshot["batch_times"])
        self._targets = deque((time_s, count) for time_s, count in snapshot["targets"])
        self._foretold = snapshot["foretold"]
