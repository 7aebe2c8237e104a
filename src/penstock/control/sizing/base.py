"""What every sizing policy is given, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from penstock.model.sizing import MemoryPart, SizingDecision, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.control.sizing.usage import Usage
    from penstock.model.sizing import EngineShape, Resource
    from penstock.settings import SizingSettings

CONFIRM_WINDOWS = 2
"""Windows in which a figure has to be above its limit: one may be a single pause."""
OLD_PART = 2.0 / 3.0
"""Part of the heap that is for what lives, with collectors of two generations as they come (``-XX:NewRatio=2``); G1 can
do with less heap than that."""
CONFIRM_AGAIN_WINDOWS = 6
"""The same for a resource that was made smaller: that was for a need that was seen, and is not taken back for bursts
that happen to follow each other, nor for the first windows of a new executor, which fills its caches in them. An
executor with the heap that it needs, 8 % of its time in collections, had two windows on end above 10 % within two
minutes, and one that had just come four."""
LEAST_LOOKS = 2
"""Looks at what lives in the heap before anything is concluded: a single one may fall between two batches."""
SMALLEST_STEP = 1.1
"""Least that a step up multiplies by: the noise of a window must not make the next step."""


@dataclass(frozen=True, slots=True)
class SizingContext:
    """One round: the shape as it is, what was seen of its use, and the limits."""

    shape: EngineShape
    usage: Usage
    settings: SizingSettings
    settled_windows: int = 0
    """Windows since the last change of shape took effect."""
    was_made_smaller: bool = False
    """Whether the policy's resource was made smaller before, at a load like the present one."""
    was_enough: float | None = None
    """Its total before that."""
    cores_go_first: bool = False
    """Whether there are to be fewer cores: memory waits, because those that stay share it."""

    awaits_looks: bool = False
    """Whether it is being looked at what lives in the heap: the heap waits for that, and memory for the heap."""

    @property
    def confirm_windows(self) -> int:
        """Windows on end in which a figure has to be above its limit before there is more."""
        return CONFIRM_AGAIN_WINDOWS if self.was_made_smaller else CONFIRM_WINDOWS

    def bounded(self, total: float, present: float) -> float:
        """A larger total, at most the one that was enough at this load, where there is less of it now."""
        return total if self.was_enough is None or self.was_enough <= present else min(total, self.was_enough)


class SizingPolicy(Protocol):
    """One resource, one direction; at most one decision in a round, and every figure that it stands on."""

    name: ClassVar[str]
    title: ClassVar[str]
    resource: ClassVar[Resource]
    is_up: ClassVar[bool]

    def judge(self, context: SizingContext) -> Verdict:
        """Decide, or say why not."""
        ...


def silent(policy: SizingPolicy, reason: str, figures: Mapping[str, float | None] | None = None) -> Verdict:
    """Nothing to do, with the figures that say so."""
    return Verdict(policy.name, policy.title, reason, _known(figures or {}))


def decided(
    policy: SizingPolicy,
    total: float,
    reason: str,
    figures: Mapping[str, float | None],
    expected: Mapping[str, float],
    *,
    part: MemoryPart = MemoryPart.OVERHEAD,
    python_mb: float | None = None,
) -> Verdict:
    """A new total of the policy's resource, with the figures that it stands on and what it should bring about."""
    known = _known(figures)
    decision = SizingDecision(policy.name, policy.resource, total, reason, known, expected, part, python_mb)
    return Verdict(policy.name, policy.title, reason, known, decision)


def _known(figures: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if value is not None}


def step(wanted: float, settings: SizingSettings) -> float:
    """A factor between the smallest step and the step limit.

    Examples
    --------
    >>> from penstock.settings import SizingSettings
    >>> [step(factor, SizingSettings()) for factor in (1.01, 1.4, 3.0)]
    [1.1, 1.4, 2.0]
    """
    return min(max(wanted, SMALLEST_STEP), settings.step_limit)


def above(limit: float, settings: SizingSettings) -> float:
    """Where a step up begins: a dead band above the limit that a step down goes by, or the two would take turns.

    Examples
    --------
    >>> from penstock.settings import SizingSettings
    >>> round(above(0.8, SizingSettings()), 3)
    0.864
    """
    return min(limit * (1.0 + settings.dead_band), 0.5 * (1.0 + limit))


def below(limit: float, settings: SizingSettings) -> float:
    """What a step down aims at where it can foretell the figure: as far below the limit as a step up begins above it.

    Examples
    --------
    >>> from penstock.settings import SizingSettings
    >>> round(below(0.1, SizingSettings()), 4)
    0.0926
    """
    return limit / (1.0 + settings.dead_band)


def windows_to_watch(settings: SizingSettings) -> int:
    """Windows of use that a step down goes by."""
    return max(CONFIRM_WINDOWS, round(settings.down_after_s / settings.window_s))
