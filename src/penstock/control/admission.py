"""Admission: how many rows the next batch of a query may read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.control.flow import FlowLaw, FlowState
from penstock.control.lqr import flow_gains
from penstock.control.sharing import share_rows
from penstock.estimate.arrival import ArrivalRate, ArrivalState
from penstock.estimate.batch_time import BatchTimeModel, BatchTimeState
from penstock.model import Action, ActionKind, LimitUnit

if TYPE_CHECKING:
    from penstock.model import BatchSignal, Goal, QuerySpec, SourceSignal, SourceSpec
    from penstock.settings import AdmissionSettings

_FEEDBACK_DELAY_BATCHES = 1
_ARRIVAL_HALF_LIFE_S = 10.0
_LARGEST_BATCH_DECAY = 0.99
_ROWS_PER_UNIT_WEIGHT = 0.3
_SMALLEST_WORK_SHARE = 0.25
_BATCHES_TO_OVERLOAD = 3
_BATCHES_TO_IGNORED = 3
_IGNORED_RATIO = 1.5
_SMALLEST_TARGET_SHARE = 0.1
_CERTAIN_WITHIN = 0.15
_PROVEN_SHARE = 0.75
_EXPLORE_BELOW = 0.8
_EXPLORE_UP_TO = 1.5
_OVERHEAD_BOUND = 0.75
_TELLING_PACE = 0.85
_WARM_UP_BATCHES = 8


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
    largest_batch_rows: float = 0.0
    batches: int = 0
    overloaded_batches: int = 0
    overload_reported: bool = False
    overhead_reported: bool = False


class AdmissionController:
    r"""Keep a query's batches as long as its latency goal allows, whatever waits at its sources.

    A row waits up to one batch for its own batch to begin and is then processed in it, so a batch may take about half
    of the latency goal :math:`L`: the target is :math:`T = L / 2` (or :math:`L - P` for a trigger interval
    :math:`P > L / 2`). Each finished batch teaches :math:`d = o + c\,n`; what fits is :math:`\rho = (T - o) / c` rows.

    The budget of the next batch follows the flow law (Eq. 7 of ACES) in steps of one batch: its buffer is what the
    query has taken in and not finished: the batch in flight while the limit for the one after it is decided. The
    paper's :math:`b_0 = B / 2` with :math:`B` the rows that the goal leaves time for is exactly one target batch,
    :math:`b_0 = \rho`. A batch that turns out too long is therefore followed by a shorter one, so that rows that waited
    longer are processed faster. Above, the budget is bounded by :math:`\rho` itself and by ``growth_factor`` times the
    largest batch yet seen; so a cold start on a huge backlog grows step by step and never plans a giant batch.

    While the model cannot yet tell overhead from cost at the size that would fit, it is not obeyed blindly: a batch of
    :math:`n` rows that took :math:`d` well below :math:`T` is followed by one of up to :math:`1.5\,n\,T/d` rows, and so
    stays within the goal even if all of :math:`d` was cost; one that took too long is followed by one of half
    :math:`n\,T/d`, whose length tells whether it was the rows or the overhead.

    Parameters
    ----------
    query
        The query's sources and trigger.
    goal
        Its latency goal decides; a goal without one leaves admission alone.
    settings
        Bounds and gains.
    enforced
        Whether the decisions are carried out. Observed only, a source cannot be blamed for ignoring them.
    state
        Snapshot to go on from.
    """

    def __init__(
        self,
        query: QuerySpec,
        goal: Goal,
        settings: AdmissionSettings,
        *,
        enforced: bool = True,
        state: AdmissionState | None = None,
    ) -> None:
        self._query = query
        self._settings = settings
        self._enforced = enforced
        self._goal_s = goal.latency_s
        self._target_s = target_batch_s(goal, query.trigger_interval_s, settings.batch_share_of_goal)
        self._batch_time = BatchTimeModel(settings.forgetting, state.batch_time if state else None)
        gains = flow_gains(delay_steps=_FEEDBACK_DELAY_BATCHES, effort=settings.flow_effort)
        self._flow = FlowLaw(gains, state.flow if state else None)
        self._state = state or AdmissionState(
            batch_time=self._batch_time.snapshot(),
            flow=self._flow.snapshot(),
            sources=tuple(SourceState() for _ in query.sources),
            budget_rows=float(settings.first_batch_rows),
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
        """Rows that the next batch may read over all sources."""
        return self._state.budget_rows

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
                LimitUnit.ROWS: max(1, self._settings.first_batch_rows // len(limitable)),
                LimitUnit.FILES: 1,
                LimitUnit.BYTES: self._settings.first_batch_bytes,
            }[spec.unit or LimitUnit.ROWS]
            units = _bounded_units(first, spec)
            reason = f"nothing is known of the cost yet, so the first batch reads at most {units:,} {spec.unit}"
            actions.append(self._limit_action(spec, units, "start", reason))
            self._set_source(spec.index, limit_units=units)
        return actions

    def on_batch(self, signal: BatchSignal) -> list[Action]:
        """Learn from a finished batch and decide the limits of those to come."""
        self._learn(signal)
        if self._target_s is None or signal.rows == 0:
            return []
        actions = self._drop_ignoring_sources(signal)
        if self._state.batches <= 1:
            # The first batch after a start pays for code generation and cold workers: it teaches nothing of the rest.
            return actions
        fits_rows, overhead_action = self._rows_that_fit(signal)
        budget_rows = self._next_budget(signal, fits_rows)
        self._update(budget_rows=budget_rows)
        actions += overhead_action
        actions += self._limits(signal, budget_rows, fits_rows)
        actions += self._overload(signal, fits_rows)
        return actions

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
        if signal.rows == 0:
            return
        if self._state.batches > 0:
            self._batch_time.update(signal.rows, signal.duration_s)
        largest = max(float(signal.rows), self._state.largest_batch_rows * _LARGEST_BATCH_DECAY)
        self._update(batches=self._state.batches + 1, largest_batch_rows=largest)

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
                reason = (
                    f"{spec.description} read {source.units:,.0f} rows against a limit of {known.limit_units:,}: "
                    "it does not obey read limits and is left alone"
                )
                actions.append(self._action(ActionKind.LEAVE_ALONE, spec, f"batch {signal.batch_id}", reason))
        return actions

    # Deciding

    def _rows_that_fit(self, signal: BatchSignal) -> tuple[float, list[Action]]:
        """Rows of a batch of target length, and a word about an overhead that leaves no room for them."""
        assert self._target_s is not None
        work_s = self._target_s - self._batch_time.overhead_s
        smallest_s = _SMALLEST_WORK_SHARE * self._target_s
        fits_rows = max(work_s, smallest_s) / self._batch_time.cost_per_row_s
        hopeless = work_s < smallest_s and self._is_certain(fits_rows)
        actions = []
        if hopeless and not self._state.overhead_reported:
            reason = (
                f"a batch takes {self._batch_time.overhead_s:.2f} s before its first row, and the goal allows "
                f"{self._target_s:.2f} s in all; batches are kept at {fits_rows:,.0f} rows so that work is done at all"
            )
            actions.append(Action(ActionKind.INFEASIBLE, self._query.name, f"batch {signal.batch_id}", reason))
        self._update(overhead_reported=hopeless)
        return max(1.0, fits_rows), actions

    def _next_budget(self, signal: BatchSignal, fits_rows: float) -> float:
        in_flight_rows = self._rows_in_flight(signal)
        allowed = self._flow.maximum(rate=fits_rows, buffer=in_flight_rows, target=fits_rows)
        trusted = self._settings.growth_factor * self._state.largest_batch_rows
        budget = max(1.0, min(allowed, fits_rows, trusted))
        if not self._is_certain(fits_rows):
            budget = min(self._explored(signal, budget), trusted)
        self._flow.granted(budget)
        return budget

    def _explored(self, signal: BatchSignal, budget: float) -> float:
        """Keep the budget near the last batch while the cost of others is not known."""
        assert self._target_s is not None
        pace = self._target_s / signal.duration_s
        highest = max(1.0, signal.rows * pace * _EXPLORE_UP_TO)
        if signal.duration_s < _EXPLORE_BELOW * self._target_s:
            return highest
        if self._batch_time.overhead_s > _OVERHEAD_BOUND * signal.duration_s:
            # Smaller batches were no shorter: to shrink further would cost throughput and gain nothing.
            return signal.rows * _EXPLORE_UP_TO
        if self._is_warming_up(signal):
            return max(min(budget, highest), float(signal.rows))
        if pace < _TELLING_PACE:
            # Half of what would do at worst: if the batch then takes as long as before, it was overhead and not rows.
            return max(1.0, 0.5 * signal.rows * pace)
        return min(max(budget, signal.rows * min(1.0, pace), 1.0), highest)

    def _is_warming_up(self, signal: BatchSignal) -> bool:
        """Whether a long batch is likely the engine's own: its code is still being compiled, and the rows are few.

        To shrink at once would take the falling overhead for the effect of fewer rows, and learn a cost far too high.
        """
        assert self._goal_s is not None
        few = signal.rows <= self._settings.first_batch_rows
        return few and self._batch_time.batches < _WARM_UP_BATCHES and signal.duration_s <= self._goal_s

    def _is_certain(self, fits_rows: float) -> bool:
        return self._batch_time.is_certain(fits_rows, within=_CERTAIN_WITHIN)

    def _rows_in_flight(self, signal: BatchSignal) -> float:
        """Rows of the batch that runs while this is decided: what the last limit let in of what was waiting."""
        assert self._target_s is not None
        arrivals = self.arrival_rows_per_s
        if signal.lag_rows is None or arrivals is None:
            return min(float(signal.rows), self._state.budget_rows)
        return min(self._state.budget_rows, signal.lag_rows + arrivals * signal.duration_s)

    def _limits(self, signal: BatchSignal, budget_rows: float, fits_rows: float) -> list[Action]:
        assert self._target_s is not None
        limited = [
            source
            for source in signal.sources
            if self._query.sources[source.index].is_limitable and not self._state.sources[source.index].ignored
        ]
        unlimited_rows = signal.rows - sum(source.rows for source in limited)
        demands = [self._demand_rows(source) for source in limited]
        shares = share_rows(max(1.0, budget_rows - unlimited_rows), demands)
        actions = []
        for source, share in zip(limited, shares, strict=True):
            spec, known = self._query.sources[source.index], self._state.sources[source.index]
            units = _bounded_units(share / (known.rows_per_unit or 1.0), spec)
            if not self._is_worth_setting(known.limit_units, units):
                continue
            reason = self._limit_reason(signal, budget_rows, fits_rows)
            actions.append(self._limit_action(spec, units, f"batch {signal.batch_id}", reason))
            self._set_source(source.index, limit_units=units)
        return actions

    def _demand_rows(self, source: SourceSignal) -> float | None:
        rate = self._state.sources[source.index].arrival.rate_rows_per_s
        if source.lag_rows is None or rate is None or self._target_s is None:
            return None
        return source.lag_rows + rate * self._target_s

    def _is_worth_setting(self, old: int | None, new: int) -> bool:
        return old is None or abs(new - old) > self._settings.dead_band * old

    def _overload(self, signal: BatchSignal, fits_rows: float) -> list[Action]:
        """Say once when more waits than fits, and once when it fits again."""
        if signal.lag_rows is None or self._target_s is None or not self._is_certain(fits_rows):
            return []
        behind = signal.lag_rows > fits_rows
        # Only a batch of about the target length proves what fits; a cold start must not cry overload on its way up.
        proven = signal.duration_s > _PROVEN_SHARE * self._target_s
        count = self._state.overloaded_batches + (1 if proven else 0) if behind else 0
        self._update(overloaded_batches=count)
        cause = f"batch {signal.batch_id}"
        if count >= _BATCHES_TO_OVERLOAD and not self._state.overload_reported:
            self._update(overload_reported=True)
            return [self._overload_action(signal, fits_rows, cause)]
        if not behind and self._state.overload_reported:
            self._update(overload_reported=False)
            reason = f"the lag of {signal.lag_rows:,.0f} rows fits into one batch again"
            return [Action(ActionKind.HOLD, self._query.name, cause, reason)]
        return []

    def _overload_action(self, signal: BatchSignal, fits_rows: float, cause: str) -> Action:
        assert self._target_s is not None
        capacity = fits_rows / self._target_s
        arrivals = self.arrival_rows_per_s
        reason = (
            f"{signal.lag_rows:,.0f} rows wait and {fits_rows:,.0f} fit into a batch of {self._target_s:.2f} s: "
            f"capacity is {capacity:,.0f} rows/s"
        )
        expected = {"capacity_rows_per_s": capacity}
        if arrivals is not None:
            reason += f", arrivals are {arrivals:,.0f} rows/s"
            expected["arrival_rows_per_s"] = arrivals
            expected["missing_rows_per_s"] = max(0.0, arrivals - capacity)
        reason += "; batches stay short, but rows wait longer than the goal until the backlog is gone"
        return Action(ActionKind.INFEASIBLE, self._query.name, cause, reason, expected=expected)

    def _limit_reason(self, signal: BatchSignal, budget_rows: float, fits_rows: float) -> str:
        reason = (
            f"batch {signal.batch_id} took {signal.duration_s:.2f} s for {signal.rows:,} rows; learned "
            f"{self._batch_time.overhead_s:.2f} s + {self._batch_time.cost_per_row_s * 1e6:.2f} us per row, so "
            f"{fits_rows:,.0f} rows fit into {self._target_s:.2f} s"
        )
        if budget_rows < 0.99 * fits_rows:
            trusted = self._settings.growth_factor * self._state.largest_batch_rows
            grows = budget_rows >= 0.99 * trusted
            reason += (
                f", but no batch above {self._state.largest_batch_rows:,.0f} rows was seen yet: "
                f"at most {self._settings.growth_factor:g} times that"
                if grows
                else f"; {budget_rows:,.0f} after the batch in flight"
            )
        return reason

    def _limit_action(self, spec: SourceSpec, units: int, cause: str, reason: str) -> Action:
        known = self._state.sources[spec.index]
        expected = {}
        if self._batch_time.batches:
            expected = {"batch_duration_s": self._batch_time.predict_s(self._state.budget_rows)}
        previous = None if known.limit_units is None else float(known.limit_units)
        return Action(
            ActionKind.READ_LIMIT,
            self._query.name,
            cause,
            reason,
            target=f"source {spec.index}",
            value=float(units),
            previous=previous,
            unit=str(spec.unit),
            expected=expected,
        )

    def _action(self, kind: ActionKind, spec: SourceSpec, cause: str, reason: str) -> Action:
        return Action(kind, self._query.name, cause, reason, target=f"source {spec.index}")

    def _update(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]

    def _set_source(self, index: int, **changes: object) -> None:
        sources = list(self._state.sources)
        sources[index] = replace(sources[index], **changes)  # type: ignore[arg-type]
        self._update(sources=tuple(sources))


def target_batch_s(goal: Goal, trigger_interval_s: float, share_of_goal: float) -> float | None:
    """Length that a batch may have under a latency goal.

    Examples
    --------
    >>> from penstock.model import Goal
    >>> target_batch_s(Goal(latency="5 seconds"), trigger_interval_s=1.0, share_of_goal=0.5)
    2.5
    >>> target_batch_s(Goal(latency="5 seconds"), trigger_interval_s=4.0, share_of_goal=0.5)
    1.0
    """
    latency_s = goal.latency_s
    if latency_s is None:
        return None
    longest_s = max(latency_s - trigger_interval_s, _SMALLEST_TARGET_SHARE * latency_s)
    return min(share_of_goal * latency_s, longest_s)


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
