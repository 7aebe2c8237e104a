"""The policy engine: asks policies in their order, lets one decision through, and compares its effect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.control.sizing.base import LEAST_LOOKS, SizingContext, above, silent, windows_to_watch
from penstock.control.sizing.policies import POLICIES
from penstock.control.sizing.resizer import Resized, resize
from penstock.control.sizing.sharing import shared_out
from penstock.control.sizing.usage import Usage, figure_of
from penstock.model.sizing import Capacity, EngineShape, Resource, SizingDecision, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.control.sizing.base import SizingPolicy
    from penstock.model.sizing import UsageSignal
    from penstock.settings import SizingSettings

_STALE = {
    Resource.HEAP: ("heap_committed_mb", "heap_low_mb", "heap_live_mb", "likely_resident_mb", "memory_used_mb",
                    "jvm_rss_mb", "gc_fraction"),
    Resource.MEMORY: (),
    Resource.CPU: ("heap_used_mb", "heap_committed_mb", "heap_low_mb", "heap_live_mb", "likely_resident_mb",
                   "memory_used_mb", "jvm_rss_mb", "python_rss_mb", "python_vm_mb", "off_heap_mb", "gc_fraction"),
}  # fmt: skip
"""Figures that a change of a resource alters, so that what was seen before says nothing any more."""
_MORE_EXECUTORS = (Resource.CPU, Resource.PARALLELISM)
_FALLEN = 0.7
"""A second step down of a resource is for a load that has fallen below this part of what it was at the first."""
_USUAL_LOAD, _MOST_OF_LOAD = 0.5, 0.9
"""Quantiles of the load: the usual one when a step down is made, and what is seldom exceeded, to say later that it
fell. The first windows after a start tell of rows that had waited: by one quantile for both, the load would fall as
soon as these are few."""
_EFFECT_WINDOWS = 2
_MOST_PAUSED = 0.05
"""Part of the time that a step down watches which looks at what lives may take; a heap of many gigabytes stands still
for seconds."""


@dataclass(frozen=True, slots=True)
class Round:
    """What all policies said in one round, and the shape that came of it (None: as it is)."""

    verdicts: tuple[Verdict, ...]
    decision: SizingDecision | None = None
    resized: Resized | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a decision expected and what was seen after it took effect."""

    decision: SizingDecision
    seen: Mapping[str, float]

    @property
    def is_as_expected(self) -> bool:
        """Whether every figure that is known is at most what was expected; rows that are done are to reach it."""
        return all(
            value >= 0.95 * self.decision.expected[name]
            if name == "processed_rows_per_s"
            else value <= 1.05 * self.decision.expected[name]
            for name, value in self.seen.items()
        )


@dataclass(slots=True)
class _Past:
    """What one application's log says that later decisions depend on."""

    down_at_rows_per_s: dict[Resource, float | None] = field(default_factory=dict)
    down_from: dict[Resource, float] = field(default_factory=dict)
    unplaced: dict[str, float] = field(default_factory=dict)


