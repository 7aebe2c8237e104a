"""The slow tier: how many executors an application is to have, by a policy within bounds.

It is asked every second or so and decides once in a sample; but where the fast tier cannot keep a goal, or sheds to
keep it, it decides at once (docs/adr/0014-one-loop.md). No clock, no cluster: what is there comes in as a view, what is
to be goes out as decisions, and whoever applies them shows in the next view what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.control.executor_outcomes import ExecutorOutcomes, OutcomeState
from penstock.control.executor_plan import clamp, plan_step
from penstock.control.executor_rate import ExecutorRate
from penstock.control.scaling.by_name import make_scaler
from penstock.control.scaling.capacity import whole_executors
from penstock.control.scaling_numbers import ScalingNumbers, scaler_setup
from penstock.control.scaling_sample import Sample
from penstock.model.decision import Executors, Fault, Hold, Infeasible
from penstock.model.evolve import evolve
from penstock.model.scaling import Need, ScaleKind

if TYPE_CHECKING:
    from penstock.control.executor_plan import Clamped
    from penstock.control.scaling.base import Scaler
    from penstock.control.workload import Workload
    from penstock.estimate.service_time import ServiceTime
    from penstock.model.application import ExecutorsDeclaration
    from penstock.model.decision import Decision
    from penstock.model.executors import EngineView
    from penstock.model.scaling import ScaleDecision, ScalingSignal
    from penstock.model.series import SeriesPoint

_MIN_PAUSE_S = 2.0
_SURE = 0.95
_BLIND_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Pressure:
    """What the fast tier said last: rows are shed, or a goal cannot be met."""

    said_s: float
    reason: str
    demand_rows_per_s: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the policy wants, until it is asked again."""

    executors: int
    reason: str
    cause: str


@dataclass(frozen=True, slots=True)
class ScalingTierState:
    """Snapshot of a :class:`ScalingTier`; ``scaler`` is that of the policy.

    ``learned`` is what an earlier run left of it, taken over where the policy is the same.
    """

    decision: Executors | None = None
    decided_s: float = float("-inf")
    outcomes: OutcomeState = field(default_factory=OutcomeState)
    sample: Sample = field(default_factory=Sample)
    complete_s: float | None = None
    answer: Answer | None = None
    pressure: Pressure | None = None
    pressed: int = 0
    rate: ExecutorRate = field(default_factory=ExecutorRate)
    refused: str = ""
    held: int | None = None
    fault: str = ""
    scaler: Any = None
    learned: Any = None
    blind_samples: int = 0


