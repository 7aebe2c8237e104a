"""The sizing tier: windows in, changes of shape out, one at a time, and what came of each.

It is part of the one logic of an application (docs/adr/0014-one-loop.md): its decisions are recorded and then applied
by the plant, which tells how they ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.control.sizing.engine import PolicyEngine, Round
from penstock.control.sizing.policies import POLICIES
from penstock.model.action import ActionKind
from penstock.model.decision import Hold, Infeasible, Resize, ResizeDone
from penstock.model.sizing import Capacity, EngineShape, Resource

if TYPE_CHECKING:
    from penstock.control.sizing.engine import Effect
    from penstock.model.decision import Decision
    from penstock.model.sizing import ResizeOutcome, UsageSignal
    from penstock.settings import SizingSettings

EFFECT = "effect"
"""What stands for the way of a record that tells of the effect of a change, and not of the change."""
BY_HAND = "by_hand."
"""What the name of a resource follows in the series of windows, where the operator sizes it."""
_TRIES = 2
"""Attempts at one resource before it is left as it is."""


class SizingTier:
    """Decides about the shape of an engine.

    Parameters
    ----------
    settings
        Of sizing.
    shape
        What the engine is now.
    is_acting
        Whether decisions are applied; where they are not, the same recommendation is told once.
    scales_executors
        Whether somebody else decides on the number of executors: then P4 and P8 are left out.
    first_number
        Number of the last decision on record.

    Examples
    --------
    >>> from penstock.model.sizing import UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> tier = SizingTier(SizingSettings(mode="apply"), EngineShape(1, 512, 384), is_acting=True)
    >>> thrash = [UsageSignal(15.0 * i, gc_fraction=0.3) for i in range(2)]
    >>> [each.reason for seen in thrash for each in tier.observe(seen, EngineShape(1, 512, 384))]
    ['garbage collection took 30 % of the time, more than 10 %: 2.00 times the heap']
    """

    def __init__(
        self,
        settings: SizingSettings,
        shape: EngineShape,
        *,
        is_acting: bool,
        scales_executors: bool = False,
        first_number: int = 0,
    ) -> None:
        policies = tuple(each for each in POLICIES if each.resource is not Resource.PARALLELISM or not scales_executors)
        self.engine = PolicyEngine(settings, shape, hands_off=hands_off(settings), policies=policies)
        self.last_round: Round | None = None
        self._settings, self._is_acting, self._scales = settings, is_acting, scales_executors
        self._number = first_number
        self._pending: Resize | None = None
        self._effect_of: Resize | None = None
        self._failures: dict[Resource, int] = {}
        self._told = ""

    @property
    def pending(self) -> Resize | None:
        """The decision that is being carried out."""
        return self._pending

    @property
    def wants_heap_look(self) -> bool:
        """Whether all garbage is to be collected to see what lives: only for a step down that would be made."""
        return self._is_acting and self._pending is None and self.engine.wants_heap_look

    def observe(
        self,
        seen: UsageSignal,
        shape: EngineShape,
        capacity: Capacity | None = None,
        *,
        is_asked_for: bool = False,
    ) -> list[Decision]:
        """Take in one window of an engine of that shape, and decide; act where the operator asked for it."""
        decisions: list[Decision] = []
        if self._pending is None:
            decisions += self._by_hand(shape)
        effect = self.engine.observe(seen)
        if effect is not None:
            decisions += self._compare(effect)
        if self._pending is not None:
            return decisions
        found = self.engine.judge(self._bounded(capacity))
        self.last_round = found
        return [*decisions, *self._decide(found, is_acting=self._is_acting or is_asked_for)]

    def on_outcome(self, outcome: ResizeOutcome) -> list[Decision]:
        """A change of shape has ended, well or not."""
        pending = self._pending
        if pending is None or outcome.number != pending.number:
            return []
        self._pending = None
        resource = Resource(pending.resource)
        done = ResizeDone.of(outcome)
        self.engine.end(outcome.shape, is_done=outcome.is_done)
        if outcome.is_done:
            self._failures.pop(resource, None)
            self._effect_of = pending
            return [done]
        failures = self._failures[resource] = self._failures.get(resource, 0) + 1
        if failures < _TRIES:
            return [done]
        blocked = f"{resource} failed {failures} times and stays: {outcome.reason}"
        self.engine.block(resource, blocked)
        return [done, Infeasible(cause=pending.policy, reason=f"{blocked}; the last good shape is {outcome.shape}")]

    # -- decisions ---------------------------------------------------------------------------------------------------

    def _decide(self, found: Round, *, is_acting: bool) -> list[Decision]:
        decision, resized = found.decision, found.resized
        if decision is None or resized is None:
            was_refused, self._told = self._told.startswith(ActionKind.INFEASIBLE), ""
            return [Hold(cause="sizing", reason="what had no room is not needed any more")] if was_refused else []
        if resized.shape == self.engine.shape:
            told = f"{decision.reason}; {resized.unplaced}"
            return self._once(Infeasible(cause=decision.policy, reason=told))
        resize = Resize(
            cause=decision.policy,
            reason=f"{decision.reason}; {resized.unplaced}" if resized.unplaced else decision.reason,
            expected=dict(decision.expected),
            policy=decision.policy,
            resource=decision.resource.value,
            shape=resized.shape.to_dict(),
            previous_shape=self.engine.shape.to_dict(),
            number=self._number + 1,
            figures=dict(decision.figures),
            unplaced=resized.unplaced,
            is_applied=is_acting,
        )
        if not is_acting:
            return self._once(resize)
        self._number += 1
        self._pending = resize
        self.engine.begin(decision)
        return [resize]

    def _once(self, decision: Resize | Infeasible) -> list[Decision]:
        """A recommendation, or what has no room, is told once as long as it is about the same."""
        same = f"{decision.kind}{decision.cause}"
        if same == self._told:
            return []
        self._told = same
        if isinstance(decision, Resize):
            self._number += 1
        return [decision]

    def _by_hand(self, shape: EngineShape) -> list[Decision]:
        """A shape that nobody here decided is the operator's."""
        before = self.engine.shape
        if self._scales:
            before = EngineShape.from_dict(before.to_dict() | {"executors": shape.executors})
            self.engine.shape = before
        if shape == before:
            return []
        changed = self.engine.take_by_hand(shape)
        self._number += 1
        names = ", ".join(each.value for each in changed) or "the shape"
        return [
            Resize(
                cause="operator",
                reason=f"somebody changed {names}: {shape}; Penstock leaves that to the operator from now on",
                policy="operator",
                resource=changed[0].value if changed else Resource.CPU.value,
                shape=shape.to_dict(),
                previous_shape=before.to_dict(),
                number=self._number,
            )
        ]

    def _compare(self, effect: Effect) -> list[Decision]:
        resize, self._effect_of = self._effect_of, None
        if resize is None or not effect.seen:
            return []
        what = ", ".join(
            f"{name} {value:.3g} (expected {effect.decision.expected[name]:.3g})" for name, value in effect.seen.items()
        )
        verdict = "as expected" if effect.is_as_expected else "not as expected"
        return [
            ResizeDone(
                cause=f"number {resize.number}",
                reason=f"{verdict} after {resize.policy}: {what}",
                expected=dict(effect.decision.expected),
                number=resize.number,
                is_done=True,
                way=EFFECT,
                seen=dict(effect.seen),
            )
        ]

    def _bounded(self, capacity: Capacity | None) -> Capacity:
        """What the cluster has, within what the settings allow."""
        known, settings = capacity or Capacity(), self._settings
        return Capacity(
            known.hosts,
            host_cores=settings.host_cores or known.host_cores,
            host_memory_mb=settings.host_memory_mb or known.host_memory_mb,
            quota_cores=settings.quota_cores or known.quota_cores,
            quota_memory_mb=settings.quota_memory_mb or known.quota_memory_mb,
        )


def hands_off(settings: SizingSettings) -> set[Resource]:
    """Resources that the operator sizes by hand.

    Examples
    --------
    >>> from penstock.settings import SizingSettings
    >>> sorted(hands_off(SizingSettings(hands_off="heap, cpu")))
    [<Resource.CPU: 'cpu'>, <Resource.HEAP: 'heap'>]
    """
    names = [name.strip().lower() for name in settings.hands_off.split(",")]
    return {Resource(name) for name in names if name in set(Resource)}
