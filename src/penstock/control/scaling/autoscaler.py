"""The proactive scaler: executors for the upper forecast of the load, by what a batch was measured to take."""

from __future__ import annotations

from collections import deque
from statistics import NormalDist
from typing import Any, ClassVar

from penstock.control.scaling.autoscaler_settings import AutoscalerSettings
from penstock.control.scaling.base import Scaler
from penstock.control.scaling.batch_length import beside, planned_batch_s
from penstock.control.scaling.batch_times import BatchTimes
from penstock.control.scaling.capacity import whole_executors
from penstock.control.wording import number_of_executors
from penstock.estimate.forecast import Combined, Level, LinearTrend, Seasonal
from penstock.estimate.forecast.ramp import Ramp
from penstock.model.evolve import evolve
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards

_ALL_BUT = 1.0 - 1e-9
"""No batch is sure to be in time: a normal distribution has no end."""


class Autoscaler(Scaler):
    r"""Scale ahead of the load, by a forecast and by what batches were measured to take.

    With overhead :math:`o` and seconds per row :math:`c` of an executor
    (:class:`~penstock.estimate.performance_line.PerformanceLine`), trigger :math:`T` and the batch :math:`D` that the
    goal leaves room for (:func:`~penstock.control.scaling.batch_length.planned_batch_s`), one executor carries

    .. math:: w_1 = \frac{D - o}{c\,\max(T, D)}

    rows a second, and :math:`n = \lceil \hat w / w_1 \rceil` executors carry the upper forecast :math:`\hat w` of the
    time that an executor takes to come and two decisions. A load that has begun to rise is drawn on from when it was
    seen last, for reports are a batch old (:class:`~penstock.estimate.forecast.ramp.Ramp`). Rows that wait beyond what
    a planned batch leaves waiting are to be worked off within the goal, and count as load. What the forecast has in
    reserve counts for batches that take longer than planned, too
    (:func:`~penstock.control.scaling.batch_length.beside`). Fewer executors only where they sufficed for
    ``down_after_s``.

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
    '6632 rows/s expected within 60 s, an executor carries 950 of them: 7 executors'
    """

    name: ClassVar[str] = "proactive"

    def __init__(self, settings: AutoscalerSettings | None = None) -> None:
        self.settings = chosen = settings or AutoscalerSettings()
        ahead_s = self._ahead_s(None)
        members = [
            LinearTrend(window_s=ahead_s),
            Level(half_life_s=chosen.level_s),
            Seasonal(period_s=chosen.season_s, bin_s=ahead_s),
        ]
        self.forecast = Combined(
            members,
            ahead_s=ahead_s,
            quantile=chosen.quantile,
            memory_s=chosen.forecast_memory_s,
            half_life_s=chosen.trust_s,
        )
        self.ramp = Ramp(window_s=ahead_s, deviations=chosen.deviations, half_life_s=chosen.memory_s)
        self.batch_times = BatchTimes(
            memory_s=chosen.memory_s,
            deviations=chosen.deviations,
            recent_s=chosen.recent_s,
        )
        # Batches scatter as loads do, and as many of them are to be in time.
        self._batch_deviations = NormalDist().inv_cdf(min(chosen.quantile, _ALL_BUT))
        self._targets: deque[tuple[float, int]] = deque()

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
        newest = demand if signal.newest_rows_per_s is None else signal.newest_rows_per_s
        upper, load_margin = self._upper(signal, max(demand, newest), newest, ahead_s)
        batch_margin = beside(self._batch_deviations * self.batch_times.spread, load_margin)
        batch_s = planned_batch_s(goal_s, trigger_s, margin=batch_margin, stretch=self.settings.stretch)
        each = max(0.0, batch_s - line.overhead_s) / max(line.row_s, 1e-12) / max(trigger_s, batch_s)
        if each <= 0:
            return hold(
                signal,
                f"a batch takes {line.overhead_s:.1f} s without any rows, more than the {batch_s:.1f} s that the goal "
                "leaves: executors do not help, a longer goal does",
            )
        overdue = self._overdue(signal, max(demand, newest), max(trigger_s, batch_s) + batch_s)
        expected = upper + overdue / goal_s
        target = self._held(signal, max(1, whole_executors(expected / each)))
        return towards(
            signal,
            target,
            f"{expected:.0f} rows/s expected within {ahead_s:.0f} s, an executor carries {each:.0f} of them: "
            f"{number_of_executors(target)}",
        )

    def _upper(self, signal: ScalingSignal, seen: float, newest: float, ahead_s: float) -> tuple[float, float]:
        """The upper forecast, and by what part it is more than what is likely."""
        self.ramp.update(signal.time_s - signal.age_s, newest)
        predicted = self.forecast.predict(ahead_s) or 0.0
        likely = max(seen, predicted)
        upper = max(likely, self.forecast.bound(predicted), self.ramp.least(ahead_s + signal.age_s))
        return upper, upper / likely - 1.0 if likely > 0 else 0.0

    def _ahead_s(self, start_s: float | None) -> float:
        """As long as executors take to come, and two decisions: one that is just over, and the next."""
        return (self.settings.start_s if start_s is None else start_s) + 2.0 * self.settings.interval_s

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
            "ramp": self.ramp.snapshot(),
            "batch_times": self.batch_times.snapshot(),
            "targets": tuple(self._targets),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.forecast.restore(snapshot["forecast"])
        self.ramp.restore(snapshot["ramp"])
        self.batch_times.restore(snapshot["batch_times"])
        self._targets = deque((time_s, count) for time_s, count in snapshot["targets"])