class PolicyEngine:
    """Decides about one application, one action at a time.

    Every round all policies are asked in their order, so that each verdict can be shown, but only the first decision
    goes through. While an action is in flight nobody is asked. When it is done, two windows later, what was expected is
    compared with what is seen.

    Parameters
    ----------
    settings
        Limits, margins and windows.
    shape
        What the engine is now.
    hands_off
        Resources that the operator sizes by hand.
    policies
        Others than P1 to P8, for an engine whose number of executors somebody else decides.
    """

    def __init__(
        self,
        settings: SizingSettings,
        shape: EngineShape,
        *,
        hands_off: Collection[Resource] = (),
        policies: tuple[SizingPolicy, ...] = POLICIES,
    ) -> None:
        self.shape = shape
        self.hands_off = set(hands_off)
        self.usage = Usage(settings.half_life_s)
        self.in_flight: SizingDecision | None = None
        self._settings, self._policies = settings, policies
        self._settled_windows = 0
        self._awaiting: SizingDecision | None = None
        self._blocked: dict[Resource, str] = {}
        self._past = _Past()

    # -- what is seen ------------------------------------------------------------------------------------------------

    def observe(self, seen: UsageSignal) -> Effect | None:
        """Take in one window; gives the effect of the last action once it can be told."""
        if self.in_flight is not None:
            return None
        shape, settings = self.shape, self._settings
        self._settled_windows += 1
        self.usage.add(
            seen,
            cores=shape.total(Resource.CPU),
            slots=float(shape.slots),
            is_clean=is_clean(seen, shape, settings),
            is_burst=is_clean(replace(seen, gc_fraction=None), shape, settings),
        )
        if self._awaiting is None or self._settled_windows < _EFFECT_WINDOWS:
            return None
        decision, self._awaiting = self._awaiting, None
        figures = {name: figure_of(seen, name) for name in decision.expected}
        return Effect(decision, {name: value for name, value in figures.items() if value is not None})

    def judge(self, capacity: Capacity | None = None) -> Round:
        """Ask all policies; the first decision that has room is the one."""
        capacity = capacity or Capacity()
        verdicts: list[Verdict] = []
        chosen: tuple[SizingDecision, Resized] | None = None
        cores_go_first = self._cores_go_first(capacity)
        for policy in self._policies:
            verdict = self._ask(policy, cores_go_first=cores_go_first)
            decision = verdict.decision
            if decision is not None and chosen is None:
                resized = resize(self.shape, decision, capacity)
                if policy.is_up and policy.resource in _MORE_EXECUTORS:
                    shape = shared_out(self.shape, resized.shape, self.usage, self._settings)
                    resized = replace(resized, shape=shape)
                if resized.shape != self.shape:
                    chosen = decision, resized
                elif resized.unplaced:
                    verdict = Verdict(
                        verdict.policy,
                        verdict.title,
                        f"{verdict.reason}; {resized.unplaced}",
                        verdict.figures,
                        decision,
                    )
                    # What is short and has no room must not be taken for enough by those below.
                    chosen = decision, resized
            verdicts.append(verdict)
        if chosen is None:
            return Round(tuple(verdicts))
        return Round(tuple(verdicts), *chosen)

    def _cores_go_first(self, capacity: Capacity) -> bool:
        """Whether a step down of CPU is due and would change the shape."""
        for policy in self._policies:
            if policy.resource is Resource.CPU and not policy.is_up:
                decision = self._ask(policy).decision
                return decision is not None and resize(self.shape, decision, capacity).shape != self.shape
        return False

    def _ask(self, policy: SizingPolicy, *, cores_go_first: bool = False) -> Verdict:
        if policy.resource in self.hands_off:
            return silent(policy, f"{policy.resource} is sized by the operator")
        if policy.resource in self._blocked:
            return silent(policy, self._blocked[policy.resource])
        was_made_smaller = self._was_down(policy.resource) and not self._has_risen(policy.resource)
        context = SizingContext(
            self.shape,
            self.usage,
            self._settings,
            self._settled_windows,
            was_made_smaller=was_made_smaller,
            was_enough=self._past.down_from.get(policy.resource) if was_made_smaller else None,
            cores_go_first=cores_go_first,
            awaits_looks=self.awaits_looks,
        )
        verdict = policy.judge(context)
        if verdict.decision is None or policy.is_up or not self._was_down(policy.resource):
            return verdict
        return silent(
            policy, f"{policy.resource} was made smaller already, and the load has not fallen", verdict.figures
        )

    def _was_down(self, resource: Resource) -> bool:
        """Whether a step down was made already at a load that has not fallen since."""
        if resource not in self._past.down_at_rows_per_s:
            return False
        before, now = self._past.down_at_rows_per_s[resource], self.usage.quantile("arrival_rows_per_s", _MOST_OF_LOAD)
        return before is None or now is None or now > _FALLEN * before

    def _has_risen(self, resource: Resource) -> bool:
        """Whether more comes than when a resource was made smaller."""
        before, now = self._past.down_at_rows_per_s.get(resource), self.usage.newest("arrival_rows_per_s")
        return before is not None and now is not None and now > (1 + self._settings.dead_band) * before

    @property
    def wants_heap_look(self) -> bool:
        """Whether a step down of the heap may be near, and it has not been seen often enough what lives in it.

        Each look collects all garbage while queries run. So there are no more than the settings say, in the last of the
        windows that a step down watches, and no third one where two took a noticeable part of the time of all of these.
        """
        is_ours = Resource.HEAP not in self.hands_off and Resource.HEAP not in self._blocked
        first = max(1, windows_to_watch(self._settings) - self._settings.heap_looks - 1)
        if self.in_flight is not None or not is_ours or self._was_down(Resource.HEAP):
            return False
        looks = self.usage.heap_looks
        paused_s = sum(look.full_gc_s or 0.0 for look in looks)
        is_cheap = len(looks) < LEAST_LOOKS or paused_s < _MOST_PAUSED * self._settings.down_after_s
        return self.usage.clean_windows >= first and len(looks) < self._settings.heap_looks and is_cheap

    @property
    def awaits_looks(self) -> bool:
        """Whether looks have begun and more are to come; not for ever, since slots may never be free."""
        patience = 2 * windows_to_watch(self._settings)
        return bool(self.usage.heap_looks) and self.wants_heap_look and self.usage.clean_windows < patience

    # -- what is done ------------------------------------------------------------------------------------------------

    def begin(self, decision: SizingDecision) -> None:
        """An action is under way; until :meth:`end` nothing else is decided."""
        self.in_flight = decision

    def end(self, shape: EngineShape, *, is_done: bool) -> None:
        """The action is over; the engine has that shape now."""
        decision, self.in_flight = self.in_flight, None
        if decision is None:
            return
        before = self.shape
        if is_done:
            is_up = decision.total > before.total(decision.resource)
            if not is_up:
                usual = self.usage.quantile("arrival_rows_per_s", _USUAL_LOAD)
                self._past.down_at_rows_per_s[decision.resource] = usual
                self._past.down_from[decision.resource] = before.total(decision.resource)
            self._awaiting = decision
            self._take_shape(shape, decision.resource, is_up=is_up)
        else:
            self.usage.on_change(is_up=False, stale=())

    def take_by_hand(self, shape: EngineShape) -> tuple[Resource, ...]:
        """Somebody gave the engine another shape: take it over, and leave what was changed to the operator."""
        changed = tuple(each for each in Resource if shape.total(each) != self.shape.total(each))
        if shape.heap_mb != self.shape.heap_mb and Resource.HEAP in changed:
            # The heap is part of the memory; whoever changes only the one has not sized the other.
            beside = shape.memory_mb - shape.heap_mb == self.shape.memory_mb - self.shape.heap_mb
            changed = tuple(each for each in changed if each is not Resource.MEMORY or not beside)
        self.hands_off.update(changed)
        for resource in changed or (Resource.CPU,):
            self._take_shape(shape, resource, is_up=True)
        return changed

    def block(self, resource: Resource, reason: str) -> None:
        """Do not try a resource again: it failed twice."""
        self._blocked[resource] = reason

    def _take_shape(self, shape: EngineShape, resource: Resource, *, is_up: bool) -> None:
        spread = shape.executors != self.shape.executors
        stale = _STALE[Resource.CPU] if spread else _STALE.get(resource, ())
        if resource is Resource.HEAP and is_up and not spread:
            stale = (*stale, "heap_used_mb")
        self.shape = shape
        self._settled_windows = 0
        keeps_looks = resource is Resource.HEAP and not is_up and not spread
        self.usage.on_change(is_up=is_up, stale=stale, keeps_looks=keeps_looks)


