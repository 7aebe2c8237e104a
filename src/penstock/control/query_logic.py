"""The fast tier of one query: how many rows its next batch may read, and what a planned batch keeps of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.control import wording
from penstock.control.feasibility import Capacity, Feasibility, FeasibilityState
from penstock.control.keep_ratio import KeepController, KeepState
from penstock.control.limits import SourceLimits, SourceState
from penstock.control.planned_load import PlannedLoad
from penstock.control.read_budget import ReadBudget
from penstock.control.target import target_batch_s
from penstock.control.wanted_length import WantedLength
from penstock.estimate.batch_cost import LARGEST_BATCH_DECAY
from penstock.estimate.batch_time import BATCHES_TO_KNOW, BatchTimeModel, BatchTimeState, Drift
from penstock.model.decision import Decision, Fault, Infeasible
from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from penstock.control.events import WarmStart
    from penstock.control.priority import KeepBounds
    from penstock.control.workload import Arrived
    from penstock.model import BatchSignal, Goal, PlannedBatch, QuerySpec
    from penstock.model.decision import KeepRatio
    from penstock.settings import AdmissionSettings, SheddingSettings

_CERTAIN_WITHIN = 0.15
"""Part of a batch's time to within which that must be known for what fits to count as known: what batches of a busy
machine scatter by themselves. It decides what is said, that a goal cannot be met, and not what is kept."""
_SAME_RATIO = 1e-9
"""Ratios go to the tasks and come back as text: what differs by less is the same."""
_SHED = 0.999
"""A query that keeps more of its rows is not short of anything that an executor could bring."""


@dataclass(frozen=True, slots=True)
class QueryState:
    """Snapshot of a :class:`QueryLogic`."""

    batch_time: BatchTimeState
    sources: tuple[SourceState, ...]
    budget_rows: float
    batch_s: float | None = None
    keep: KeepState = field(default_factory=KeepState)
    feasibility: FeasibilityState = field(default_factory=FeasibilityState)
    largest_batch_rows: float = 0.0
    largest_read_rows: float = 0.0
    batches: int = 0
    overhead_reported: bool = False
    tells_arrival: bool = False
    is_answered: bool = True
    last_lag_rows: float | None = None
    last_planned_s: float | None = None
    cores_changed_s: float = float("-inf")


class QueryLogic:
    r"""Keep a query's batches as long as its latency goal allows, whatever waits at its sources.

    Each finished batch teaches how long batches take (:class:`~penstock.estimate.batch_time.BatchTimeModel`), and how
    much they scatter. From that follows how long a batch is to be (:mod:`penstock.control.batch_length`):

    - so long that no more than ``late_ratio`` of the rows are out too late, given the scatter: half of the goal at the
      most;
    - longer where overhead is more than a third of the goal, for shorter ones would be little else;
    - and longer where even at the floor such batches could not keep up with what arrives.

    *Read limit.* What fits into that length, but never more than would be within the goal if the costs were off by two
    deviations, nor than ``growth_factor`` times the largest batch yet seen or under way: a cold start on a huge backlog
    grows step by step and never plans a giant batch.

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
        drift = Drift(admission.speed_drift, admission.cost_drift)
        self._batch_time = BatchTimeModel(drift, state.batch_time if state else learned)
        self._limits = SourceLimits(
            query, admission.dead_band, enforced=enforced, states=state.sources if state else None
        )
        self._state = state or QueryState(
            batch_time=self._batch_time.snapshot(),
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
    def can_shed(self) -> bool:
        """Whether it has a guard, and a goal by which that drops rows."""
        return self._keep is not None and self._target_s is not None and self.keep_floor < 1.0

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

    @property
    def arrived(self) -> Arrived | None:
        """Rows that have arrived at all sources, and until when."""
        return self._limits.arrived

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
        self,
        batch_id: int,
        planned: PlannedBatch | None,
        *,
        is_rerun: bool = False,
        is_estimate: bool = False,
        relief_s: float = 0.0,
    ) -> KeepRatio | None:
        """Answer a batch that asks what to keep; None for a query without a guard.

        ``relief_s`` is how long executors take to come; 0 where none will.
        """
        if self._keep is None:
            return None
        if planned is not None and not is_rerun and not is_estimate:
            self._limits.learn_planned(planned)
            self._update(last_lag_rows=planned.lag_rows, last_planned_s=planned.planned_s)
        load = None if self._target_s is None else self._planned_load(batch_id, planned, relief_s)
        late_ratio = self._late_ratio(relief_s)
        return self._keep.answer(load, batch_id, self._batch_time, late_ratio=late_ratio, is_rerun=is_rerun)

    def _late_ratio(self, relief_s: float) -> float:
        """Part of the rows that may be late: in an overload that lasts, or until executors come."""
        if self._shedding is not None and relief_s > 0.0:
            return self._shedding.bridge_late_ratio
        return self._settings.late_ratio

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
            return [*decisions, *self._grow_from_first(signal, cap_rows)]
        self._batch_s = self._wanted_length_s()
        fits_rows = self._budget.fits_rows
        decisions += self._overhead_word(signal, fits_rows)
        capacity = Capacity(
            batch_s=self._batch_s,
            fits_rows=fits_rows,
            is_known=self._is_known(fits_rows),
            arrival_rows_per_s=self.arrival_rows_per_s or 0.0,
        )
        if self.arrival_rows_per_s is not None:
            decisions += self._judge(signal, capacity)
        under_way_rows = self._under_way_rows(signal)
        self._update(budget_rows=self._budget.rows_after(signal, under_way_rows=under_way_rows, fits_rows=fits_rows))
        decisions += self._limit_sources(signal, capacity, cap_rows)
        return decisions

    def _grow_from_first(self, signal: BatchSignal, cap_rows: float | None) -> list[Decision]:
        """Let the next batch be larger than the first, if that was short."""
        rows = self._budget.rows_after_first(signal, under_way_rows=self._under_way_rows(signal))
        if rows is None:
            return []
        self._update(budget_rows=rows)
        rows = rows if cap_rows is None else min(rows, max(1.0, cap_rows))
        return self._limits.divide(
            signal, rows, target_s=self._batch_s, reason=wording.limit_after_first(signal, rows), expected={}
        )

    # Learning

    def _learn(self, signal: BatchSignal, contention: float) -> None:
        self._limits.learn(signal)
        guard = signal.guard
        if guard is not None:
            # A batch of a few rows may have none in the sample that tells; its guard does all the same.
            tells_arrival = self._state.tells_arrival or guard.oldest_arrival_s is not None
            self._update(tells_arrival=tells_arrival, is_answered=guard.answered)
        if signal.work_rows == 0:
            return
        if self._keep is not None:
            self._keep.learn(signal)
        if self._state.batches > 0 and signal.started_s >= self._state.cores_changed_s:
            self._batch_time.update(signal.rows, signal.work_rows, contention * signal.duration_s)
        largest = max(float(signal.work_rows), self._state.largest_batch_rows * LARGEST_BATCH_DECAY)
        largest_read = max(float(signal.rows), self._state.largest_read_rows * LARGEST_BATCH_DECAY)
        self._update(batches=self._state.batches + 1, largest_batch_rows=largest, largest_read_rows=largest_read)

    def set_enforced(self, *, enforced: bool) -> None:
        """Whether decisions are applied from now on."""
        self._enforced = enforced
        self._limits.set_enforced(enforced=enforced)

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

    def _planned_load(self, batch_id: int, planned: PlannedBatch | None, relief_s: float) -> PlannedLoad | None:
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
            waited_s=self._waited_s(planned.rows + planned.lag_rows, rate),
            batch_s=self._length(relief_s).cut_s(self._batch_time),
            tells_arrival=self._state.tells_arrival,
            interval_s=self._query.trigger_interval_s,
            relief_s=relief_s,
        )

    def _waited_s(self, waiting_rows: float, rate: float) -> float:
        """For how long the oldest row has waited: what waits arrived at the rate of late, not at the smoothed one."""
        arrived = self._limits.recent_rows_per_s or rate
        return waiting_rows / arrived if arrived > 0 else 0.0

    # What fits

    def _length(self, relief_s: float = 0.0) -> WantedLength:
        assert self._target_s is not None
        assert self.goal.latency_s is not None
        return WantedLength(
            goal_s=self.goal.latency_s,
            target_s=self._target_s,
            interval_s=self._query.trigger_interval_s,
            late_ratio=self._late_ratio(relief_s),
            overhead_part=self._settings.overhead_part,
        )

    def _wanted_length_s(self) -> float:
        """Length of the batches to come."""
        keep_floor = None if self._keep is None else self._keep.current_keep_floor
        return self._length().wanted_s(self._batch_time, self.arrival_rows_per_s or 0.0, keep_floor)

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

    @property
    def _budget(self) -> ReadBudget:
        assert self.goal.latency_s is not None
        return ReadBudget(
            model=self._batch_time,
            goal_s=self.goal.latency_s,
            batch_s=self._batch_s,
            growth_factor=self._settings.growth_factor,
            largest_batch_rows=self._state.largest_batch_rows,
            largest_read_rows=self._state.largest_read_rows,
        )

    def _under_way_rows(self, signal: BatchSignal) -> float:
        """Rows that the batch keeps which was planned before this report came; none where it was not planned yet."""
        if not signal.is_next_planned:
            return 0.0
        return self.keep_ratio * min(signal.lag_rows or 0.0, self._limits.rows_in_force(signal))

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

    def _is_known(self, fits_rows: float) -> bool:
        """Whether what fits is known well enough to go by it."""
        model = self._batch_time
        return model.batches >= BATCHES_TO_KNOW and model.is_certain(fits_rows, 1.0, within=_CERTAIN_WITHIN)

    # Limits

    def _limit_sources(self, signal: BatchSignal, capacity: Capacity, cap_rows: float | None) -> list[Decision]:
        budget_rows = self._state.budget_rows
        read_rows = budget_rows
        if self._keep is not None and not self._asks:
            read_rows = self._budget.rows_at_ratio(budget_rows, self.keep_ratio)
        elif self._keep is not None and self._state.is_answered and self._drops_what_is_too_much:
            read_rows = self._budget.rows_to_thin_out(
                budget_rows, keep_floor=self.keep_floor, is_held_to_rows=self._keep.is_held_to_rows
            )
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

    @property
    def _drops_what_is_too_much(self) -> bool:
        """Whether a planned batch knows what it may keep: by what batches take, or by a plan in rows."""
        assert self._keep is not None
        return self._batch_time.batches >= BATCHES_TO_KNOW or self._keep.is_held_to_rows

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
            largest_rows=self._budget.largest_rows(self._under_way_rows(signal)),
            growth_factor=self._settings.growth_factor,
        )

    def _update(self, **changes: object) -> None:
        self._state = evolve(self._state, **changes)