class ScalingTier:
    """Decides how many executors an application is to have, and tells what came of it.

    Parameters
    ----------
    declaration
        Bounds, policy and budget.
    settings
        Samples, limits and expected times.
    goal_s
        Latency goal of the queries, the shortest where they differ; may be set anew at any time.
    trigger_s
        How often a batch is to begin, for policies that go by it; None is batch after batch.
    state
        A snapshot to go on from; learned times alone are a state, too.
    scaler
        Another policy than the declared one, guards included.
    is_acting
        Whether decisions are applied; where they are not, nobody is waited for.

    Examples
    --------
    >>> from penstock.control.workload import Workload
    >>> from penstock.model import EngineView, Executor, ExecutorBounds, ExecutorsDeclaration
    >>> from penstock.settings import ScalingSettings
    >>> settings = ScalingSettings(start_s=6.0, warm_up_s=0.0)
    >>> tier = ScalingTier(ExecutorsDeclaration(ExecutorBounds(2, 12)), settings, goal_s=10.0)
    >>> view, load = EngineView((Executor("0"), Executor("1"))), Workload(3_000.0, 0.0, 1.0, 800.0, 1.0, 900.0)
    >>> [decision.reason for decision in tier.observe(view, load, 100.0)]
    ['the first size, of 2 to 12 executors']
    >>> tier.on_pressure(101.0, demand_rows_per_s=3_000.0, reason="rows are being shed")
    >>> load = Workload(3_000.0, 0.0, 1.0, 800.0, 1.0, 900.0, 2_200.0, measured_from_s=99.0)
    >>> [decision] = tier.observe(view, load, 102.0)
    >>> decision.executors, decision.reason
    (8, 'rows are being shed: 3,000 rows/s arrive, one executor does 400')
    """

    def __init__(
        self,
        declaration: ExecutorsDeclaration,
        settings: ScalingNumbers,
        *,
        goal_s: float,
        trigger_s: float | None = None,
        state: ScalingTierState | None = None,
        scaler: Scaler | None = None,
        is_acting: bool = True,
    ) -> None:
        self.bounds = declaration.bounds
        self.goal_s = goal_s
        self.trigger_s = trigger_s
        self._settings = settings
        self._is_acting = is_acting
        self._scaler = scaler or make_scaler(declaration.policy, scaler_setup(declaration, settings))
        self._state = state or ScalingTierState()
        self._outcomes = ExecutorOutcomes(settings.start_s, self._state.outcomes)
        if self._state.scaler is not None:
            self._scaler.restore(self._state.scaler)
        self._recall()

    def snapshot(self) -> ScalingTierState:
        """Everything that decisions depend on; a tier that is built from it goes on exactly where this one stands."""
        return evolve(self._state, outcomes=self._outcomes.snapshot(), scaler=self._scaler.snapshot())

    def remembered(self) -> dict[str, Any] | None:
        """What the policy learned, as plain data to be kept over a restart; None where it learns nothing."""
        learned = self._scaler.remembered()
        return None if learned is None else {"policy": self._scaler.name, "learned": learned}

    def _recall(self) -> None:
        """Take over what an earlier run left; what does not fit is left alone, and learned anew."""
        kept = self._state.learned
        self._state = evolve(self._state, learned=None)
        if not isinstance(kept, dict) or kept.get("policy") != self._scaler.name:
            return
        fresh = self._scaler.snapshot()
        try:
            self._scaler.recall(kept["learned"])
        except (KeyError, TypeError, ValueError, AttributeError):
            self._scaler.restore(fresh)

    @property
    def decision(self) -> Executors | None:
        """The decision in force, to be applied again as long as it is not there; None before the first."""
        return self._state.decision

    @property
    def target(self) -> int:
        """Executors that are to serve."""
        return self.bounds.first if self._state.decision is None else self._state.decision.executors

    @property
    def is_settled(self) -> bool:
        """Whether all that was decided is there."""
        return self._outcomes.is_settled

    def relief_s(self, now_s: float) -> float:
        """How long executors that are asked for now take to come; 0 where there can be no more.

        The last ones that can come have a goal's time to work off what they found waiting.
        """
        start_s = self.starts.quantile_s(_SURE) or self._settings.start_s
        is_bridged = self.is_settled and now_s > self._state.decided_s + start_s + self.goal_s
        is_full = self.target >= self.bounds.max_executors and is_bridged
        return 0.0 if is_full or not self._is_acting else start_s

    @property
    def starts(self) -> ServiceTime:
        """How long executors took to come."""
        return self._outcomes.starts

    @property
    def releases(self) -> ServiceTime:
        """How long executors took to go."""
        return self._outcomes.releases

    @property
    def points(self) -> tuple[SeriesPoint, ...]:
        """Figures of the last observation, for the time series."""
        return tuple(self._outcomes.points)

    def on_pressure(self, now_s: float, *, reason: str, demand_rows_per_s: float | None = None) -> None:
        """The fast tier sheds, or cannot keep a goal: executors are wanted before the sample ends.

        It holds until :meth:`on_relief`, or until it was not said again for two samples. ``demand_rows_per_s`` is what
        arrives at all queries, shed rows included; what the workload tells counts where it is more.
        """
        self._state = evolve(self._state, pressure=Pressure(now_s, reason, demand_rows_per_s))

    def on_relief(self) -> None:
        """Every goal is kept and nothing is shed: the policy is free again."""
        self._state = evolve(self._state, pressure=None, pressed=0)

    def observe(self, view: EngineView, workload: Workload, now_s: float) -> list[Decision]:
        """One cycle: what came of earlier decisions, then what is to be."""
        told: list[Decision] = []
        if self._state.decision is None:
            told.append(self._first(now_s))
        assert self._state.decision is not None
        told += self._outcomes.settle(view, self._state.decision, now_s)
        told += self._ask_when_due(view, workload, now_s)
        told += self._decide(view, now_s)
        if self._is_acting:
            current = self._state.decision
            step = plan_step(view.executors, current.executors, standby=current.standby)
            self._outcomes.expect(step, view, current.number, now_s)
        return told

    # -- what is wanted ----------------------------------------------------------------------------------------------

    def _first(self, now_s: float) -> Executors:
        low, high, first = self.bounds.min_executors, self.bounds.max_executors, self.bounds.first
        standby = self.bounds.total(first) - first
        waiting = f" with {standby} on standby" if standby else ""
        decision = Executors(
            cause="start",
            reason=f"the first size, of {low} to {high} executors{waiting}",
            executors=first,
            standby=standby,
            number=1,
        )
        self._state = evolve(self._state, decision=decision, decided_s=now_s)
        self._outcomes.begin(decision)
        return decision

    def _ask_when_due(self, view: EngineView, workload: Workload, now_s: float) -> list[Decision]:
        """Take the observation in, and ask the policy where the sample is over or cannot be waited for."""
        state, settings = self._state, self._settings
        rate = state.rate.after(workload, len(view.serving), now_s, warm_up_s=settings.warm_up_s)
        complete_s = state.complete_s
        if complete_s is None and workload.backlog_rows is not None and workload.busy_share is not None:
            complete_s = now_s
        if state.pressure is not None and now_s > state.pressure.said_s + 2.0 * settings.interval_s:
            state = evolve(state, pressure=None, pressed=0)
        self._state = state = evolve(state, rate=rate, complete_s=complete_s)
        if complete_s is not None and now_s < complete_s + settings.warm_up_s:
            return []
        sample = state.sample.with_(workload, now_s, goal_s=self.goal_s)
        need = self._need(workload)
        assert sample.began_s is not None
        is_over = now_s - sample.began_s >= settings.interval_s
        is_pressing = (
            need is not None
            and need.executors > max(self.target, state.pressed)
            and now_s >= state.decided_s + _MIN_PAUSE_S
        )
        if not is_over and not is_pressing:
            self._state = evolve(state, sample=sample)
            return []
        pressed = 0 if need is None else need.executors
        self._state = evolve(state, sample=sample.following(), pressed=pressed)
        return self._ask(sample, need, view)

    def _need(self, workload: Workload) -> Need | None:
        """Executors that unshed demand takes, by what one does in busy time; None where nobody presses or knows."""
        pressure, rate = self._state.pressure, self._state.rate.rows_per_s
        if pressure is None or not rate:
            return None
        demand = max(pressure.demand_rows_per_s or 0.0, workload.arrival_rows_per_s or 0.0)
        needed = max(1, whole_executors(demand / (rate * self._scaler.fill)))
        return Need(needed, f"{pressure.reason}: {demand:,.0f} rows/s arrive, one executor does {rate:,.0f}")

    def _ask(self, sample: Sample, need: Need | None, view: EngineView) -> list[Decision]:
        serving = len(view.serving)
        signal = sample.signal(
            executors=serving,
            # Where nothing is applied, what was decided before is not there: each decision is by what is.
            requested=self.target if self._is_acting else max(1, serving),
            goal_s=self.goal_s,
            trigger_s=self.trigger_s,
            start_s=self.starts.quantile_s(_SURE),
            cores_each=view.cores / max(1, serving),
        )
        is_pressed = self._state.pressure is not None
        if not self._settings.bound_by_partitions:
            signal = evolve(signal, useful_executors=None)
        signal = evolve(signal, need=need, is_shedding=signal.is_shedding or is_pressed)
        try:
            found = self._scaler.decide(signal)
        except Exception as error:  # noqa: BLE001 - a policy that fails must not take the executors with it
            return self._failed(error)
        # What there may not be is left to clamp(), which knows of room, too.
        is_refused = found.kind is ScaleKind.INFEASIBLE and found.wanted is not None
        wanted = found.wanted if is_refused and found.wanted is not None else found.executors
        cause = "pressure" if need is not None and found.reason.startswith(need.reason) else self._scaler.name
        self._state = evolve(self._state, answer=Answer(wanted, found.reason, cause), fault="")
        told = self._told_blind(signal)
        if found.notice:
            told.append(Hold(cause=self._scaler.name, reason=found.notice))
        return [*told, *self._held_back(found, cause)]

    def _told_blind(self, signal: ScalingSignal) -> list[Decision]:
        """Say once that signals are missing; the first batches tell nothing yet, so not in the first samples."""
        blind = 0 if signal.is_complete else self._state.blind_samples + 1
        self._state = evolve(self._state, blind_samples=blind)
        if blind != _BLIND_SAMPLES:
            return []
        names = {"rows that arrive": signal.demand_rows_per_s, "rows that wait": signal.backlog_rows}
        missing = [name for name, value in names.items() if value is None] or ["what batches did"]
        reason = (
            f"nobody tells the {' and the '.join(missing)}: executors stay as they are; read from a source that tells "
            "how many rows wait (Kafka, files), and look with 'penstock status' whether every query has batches"
        )
        return [Hold(cause="signals", reason=reason)]

    def _held_back(self, found: ScaleDecision, cause: str) -> list[Decision]:
        """A wish that the guards hold back is told once, as long as it is the same."""
        is_held = found.kind is ScaleKind.HOLD and found.wanted not in (None, found.executors)
        held, before = found.wanted if is_held else None, self._state.held
        self._state = evolve(self._state, held=held)
        return [Hold(cause=cause, reason=found.reason)] if held is not None and held != before else []

    def _failed(self, error: Exception) -> list[Decision]:
        """Fail open, and say so once as long as it goes on."""
        what = str(error).splitlines()[0] if str(error) else "no message"
        reason = f"{type(error).__name__}: {what}; the number of executors stays as it is"
        before = self._state.fault
        self._state = evolve(self._state, fault=reason)
        return [] if reason == before else [Fault(cause=f"policy {self._scaler.name}", reason=reason)]

    # -- what is to be -----------------------------------------------------------------------------------------------

    def _decide(self, view: EngineView, now_s: float) -> list[Decision]:
        answer = self._state.answer
        if answer is None:
            return []
        held = clamp(answer.executors, self.bounds, view.available)
        is_short, before = held.executors < answer.executors, self._state.refused
        refused = held.limit if is_short else ""
        self._state = evolve(self._state, refused=refused)
        told: list[Decision] = []
        if refused and refused != before:
            told.append(Infeasible(cause=answer.cause, reason=f"{held.why}: {answer.reason}"))
        if held.executors != self.target:
            told += self._change(answer, held, view, now_s)
        elif before and not refused:
            told.append(Hold(cause=answer.cause, reason=f"{answer.executors} executors fit again: {answer.reason}"))
        return told

    def _change(self, answer: Answer, held: Clamped, view: EngineView, now_s: float) -> list[Decision]:
        current = self._state.decision
        assert current is not None
        expected_s = self._outcomes.expected_s(current.executors, held.executors, view)
        decision = Executors(
            cause=answer.cause,
            reason=f"{answer.reason}; {held.why}" if held.why else answer.reason,
            expected={} if expected_s is None else {"service_s": expected_s},
            executors=held.executors,
            standby=self.bounds.total(held.executors) - held.executors,
            previous_executors=current.executors,
            number=current.number + 1,
        )
        self._state = evolve(self._state, decision=decision, decided_s=now_s)
        return [decision, *(self._outcomes.follow(decision, view, now_s) if self._is_acting else [])]
