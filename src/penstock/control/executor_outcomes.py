"""What comes of decisions on executors: who came, who left, who was lost, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.control.executor_ledger import Ledger
from penstock.estimate.service_time import ServiceTime, ServiceTimeState
from penstock.model.action import APPLICATION
from penstock.model.decision import Executors, ExecutorsDone, Fault, Infeasible
from penstock.model.series import Metric, SeriesPoint

if TYPE_CHECKING:
    from penstock.control.executor_ledger import Gone, Joined
    from penstock.control.executor_plan import Step
    from penstock.model.decision import Decision
    from penstock.model.executors import EngineView

_MIN_PATIENCE_S = 60.0
_PATIENCE_IN_STARTS = 3.0
_REMEMBERED = 32


@dataclass(frozen=True, slots=True)
class Growth:
    """A size that is not there yet: decided on, or to be there again after a loss (then ``number`` is None)."""

    number: int | None
    cause: str
    since: str
    decided_s: float
    previous: int
    target: int
    expected_s: float | None
    serving: frozenset[str]
    called_s: float | None = None
    is_overdue: bool = False


@dataclass(frozen=True, slots=True)
class Shrinking:
    """Executors that are on their way out by one decision; none yet where it was made in this cycle."""

    number: int
    decided_s: float
    executor_ids: frozenset[str] = frozenset()
    longest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class OutcomeState:
    """Everything that is awaited, and what was learned of how long it takes."""

    ledger: Ledger = field(default_factory=Ledger)
    starts: ServiceTimeState = field(default_factory=ServiceTimeState)
    releases: ServiceTimeState = field(default_factory=ServiceTimeState)
    growth: Growth | None = None
    shrinking: tuple[Shrinking, ...] = ()
    served: int | None = None
    total: int = 0


class ExecutorOutcomes:
    """Follows decisions on executors until they are there, and learns how long that takes.

    Parameters
    ----------
    start_s
        How long an executor is expected to take to come until one was seen to.
    state
        A snapshot to go on from.
    """

    def __init__(self, start_s: float, state: OutcomeState | None = None) -> None:
        self._start_s = start_s
        self._state = state or OutcomeState()
        self.starts = ServiceTime(_REMEMBERED, self._state.starts)
        self.releases = ServiceTime(_REMEMBERED, self._state.releases)
        self.points: list[SeriesPoint] = []

    def snapshot(self) -> OutcomeState:
        """The whole state."""
        return replace(self._state, starts=self.starts.snapshot(), releases=self.releases.snapshot())

    @property
    def is_settled(self) -> bool:
        """Whether all that was decided is there: nobody is waited for, nobody is on the way out."""
        return self._state.growth is None and not self._state.shrinking

    @property
    def start_s(self) -> float:
        """How long an executor takes to come: the median of what was seen, or what was expected beforehand."""
        return self.starts.quantile_s(0.5) or self._start_s

    def expected_s(self, previous: int, executors: int, view: EngineView) -> float | None:
        """How long a change of size should take; None where nothing is known."""
        if executors < previous:
            return self.releases.quantile_s(0.5)
        return 0.0 if executors - previous <= len(view.standby) else self.start_s

    # -- what happened -----------------------------------------------------------------------------------------------

    def settle(self, view: EngineView, current: Executors, now_s: float) -> list[Decision]:
        """Compare what is there with what is awaited; ``current`` is the decision in force."""
        added_s = {executor.executor_id: executor.added_s for executor in view.executors}
        ledger, joined, gone = self._state.ledger.update(added_s, now_s=now_s)
        self._state = replace(self._state, ledger=ledger)
        self._learn(joined, gone, view, now_s)
        told = self._losses([one.executor_id for one in gone if one.release_s is None], view, current, now_s)
        told += self._released(gone, len(view.serving))
        told += self._shrunk_to_none(view, current, now_s)
        told += self._grown(view, now_s)
        return told

    def _learn(self, joined: list[Joined], gone: list[Gone], view: EngineView, now_s: float) -> None:
        starts = [(one.executor_id, one.start_s) for one in joined if one.start_s is not None]
        releases = [(one.executor_id, one.release_s) for one in gone if one.release_s is not None]
        self.points = []
        for learned, metric, times in (
            (self.starts, Metric.EXECUTOR_START_S, starts),
            (self.releases, Metric.EXECUTOR_RELEASE_S, releases),
        ):
            for executor_id, seconds in times:
                learned.observe(seconds)
                self.points.append(SeriesPoint(now_s, APPLICATION, metric, seconds, subject=executor_id))
        if len(view.serving) != self._state.served:
            self._state = replace(self._state, served=len(view.serving))
            self.points.append(SeriesPoint(now_s, APPLICATION, Metric.EXECUTORS_SERVING, len(view.serving)))

    def _losses(self, lost: list[str], view: EngineView, current: Executors, now_s: float) -> list[Decision]:
        if not lost:
            return []
        names = ", ".join(lost)
        cause, total = f"loss of executor {names}", self._state.total
        reason = f"executor {names} was lost; the cluster was asked for {total} in all and is to replace it"
        self._state = replace(self._state, ledger=self._state.ledger.ask(len(lost), now_s=now_s))
        serving = frozenset(view.serving)
        if self._state.growth is None and len(serving) < current.executors:
            growth = Growth(
                None, cause, "the loss was seen", now_s, len(serving), current.executors, self.start_s, serving
            )
            self._state = replace(self._state, growth=growth)
        return [Fault(cause=cause, reason=reason)]

    def _released(self, gone: list[Gone], serving: int) -> list[Decision]:
        told: list[Decision] = []
        times = {one.executor_id: one.release_s for one in gone if one.release_s is not None}
        left = []
        for one in self._state.shrinking:
            longest_s = max((times[each] for each in one.executor_ids if each in times), default=0.0)
            shrinking = replace(one, longest_s=max(one.longest_s, longest_s))
            if not one.executor_ids or self._state.ledger.leaving(one.number):
                left.append(shrinking)
                continue
            count = len(one.executor_ids)
            several = "s" if count > 1 else ""
            reason = f"{count} executor{several} finished all tasks and left, {serving} left serving"
            told.append(_done(one.number, reason, shrinking.longest_s, None))
        self._state = replace(self._state, shrinking=tuple(left))
        return told

    def _shrunk_to_none(self, view: EngineView, current: Executors, now_s: float) -> list[Decision]:
        """A smaller size that is there without anybody leaving: they had not come yet, or wait on standby."""
        over = [
            one
            for one in self._state.shrinking
            if not one.executor_ids and (len(view.serving) <= current.executors or one.number != current.number)
        ]
        self._state = replace(self._state, shrinking=tuple(one for one in self._state.shrinking if one not in over))
        reason = f"{len(view.serving)} executors serve, none had to leave"
        return [_done(one.number, reason, now_s - one.decided_s, None) for one in over]

    def _grown(self, view: EngineView, now_s: float) -> list[Decision]:
        growth = self._state.growth
        if growth is None:
            return []
        if len(view.serving) >= growth.target:
            self._state = replace(self._state, growth=None)
            added_s = {executor.executor_id: executor.added_s for executor in view.executors}
            moments = [added_s[one] for one in view.serving if one not in growth.serving]
            from_standby = sum(moment < growth.decided_s for moment in moments)
            moments += [] if growth.called_s is None else [growth.called_s]
            took_s = max(0.0, max(moments, default=now_s) - growth.decided_s)
            origin = f", {from_standby} of them from standby" if from_standby else ""
            reason = f"{growth.previous} -> {len(view.serving)} executors serve{origin}"
            return [_done(growth.number, reason, took_s, growth.expected_s, since=growth.since, cause=growth.cause)]
        waited_s = now_s - growth.decided_s
        if growth.is_overdue or waited_s <= self._patience_s():
            return []
        self._state = replace(self._state, growth=replace(growth, is_overdue=True))
        served = f"{len(view.serving)} of {growth.target} executors serve {waited_s:.0f} s after {growth.since}"
        reason = f"{served}; the cluster gives no more now, and the request stands"
        return [Infeasible(cause=growth.cause, reason=reason)]

    def _patience_s(self) -> float:
        return max(_MIN_PATIENCE_S, _PATIENCE_IN_STARTS * (self.starts.quantile_s(0.95) or 0.0))

    # -- what was decided --------------------------------------------------------------------------------------------

    def begin(self, decision: Executors) -> None:
        """The first size: what is there already, or comes by itself, is neither learned from nor awaited."""
        self._state = replace(self._state, total=decision.executors + decision.standby)

    def follow(self, decision: Executors, view: EngineView, now_s: float) -> list[Decision]:
        """Await what a decision is to bring about; one that it overtakes has its end on record."""
        state, total = self._state, decision.executors + decision.standby
        previous = decision.previous_executors or 0
        # Executors that leave count with the cluster until they are gone, and come on top of what is asked for.
        state = replace(state, ledger=state.ledger.ask(total - state.total, now_s=now_s), total=total, growth=None)
        told: list[Decision] = (
            [] if self._state.growth is None else [_overtaken(self._state.growth, decision, view, now_s)]
        )
        if decision.executors > previous:
            growth = Growth(
                decision.number,
                _cause(decision.number),
                "the decision",
                now_s,
                previous,
                decision.executors,
                decision.expected.get("service_s"),
                frozenset(view.serving),
            )
            state = replace(state, growth=growth)
        else:
            state = replace(state, shrinking=(*state.shrinking, Shrinking(decision.number, now_s)))
        self._state = state
        return told

    def expect(self, step: Step, view: EngineView, number: int, now_s: float) -> None:
        """What is about to be applied: who leaves must not be taken for lost, who is called serves from now on."""
        state = self._state
        # One that stays and does not leave was not released after all: the call failed, or another goes in its place.
        staying = {one.executor_id for one in view.executors if not one.is_leaving} - set(step.release)
        stayed = staying & set(state.ledger.released)
        ledger = state.ledger.keep(stayed)
        new = set(step.release) - set(ledger.released)
        ledger = ledger.release(sorted(new), number=number, now_s=now_s)
        shrinking = tuple(replace(one, executor_ids=one.executor_ids - stayed) for one in state.shrinking)
        if new:
            own = next((one for one in shrinking if one.number == number), Shrinking(number, now_s))
            others = tuple(one for one in shrinking if one.number != number)
            shrinking = (*others, replace(own, executor_ids=own.executor_ids | new))
        growth = state.growth
        if step.call and growth is not None:
            growth = replace(growth, called_s=now_s)
        self._state = replace(state, ledger=ledger, shrinking=shrinking, growth=growth)


def _cause(number: int) -> str:
    return f"decision {number}"


def _done(
    number: int | None,
    reason: str,
    took_s: float,
    expected_s: float | None,
    *,
    since: str = "the decision",
    cause: str | None = None,
) -> ExecutorsDone:
    told = "" if expected_s is None else f" ({expected_s:.1f} s was expected)"
    return ExecutorsDone(
        cause=cause or _cause(number or 0),
        reason=f"{reason}, {took_s:.1f} s after {since}{told}",
        took_s=took_s,
        expected_s=expected_s,
        number=number,
    )


def _overtaken(growth: Growth, decision: Executors, view: EngineView, now_s: float) -> ExecutorsDone:
    how_far = f"{len(view.serving)} of {growth.target} executors served {now_s - growth.decided_s:.1f} s after"
    reason = f"{how_far} {growth.since}, when {_cause(decision.number)} overtook it"
    return ExecutorsDone(cause=growth.cause, reason=reason, expected_s=growth.expected_s, number=growth.number)