def is_clean(seen: UsageSignal, shape: EngineShape, settings: SizingSettings) -> bool:
    """Whether a window tells what the engine needs: nothing is short, lost or catching up.

    Examples
    --------
    >>> from penstock.model.sizing import UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> calm = UsageSignal(0.0, gc_fraction=0.02, cpu_fraction=0.5)
    >>> thrash = UsageSignal(0.0, gc_fraction=0.4, cpu_fraction=0.9)
    >>> shape, settings = EngineShape(1, 512, 384), SizingSettings()
    >>> is_clean(calm, shape, settings), is_clean(thrash, shape, settings)
    (True, False)
    """
    used = seen.memory_used_mb
    arrival, processed = seen.arrival_rows_per_s, seen.processed_rows_per_s
    short = (
        seen.lost_to_heap or seen.lost_to_memory,
        (figure_of(seen, "gc_fraction") or 0.0) > above(settings.gc_limit, settings),
        used is not None and used > settings.memory_limit * shape.memory_mb,
        (figure_of(seen, "cpu_fraction") or 0.0) > above(settings.cpu_limit, settings),
        arrival is not None and processed is not None and processed < 0.9 * arrival,
        arrival is not None and seen.backlog_rows is not None and seen.backlog_rows > settings.window_s * arrival,
    )
    return not any(short)
