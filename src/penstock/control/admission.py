"""The fast tier of one query: how many rows the next batch reads, and what share of them it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.control import wording
from penstock.control.exploration import SAFE_SHARE_OF_GOAL, explored_rows
from penstock.control.flow import FlowLaw, FlowState
from penstock.control.limits import SourceLimits, SourceState
from penstock.control.lqr import flow_gains
from penstock.control.shares import FIRST_FREE_BATCH, Load, ShareController, ShareState
from penstock.control.target import CATCHING_UP, sustainable_batch_s, target_batch_s
from penstock.estimate.batch_time import BatchTimeModel, BatchTimeState
from penstock.model import Action, ActionKind

if TYPE_CHECKING:
    from penstock.control.priority import ShareBounds
    from penstock.control.schedule import KeepSchedule
    from penstock.model import BatchSignal, Goal, QuerySpec
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


@dataclass(frozen=True, slots=True)
class AdmissionState:
    """Snapshot of an :class:`AdmissionController`."""

    batch_time: BatchTimeState
    flow: FlowState
    sources: tuple[SourceState, ...]
    budget_rows: float
    share: ShareState = field(default_factory=ShareState)
    largest_batch_rows: float = 0.0
    largest_read_rows: float = 0.0
    batches: int = 0
    overhead_reported: bool = False
    reserve: float = CATCHING_UP


class AdmissionController:
    r"""Keep a query's batches as long as its latency goal allows, whatever waits at its sources.

    Each finished batch teaches :math:`d = o + a\,n + c\,k` for :math:`n` rows read and :math:`k` kept; what fits into
    the target length :math:`T` (:func:`~penstock.control.target.target_batch_s`) is
    :math:`\rho = (T - o) / (a / p + c)` rows to keep at a share :math:`p`, which is one without shedding.

    The budget of the next batch follows the flow law (Eq. 7 of ACES) in steps of one batch. Its buffer is what the
    query has taken in and not finished: the batch in flight while the limit for the next is decided. The paper's
    :math:`b_0 = B / 2`, with :math:`B` the rows that the goal leaves time for, is exactly one target batch,
    :math:`b_0 = \rho`. A batch that turns out too long is therefore followed by a shorter one, so that rows that waited
    longer are processed faster. Above, the budget is bounded by :math:`\rho` itself and by ``growth_factor`` times the
    largest batch yet seen; while the model is not certain, by
    :func:`~penstock.control.exploration.explored_rows`. So a cold start on a huge backlog grows step by step and never
    plans a giant batch.

    A query with a guard also keeps a share :math:`p` of its rows (:class:`~penstock.control.shares.ShareController`)
    and reads :math:`1/p` times its budget, and beyond that the rows that are late already.

    Parameters
    ----------
    query
        The query's sources and trigger.
    goal
        Its latency goal decides; a goal without one leaves admission alone. Its minimum accuracy bounds shedding.
    admission, shedding
        Bounds and gains. Without ``shedding`` nothing is ever dropped: the query has no guard.
    first_rows
        Rows of the first batch, where an earlier run of the query taught what it can take.
    learned
        What earlier runs taught of batch times.
    enforced
        Whether the decisions are carried out. Observed only, a source cannot be blamed for ignoring them.
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
        first_rows: int | None = None,
        learned: BatchTimeState | None = None,
        state: AdmissionState | None = None,
    ) -> None:
        self._first_rows = admission.first_batch_rows if first_rows is None else first_rows
        self._query = query
        self._goal = goal
        self._settings = admission
        self._target_s = target_batch_s(goal, query.trigger_interval_s, admission.batch_share_of_goal)
        self._batch_s = self._target_s or float("inf")
        self._batch_time = BatchTimeModel(admission.forgetting, state.batch_time if state else learned)
        gains = flow_gains(delay_steps=_FEEDBACK_DELAY_BATCHES, effort=admission.flow_effort)
        self._flow = FlowLaw(gains, state.flow if state else None)
        self._limits = SourceLimits(
            query, admission.dead_band, enforced=enforced, states=state.sources if state else None
        )
        self._share = ShareController(
            query.name,
            goal,
            target_s=self._target_s or float("inf"),
            interval_s=query.trigger_interval_s,
            settings=shedding,
            state=state.share if state else None,
        )
        self._state = state or AdmissionState(
            batch_time=self._batch_time.snapshot(),
            flow=self._flow.snapshot(),
            sources=self._limits.snapshot(),
            budget_rows=float(self._first_rows),
        )

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
    def keep(self) -> KeepSchedule:
        """Which batch keeps which share of its rows."""
        return self._share.schedule

    @property
    def smallest_share(self) -> float:
        """The least that is kept of any row."""
        return self._share.smallest_share

    @property
    def late_after_s(self) -> float:
        """Age at which a row that waits is too old to be out in time."""
        return self._share.late_after_s

    @property
    def arrival_rows_per_s(self) -> float | None:
        """Arrivals over all sources, None as soon as one of them is unknown."""
        return self._limits.arrival_rows_per_s

    def on_start(self) -> list[Action]:
        """Decide the limits of the first batch, before anything is known."""
        if self._target_s is None:
            return []
        recalled = self._first_rows != self._settings.first_batch_rows
        return self._limits.first(self._first_rows, self._settings.first_batch_bytes, recalled=recalled)

    def on_batch(self, signal: BatchSignal, *, fair_pace: float = 1.0) -> list[Action]:
        """Learn from a finished batch and decide about those to come.

        Its time, multiplied by ``fair_pace``, is what it would have taken with the cores that are this query's part of
        a shared engine.
        """
        self._learn(signal, fair_pace)
        if self._target_s is None or signal.rows == 0:
            return []
        actions = self._limits.drop_ignoring_sources(signal)
        if self._state.batches <= 1:
            # The first batch after a start pays for code generation and cold workers: it teaches nothing of the rest.
            return actions
        self._batch_s = self._sustainable_s(signal)
        fits_rows, overhead_actions = self._rows_that_fit(signal)
        load = Load(
            batch_s=self._batch_s,
            fits_rows=fits_rows,
            is_known=self._is_known(signal, fits_rows),
            arrivals_rows_per_s=self.arrival_rows_per_s or 0.0,
            limit_rows=self._limits.rows_in_force(signal),
        )
        actions += overhead_actions
        if self.arrival_rows_per_s is not None:
            actions += self._share.decide(signal, load, self._batch_time)
        # Another share, other rows that fit: reading those that go takes its part of the batch.
        load = replace(load, fits_rows=self._fitting_rows(signal))
        self._update(budget_rows=self._next_budget(signal, load))
        actions += self._limit_sources(signal, load)
        return actions

    def resume_keep(self, schedule: KeepSchedule) -> None:
        """Go on with the shares that an earlier run of the query recorded: its last batch may have to run again."""
        self._share.resume(schedule)

    def hold_share(self, bounds: ShareBounds) -> None:
        """Keep the share of rows within what the engine's other queries leave."""
        self._share.hold_to(bounds)

    def snapshot(self) -> AdmissionState:
        """Everything that the next decision depends on."""
        return replace(
            self._state,
            batch_time=self._batch_time.snapshot(),
            flow=self._flow.snapshot(),
            sources=self._limits.snapshot(),
            share=self._share.snapshot(),
        )

    # Learning

    def _learn(self, signal: BatchSignal, fair_pace: float) -> None:
        self._limits.learn(signal)
        if signal.work_rows == 0:
            return
        self._share.learn(signal)
        if self._state.batches > 0:
            self._batch_time.update(signal.rows, signal.work_rows, fair_pace * signal.duration_s)
        largest = max(float(signal.work_rows), self._state.largest_batch_rows * _LARGEST_BATCH_DECAY)
        largest_read = max(float(signal.rows), self._state.largest_read_rows * _LARGEST_BATCH_DECAY)
        self._update(batches=self._state.batches + 1, largest_batch_rows=largest, largest_read_rows=largest_read)

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
        least_load = self.arrival_rows_per_s * (model.read_cost_s + self._share.least_share * model.work_cost_s)
        self._adapt_reserve(signal, self.arrival_rows_per_s * signal.duration_s)
        return sustainable_batch_s(
            self._target_s,
            overhead_s=model.overhead_s,
            least_load=least_load,
            interval_s=self._query.trigger_interval_s,
            reserve=self._state.reserve,
        )

    def _adapt_reserve(self, signal: BatchSignal, arrived_rows: float) -> None:
        change = 1.0 / _RESERVE_STEP
        if (signal.lag_rows or 0.0) > arrived_rows:
            keeps_least = self._share.share_at(signal.batch_id + FIRST_FREE_BATCH) <= 1.01 * self._share.least_share
            change = _RESERVE_STEP if keeps_least and signal.rows < _FALLING * arrived_rows else 1.0
        self._update(reserve=min(max(self._state.reserve * change, CATCHING_UP), _MOST_RESERVE))

    def _rows_that_fit(self, signal: BatchSignal) -> tuple[float, list[Action]]:
        """Kept rows of a batch, and a word about an overhead that leaves no room for them within the goal."""
        assert self._target_s is not None
        model, fits_rows = self._batch_time, self._fitting_rows(signal)
        hopeless = self._batch_s > self._target_s and self._is_known(signal, fits_rows)
        actions = []
        if hopeless and not self._state.overhead_reported:
            reason = wording.overhead_too_large(model.overhead_s, self._target_s, self._batch_s)
            actions.append(Action(ActionKind.INFEASIBLE, self._query.name, f"batch {signal.batch_id}", reason))
        self._update(overhead_reported=hopeless)
        return fits_rows, actions

    def _fitting_rows(self, signal: BatchSignal) -> float:
        model = self._batch_time
        work_s = max(self._batch_s - model.overhead_s, _SMALLEST_WORK_SHARE * self._batch_s)
        return max(1.0, work_s / model.cost_per_kept_row_s(self._share.largest_coming(signal)))

    def _next_budget(self, signal: BatchSignal, load: Load) -> float:
        fits_rows = load.fits_rows
        share = self._share.largest_coming(signal)
        # Neither kept nor read rows may outgrow what was seen: a smaller share must not make for a giant read.
        seen_rows = min(self._state.largest_batch_rows, share * self._state.largest_read_rows)
        trusted = self._settings.growth_factor * seen_rows
        if not load.is_known:
            budget = min(self._explored(signal, fits_rows), trusted)
        else:
            allowed = self._flow.maximum(rate=fits_rows, buffer=self._rows_in_flight(signal, load), target=fits_rows)
            # A batch far below what fits is little but overhead: the law may shorten the next one, not starve it.
            budget = min(max(allowed, _LEAST_FLOW_SHARE * fits_rows), fits_rows, trusted)
            self._flow.granted(budget)
        return max(1.0, budget)

    def _explored(self, signal: BatchSignal, fits_rows: float) -> float:
        goal_s = self._goal.latency_s
        assert goal_s is not None
        few = signal.work_rows <= self._settings.first_batch_rows
        sure_rows = self._batch_time.surely_within(
            SAFE_SHARE_OF_GOAL * goal_s,
            self._share.largest_coming(signal),
            at_most_rows=self._settings.growth_factor * self._state.largest_batch_rows,
        )
        # If it was the reading that took the time, a smaller share does not make room for more of it.
        comparable_rows = min(float(signal.work_rows), self._share.largest_coming(signal) * signal.rows)
        return explored_rows(
            rows=max(1, round(comparable_rows)),
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

    def _is_known(self, signal: BatchSignal, fits_rows: float) -> bool:
        """Whether what fits is known well enough to go by it.

        Its duration must be sure. And where most of it would be overhead, so must the cost: with a cost that is nothing
        but noise the batches would stay small for ever.
        """
        model, share = self._batch_time, self._share.largest_coming(signal)
        is_sure = model.batches >= _BATCHES_TO_KNOW and model.is_certain(fits_rows, share, within=_CERTAIN_WITHIN)
        return is_sure and (model.overhead_s < _OVERHEAD_SHARE * self._batch_s or model.is_cost_significant(share))

    def _rows_in_flight(self, signal: BatchSignal, load: Load) -> float:
        """Rows of the batch that runs while this is decided: what the last limit let in of what was waiting."""
        if signal.lag_rows is None or self.arrival_rows_per_s is None:
            return min(float(signal.work_rows), self._state.budget_rows)
        return min(self._state.budget_rows, self._share.next_rows(signal, load)[1])

    # Limits

    def _limit_sources(self, signal: BatchSignal, load: Load) -> list[Action]:
        budget_rows = self._state.budget_rows
        late_rows = self._share.late_rows_to_read(signal, load, self._batch_time)
        read_rows = budget_rows / self._share.largest_coming(signal) + late_rows
        if late_rows:
            read_rows = min(read_rows, self._settings.growth_factor * self._state.largest_read_rows)
        return self._limits.share_out(
            signal,
            read_rows,
            target_s=self._batch_s,
            reason=self._limit_reason(signal, budget_rows, load.fits_rows),
            expected={"batch_duration_s": self._expected_s(signal)} if self._batch_time.batches else {},
        )

    def _limit_reason(self, signal: BatchSignal, budget_rows: float, fits_rows: float) -> str:
        return wording.limit(
            signal,
            self._batch_time,
            target_s=self._batch_s,
            fits_rows=fits_rows,
            budget_rows=budget_rows,
            largest_rows=self._state.largest_batch_rows,
            growth_factor=self._settings.growth_factor,
        )

    def _expected_s(self, signal: BatchSignal) -> float:
        kept_rows = self._state.budget_rows
        share = self._share.share_at(signal.batch_id + FIRST_FREE_BATCH)
        return self._batch_time.predict_s(kept_rows / share, kept_rows)

    def _update(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]
