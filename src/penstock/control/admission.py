"""The fast tier of one query: how many rows the next batch reads, and what share of them it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.control import wording
from penstock.control.exploration import SAFE_SHARE_OF_GOAL, explored_rows
from penstock.control.flow import FlowLaw, FlowState
from penstock.control.keep import KeepDecision, keep_fraction
from penstock.control.lqr import flow_gains
from penstock.control.schedule import KeepSchedule
from penstock.control.sharing import share_rows
from penstock.control.target import target_batch_s
from penstock.estimate.arrival import ArrivalRate, ArrivalState
from penstock.estimate.batch_time import BatchTimeModel, BatchTimeState
from penstock.model import Action, ActionKind, LimitUnit

if TYPE_CHECKING:
    from penstock.model import BatchSignal, Goal, QuerySpec, SourceSignal, SourceSpec
    from penstock.settings import AdmissionSettings, SheddingSettings

_FEEDBACK_DELAY_BATCHES = 1
_FIRST_FREE_BATCH = 2
_ARRIVAL_HALF_LIFE_S = 5.0
_LARGEST_BATCH_DECAY = 0.99
_ROWS_PER_UNIT_WEIGHT = 0.3
_SMALLEST_WORK_SHARE = 0.25
_BATCHES_TO_REPORT = 3
_BATCHES_TO_IGNORED = 3
_IGNORED_RATIO = 1.5
_LEAST_FLOW_SHARE = 0.5
_CERTAIN_WITHIN = 0.15
_OVERHEAD_SHARE = 0.5
_BATCHES_TO_KNOW = 6
_BATCHES_TO_SHED = 3
_AS_EXPECTED = 0.35
_AS_LARGE = 0.6
_PROVEN_SHARE = 0.75
_WARM_UP_BATCHES = 8
_LARGEST_SHARE_STEP = 2.0
_LEAST_KEPT_PER_TOLD = 0.01
_KEPT_PER_TOLD_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is learned of one source."""

    arrival: ArrivalState = field(default_factory=lambda: ArrivalState(None, None, None))
    rows_per_unit: float | None = None
    limit_units: int | None = None
    batches_over_limit: int = 0
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionState:
    """Snapshot of an :class:`AdmissionController`."""

    batch_time: BatchTimeState
    flow: FlowState
    sources: tuple[SourceState, ...]
    budget_rows: float
    keep: KeepSchedule = field(default_factory=KeepSchedule)
    kept_per_told: float = 1.0
    largest_batch_rows: float = 0.0
    largest_read_rows: float = 0.0
    batches: int = 0
    batches_settled: int = 0
    batches_infeasible: int = 0
    infeasible_reported: bool = False
    overhead_reported: bool = False


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

    A query with a guard also keeps a share :math:`p` of its rows (:func:`~penstock.control.keep.keep_fraction`) and
    reads :math:`1/p` times its budget. The share is bound to the second batch after the decision: the one in between
    may be planned already, and a batch must never change its share once it could be running. A guard that keeps rows by
    their utility keeps some other share than it is told; the ratio is learned, and told the other way round.

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
        state: AdmissionState | None = None,
    ) -> None:
        self._first_rows = admission.first_batch_rows if first_rows is None else first_rows
        self._query = query
        self._goal = goal
        self._settings = admission
        self._shedding = shedding
        self._enforced = enforced
        self._target_s = target_batch_s(goal, query.trigger_interval_s, admission.batch_share_of_goal)
        self._batch_time = BatchTimeModel(admission.forgetting, state.batch_time if state else None)
        gains = flow_gains(delay_steps=_FEEDBACK_DELAY_BATCHES, effort=admission.flow_effort)
        self._flow = FlowLaw(gains, state.flow if state else None)
        self._state = state or AdmissionState(
            batch_time=self._batch_time.snapshot(),
            flow=self._flow.snapshot(),
            sources=tuple(SourceState() for _ in query.sources),
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
        return self._state.keep

    @property
    def arrival_rows_per_s(self) -> float | None:
        """Arrivals over all sources, None as soon as one of them is unknown."""
        rates = [source.arrival.rate_rows_per_s for source in self._state.sources]
        return None if any(rate is None for rate in rates) else sum(rate for rate in rates if rate is not None)

    def on_start(self) -> list[Action]:
        """Decide the limits of the first batch, before anything is known."""
        if self._target_s is None:
            return []
        limitable = [spec for spec in self._query.sources if spec.is_limitable]
        actions = []
        for spec in limitable:
            first = {
                LimitUnit.ROWS: max(1, self._first_rows // len(limitable)),
                LimitUnit.FILES: 1,
                LimitUnit.BYTES: self._settings.first_batch_bytes,
            }[spec.unit or LimitUnit.ROWS]
            units = _bounded_units(first, spec)
            recalled = spec.unit is LimitUnit.ROWS and self._first_rows != self._settings.first_batch_rows
            reason = wording.first_limit(units, spec, recalled=recalled)
            actions.append(self._limit_action(spec, units, "start", reason))
            self._set_source(spec.index, limit_units=units)
        return actions

    def on_batch(self, signal: BatchSignal) -> list[Action]:
        """Learn from a finished batch and decide about those to come."""
        self._learn(signal)
        if self._target_s is None or signal.rows == 0:
            return []
        actions = self._drop_ignoring_sources(signal)
        if self._state.batches <= 1:
            # The first batch after a start pays for code generation and cold workers: it teaches nothing of the rest.
            return actions
        fits_rows, overhead_actions = self._rows_that_fit(signal)
        budget_rows = self._next_budget(signal, fits_rows)
        self._update(budget_rows=budget_rows)
        actions += overhead_actions
        actions += self._shed(signal, fits_rows)
        actions += self._limits(signal, budget_rows, fits_rows)
        return actions

    def resume_keep(self, schedule: KeepSchedule) -> None:
        """Go on with the shares that an earlier run of the query recorded: its last batch may have to run again."""
        self._update(keep=schedule)

    def snapshot(self) -> AdmissionState:
        """Everything that the next decision depends on."""
        return replace(self._state, batch_time=self._batch_time.snapshot(), flow=self._flow.snapshot())

    # Learning

    def _learn(self, signal: BatchSignal) -> None:
        for source in signal.sources:
            known = self._state.sources[source.index]
            arrivals = ArrivalRate(_ARRIVAL_HALF_LIFE_S, known.arrival)
            arrivals.update(planned_s=signal.started_s, rows=source.rows, lag_rows=source.lag_rows)
            ratio = _blend(known.rows_per_unit, _rows_per_unit(source))
            self._set_source(source.index, arrival=arrivals.snapshot(), rows_per_unit=ratio)
        if signal.work_rows == 0:
            return
        self._learn_guard(signal)
        if self._state.batches > 0:
            self._batch_time.update(signal.rows, signal.work_rows, signal.duration_s)
        largest = max(float(signal.work_rows), self._state.largest_batch_rows * _LARGEST_BATCH_DECAY)
        largest_read = max(float(signal.rows), self._state.largest_read_rows * _LARGEST_BATCH_DECAY)
        self._update(batches=self._state.batches + 1, largest_batch_rows=largest, largest_read_rows=largest_read)

    def _learn_guard(self, signal: BatchSignal) -> None:
        """Learn how much the guard really keeps of what it is told to."""
        guard = signal.guard
        if guard is None or guard.keep_fraction >= 1.0 or guard.processed_fraction <= 0:
            return
        ratio = min(max(guard.processed_fraction / guard.keep_fraction, _LEAST_KEPT_PER_TOLD), 1.0)
        known = self._state.kept_per_told
        self._update(kept_per_told=known + _KEPT_PER_TOLD_WEIGHT * (ratio - known))

    def _drop_ignoring_sources(self, signal: BatchSignal) -> list[Action]:
        """Stop limiting a source that reads what it likes: its limit would only look as if it did something."""
        actions = []
        for source in signal.sources:
            spec, known = self._query.sources[source.index], self._state.sources[source.index]
            if not self._enforced or known.ignored or known.limit_units is None or source.units is None:
                continue
            over = source.units > _IGNORED_RATIO * known.limit_units and spec.unit is LimitUnit.ROWS
            count = known.batches_over_limit + 1 if over else 0
            ignored = count >= _BATCHES_TO_IGNORED
            self._set_source(source.index, batches_over_limit=count, ignored=ignored)
            if ignored:
                reason = wording.ignored_limit(spec, source.units, known.limit_units)
                cause, target = f"batch {signal.batch_id}", f"source {spec.index}"
                actions.append(Action(ActionKind.LEAVE_ALONE, self._query.name, cause, reason, target=target))
        return actions

    # What fits

    def _rows_that_fit(self, signal: BatchSignal) -> tuple[float, list[Action]]:
        """Kept rows of a batch of target length, and a word about an overhead that leaves no room for them."""
        assert self._target_s is not None
        model = self._batch_time
        work_s = self._target_s - model.overhead_s
        smallest_s = _SMALLEST_WORK_SHARE * self._target_s
        fits_rows = max(1.0, max(work_s, smallest_s) / model.cost_per_kept_row_s(self._largest_coming_share(signal)))
        hopeless = work_s < smallest_s and self._is_known(signal, fits_rows)
        actions = []
        if hopeless and not self._state.overhead_reported:
            reason = wording.overhead_too_large(model.overhead_s, self._target_s, fits_rows)
            actions.append(Action(ActionKind.INFEASIBLE, self._query.name, f"batch {signal.batch_id}", reason))
        self._update(overhead_reported=hopeless)
        return fits_rows, actions

    def _next_budget(self, signal: BatchSignal, fits_rows: float) -> float:
        share = self._largest_coming_share(signal)
        # Neither kept nor read rows may outgrow what was seen: a smaller share must not make for a giant read.
        seen_rows = min(self._state.largest_batch_rows, share * self._state.largest_read_rows)
        trusted = self._settings.growth_factor * seen_rows
        if not self._is_known(signal, fits_rows):
            budget = min(self._explored(signal, fits_rows), trusted)
        else:
            allowed = self._flow.maximum(rate=fits_rows, buffer=self._rows_in_flight(signal), target=fits_rows)
            # A batch far below what fits is little but overhead: the law may shorten the next one, not starve it.
            budget = min(max(allowed, _LEAST_FLOW_SHARE * fits_rows), fits_rows, trusted)
            self._flow.granted(budget)
        return max(1.0, budget)

    def _explored(self, signal: BatchSignal, fits_rows: float) -> float:
        goal_s = self._goal.latency_s
        assert self._target_s is not None
        assert goal_s is not None
        few = signal.work_rows <= self._settings.first_batch_rows
        sure_rows = self._batch_time.surely_within(
            SAFE_SHARE_OF_GOAL * goal_s,
            self._largest_coming_share(signal),
            at_most_rows=self._settings.growth_factor * self._state.largest_batch_rows,
        )
        # If it was the reading that took the time, a smaller share does not make room for more of it.
        comparable_rows = min(float(signal.work_rows), self._largest_coming_share(signal) * signal.rows)
        return explored_rows(
            rows=max(1, round(comparable_rows)),
            duration_s=signal.duration_s,
            target_s=self._target_s,
            goal_s=goal_s,
            overhead_s=self._batch_time.overhead_s,
            sure_rows=sure_rows,
            wanted_rows=fits_rows,
            # Few rows that take long are likely the engine's own time: its code is still being compiled.
            warming_up=few and self._batch_time.batches < _WARM_UP_BATCHES and signal.duration_s <= goal_s,
        )

    def _is_known(self, signal: BatchSignal, fits_rows: float) -> bool:
        """Whether what fits is known well enough to go by it.

        Its duration must be sure. And where most of it would be overhead, so must the cost: with a cost that is nothing
        but noise the batches would stay small for ever.
        """
        assert self._target_s is not None
        model, share = self._batch_time, self._largest_coming_share(signal)
        is_sure = model.batches >= _BATCHES_TO_KNOW and model.is_certain(fits_rows, share, within=_CERTAIN_WITHIN)
        return is_sure and (model.overhead_s < _OVERHEAD_SHARE * self._target_s or model.is_cost_significant(share))

    def _rows_in_flight(self, signal: BatchSignal) -> float:
        """Rows of the batch that runs while this is decided: what the last limit let in of what was waiting."""
        arrivals = self.arrival_rows_per_s
        if signal.lag_rows is None or arrivals is None:
            return min(float(signal.work_rows), self._state.budget_rows)
        waiting_rows = signal.lag_rows + arrivals * signal.duration_s
        return min(self._state.budget_rows, waiting_rows * self._share_at(signal.batch_id + 1))

    # How much to keep

    def _shed(self, signal: BatchSignal, fits_rows: float) -> list[Action]:
        assert self._target_s is not None
        arrivals = self.arrival_rows_per_s
        if signal.lag_rows is None or arrivals is None or not self._is_settled(signal, fits_rows):
            return []
        shedding = self._shedding
        decision = keep_fraction(
            self._batch_time,
            target_s=self._target_s,
            arrivals_rows=arrivals * max(self._target_s, self._query.trigger_interval_s),
            backlog_rows=signal.lag_rows,
            drain_batches=shedding.drain_batches if shedding else 1.0,
            minimum_accuracy=self._goal.minimum_accuracy if shedding else 1.0,
            smallest_keep=shedding.smallest_keep if shedding else 1.0,
            headroom=shedding.headroom if shedding else 0.0,
        )
        return [*self._keep_action(signal, decision, fits_rows), *self._feasibility(signal, decision, fits_rows)]

    def _is_settled(self, signal: BatchSignal, fits_rows: float) -> bool:
        """Whether some batches in a row were about as large as fits and took about as long as expected.

        Rows must not be dropped for a capacity that was only guessed from small or odd batches.
        """
        expected_s = self._batch_time.predict_s(signal.rows, signal.work_rows)
        as_expected = abs(signal.duration_s / expected_s - 1.0) < _AS_EXPECTED
        as_large = signal.work_rows > _AS_LARGE * fits_rows or (signal.lag_rows or 0.0) < fits_rows
        settled = self._is_known(signal, fits_rows) and as_expected and as_large
        # Once rows are dropped, an odd batch is no reason to stop correcting how many.
        is_shedding = self._share_at(signal.batch_id + _FIRST_FREE_BATCH) < 1.0
        count = self._state.batches_settled + 1 if settled else (self._state.batches_settled if is_shedding else 0)
        self._update(batches_settled=count)
        return count >= _BATCHES_TO_SHED and self._is_known(signal, fits_rows)

    def _share_at(self, batch_id: int) -> float:
        """Share of its rows that a batch will have kept, from what it is told."""
        told = self.keep.fraction_at(batch_id)
        return 1.0 if told >= 1.0 else min(1.0, told * self._state.kept_per_told)

    def _keep_action(self, signal: BatchSignal, decision: KeepDecision, fits_rows: float) -> list[Action]:
        from_batch = signal.batch_id + _FIRST_FREE_BATCH
        old = self._share_at(from_batch)
        # Step by step: what reading costs without keeping shows only once the share has moved.
        fraction = min(max(decision.fraction, old / _LARGEST_SHARE_STEP), old * _LARGEST_SHARE_STEP)
        if self._shedding is None or not _is_news(old, fraction, self._shedding.dead_band):
            return []
        told = fraction if fraction >= 1.0 else fraction / self._state.kept_per_told
        self._update(keep=self.keep.with_entry(from_batch, told))
        return [
            Action(
                ActionKind.KEEP_FRACTION,
                self._query.name,
                f"batch {signal.batch_id}",
                wording.keep(decision, fraction, fits_rows, from_batch),
                target=f"from batch {from_batch}",
                value=fraction,
                previous=old,
                unit="fraction",
                expected={"from_batch": float(from_batch), "told": told, "demand_rows": decision.demand_rows},
            )
        ]

    def _feasibility(self, signal: BatchSignal, decision: KeepDecision, fits_rows: float) -> list[Action]:
        """Say once when more is demanded than fits, and once when it fits again."""
        assert self._target_s is not None
        behind = not decision.is_feasible
        # Only a batch of about the target length proves what fits; a cold start must not cry overload on its way up.
        proven = signal.duration_s > _PROVEN_SHARE * self._target_s
        count = self._state.batches_infeasible + (1 if proven else 0) if behind else 0
        self._update(batches_infeasible=count)
        cause = f"batch {signal.batch_id}"
        if count >= _BATCHES_TO_REPORT and not self._state.infeasible_reported:
            self._update(infeasible_reported=True)
            arrivals = self.arrival_rows_per_s or 0.0
            expected = {
                "capacity_rows_per_s": fits_rows / self._target_s,
                "arrival_rows_per_s": arrivals,
                "missing_rows_per_s": max(0.0, decision.fraction * arrivals - fits_rows / self._target_s),
            }
            reason = wording.infeasible(signal, decision, fits_rows, self._target_s, arrivals)
            return [Action(ActionKind.INFEASIBLE, self._query.name, cause, reason, expected=expected)]
        if not behind and self._state.infeasible_reported:
            self._update(infeasible_reported=False)
            reason = f"what arrives and waits, {decision.demand_rows:,.0f} rows a batch, fits again"
            return [Action(ActionKind.HOLD, self._query.name, cause, reason)]
        return []

    # Limits of the sources

    def _limits(self, signal: BatchSignal, budget_rows: float, fits_rows: float) -> list[Action]:
        limited = [
            source
            for source in signal.sources
            if self._query.sources[source.index].is_limitable and not self._state.sources[source.index].ignored
        ]
        unlimited_rows = signal.rows - sum(source.rows for source in limited)
        read_rows = max(1.0, budget_rows / self._largest_coming_share(signal) - unlimited_rows)
        shares = share_rows(read_rows, [self._demand_rows(source) for source in limited])
        actions = []
        for source, share in zip(limited, shares, strict=True):
            spec, known = self._query.sources[source.index], self._state.sources[source.index]
            units = _bounded_units(share / (known.rows_per_unit or 1.0), spec)
            if known.limit_units is not None and not _is_news(known.limit_units, units, self._settings.dead_band):
                continue
            reason = self._limit_reason(signal, budget_rows, fits_rows)
            actions.append(self._limit_action(spec, units, f"batch {signal.batch_id}", reason))
            self._set_source(source.index, limit_units=units)
        return actions

    def _largest_coming_share(self, signal: BatchSignal) -> float:
        """The share of rows that the next two batches keep at most.

        A limit may hold one batch earlier than the share it was reckoned with; a smaller share must not let that batch
        read, and keep, several times what fits.
        """
        coming = range(signal.batch_id + 1, signal.batch_id + _FIRST_FREE_BATCH + 1)
        return max(self._share_at(batch_id) for batch_id in coming)

    def _demand_rows(self, source: SourceSignal) -> float | None:
        rate = self._state.sources[source.index].arrival.rate_rows_per_s
        if source.lag_rows is None or rate is None or self._target_s is None:
            return None
        return source.lag_rows + rate * self._target_s

    def _limit_reason(self, signal: BatchSignal, budget_rows: float, fits_rows: float) -> str:
        assert self._target_s is not None
        return wording.limit(
            signal,
            self._batch_time,
            target_s=self._target_s,
            fits_rows=fits_rows,
            budget_rows=budget_rows,
            largest_rows=self._state.largest_batch_rows,
            growth_factor=self._settings.growth_factor,
        )

    def _limit_action(self, spec: SourceSpec, units: int, cause: str, reason: str) -> Action:
        known = self._state.sources[spec.index]
        expected = {}
        if self._batch_time.batches:
            expected = {"batch_duration_s": self._expected_s()}
        return Action(
            ActionKind.READ_LIMIT,
            self._query.name,
            cause,
            reason,
            target=f"source {spec.index}",
            value=float(units),
            previous=None if known.limit_units is None else float(known.limit_units),
            unit=str(spec.unit),
            expected=expected,
        )

    def _expected_s(self) -> float:
        kept_rows = self._state.budget_rows
        share = self._share_at(self._state.batches + _FIRST_FREE_BATCH)
        return self._batch_time.predict_s(kept_rows / share, kept_rows)

    def _update(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]

    def _set_source(self, index: int, **changes: object) -> None:
        sources = list(self._state.sources)
        sources[index] = replace(sources[index], **changes)  # type: ignore[arg-type]
        self._update(sources=tuple(sources))


def _is_news(old: float, new: float, dead_band: float) -> bool:
    """Whether a new value is worth setting; a share of exactly one, nothing dropped, always is."""
    return abs(new - old) > dead_band * old or (new != old and new == 1.0)


def _bounded_units(units: float, spec: SourceSpec) -> int:
    """At least one, or the query would wait for ever; at most what the source was configured with."""
    bounded = max(1, int(units))
    return bounded if spec.own_limit_units is None else max(1, min(bounded, spec.own_limit_units))


def _rows_per_unit(source: SourceSignal) -> float | None:
    """Rows in a unit, where whole units were read: a sliver of one would tell anything."""
    return source.rows / source.units if source.units is not None and source.units >= 1 else None


def _blend(old: float | None, new: float | None) -> float | None:
    if new is None or new <= 0:
        return old
    return new if old is None else old + _ROWS_PER_UNIT_WEIGHT * (new - old)
