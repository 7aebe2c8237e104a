"""What a batch keeps of its rows, answered when it is planned and the same for ever."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.control import wording
from penstock.control.keep_choice import choose_keep_ratio, held_to_rows
from penstock.control.keep_curve import KeepCurve
from penstock.control.lateness import arrival_delay_s, late_before_s, remember_delay
from penstock.control.planned_load import KeepChoice
from penstock.control.priority import KeepBounds
from penstock.estimate.batch_time import BATCHES_TO_KNOW
from penstock.model.decision import KeepRatio
from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from penstock.control.planned_load import PlannedLoad
    from penstock.estimate.batch_time import BatchTimeModel
    from penstock.model import BatchSignal, Goal, GuardSignal, QueryName
    from penstock.settings import SheddingSettings

_GAIN_WEIGHT = 0.5
"""What a batch tells of the actuation gain counts as much as all before it: counts are exact but for the draw, and what
a guard keeps of what is requested changes only where its query does."""
_MIN_GAIN, _MAX_GAIN = 0.01, 2.0
"""A guard that keeps a hundredth of what is requested is asked for no more than all, and one that keeps twice of it for
no less than half: beyond that a batch of few rows was seen, not a gain."""
_BATCHES_IN_FLIGHT = 4
"""A report comes when the next batch is planned, or the one after that; twice as many are remembered."""
_REMEMBERED_ANSWERS = 64
"""Spark runs no batch again but the last ones of a checkpoint; a window this long is far more than it keeps open."""


@dataclass(frozen=True, slots=True)
class KeepState:
    """Snapshot of a :class:`KeepController`; ``answers`` are those on record, by batch.

    ``curve`` is what a guard with a utility keeps of what is requested. ``delays_s`` tell how far the clock of arrival
    times is behind; ``behind_s`` are seconds of rows that the newest batches left waiting, by batch. ``doubted`` says
    whether the newest answer rests on the model's error and not on what it predicts.
    """

    answers: tuple[KeepRatio, ...] = ()
    actuation_gain: float = 1.0
    curve: KeepCurve = field(default_factory=KeepCurve)
    delays_s: tuple[float, ...] = ()
    behind_s: tuple[tuple[int, float], ...] = ()
    bounds: KeepBounds = field(default_factory=KeepBounds)
    doubted: bool = False


class KeepController:
    """Answers every batch of a guarded query that asks what to keep.

    The law is :func:`~penstock.control.keep_choice.choose_keep_ratio`. A batch that has asked before gets the
    answer that is on record; so does one of an earlier run, and where none is on record, the ratio of the last one
    that is: a question that nobody answered was held to that. A guard that keeps rows by their utility keeps
    another part than is requested: the curve of its utilities is learned, and the actuation gain, kept over what
    the curve says, for whatever is left.

    Parameters
    ----------
    query, goal, settings
        Whose rows, what they must deliver, and how cautiously.
    state
        Snapshot to go on from.
    """

    def __init__(
        self, query: QueryName, goal: Goal, settings: SheddingSettings, state: KeepState | None = None
    ) -> None:
        self._query, self._goal, self._settings = query, goal, settings
        self._state = state or KeepState()

    @property
    def keep_floor(self) -> float:
        """The least that is kept of any row: minimum accuracy, and never nothing."""
        return max(self._goal.minimum_accuracy, self._settings.smallest_keep)

    @property
    def current_keep_floor(self) -> float:
        """The least that this query goes down to now: as long as lower priorities can yield it keeps its part."""
        return max(self.keep_floor, self._state.bounds.low)

    @property
    def is_held_to_rows(self) -> bool:
        """Whether its batches may keep so many rows and no more, for others' sake."""
        return math.isfinite(self._state.bounds.most_rows)

    @property
    def last_ratio(self) -> float:
        """What the newest answered batch keeps of its on-time rows; one before the first."""
        answers = self._state.answers
        return self.effective(answers[-1]) if answers else 1.0

    def snapshot(self) -> KeepState:
        """Everything that the next answer depends on."""
        return self._state

    def set_goal(self, goal: Goal) -> None:
        """Answer by another goal from now on; what is on record stands."""
        self._goal = goal

    def set_keep_bounds(self, bounds: KeepBounds) -> None:
        """Keep the ratio within what the engine's other queries leave."""
        self._state = evolve(self._state, bounds=bounds)

    def effective(self, answer: KeepRatio) -> float:
        """Part of its rows that a batch keeps with an answer, late ones aside."""
        if answer.everything:
            return 1.0
        return min(1.0, self._state.curve.kept(answer.keep_ratio, self.keep_floor) * self._state.actuation_gain)

    def _requested(self, ratio: float) -> float:
        """What to request so that a part of the rows is kept."""
        if not self._state.curve.rows:
            return max(self.keep_floor, ratio / self._state.actuation_gain)
        return self._state.curve.requested_for(min(1.0, ratio / self._state.actuation_gain), self.keep_floor)

    def recorded(self, batch_id: int) -> KeepRatio | None:
        """The answer that is on record for a batch."""
        return next((answer for answer in reversed(self._state.answers) if answer.batch_id == batch_id), None)

    def learn(self, signal: BatchSignal) -> None:
        """Learn how much the guard really keeps of what is requested, and how old its rows are on arrival."""
        guard = signal.guard
        if guard is None:
            return
        self._learn_delay(signal, guard)
        expected = self._state.curve.kept(guard.keep_ratio, self.keep_floor)
        self._state = evolve(self._state, curve=self._state.curve.learned(guard.utilities))
        if guard.everything:
            return
        # A batch of nothing but late rows tells nothing of the others.
        kept = guard.processed_ratio if not guard.late_rows else guard.on_time_ratio
        if kept:
            gain = min(max(kept / expected, _MIN_GAIN), _MAX_GAIN)
            known = self._state.actuation_gain
            self._state = evolve(self._state, actuation_gain=known + _GAIN_WEIGHT * (gain - known))

    def _learn_delay(self, signal: BatchSignal, guard: GuardSignal) -> None:
        behind_s = next((value for batch, value in self._state.behind_s if batch == signal.batch_id), None)
        if guard.newest_arrival_s is None or behind_s is None:
            return
        newest_s = guard.newest_arrival_s
        delay_s = arrival_delay_s(planned_s=signal.started_s, newest_arrival_s=newest_s, behind_s=behind_s)
        all_late = guard.late_rows >= guard.offered_rows
        delays_s = remember_delay(self._state.delays_s, delay_s, behind_s=behind_s, all_late=all_late)
        self._state = evolve(self._state, delays_s=delays_s)

    def correct(self, batch_id: int, used_ratio: float, reason: str, *, everything: bool = False) -> KeepRatio:
        """Put on record what a batch really kept to, where that is not what it was told: it must do so again."""
        return self._remember(
            KeepRatio(
                query=self._query,
                cause=f"batch {batch_id}",
                reason=reason,
                batch_id=batch_id,
                keep_ratio=used_ratio,
                keep_floor=self.keep_floor,
                previous_ratio=self._previous(batch_id),
                everything=everything,
            )
        )

    def answer(
        self, load: PlannedLoad | None, batch_id: int, model: BatchTimeModel, *, late_ratio: float, is_rerun: bool
    ) -> KeepRatio:
        """What a batch keeps; ``load`` is None where nothing is known of it."""
        known = self.recorded(batch_id)
        if known is not None:
            return known
        if not is_rerun and self._goal.latency_s is None and (self._state.bounds.high < 1.0 or self.last_ratio < 1.0):
            return self._at_most(batch_id, self._state.bounds.high)
        if is_rerun or load is None or self._goal.latency_s is None:
            return self._unchanged(
                batch_id, "an earlier run planned it" if is_rerun else "nothing is known of its load"
            )
        bounds, rate = self._state.bounds, load.arrival_rows_per_s
        if rate > 0:
            behind_s = (load.batch_id, (load.waiting_rows - load.rows) / rate)
            self._state = evolve(self._state, behind_s=(*self._state.behind_s, behind_s)[-_BATCHES_IN_FLIGHT:])
        choice = self._choice(load, model, late_ratio)
        self._state = evolve(self._state, doubted=choice.is_doubtful)
        ratio = min(1.0, max(self.keep_floor, bounds.hold(choice.ratio)))
        return self._remember(self._decision(load, _without_few_late(choice, late_ratio * load.rows), ratio))

    def _choice(self, load: PlannedLoad, model: BatchTimeModel, late_ratio: float) -> KeepChoice:
        """By what the batch would take; what others leave it is looked at first: that may be sure to fit."""
        assert self._goal.latency_s is not None
        goal = {"latency_s": self._goal.latency_s, "keep_floor": self.keep_floor, "late_ratio": late_ratio}
        whole = KeepChoice(1.0, None, 0.0, predicted_s=model.predict_s(load.rows, load.rows))
        held = held_to_rows(model, load, whole, self._state.bounds.most_rows, **goal)
        kept_rows = min(load.rows, self._state.bounds.most_rows)
        surely_s = model.predict_s(load.rows, kept_rows) + model.uncertainty_s(load.rows, kept_rows)
        if model.batches < BATCHES_TO_KNOW or (kept_rows < load.rows and surely_s <= load.batch_s):
            return held
        choice = choose_keep_ratio(model, load, may_doubt=not self._state.doubted, **goal)
        return held_to_rows(model, load, choice, self._state.bounds.most_rows, **goal)

    def _decision(self, load: PlannedLoad, choice: KeepChoice, ratio: float) -> KeepRatio:
        moment_s = None
        if choice.late_after_s is not None and self.keep_floor < 1.0:  # else late rows are kept like all others
            moment_s = late_before_s(load.planned_s, choice.late_after_s, self._state.delays_s)
        everything = ratio >= 1.0 and moment_s is None
        return KeepRatio(
            query=self._query,
            cause=f"batch {load.batch_id}",
            reason=wording.keep(load, choice, ratio),
            batch_id=load.batch_id,
            keep_ratio=1.0 if everything else self._requested(ratio),
            keep_floor=self.keep_floor,
            late_before_s=moment_s,
            everything=everything,
            previous_ratio=self._previous(load.batch_id),
            expected={"kept_ratio": ratio, "batch_duration_s": choice.predicted_s, "demand_rows": load.rows},
        )

    def _at_most(self, batch_id: int, high: float) -> KeepRatio:
        """As much as others leave it: without a latency goal of its own there is nothing that it would drop for."""
        ratio = min(1.0, max(self.keep_floor, high))
        return self._remember(
            KeepRatio(
                query=self._query,
                cause=f"batch {batch_id}",
                reason="no latency goal: it keeps as much as is left to it",
                batch_id=batch_id,
                keep_ratio=1.0 if ratio >= 1.0 else self._requested(ratio),
                keep_floor=self.keep_floor,
                previous_ratio=self._previous(batch_id),
                everything=ratio >= 1.0,
                expected={"kept_ratio": ratio},
            )
        )

    def _unchanged(self, batch_id: int, why: str) -> KeepRatio:
        """The ratio of the last answer on record before a batch; rows of no known age are not late."""
        before = [answer for answer in self._state.answers if answer.batch_id < batch_id]
        ratio = before[-1].keep_ratio if before else 1.0
        everything = before[-1].everything if before else True
        return self._remember(
            KeepRatio(
                query=self._query,
                cause=f"batch {batch_id}",
                reason=f"{why}: it keeps the ratio that is on record",
                batch_id=batch_id,
                keep_ratio=ratio,
                keep_floor=self.keep_floor,
                previous_ratio=ratio if before else None,
                everything=everything,
            )
        )

    def _previous(self, batch_id: int) -> float | None:
        before = [answer for answer in self._state.answers if answer.batch_id < batch_id]
        return before[-1].keep_ratio if before else None

    def _remember(self, answer: KeepRatio) -> KeepRatio:
        others = tuple(known for known in self._state.answers if known.batch_id != answer.batch_id)
        kept = tuple(sorted((*others, answer), key=lambda known: known.batch_id))[-_REMEMBERED_ANSWERS:]
        self._state = evolve(self._state, answers=kept)
        return answer


def _without_few_late(choice: KeepChoice, may_be_late_rows: float) -> KeepChoice:
    """The choice with no row called late, where no more are than may be.

    Results must take a batch that thins late rows out eight times as much as others for one that did, and would know
    too little of every window that it meets. And the oldest rows are in the same tasks, which the others wait for.
    """
    if choice.late_rows > may_be_late_rows:
        return choice
    return evolve(choice, late_after_s=None, late_rows=0.0)
