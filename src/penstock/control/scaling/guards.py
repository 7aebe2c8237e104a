"""Guards around every scaler: what no policy may do, whatever it computes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from penstock.control.scaling.base import Scaler
from penstock.control.scaling.batch_length import limit_of
from penstock.errors import InvalidSettingError
from penstock.estimate.effect import Expectation
from penstock.model.executors import ExecutorBounds
from penstock.model.scaling import ScaleDecision, ScaleKind, ScalingSignal, hold

_DAY_S = 86_400.0

UP_TO_TWENTY = ExecutorBounds(max_executors=20)


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Bounds of scaling.

    Parameters
    ----------
    bounds
        How few and how many executors there may be.
    budget_executor_hours
        Executor-hours within any 24 hours; None is no budget.
    cooldown_up_s, cooldown_down_s
        Time after a change in which there is no further one upwards, or downwards.
    backlog_ratio
        Backlog ratio from which executors are missing, and nothing is removed; None is by goal and trigger
        (:func:`~penstock.control.scaling.batch_length.backlog_limit`).
    effect_s
        Time after which a scale-up must have helped, counted from when its executors serve.
    block_s
        How long one that did not help is not repeated.
    """

    bounds: ExecutorBounds = UP_TO_TWENTY
    budget_executor_hours: float | None = None
    cooldown_up_s: float = 0.0
    cooldown_down_s: float = 60.0
    backlog_ratio: float | None = None
    effect_s: float = 120.0
    block_s: float = 900.0

    def __post_init__(self) -> None:
        low = self.bounds.min_executors
        if self.budget_executor_hours is not None and self.budget_executor_hours < 24 * low:
            allowed = f"at least {24 * low}, which {low} executors take in a day"
            raise InvalidSettingError("budget of executor-hours a day", self.budget_executor_hours, allowed)


@dataclass(frozen=True, slots=True)
class GuardState:
    """What the guards remember."""

    changed_s: float = float("-inf")
    served_s: float | None = None
    last_s: float | None = None
    spent: tuple[tuple[float, float], ...] = ()
    expectation: Expectation | None = None
    blocked_above: int | None = None
    blocked_until_s: float = float("-inf")
    blocked_why: str = ""


