"""The fast tier of one query: how many rows its next batch may read, and what a planned batch keeps of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.control import wording
from penstock.control.exploration import SAFE_SHARE_OF_GOAL, explored_rows
from penstock.control.feasibility import Capacity, Feasibility, FeasibilityState
from penstock.control.flow import FlowLaw, FlowState
from penstock.control.keep_ratio import KeepController, KeepState, PlannedLoad
from penstock.control.limits import SourceLimits, SourceState
from penstock.control.lqr import flow_gains
from penstock.control.target import CATCHING_UP, sustainable_batch_s, target_batch_s
from penstock.estimate.batch_time import BatchTimeModel, BatchTimeState
from penstock.model.decision import Decision, Fault, Infeasible
from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from penstock.control.events import WarmStart
    from penstock.control.priority import KeepBounds
    from penstock.model import BatchSignal, Goal, PlannedBatch, QuerySpec
    from penstock.model.decision import KeepRatio
    from penstock.settings import AdmissionSettings, SheddingSettings

_FEEDBACK_DELAY_BATCHES = 1
_LARGEST_BATCH_DECAY = 0.99
_SMALLEST_WORK_SHARE = 0.25
_LEAST_FLOW_SHARE = 0.5
_CERTAIN_WITHIN = 0.15
_OVERHEAD_SHARE = 0.5
_BATCHES_TO_KNOW = 6
_WARM_UP_BATCHES = 8
_RESERVE_STEP, _MOST_RESERVE = 1.1, 4.0
_FALLING = 1.05
_AT_FLOOR = 1.01
_SAME_RATIO = 1e-9
_SHED = 0.999


@dataclass(frozen=True, slots=True)
class QueryState:
    """Snapshot of a :class:`QueryLogic`."""

    batch_time: BatchTimeState
    flow: FlowState
    sources: tuple[SourceState, ...]
    budget_rows: float
    batch_s: float | None = None
    keep: KeepState = field(default_factory=KeepState)
    feasibility: FeasibilityState = field(default_factory=FeasibilityState)
    largest_batch_rows: float = 0.0
    largest_read_rows: float = 0.0
    batches: int = 0
    overhead_reported: bool = False
    reserve: float = CATCHING_UP
    tells_arrival: bool = False
    is_answered: bool = True
    last_lag_rows: float | None = None
    last_planned_s: float | None = None
    cores_changed_s: float = float("-inf")


class QueryLogic:
    r"""Keep a query's batches as long as its latency goal allows, whatever waits at its sources.

    Each finished batch teaches :math:`d = o + a\,n + c\,k` for :math:`n` rows read and :math:`k` kept; what fits into
    the target length :math:`T` (:func:`~penstock.control.target.target_batch_s`) is :math:`\rho = (T - o) / (a + c)`
    rows that are all kept.

    *Read limit.* The budget of the next batch follows the flow law (Eq. 7 of ACES) in steps of one batch. Its buffer is
    what the query has taken in and not finished: the batch in flight while the limit for the next is decided. The
    paper's :math:`b_0 = B / 2`, with :math:`B` the rows that the goal leaves time for, is exactly one target batch,
    :math:`b_0 = \rho`. A batch that turns out too long is therefore followed by a shorter one, so that rows that waited
    longer are processed faster. Above, the budget is bounded by :math:`\rho` itself and by ``growth_factor`` times the
    largest batch yet seen; while the model is not certain, by
    :func:`~penstock.control.exploration.explored_rows`. So a cold start on a huge backlog grows step by step and never
    plans a giant batch.

    *Keep ratio.* A query with a guard decides what a batch keeps when that batch is planned
    (:class:`~penstock.control.keep_ratio.KeepController`). So it may read whatever waits, up to what could be read in
    time at its floor: a sudden load is met by the very batch that reads it.

    Parameters
    ----------
    query
        The query's sources and trigger.
    goal
        Its latency goal decides; a goal without one leaves admission alone. Its minimum accuracy bounds shedding.
    admission, shedding
        Bounds and gains. Without ``shedding`` nothing is ever dropped: the query has no guard.
    enforced
        Whether the decisions are applied. Observed only, a source cannot be blamed for ignoring them.
    asks
        Whether batches ask what to keep; where they cannot, a keep ratio holds a batch late.
    warm_start
        What earlier runs of the query taught.
    answered
        Keep ratios on record.
    state
        Snapshot to go on from.
    """

    def __init__(
        self,
        query: QuerySpec,
        goal: Goal,
        admission: AdmissionSettings,
        shedding: SheddingSettings | None = None,
        *,
        enforced: bool = True,
        asks: bool = True,
        warm_start: WarmStart | None = None,
        answered: tuple[KeepRatio, ...] = (),
        state: QueryState | None = None,
    ) -> None:
        first_rows = warm_start.first_rows if warm_start else None
        learned = warm_start.batch_time if warm_start else None
        self._first_rows = admission.first_batch_rows if first_rows is None else first_rows
        self._query, self._settings, self._shedding = query, admission, shedding
        self._enforced, self._asks = enforced, asks
        self._batch_time = BatchTimeModel(admission.forgetting, state.batch_time if state else learned)
        gains = flow_gains(delay_steps=_FEEDBACK_DELAY_BATCHES, effort=admission.flow_effort)
        self._flow = FlowLaw(gains, state.flow if state else None)
        self._limits = SourceLimits(
            query, admission.dead_band, enforced=enforced, states=state.sources if state else None
        )
        self._state = state or QueryState(
            batch_time=self._batch_time.snapshot(),
            flow=self._flow.snapshot(),
            sources=self._limits.snapshot(),
            budget_rows=float(self._first_rows),
            keep=KeepState(answers=answered),
        )
        self._take_goal(goal, self._state)
        if state is not None and state.batch_s is not None:
            self._batch_s = state.batch_s

    def _take_goal(self, goal: Goal, state: QueryState) -> None:
        self.goal = goal
        self._target_s = target_batch_s(goal, self._query.trigger_interval_s, self._settings.batch_share_of_goal)
        self._batch_s = self._target_s or float("inf")
        self._keep = (
            None if self._shedding is None else KeepController(self._query.name, goal, self._shedding, state.keep)
        )
        self._feasibility = Feasibility(self._query.name, goal.latency_s or float("inf"), state.feasibility)

    @property
    def spec(self) -> QuerySpec:
        """The query's sources and trigger."""
        return self._query

    @property
    def has_guard(self) -> bool:
        """Whether rows may be dropped."""
        return self._keep is not None

    @property
    def target_batch_s(self) -> float | None:
        """The batch length that the goal allows, or None without a latency goal."""
        return self._target_s

    @property
    def batch_time(self) -> BatchTimeModel:
        """What has been learned of batch times."""
        return self._batch_time

    @property
    def budget_rows(self) -> float:
        """Rows that the next batch may process in full."""
        return self._state.budget_rows

    @property
    def keep_floor(self) -> float:
        """The least that is kept of any row; one without a guard."""
        return 1.0 if self._keep is None else self._keep.keep_floor

    @property
    def keep_ratio(self) -> float:
        """What the newest answered batch keeps."""
        return 1.0 if self._keep is None else self._keep.last_ratio

    @property
    def is_short(self) -> bool:
        """Whether it sheds rows or cannot meet its goal: more capacity would help."""
        return self.keep_ratio < _SHED or self.is_infeasible

    @property
    def is_infeasible(self) -> bool:
        """Whether the goal cannot be met, by the newest word."""
        return self._feasibility.is_infeasible

    @property
    def arrival_rows_per_s(self) -> float | None:
        """Arrivals over all sources, None as soon as one of them is unknown."""
        return self._limits.arrival_rows_per_s

    def set_goal(self, goal: Goal) -> None:
        """Decide by another goal from now on; what was learned stays."""
        self._take_goal(goal, self.snapshot())

    def set_keep_bounds(self, bounds: KeepBounds) -> None:
        """Keep the ratio within what the engine's other queries leave."""
        if self._keep is not None:
            self._keep.set_keep_bounds(bounds)

    def snapshot(self) -> QueryState:
        """Everything that the next decision depends on."""
        return evolve(
            self._state,
            batch_s=self._batch_s,
            batch_time=self._batch_time.snapshot(),
            flow=self._flow.snapshot(),
            sources=self._limits.snapshot(),
            keep=KeepState() if self._keep is None else self._keep.snapshot(),
            feasibility=self._feasibility.snapshot(),
        )

    def on_cores(self, factor: float, now_s: float) -> None:
        """The engine has so many times as many cores from now on: rows cost that much less.

        A batch that began before tells of neither the old nor the new engine, and is not learned from.
        """
        self._batch_time.rescale(1.0 / factor)
        self._update(cores_changed_s=now_s)

    # What happens

    def on_start(self) -> list[Decision]:
        """Decide the limits of the first batch, before anything is known."""
        if self._target_s is None:
            return []
        is_warm = self._first_rows != self._settings.first_batch_rows
        return self._limits.first(self._first_rows, self._settings.first_batch_bytes, is_warm=is_warm)

    def on_planned(
        self, batch_id: int, planned: PlannedBatch | None, *, is_rerun: bool = False, is_estimate: bool = False
    ) -> KeepRatio | None:
        """Answer a batch that asks what to keep; None for a query without a guard."""
        if self._keep is None:
            return None
        if planned is not None and not is_rerun and not is_estimate:
            self._limits.learn_planned(planned)
            self._update(last_lag_rows=planned.lag_rows, last_planned_s=planned.planned_s)
        load = None if self._target_s is None else self._planned_load(batch_id, planned)
        return self._keep.answer(load, batch_id, self._batch_time, is_rerun=is_rerun)

    def on_batch(
        self, signal: BatchSignal, *, contention: float = 1.0, cap_rows: float | None = None
    ) -> list[Decision]:
        """Learn from a finished batch and decide what the next may read.

        Its time, multiplied by ``contention``, is what it would have taken with the cores that are this query's part of
        a shared engine. ``cap_rows`` is the most that it may read for others' sake.
        """
        corrections = self._check_answer(signal)
        self._learn(signal, contention)
        if self._target_s is None:
            return [*corrections, *self._cap(signal, cap_rows)]
        if signal.rows == 0:
            return corrections
        decisions = [*corrections, *self._limits.drop_ignoring_sources(signal)]
        if self._state.batches <= 1:
            # The first batch after a start pays for code generation and cold workers: it teaches nothing of the rest.
            return decisions
        self._batch_s = self._sustainable_s(signal)
        fits_rows = self._fitting_rows()
        decisions += self._overhead_word(signal, fits_rows)
        capacity = Capacity(
            batch_s=self._batch_s,
            fits_rows=fits_rows,
            is_known=self._is_known(fits_rows),
            arrival_rows_per_s=self.arrival_rows_per_s or 0.0,
        )
        if self.arrival_rows_per_s is not None:
            decisions += self._judge(signal, capacity)
        self._update(budget_rows=self._next_budget(signal, capacity))
        decisions += self._limit_sources(signal, capacity, cap_rows)
        return decisions

    # Learning

    def _learn(self, signal: BatchSignal, contention: float) -> None:
        self._limits.learn(signal)
        guard = signal.guard
        if guard is not None:
            self._update(tells_arrival=guard.oldest_arrival_s is not None, is_answered=guard.answered)
        if signal.work_rows == 0:
            return
        if self._keep is not None:
            self._keep.learn(signal)
        if self._state.batches > 0 and signal.started_s >= self._state.cores_changed_s:
            self._batch_time.update(signal.rows, signal.work_rows, contention * signal.duration_s)
        largest = max(float(signal.work_rows), self._state.largest_batch_rows * _LARGEST_BATCH_DECAY)
        largest_read = max(float(signal.rows), self._state.largest_read_rows * _LARGEST_BATCH_DECAY)
        self._update(batches=self._state.batches + 1, largest_batch_rows=largest, largest_read_rows=largest_read)

    def _check_answer(self, signal: BatchSignal) -> list[Decision]:
        """Put on record what a batch kept to, should it not be what it was told."""
        if self._keep is None or signal.guard is None or not self._enforced:
            return []
        known, used = self._keep.recorded(signal.batch_id), signal.guard.keep_ratio
        told = 1.0 if known is None else known.keep_ratio
        if abs(told - used) <= _SAME_RATIO * max(told, used):
            return []
        why = "its question got no answer" if self._asks else "the property came a batch late"
        reason = f"batch {signal.batch_id} kept to {used:g} where {told:g} was recorded: {why}"
        correction = self._keep.correct(signal.batch_id, used, reason, everything=signal.guard.everything)
        if not self._asks:
            return [correction]
        return [Fault(query=self._query.name, cause=f"batch {signal.batch_id}", reason=reason), correction]

    # What a planned batch is

    def _planned_load(self, batch_id: int, planned: PlannedBatch | None) -> PlannedLoad | None:
        rate = self.arrival_rows_per_s
        if planned is None or planned.lag_rows is None or rate is None:
            return None
        assert self._target_s is not None
        return PlannedLoad(
            batch_id=batch_id,
            planned_s=planned.planned_s,
            rows=float(planned.rows),
            waiting_rows=planned.rows + planned.lag_rows,
            arrival_rows_per_s=rate,
            batch_s=max(self._batch_s if self._batch_s != float("inf") else self._target_s, self._target_s),
            target_s=self._target_s,
            tells_arrival=self._state.tells_arrival,
        )

    # What fits

    def _sustainable_s(self, signal: BatchSignal) -> float:
        """Length of the batches to come: the target, unless the query could not keep up with those.

        Noise makes overhead and cost uncertain, and what they say too short: where more waits than arrives during a
        batch although no more may be dropped, the reserve grows until the lag falls.
        """
        assert self._target_s is not None
        model = self._batch_time
        if model.batches < _BATCHES_TO_KNOW or self.arrival_rows_per_s is None:
            return self._target_s
        floor = 1.0 if self._keep is None else self._keep.current_keep_floor
        least_load = self.arrival_rows_per_s * (model.read_cost_s + floor * model.work_cost_s)
        self._adapt_reserve(signal, self.arrival_rows_per_s * signal.duration_s, floor)
        return sustainable_batch_s(
            self._target_s,
            overhead_s=model.overhead_s,
            least_load=least_load,
            interval_s=self._query.trigger_interval_s,
            reserve=self._state.reserve,
        )

    def _adapt_reserve(self, signal: BatchSignal, arrived_rows: float, floor: float) -> None:
        change = 1.0 / _RESERVE_STEP
        if (signal.lag_rows or 0.0) > arrived_rows:
            at_floor = self.keep_ratio <= _AT_FLOOR * floor
            change = _RESERVE_STEP if at_floor and signal.rows < _FALLING * arrived_rows else 1.0
        self._update(reserve=min(max(self._state.reserve * change, CATCHING_UP), _MOST_RESERVE))

    def _overhead_word(self, signal: BatchSignal, fits_rows: float) -> list[Decision]:
        """Say once that an overhead leaves no room within the goal."""
        assert self._target_s is not None
        hopeless = self._batch_s > self._target_s and self._is_known(fits_rows)
        decisions: list[Decision] = []
        if hopeless and not self._state.overhead_reported:
            reason = wording.overhead_too_large(self._batch_time.overhead_s, self._target_s, self._batch_s)
            decisions.append(Infeasible(query=self._query.name, cause=f"batch {signal.batch_id}", reason=reason))
        self._update(overhead_reported=hopeless)
        return decisions

    def _fitting_rows(self) -> float:
        model = self._batch_time
        work_s = max(self._batch_s - model.overhead_s, _SMALLEST_WORK_SHARE * self._batch_s)
        return max(1.0, work_s / model.cost_per_kept_row_s(1.0))

    def _readable_rows(self) -> float:
        """Rows that could be read in time if no more than the floor of them were kept."""
        model, floor = self._batch_time, self.keep_floor
        work_s = max(self._batch_s - model.overhead_s, _SMALLEST_WORK_SHARE * self._batch_s)
        return max(1.0, work_s / (model.read_cost_s + floor * model.work_cost_s))

    def _judge(self, signal: BatchSignal, capacity: Capacity) -> list[Decision]:
        if signal.lag_rows is None:
            return []
        shedding = self._shedding
        return self._feasibility.judge(
            signal,
            capacity,
            self._batch_time,
            waiting_rows=self._rows_waiting_next(signal, capacity),
            keep_floor=1.0 if self._keep is None else self._keep.current_keep_floor,
            drain_batches=1.0 if shedding is None else shedding.drain_batches,
            interval_s=self._query.trigger_interval_s,
        )

    def _rows_waiting_next(self, signal: BatchSignal, capacity: Capacity) -> float:
        """Rows that will wait when the batch after the next is planned."""
        rows, read = self._next_read(signal, capacity)
        next_s = min(capacity.batch_s, self._batch_time.predict_s(read, read * self.keep_ratio))
        next_s = max(next_s, self._query.trigger_interval_s)
        return rows - read + capacity.arrival_rows_per_s * next_s

    def _next_read(self, signal: BatchSignal, capacity: Capacity) -> tuple[float, float]:
        """Rows that wait when the next batch is planned, about now, and those of them that it reads."""
        assert signal.lag_rows is not None
        rows = signal.lag_rows + capacity.arrival_rows_per_s * signal.duration_s
        return rows, min(rows, self._limits.rows_in_force(signal))

    def _next_budget(self, signal: BatchSignal, capacity: Capacity) -> float:
        fits_rows = capacity.fits_rows
        trusted = self._settings.growth_factor * self._state.largest_batch_rows
        if not capacity.is_known:
            budget = min(self._explored(signal, fits_rows), trusted)
        else:
            in_flight = self._rows_in_flight(signal, capacity)
            allowed = self._flow.maximum(rate=fits_rows, buffer=in_flight, target=fits_rows)
            # A batch far below what fits is little but overhead: the law may shorten the next one, not starve it.
            budget = min(max(allowed, _LEAST_FLOW_SHARE * fits_rows), fits_rows, trusted)
            self._flow.granted(budget)
        return max(1.0, budget)

    def _explored(self, signal: BatchSignal, fits_rows: float) -> float:
        goal_s = self.goal.latency_s
        assert goal_s is not None
        few = signal.work_rows <= self._settings.first_batch_rows
        sure_rows = self._batch_time.surely_within(
            SAFE_SHARE_OF_GOAL * goal_s,
            1.0,
            at_most_rows=self._settings.growth_factor * self._state.largest_batch_rows,
        )
        return explored_rows(
            rows=max(1, signal.work_rows),
            duration_s=signal.duration_s,
            target_s=self._batch_s,
            goal_s=max(goal_s, self._batch_s),
            overhead_s=self._batch_time.overhead_s,
            sure_rows=sure_rows,
            wanted_rows=fits_rows,
            has_backlog=(signal.lag_rows or 0.0) > signal.rows,
            falls_behind=(self.arrival_rows_per_s or 0.0) * signal.duration_s > signal.rows,
            # Few rows that take long are likely the engine's own time: its code is still being compiled.
            warming_up=few and self._batch_time.batches < _WARM_UP_BATCHES and signal.duration_s <= goal_s,
        )

    def _is_known(self, fits_rows: float) -> bool:
        """Whether what fits is known well enough to go by it.

        Its duration must be sure. And where most of it would be overhead, so must the cost: with a cost that is nothing
        but noise the batches would stay small for ever.
        """
        model = self._batch_time
        is_sure = model.batches >= _BATCHES_TO_KNOW and model.is_certain(fits_rows, 1.0, within=_CERTAIN_WITHIN)
        return is_sure and (model.overhead_s < _OVERHEAD_SHARE * self._batch_s or model.is_cost_significant(1.0))

    def _rows_in_flight(self, signal: BatchSignal, capacity: Capacity) -> float:
        """Rows of the batch that runs while this is decided: what the last limit let in of what was waiting."""
        if signal.lag_rows is None or self.arrival_rows_per_s is None:
            return min(float(signal.work_rows), self._state.budget_rows)
        return min(self._state.budget_rows, self._next_read(signal, capacity)[1])

    # Limits

    def _limit_sources(self, signal: BatchSignal, capacity: Capacity, cap_rows: float | None) -> list[Decision]:
        budget_rows = self._state.budget_rows
        read_rows = budget_rows
        if self._keep is not None and not self._asks:
            # The ratio in force may be the one of two batches ago: no more is read than it makes room for.
            read_rows = min(budget_rows / self.keep_ratio, self._settings.growth_factor * self._state.largest_read_rows)
        elif self._keep is not None and self._state.is_answered and self._batch_time.batches >= _BATCHES_TO_KNOW:
            # What is too much will be dropped when the batch is planned; but never by a leap beyond what was seen.
            seen_rows = self._settings.growth_factor * self._state.largest_read_rows
            read_rows = max(budget_rows, min(self._readable_rows(), seen_rows))
        if cap_rows is not None:
            read_rows = min(read_rows, max(1.0, cap_rows))
        return self._limits.divide(
            signal,
            read_rows,
            target_s=self._batch_s,
            reason=self._limit_reason(signal, budget_rows, capacity.fits_rows, read_rows),
            expected={"batch_duration_s": self._batch_time.predict_s(budget_rows, budget_rows)}
            if self._batch_time.batches
            else {},
        )

    def _cap(self, signal: BatchSignal, cap_rows: float | None) -> list[Decision]:
        """A query without a latency goal reads what the flow of its graph allows, and else what it likes."""
        if cap_rows is None or signal.rows == 0:
            return []
        reason = f"the queries that it feeds and the cores that it shares leave room for {cap_rows:,.0f} rows a batch"
        return self._limits.divide(signal, max(1.0, cap_rows), target_s=signal.duration_s, reason=reason, expected={})

    def _limit_reason(self, signal: BatchSignal, budget_rows: float, fits_rows: float, read_rows: float) -> str:
        return wording.limit(
            signal,
            self._batch_time,
            target_s=self._batch_s,
            fits_rows=fits_rows,
            budget_rows=budget_rows,
            read_rows=read_rows,
            largest_rows=self._state.largest_batch_rows,
            growth_factor=self._settings.growth_factor,
        )

    def _update(self, **changes: object) -> None:
        self._state = evolve(self._state, **changes)
