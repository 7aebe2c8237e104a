"""The share of a guarded query's rows that is kept, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.control import wording
from penstock.control.keep import KeepDecision, Waiting, keep_fraction, waiting_then
from penstock.control.limits import is_news
from penstock.control.priority import ShareBounds
from penstock.control.schedule import KeepSchedule
from penstock.model import Action, ActionKind

if TYPE_CHECKING:
    from penstock.estimate.batch_time import BatchTimeModel
    from penstock.model import BatchSignal, Goal, QueryName
    from penstock.settings import SheddingSettings

FIRST_FREE_BATCH = 2
"""The next batch may be planned already: a decision speaks of the one after it, and those that follow."""

_BATCHES_TO_REPORT = 3
_BATCHES_TO_SHED = 3
_BATCHES_BEHIND_TO_SHED = 10
_BATCHES_TO_GUESS = 6
_AS_EXPECTED = 0.35
_AS_LARGE = 0.6
_PROVEN_SHARE = 0.75
_CERTAIN_WITHIN = 0.15
_LARGEST_SHARE_STEP = 4.0
_LEAST_KEPT_PER_TOLD = 0.01
_LONGER_THAN_WANTED = 0.15
_KEPT_PER_TOLD_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class ShareState:
    """Snapshot of a :class:`ShareController`."""

    schedule: KeepSchedule = field(default_factory=KeepSchedule)
    kept_per_told: float = 1.0
    batches_settled: int = 0
    batches_behind: int = 0
    batches_infeasible: int = 0
    infeasible_reported: bool = False
    bounds: ShareBounds = field(default_factory=ShareBounds)
    gives_way: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """What the share is decided by, beside the batch itself.

    Parameters
    ----------
    batch_s
        Length that batches are to have: the target, or longer where they could not keep up.
    fits_rows
        Kept rows of a batch of that length.
    is_known
        Whether that is known well enough to go by it.
    arrivals_rows_per_s
        Arrivals over all sources.
    limit_rows
        Rows that the limits in force let into the next batch.
    """

    batch_s: float
    fits_rows: float
    is_known: bool
    arrivals_rows_per_s: float
    limit_rows: float


class ShareController:
    """Decides how much of its rows a query keeps (:func:`~penstock.control.keep.keep_fraction`).

    Rows are dropped for a capacity that was proven: some batches in a row must have been about as large as fits, and
    have taken about as long as expected. Rows that will be late anyway need no proof, nor does a query that must give
    way to others. The share moves by at most a factor of four at a time, as long as it is not certain what the rows
    that are read and not kept will cost.

    A share is bound to the second batch after the decision: the one in between may be planned already, and a batch must
    never change its share once it could be running. A guard that keeps rows by their utility keeps some other share
    than it is told; the ratio is learned, and told the other way round.

    Parameters
    ----------
    query
        Name of the query.
    goal
        Its minimum accuracy bounds the share.
    target_s
        The batch length that the goal allows.
    interval_s
        Of the trigger; 0 without one.
    settings
        None for a query without a guard: nothing is ever dropped, but it is told when too much arrives.
    state
        Snapshot to go on from.
    """

    def __init__(
        self,
        query: QueryName,
        goal: Goal,
        *,
        target_s: float,
        interval_s: float,
        settings: SheddingSettings | None,
        state: ShareState | None = None,
    ) -> None:
        self._query = query
        self._goal = goal
        self._target_s = target_s
        self._interval_s = interval_s
        self._settings = settings
        self._state = state or ShareState()

    @property
    def schedule(self) -> KeepSchedule:
        """Which batch keeps which share of its rows."""
        return self._state.schedule

    @property
    def smallest_share(self) -> float:
        """The least that is kept of any row: minimum accuracy, and never nothing."""
        return 1.0 if self._settings is None else max(self._goal.minimum_accuracy, self._settings.smallest_keep)

    @property
    def least_share(self) -> float:
        """The least that this query goes down to now: as long as lower ones can give way it must keep its part."""
        return max(self.smallest_share, self._state.bounds.low)

    @property
    def late_after_s(self) -> float:
        """Age at which a row that waits is too old to be out in time: what the goal leaves beside its own batch.

        That batch may take longer than it should, by a seventh where the machine slows down while the model learns of
        it; rows that are only just in time would then all be late.
        """
        assert self._goal.latency_s is not None
        return self._goal.latency_s - (1.0 + _LONGER_THAN_WANTED) * self._target_s

    def snapshot(self) -> ShareState:
        """Everything that the next decision depends on."""
        return self._state

    def resume(self, schedule: KeepSchedule) -> None:
        """Go on with recorded shares: the last batch of an earlier run may have to run again."""
        self._update(schedule=schedule)

    def hold_to(self, bounds: ShareBounds) -> None:
        """Keep the share within what the engine's other queries leave."""
        self._update(bounds=bounds)

    def share_at(self, batch_id: int) -> float:
        """Share of its on-time rows that a batch will have kept, from what it is told."""
        told = self.schedule.fraction_at(batch_id)
        return 1.0 if told >= 1.0 else min(1.0, told * self._state.kept_per_told)

    def largest_coming(self, signal: BatchSignal) -> float:
        """The share that the next batches keep at most, as far as a limit that is set now may hold for them.

        Unless the next one is planned already it may hold for that one, before the share that it was reckoned with; a
        smaller share must not let that batch read, and keep, several times what fits.
        """
        free = self.share_at(signal.batch_id + FIRST_FREE_BATCH)
        return free if signal.planned is not None else max(free, self.share_at(signal.batch_id + 1))

    def learn(self, signal: BatchSignal) -> None:
        """Learn how much the guard really keeps of what it is told to."""
        guard = signal.guard
        if guard is None or guard.keep_fraction >= 1.0:
            return
        # A batch of nothing but late rows tells nothing of the others.
        kept = guard.processed_fraction if not guard.late_rows else guard.on_time_fraction
        if kept:
            ratio = min(max(kept / guard.keep_fraction, _LEAST_KEPT_PER_TOLD), 1.0)
            known = self._state.kept_per_told
            self._update(kept_per_told=known + _KEPT_PER_TOLD_WEIGHT * (ratio - known))

    def waiting(self, signal: BatchSignal, load: Load, model: BatchTimeModel) -> Waiting:
        """What will wait when the first free batch is planned; none of it is late where rows tell no arrival."""
        next_s = min(load.batch_s, model.predict_s(*self.next_rows(signal, load)))
        rows, read = self._next_read(signal, load)
        return waiting_then(
            left_rows=rows - read,
            arrivals_rows_per_s=load.arrivals_rows_per_s,
            next_s=max(next_s, self._interval_s),
            late_after_s=self._late_after_s(signal),
        )

    def next_rows(self, signal: BatchSignal, load: Load) -> tuple[float, float]:
        """Rows that the next batch, planned about now, reads and keeps: few if most of them are late and go."""
        rows, read = self._next_read(signal, load)
        share = self.share_at(signal.batch_id + 1)
        on_time = load.arrivals_rows_per_s * self._late_after_s(signal)
        late = min(read, max(0.0, rows - on_time)) if share < 1.0 else 0.0
        return read, share * (read - late) + self.smallest_share * late

    def _next_read(self, signal: BatchSignal, load: Load) -> tuple[float, float]:
        """Rows that wait when the next batch is planned, and those of them that it reads."""
        planned = signal.planned
        if planned is not None and planned.lag_rows is not None:
            return planned.rows + planned.lag_rows, float(planned.rows)
        assert signal.lag_rows is not None
        rows = signal.lag_rows + load.arrivals_rows_per_s * signal.duration_s
        return rows, min(rows, load.limit_rows)

    def _late_after_s(self, signal: BatchSignal) -> float:
        tells_age = signal.guard is not None and signal.guard.oldest_arrival_s is not None
        return self.late_after_s if tells_age and self._settings is not None else float("inf")

    def late_rows_to_read(self, signal: BatchSignal, load: Load, model: BatchTimeModel) -> float:
        """Rows that the next batches can read beyond their budget, because late ones cost less than others.

        Nothing while a batch that keeps everything may be among them.
        """
        share = self.largest_coming(signal)
        if share >= 1.0 or signal.lag_rows is None:
            return 0.0
        dear_s = model.read_cost_s + share * model.work_cost_s
        cheap_s = model.read_cost_s + self.smallest_share * model.work_cost_s
        return self.waiting(signal, load, model).late_rows * max(0.0, 1.0 - cheap_s / dear_s)

    def decide(self, signal: BatchSignal, load: Load, model: BatchTimeModel) -> list[Action]:
        """Share of the batches from the first free one on, and whether the goal can be met at all."""
        if signal.lag_rows is None:
            return []
        if not self._may_decide(signal, load, model):
            return self._give_way(signal)
        self._update(gives_way=False)
        waiting = self.waiting(signal, load, model)
        arrivals_rows = load.arrivals_rows_per_s * max(load.batch_s, self._interval_s)
        settings = self._settings
        decision = keep_fraction(
            model,
            target_s=load.batch_s,
            arrivals_rows=arrivals_rows,
            backlog_rows=max(0.0, waiting.on_time_rows - arrivals_rows),
            drain_batches=settings.drain_batches if settings else 1.0,
            minimum_accuracy=self._goal.minimum_accuracy if settings else 1.0,
            smallest_keep=settings.smallest_keep if settings else 1.0,
            headroom=settings.headroom if settings else 0.0,
            late_rows=waiting.late_rows,
        )
        return [*self._keep(signal, decision, load, model), *self._feasibility(signal, decision, load)]

    def _may_decide(self, signal: BatchSignal, load: Load, model: BatchTimeModel) -> bool:
        """Whether this query's own capacity is proven, or there is no time for that."""
        expected_s = model.predict_s(signal.rows, signal.work_rows)
        as_expected = abs(signal.duration_s / expected_s - 1.0) < _AS_EXPECTED
        as_large = signal.work_rows > _AS_LARGE * load.fits_rows or (signal.lag_rows or 0.0) < load.fits_rows
        settled = load.is_known and as_expected and as_large
        count = self._state.batches_settled + 1 if settled else 0
        # Where batch times scatter widely nothing is ever proven, and where rows tell no arrival none is known to be
        # late; rows that wait for longer than the goal, batch after batch, are proof enough.
        assert self._goal.latency_s is not None
        is_behind = (signal.lag_rows or 0.0) > load.arrivals_rows_per_s * self._goal.latency_s > 0
        behind = self._state.batches_behind + 1 if is_behind else 0
        self._update(batches_settled=count, batches_behind=behind)
        return count >= _BATCHES_TO_SHED or behind >= _BATCHES_BEHIND_TO_SHED or self._must_guess(signal, load, model)

    def _must_guess(self, signal: BatchSignal, load: Load, model: BatchTimeModel) -> bool:
        """Whether there is no time for proof.

        Rows that will be late before the first free batch begins are lost anyway. And once rows are dropped, an odd
        batch or a share of unknown cost is no reason to stop correcting.
        """
        if model.batches < _BATCHES_TO_GUESS:
            return False
        is_shedding = self.share_at(signal.batch_id + FIRST_FREE_BATCH) < 1.0 and not self._state.gives_way
        return is_shedding or self.waiting(signal, load, model).late_rows > 0

    def _keep(self, signal: BatchSignal, decision: KeepDecision, load: Load, model: BatchTimeModel) -> list[Action]:
        from_batch = signal.batch_id + FIRST_FREE_BATCH
        old = self.share_at(from_batch)
        fraction = wanted = max(self.smallest_share, self._state.bounds.hold(decision.fraction))
        if not model.is_certain(load.fits_rows, fraction, within=_CERTAIN_WITHIN):
            # What reading costs without keeping shows only once the share has moved: step by step.
            fraction = min(max(fraction, old / _LARGEST_SHARE_STEP), old * _LARGEST_SHARE_STEP)
        reason = wording.keep(decision, fraction, load.fits_rows, from_batch, wanted)
        return self._tell(signal, fraction, reason, {"demand_rows": decision.demand_rows})

    def _give_way(self, signal: BatchSignal) -> list[Action]:
        """Keep what the engine's other queries leave, as long as this one's own capacity is not proven.

        Among the tasks of others no two batches take the same time: a query that first had to prove its capacity
        would never give way. What is not kept for others' sake comes back with the room for it; a share that this
        query decided on itself, before a restart for one, is not touched.
        """
        has_to = self._state.bounds.high < 1.0
        if not has_to and not self._state.gives_way:
            return []
        self._update(gives_way=has_to)
        fraction = max(self.smallest_share, self._state.bounds.high)
        return self._tell(signal, fraction, wording.give_way(fraction, signal.batch_id + FIRST_FREE_BATCH), {})

    def _tell(self, signal: BatchSignal, fraction: float, reason: str, expected: dict[str, float]) -> list[Action]:
        from_batch = signal.batch_id + FIRST_FREE_BATCH
        old = self.share_at(from_batch)
        if self._settings is None or not is_news(old, fraction, self._settings.dead_band):
            return []
        told = fraction if fraction >= 1.0 else fraction / self._state.kept_per_told
        self._update(schedule=self.schedule.with_entry(from_batch, told))
        return [
            Action(
                ActionKind.KEEP_RATIO,
                self._query,
                f"batch {signal.batch_id}",
                reason,
                target=f"from batch {from_batch}",
                value=fraction,
                previous=old,
                unit="fraction",
                expected={"from_batch": float(from_batch), "told": told, **expected},
            )
        ]

    def _feasibility(self, signal: BatchSignal, decision: KeepDecision, load: Load) -> list[Action]:
        """Say once when more is demanded than fits, and once when it fits again."""
        behind = not decision.is_feasible
        # Only a batch of about the target length proves what fits; a cold start must not cry overload on its way up.
        proven = signal.duration_s > _PROVEN_SHARE * load.batch_s
        count = self._state.batches_infeasible + (1 if proven else 0) if behind else 0
        self._update(batches_infeasible=count)
        cause = f"batch {signal.batch_id}"
        if count >= _BATCHES_TO_REPORT and not self._state.infeasible_reported:
            self._update(infeasible_reported=True)
            capacity, arrivals = load.fits_rows / load.batch_s, load.arrivals_rows_per_s
            expected = {
                "capacity_rows_per_s": capacity,
                "arrival_rows_per_s": arrivals,
                "missing_rows_per_s": max(0.0, decision.fraction * arrivals - capacity),
            }
            reason = wording.infeasible(signal, decision, load.fits_rows, load.batch_s, arrivals)
            return [Action(ActionKind.INFEASIBLE, self._query, cause, reason, expected=expected)]
        if not behind and self._state.infeasible_reported:
            self._update(infeasible_reported=False)
            reason = f"what arrives and waits, {decision.demand_rows:,.0f} rows a batch, fits again"
            return [Action(ActionKind.HOLD, self._query, cause, reason)]
        return []

    def _update(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]
