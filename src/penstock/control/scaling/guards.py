"""Guards around every scaler: what no policy may do, whatever it computes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from penstock.control.scaling.base import Scaler
from penstock.errors import InvalidSettingError
from penstock.estimate.effect import Expectation
from penstock.model.scaling import ScaleDecision, ScaleKind, ScalingSignal, hold

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Bounds of scaling.

    Parameters
    ----------
    least, most
        Executors that there are always, and at most.
    budget_executor_hours
        Executor-hours within any 24 hours; None is no budget.
    cooldown_up_s, cooldown_down_s
        Time after a change in which there is no further one upwards, or downwards.
    backlog_share
        Queue share from which nothing is removed.
    effect_s
        Time after which a scale-up must have helped, counted from when its executors serve.
    block_s
        How long one that did not help is not repeated.
    """

    least: int = 1
    most: int = 20
    budget_executor_hours: float | None = None
    cooldown_up_s: float = 0.0
    cooldown_down_s: float = 60.0
    backlog_share: float = 0.5
    effect_s: float = 120.0
    block_s: float = 900.0

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise InvalidSettingError("executors", f"{self.least} to {self.most}", "1 <= least <= most")
        if self.budget_executor_hours is not None and self.budget_executor_hours < 24 * self.least:
            least = f"at least {24 * self.least}, which {self.least} executors take in a day"
            raise InvalidSettingError("budget of executor-hours a day", self.budget_executor_hours, least)


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

    In this order: signals that vanished hold everything; bounds; budget; an action that did not help is not repeated;
    nothing is removed while rows wait; cooldown. Whatever is changed is told in the reason.

    Examples
    --------
    >>> from penstock.control.scaling.static import StaticPeak
    >>> guarded = Guarded(StaticPeak(50), GuardSettings(most=20))
    >>> decision = guarded.decide(ScalingSignal(0.0, 2, 2, 900.0, 900.0, 0.9, 0.0, 0.2))
    >>> decision.executors, decision.kind.value
    (20, 'infeasible')
    >>> decision.reason
    'always 50; 50 executors are more than the 20 there may be'
    >>> guarded.decide(ScalingSignal(60.0, 4, 4, None, None, None, None, None)).reason
    'signals are missing: hold what is there'
    """

    def __init__(self, inner: Scaler, settings: GuardSettings) -> None:
        self.inner = inner
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
        wished = self.inner.decide(signal)
        decision = self._bounded(signal, wished)
        decision = self._budgeted(signal, decision)
        decision = self._effective(signal, decision)
        decision = self._not_with_backlog(signal, decision)
        decision = self._cool(signal, decision)
        if decision.executors != wished.executors:
            decision = replace(decision, wanted=wished.executors)
        return self._settle(signal, decision)

    # -- guards ------------------------------------------------------------------------------------------------------

    def _bounded(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        least, most, wished = self.settings.least, self.settings.most, decision.executors
        if wished > most:
            reason = f"{decision.reason}; {wished} executors are more than the {most} there may be"
            return ScaleDecision(most, reason, ScaleKind.INFEASIBLE)
        if wished < least:
            return _changed(signal, least, f"{decision.reason}; there are at least {least}")
        return decision

    def _budgeted(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        budget = self.settings.budget_executor_hours
        if budget is None or decision.executors <= self.settings.least:
            return decision
        left_h = budget - self._spent_sum / 3600.0
        # What is left must last until the oldest hour is a day ago; the least number of executors is always paid for.
        oldest_s = self._spent[0][0] if self._spent else signal.time_s
        hours = max(1.0, (oldest_s + _DAY_S - signal.time_s) / 3600.0)
        most = max(self.settings.least, int(left_h / hours))
        if decision.executors <= most:
            return decision
        return _changed(
            signal, most, f"{decision.reason}; the budget has {left_h:.1f} executor-hours for {hours:.1f} h"
        )

    def _effective(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        state = self._state
        is_blocked = state.blocked_above is not None and signal.time_s < state.blocked_until_s
        if not is_blocked or decision.executors <= max(signal.requested, state.blocked_above or 0):
            return decision
        return hold(signal, f"{decision.reason}; not done, because {state.blocked_why}")

    def _not_with_backlog(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        assert signal.queue_share is not None
        if decision.executors >= signal.requested or signal.queue_share < self.settings.backlog_share:
            return decision
        if signal.requested > self.settings.most:
            return decision
        return hold(signal, f"{decision.reason}; nothing is removed while rows wait ({signal.queue_share:.2f})")

    def _cool(self, signal: ScalingSignal, decision: ScaleDecision) -> ScaleDecision:
        if decision.executors == signal.requested or not self.settings.least <= signal.requested <= self.settings.most:
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
        assert signal.queue_share is not None
        seen = {"processed_rows_per_s": signal.processed_rows_per_s, "queue_share": signal.queue_share}
        self._state = replace(self._state, expectation=None, served_s=None)
        if expected.has_helped(**seen, limit=self.settings.backlog_share):
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
            assert signal.queue_share is not None
            expected = Expectation(
                signal.time_s,
                max(1, signal.executors),
                decision.executors,
                signal.processed_rows_per_s,
                signal.queue_share,
            )
            self._state = replace(self._state, expectation=expected, served_s=None)
        return decision

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
