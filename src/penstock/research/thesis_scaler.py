"""The proactive scaler as a whole: exploration, optimal control, and the switch between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from penstock.control.scaling.base import Scaler
from penstock.control.scaling.reactive import Reactive, ReactiveState
from penstock.estimate.change import Adwin, AnyOf, ChangeDetector, PageHinkley
from penstock.estimate.forecast import Combined, Level, LinearTrend, Seasonal
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards
from penstock.research.thesis_learned import NEAR_FRONTIER, Learned
from penstock.research.thesis_performance import fit_performance
from penstock.research.thesis_policy import ProactivePolicy, demand_with_backlog, smallest_size
from penstock.research.thesis_samples import Samples
from penstock.research.thesis_settings import ScalingMode, ThesisSettings
from penstock.research.thesis_stability import check_stability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.research.thesis_performance import PerformanceModel
    from penstock.research.thesis_stability import Stability

_LEAST_BUSY = 0.15
_BEYOND_FRONTIER = 1.08
_BEYOND_DATA = 1.3
_CELLS = 20
_CAUTION = 0.88
_FOLLOWS = 0.9
_CLEARLY = 1.04
# The thesis looks back ten minutes; what rises within two is seen by a line through fewer.
_TREND_WINDOWS_S = (600.0, 150.0, 50.0)
_FEWEST_SAMPLES = 200


class ThesisScaler(Scaler):
    r"""Scale ahead of the load, by a forecast and by what was learned of the query.

    In *exploration* the capacity of an executor is what it does in busy time, times a fill; each violation corrects it
    (:class:`~penstock.control.scaling.reactive.Reactive`). Where batch follows batch, busy time tells nothing, and the
    reactive policy acts a little before the limit, so that it learns the capacity without a violation. Settled samples
    are collected, and once in a while the performance model is trained and checked.

    When it is stable, *optimal control* begins: the size is the smallest whose model stays below the limit at the upper
    quantile of the forecast, and never beyond what was tried by more than a twelfth. When the residuals of the model
    change, abruptly or by and by, samples and model are thrown away and exploration begins again.

    Demand is what arrives, shed rows included. Reference: chapter 3 of "Supporting elasticity in Flink".

    Examples
    --------
    >>> scaler = ThesisScaler(ThesisSettings(ahead_s=60.0))
    >>> def seen(time_s, demand):
    ...     return ScalingSignal(time_s, 4, 4, demand, demand, demand / 4_000.0, 0.0, 0.1)
    >>> sizes = [scaler.decide(seen(15.0 * step, 1_000.0 + 50.0 * step)).executors for step in range(40)]
    >>> sizes[0], sizes[39]
    (3, 4)
    >>> scaler.mode.value, scaler.decide(seen(600.0, 3_500.0)).reason
    ('exploration', 'exploring: 4129 rows/s expected within 60 s, 5 executors carry it')
    """

    name: ClassVar[str] = "proactive"

    def __init__(self, settings: ThesisSettings | None = None, *, change: ChangeDetector | None = None) -> None:
        self.settings = settings or ThesisSettings()
        self.fill = self.settings.fill
        trends = [LinearTrend(window_s=window_s) for window_s in _TREND_WINDOWS_S]
        self.forecast = Combined(
            [*trends, Level(), Seasonal(period_s=self.settings.season_s)],
            ahead_s=self.settings.ahead_s,
            quantile=self.settings.quantile,
        )
        self.reactive = Reactive(limit=self.settings.limit, settle_s=self.settings.settle_s)
        # Where nothing tells the capacity beforehand, it is learned from loads that come near the limit.
        self.cautious = Reactive(limit=_CAUTION * self.settings.limit, settle_s=self.settings.settle_s)
        self.samples = Samples()
        self.change = change or AnyOf([PageHinkley(threshold=2.0, delta=0.02), Adwin(delta=1e-5)])
        self._policy = ProactivePolicy(self.settings.gains, self.settings.down_every_s)
        self._known = Learned(until_training=self.settings.train_every)

    @property
    def mode(self) -> ScalingMode:
        """What it relies on at the moment."""
        return self._known.mode

    @property
    def learned(self) -> Learned:
        """What it knows at the moment."""
        return self._known

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample."""
        demand, queue = signal.demand_rows_per_s, signal.backlog_ratio
        if demand is None or queue is None:
            return hold(signal, "demand or queue is unknown")
        self.forecast.update(signal.time_s, demand)
        self._learn(signal, demand, queue)
        if signal.time_s < self._known.changed_s + self.settings.recover_s:
            return hold(signal, "recovering from the last change")
        reaction = self.reactive.decide(signal)
        if self.mode is ScalingMode.EXPLORATION:
            if not self.settings.explores_ahead:
                return reaction
            if self._known.true_rate is None:
                return self.cautious.decide(signal)
        return self._plan(signal, demand, queue, reaction)

    def _plan(self, signal: ScalingSignal, demand: float, queue: float, reaction: ScaleDecision) -> ScaleDecision:
        expected = self._expected(signal, demand, queue)
        target = self._target(expected)
        if target < signal.requested:
            # Down only where the rest clearly fits: an executor that is let go and asked for again starts for nothing.
            target = min(signal.requested, self._target(_CLEARLY * expected))
        word = "exploring" if self.mode is ScalingMode.EXPLORATION else "model"
        reason = (
            f"{word}: {expected:.0f} rows/s expected within {self.settings.ahead_s:g} s, {target} executors carry it"
        )
        self._policy, size = self._policy.step(signal.time_s, current=signal.requested, target=target)
        # A violation in spite of all this is answered at once.
        if reaction.executors > max(size, signal.requested):
            return reaction
        return towards(signal, size, reason)

    def _expected(self, signal: ScalingSignal, demand: float, queue: float) -> float:
        ahead_s = self.settings.ahead_s
        guesses = [self.forecast.predict(share * ahead_s) or 0.0 for share in (0.25, 0.5, 1.0)]
        upper = max(demand, self.forecast.bound(max(guesses)))
        if queue < self.settings.limit or signal.backlog_rows is None:
            return upper
        usual_s = signal.backlog_rows / max(demand, 1e-9) * self.settings.limit / max(queue, 1e-9) * 0.5
        return demand_with_backlog(
            upper,
            backlog_rows=signal.backlog_rows,
            usual_s=usual_s,
            now_rows_per_s=demand,
            drain_s=self.settings.drain_s,
        )

    def _target(self, expected: float) -> int:
        known = self._known
        ceiling = self.settings.fill * (known.true_rate or 0.0)
        if known.mode is ScalingMode.OPTIMAL:
            # At its true rate an executor is busy all the time and batches just fit: that much is certain.
            bound = min(known.ceiling, max(_BEYOND_FRONTIER * known.frontier, known.true_rate or 0.0))
            sizes = [min(capacity, bound * (place + 1)) for place, capacity in enumerate(known.capacities)]
            return smallest_size(sizes, expected)
        capacity = self.reactive.capacity.rows_per_s
        per_executor = ceiling if capacity is None else min(ceiling, capacity)
        return smallest_size([per_executor * (place + 1) for place in range(self.settings.max_executors)], expected)

    # -- learning ----------------------------------------------------------------------------------------------------

    def _learn(self, signal: ScalingSignal, demand: float, queue: float) -> None:
        known = self._known
        if signal.executors != known.executors:
            settled_s = signal.time_s + self.settings.settle_s
            self._know(executors=signal.executors, changed_s=signal.time_s, settled_s=settled_s)
        # Rows that are neither done nor waiting were shed: what was seen is not what the load does to the query.
        carried = min(demand, signal.processed_rows_per_s or 0.0)
        is_behind = carried < _FOLLOWS * demand
        rate = signal.true_rate_rows_per_s
        if rate is not None and (signal.busy_share or 0.0) >= _LEAST_BUSY:
            can_follow = queue < self.settings.limit and not is_behind
            self._known = self._known.with_rate(rate, signal.busy_share or 0.0, can_follow=can_follow)
        is_settled = signal.time_s >= self._known.settled_s and signal.executors == signal.requested
        if not is_settled or (is_behind and queue < self.settings.limit):
            return
        self.samples.add(demand, signal.executors, queue)
        # What arrives in a burst is not carried yet: only what was processed shows what an executor can do.
        self._known = self._known.with_load(carried / max(1, signal.executors), queue, limit=self.settings.limit)
        if self.mode is ScalingMode.OPTIMAL:
            self._watch(signal, demand, queue)
        self._train_when_due(signal, demand)

    def _watch(self, signal: ScalingSignal, demand: float, queue: float) -> None:
        known = self._known
        assert known.model is not None
        place = min(signal.executors, len(known.capacities)) - 1
        # Above its capacity a queue grows without bound: that is too few executors, not another query. And beyond the
        # data that it was fitted to, the model is wrong without anything having changed.
        is_seen = self._cell(demand, signal.executors) in known.seen
        if demand > known.capacities[place] or not (is_seen or queue >= self.settings.limit):
            return
        predicted = float(known.model.predict(demand, float(signal.executors)))
        # Where it was not fitted but goes by what was tried, a size is taken to stay well below the limit.
        predicted = predicted if is_seen else min(predicted, 0.5 * self.settings.limit)
        residual = abs(min(queue, 1.0) - min(predicted, 1.0))
        # A detector finds any difference if it sees enough values: only what matters is shown to it.
        if self.change.update(max(0.0, residual - self.settings.threshold)) is not None:
            self._explore_anew()

    def _explore_anew(self) -> None:
        self.samples.clear()
        self.change.reset()
        self.reactive.restore(ReactiveState())
        self.cautious.restore(ReactiveState())
        self._know(
            mode=ScalingMode.EXPLORATION,
            model=None,
            capacities=(),
            frontier=0.0,
            ceiling=float("inf"),
            recent_rate=None,
            true_rate=None,
            until_training=self.settings.train_every,
            trainings=0,
            changes=self._known.changes + 1,
        )

    def _train_when_due(self, signal: ScalingSignal, demand: float) -> None:
        left = self._known.until_training - 1
        self._know(until_training=left)
        if left > 0 or len(self.samples) < _FEWEST_SAMPLES:
            return
        # Each training in vain, or after the switch, makes the next one rarer: it costs more than all else together.
        trainings = self._known.trainings + 1
        self._know(until_training=self.settings.train_every * 2 ** min(trainings, 6), trainings=trainings)
        self.train(signal.executors, demand)

    def train(self, executors: int, demand: float) -> Stability:
        """Fit the model to the samples and check it; a stable one is used from here on."""
        columns = self.samples.columns()
        model = fit_performance(*columns)
        stability = check_stability(
            model,
            columns,
            demand_rows_per_s=demand,
            executors=executors,
            capacity_rows_per_s=self._capacity(),
            threshold=self.settings.threshold,
            refits=self.settings.refits,
            generator=np.random.default_rng(self.settings.seed),
        )
        self._know(stability=stability)
        if stability.is_stable:
            loads = columns[0] / columns[1]
            bound = _BEYOND_DATA * max(float(loads.max()), self._known.true_rate or 0.0)
            self._know(mode=ScalingMode.OPTIMAL, model=model, capacities=self._table(model, bound))
            self._know(seen=frozenset(map(self._cell, columns[0].tolist(), columns[1].tolist())))
            self.change.reset()
        return stability

    def adopt(self, other: ThesisScaler) -> None:
        """Begin with what another one has learned of the same query: model, capacity and samples, not its load."""
        self.reactive.restore(ReactiveState(other.reactive.capacity))
        self.samples = Samples(rows=other.samples.rows())
        self._know(
            mode=other.mode,
            model=other.learned.model,
            capacities=other.learned.capacities,
            seen=other.learned.seen,
            frontier=other.learned.frontier,
            ceiling=other.learned.ceiling,
            true_rate=other.learned.true_rate,
            stability=other.learned.stability,
        )

    def _capacity(self) -> float | None:
        learned = self.reactive.capacity.rows_per_s
        if learned is not None or not self.settings.explores_ahead:
            return learned
        rate = self._known.true_rate
        return self.cautious.capacity.rows_per_s if rate is None else self.settings.fill * rate

    def _table(self, model: PerformanceModel, bound: float) -> tuple[float, ...]:
        sizes = range(1, self.settings.max_executors + 1)
        safe = NEAR_FRONTIER * min(self._known.frontier, self._known.ceiling)
        largest: Sequence[float] = [
            model.largest_demand(size, limit=self.settings.limit, load_bound=bound, safe_load=safe) for size in sizes
        ]
        # One more executor never carries less; where the polynomial says so it knows nothing there.
        return tuple(float(value) for value in np.maximum.accumulate(largest))

    def _cell(self, demand: float, executors: float) -> tuple[int, int]:
        model = self._known.model
        scale = model.basis.largest_load if model is not None else 1.0
        return int(_CELLS * demand / max(executors, 1.0) / scale), int(executors)

    def _know(self, **changes: Any) -> None:  # noqa: ANN401 - fields of Learned
        self._known = self._known.with_(**changes)

    # -- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Forecast, samples, model, detectors and policy."""
        return {
            "known": self._known,
            "policy": self._policy,
            "forecast": self.forecast.snapshot(),
            "reactive": self.reactive.snapshot(),
            "cautious": self.cautious.snapshot(),
            "samples": self.samples.rows(),
            "change": self.change.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self._known, self._policy = snapshot["known"], snapshot["policy"]
        self.forecast.restore(snapshot["forecast"])
        self.reactive.restore(snapshot["reactive"])
        self.cautious.restore(snapshot["cautious"])
        self.samples = Samples(rows=snapshot["samples"])
        self.change.restore(snapshot["change"])