class Guarded(Scaler):
    """A scaler inside its guards.

    In this order: signals that vanished hold everything; no answer is below what the demand takes while it is asked for
    at once, and nothing is removed while rows are shed; bounds; budget; an action that did not help is not repeated;
    nothing is removed while rows wait; cooldown. Whatever is changed is told in the reason.

    Examples
    --------
    >>> from penstock.control.scaling.static import StaticPeak
    >>> guarded = Guarded(StaticPeak(50), GuardSettings(ExecutorBounds(max_executors=20)))
    >>> decision = guarded.decide(ScalingSignal(0.0, 2, 2, 900.0, 900.0, 0.9, 0.0, 0.2))
    >>> decision.executors, decision.kind.value
    (20, 'infeasible')
    >>> decision.reason
    'always 50; 50 exceeds max_executors = 20'
    >>> guarded.decide(ScalingSignal(60.0, 4, 4, None, None, None, None, None)).reason
    'signals are missing: hold what is there'
    """

    def __init__(self, inner: Scaler, settings: GuardSettings) -> None:
        self.inner = inner
        self.fill = inner.fill
        self.settings = settings
        self._state = GuardState()
        self._spent: deque[tuple[float, float]] = deque()
        self._spent_sum = 0.0

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of what is inside."""
        return self.inner.name

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Let the scaler decide, then hold it to its bounds."""
        self._account(signal)
        if not signal.is_complete:
            return self._settle(signal, hold(signal, "signals are missing: hold what is there"))
        self._judge(signal)
        wished = self._relieved(signal, self.inner.decide(signal))
        decision = self._useful(signal, wished)
        decision = self._bounded(signal, decision)
        decision = self._budgeted(signal, decision)
        decision = self._effective(signal, decision)
        decision = self._not_with_backlog(signal, decision)
        decision = self._cool(signal, decision)
        if decision.executors != wished.executors:
            decision = replace(decision, wanted=wished.executors, notice=wished.notice)
        return self._settle(signal, decision)

    # -- guards ------------------------------------------------------------------------------------------------------

    def _relieved(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        need = signal.need
        if need is not None and decision.executors <= need.executors:
            decision = _changed(signal, need.executors, need.reason)
        elif need is not None and decision.executors > signal.requested:
            decision = replace(decision, reason=f"{need.reason}; {decision.reason}")
        if signal.is_shedding and decision.executors < signal.requested:
            return hold(signal, f"{decision.reason}; nothing is removed while rows are shed")
        return decision

    def _useful(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        useful = signal.useful_executors
        if useful is None or decision.executors <= max(useful, self.settings.bounds.min_executors):
            return decision
        reason = f"{decision.reason}; there are partitions for {useful} executors only: more partitions would help"
        return _changed(signal, max(useful, self.settings.bounds.min_executors), reason)

    def _bounded(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        low, high, wished = self.settings.bounds.min_executors, self.settings.bounds.max_executors, decision.executors
        if wished > high:
            reason = f"{decision.reason}; {wished} exceeds max_executors = {high}"
            return ScaleDecision(high, reason, ScaleKind.INFEASIBLE)
        if wished < low:
            return _changed(signal, low, f"{decision.reason}; {wished} is below min_executors = {low}")
        return decision

    def _budgeted(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        budget, low = self.settings.budget_executor_hours, self.settings.bounds.min_executors
        if budget is None or decision.executors <= low:
            return decision
        left_h = budget - self._spent_sum / 3600.0
        # What is left must last until the oldest hour is a day ago; min_executors are always paid for.
        oldest_s = self._spent[0][0] if self._spent else signal.time_s
        hours = max(1.0, (oldest_s + _DAY_S - signal.time_s) / 3600.0)
        affordable = max(low, int(left_h / hours))
        if decision.executors <= affordable:
            return decision
        return _changed(
            signal, affordable, f"{decision.reason}; the budget has {left_h:.1f} executor-hours for {hours:.1f} h"
        )

    def _effective(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        state = self._state
        is_blocked = state.blocked_above is not None and signal.time_s < state.blocked_until_s
        if not is_blocked or decision.executors <= max(signal.requested, state.blocked_above or 0):
            return decision
        return hold(signal, f"{decision.reason}; not done, because {state.blocked_why}")

    def _not_with_backlog(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        assert signal.backlog_ratio is not None
        if decision.executors >= signal.requested or signal.backlog_ratio < limit_of(
            signal, self.settings.backlog_ratio
        ):
            return decision
        if signal.requested > self.settings.bounds.max_executors:
            return decision
        return hold(signal, f"{decision.reason}; nothing is removed while rows wait ({signal.backlog_ratio:.2f})")

    def _cool(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        bounds = self.settings.bounds
        is_within = bounds.min_executors <= signal.requested <= bounds.max_executors
        if decision.executors == signal.requested or not is_within:
            return decision
        is_up = decision.executors > signal.requested
        wait_s = self.settings.cooldown_up_s if is_up else self.settings.cooldown_down_s
        left_s = self._state.changed_s + wait_s - signal.time_s
        return decision if left_s <= 0 else hold(signal, f"{decision.reason}; cooling down for {left_s:.0f} s")

    # -- memory ------------------------------------------------------------------------------------------------------

    def _account(self, signal: ScalingSignal) -> None:
        if self.settings.budget_executor_hours is None:
            return
        last_s = self._state.last_s
        if last_s is not None:
            spent = signal.requested * (signal.time_s - last_s)
            self._spent.append((signal.time_s, spent))
            self._spent_sum += spent
        while self._spent and self._spent[0][0] <= signal.time_s - _DAY_S:
            self._spent_sum -= self._spent.popleft()[1]
        self._state = replace(self._state, last_s=signal.time_s)

    def _judge(self, signal: ScalingSignal) -> None:
        state, expected = self._state, self._state.expectation
        if expected is None:
            return
        if signal.requested < expected.after:
            self._state = replace(state, expectation=None, served_s=None)
        elif signal.executors >= expected.after and state.served_s is None:
            self._state = replace(state, served_s=signal.time_s)
        elif state.served_s is not None and signal.time_s >= state.served_s + self.settings.effect_s:
            self._close(signal, expected)

    def _close(self, signal: ScalingSignal, expected: Expectation) -> None:
        assert signal.processed_rows_per_s is not None
        assert signal.backlog_ratio is not None
        seen = {"processed_rows_per_s": signal.processed_rows_per_s, "backlog_ratio": signal.backlog_ratio}
        self._state = replace(self._state, expectation=None, served_s=None)
        if expected.has_helped(**seen, limit=limit_of(signal, self.settings.backlog_ratio)):
            return
        why = (
            f"going from {expected.before} to {expected.after} executors did not help: "
            f"{expected.processed_rows_per_s:.0f} rows/s before, {signal.processed_rows_per_s:.0f} after"
        )
        until_s = signal.time_s + self.settings.block_s
        self._state = replace(self._state, blocked_above=expected.before, blocked_until_s=until_s, blocked_why=why)

    def _settle(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        if decision.executors == signal.requested:
            return decision
        self._state = replace(self._state, changed_s=signal.time_s)
        if decision.executors > signal.requested and self._state.expectation is None and signal.is_complete:
            assert signal.processed_rows_per_s is not None
            assert signal.backlog_ratio is not None
            if signal.backlog_ratio < limit_of(signal, self.settings.backlog_ratio):
                return decision  # ahead of the load: as long as no rows wait there is nothing to help
            expected = Expectation(
                signal.time_s,
                max(1, signal.executors),
                decision.executors,
                signal.processed_rows_per_s,
                signal.backlog_ratio,
            )
            self._state = replace(self._state, expectation=expected, served_s=None)
        return decision

    def remembered(self) -> dict[str, Any] | None:
        """What the scaler inside learned."""
        return self.inner.remembered()

    def recall(self, learned: dict[str, Any]) -> None:
        """Let the scaler inside begin with it."""
        self.inner.recall(learned)

    def snapshot(self) -> tuple[GuardState, Any]:
        """Own state and that of the scaler inside."""
        return replace(self._state, spent=tuple(self._spent)), self.inner.snapshot()

    def restore(self, snapshot: tuple[GuardState, Any]) -> None:
        """Go on from a snapshot."""
        self._state, inner = snapshot
        self._spent = deque(self._state.spent)
        self._spent_sum = sum(spent for _, spent in self._spent)
        self.inner.restore(inner)


def _changed(signal: ScalingSignal, executors: int, reason: str) -> ScaleDecision:
    return hold(signal, reason) if executors == signal.requested else ScaleDecision(executors, reason)
