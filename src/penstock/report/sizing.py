"""What sizing would do and why, and what it did: from a store, or from windows of an event log."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from penstock.control.sizing.engine import PolicyEngine, Round
from penstock.control.sizing_tier import BY_HAND, EFFECT, hands_off
from penstock.model import APPLICATION, ActionKind, Metric
from penstock.model.sizing import Capacity, EngineShape, Resource, UsageSignal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.model import RecordedAction
    from penstock.settings import SizingSettings
    from penstock.store.base import Store

_READ_POINTS = 40 * 30
"""Forty windows of some thirty figures each: no policy looks further back than that."""
_SIGNAL_FIGURES = frozenset(each.name for each in fields(UsageSignal)) - {"time_s", "services"}
_WHOLE = ("gc_count", "lost_to_heap", "lost_to_memory")


@dataclass(frozen=True, slots=True)
class SizingReport:
    """What every policy says of an engine now, and the shape that would come of it."""

    name: str
    shape: EngineShape | None
    newest: UsageSignal | None
    windows: int
    round: Round | None
    missing: tuple[str, ...] = ()

    @property
    def wanted(self) -> EngineShape | None:
        """The shape that would come of it; None where all stays as it is."""
        resized = None if self.round is None else self.round.resized
        return None if resized is None or resized.shape == self.shape else resized.shape

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain data."""
        resized = None if self.round is None else self.round.resized
        return {
            "application": self.name,
            "windows": self.windows,
            "shape": None if self.shape is None else self.shape.to_dict(),
            "wanted": None if self.wanted is None else self.wanted.to_dict(),
            "unplaced": "" if resized is None else resized.unplaced,
            "usage": None if self.newest is None else self.newest.to_dict(),
            "missing": list(self.missing),
            "rows": [] if self.round is None else [verdict.to_dict() for verdict in self.round.verdicts],
        }


def judge_windows(
    name: str,
    windows: Iterable[tuple[UsageSignal, EngineShape]],
    settings: SizingSettings,
    *,
    missing: tuple[str, ...] = (),
    by_hand: Collection[Resource] = (),
) -> SizingReport:
    """Show all windows to the policies, and give what they say after the last one.

    Where the shape changed on the way, somebody changed it: policies begin anew, as they would live. ``by_hand`` is
    what the operator took over while the application ran.
    """
    engine: PolicyEngine | None = None
    newest: UsageSignal | None = None
    count = 0
    for signal, shape in windows:
        if engine is None or engine.shape != shape:
            engine = PolicyEngine(settings, shape, hands_off=hands_off(settings) | set(by_hand))
        engine.observe(signal)
        newest, count = signal, count + 1
    if engine is None:
        return SizingReport(name, None, None, 0, None, missing)
    capacity = Capacity(
        host_cores=settings.host_cores or None,
        host_memory_mb=settings.host_memory_mb or None,
        quota_cores=settings.quota_cores or None,
        quota_memory_mb=settings.quota_memory_mb or None,
    )
    return SizingReport(name, engine.shape, newest, count, engine.judge(capacity), missing)


def sizing_report(store: Store, settings: SizingSettings, *, name: str = "application") -> SizingReport:
    """What the windows of an attached application, as its store has them, lead to."""
    points = store.points(APPLICATION, Metric.SIZING, last=_READ_POINTS)
    by_time: dict[float, dict[str, float]] = defaultdict(dict)
    for point in points:
        by_time[point.time_s][point.subject] = point.value
    windows = [found for time_s in sorted(by_time) if (found := _window(time_s, by_time[time_s])) is not None]
    newest = by_time[max(by_time)] if by_time else {}
    by_hand = [resource for resource in Resource if f"{BY_HAND}{resource.value}" in newest]
    return judge_windows(name, windows, settings, by_hand=by_hand)


def _window(time_s: float, values: dict[str, float]) -> tuple[UsageSignal, EngineShape] | None:
    shape = {key.removeprefix("shape."): value for key, value in values.items() if key.startswith("shape.")}
    if not {"executors", "heap_mb", "overhead_mb"} <= set(shape):
        return None  # the oldest window may be cut
    figures: dict[str, Any] = {key: value for key, value in values.items() if key in _SIGNAL_FIGURES}
    figures |= {key: int(figures[key]) for key in _WHOLE if key in figures}
    services = {key.removeprefix("service."): value for key, value in values.items() if key.startswith("service.")}
    return UsageSignal(time_s, **figures, services=services), EngineShape.from_dict(shape)


@dataclass(frozen=True, slots=True)
class SizingAction:
    """One change of shape as it was decided, how it ended, and what was seen of its effect."""

    decided: RecordedAction
    done: RecordedAction | None
    effect: RecordedAction | None

    def to_dict(self) -> dict[str, Any]:
        """Give the action as plain data."""
        details = self.decided.action.details
        done = None if self.done is None else self.done.action.details
        return {
            "time_s": self.decided.time_s,
            "mode": self.decided.mode.value,
            "policy": details.get("policy"),
            "resource": details.get("resource"),
            "previous": str(EngineShape.from_dict(details["previous_shape"])),
            "shape": str(EngineShape.from_dict(details["shape"])),
            "reason": self.decided.action.reason,
            "expected": dict(self.decided.action.expected),
            "is_done": None if done is None else done.get("is_done"),
            "way": None if done is None else done.get("way"),
            "took_s": None if self.done is None else self.done.action.value,
            "outcome": None if self.done is None else self.done.action.reason,
            "effect": None if self.effect is None else self.effect.action.reason,
        }


def sizing_history(store: Store, *, last: int = 50) -> list[SizingAction]:
    """Every change of shape on record, oldest first, with expected and seen effect."""
    decided = store.actions(query=APPLICATION, kinds=(ActionKind.RESIZE,), last=last)
    told = store.actions(query=APPLICATION, kinds=(ActionKind.RESIZE_DONE,), last=2 * last)
    effects = {entry.action.details["number"]: entry for entry in told if entry.action.details["way"] == EFFECT}
    done = {entry.action.details["number"]: entry for entry in told if entry.action.details["way"] != EFFECT}
    numbers = [(entry, entry.action.details["number"]) for entry in decided]
    return [SizingAction(entry, done.get(number), effects.get(number)) for entry, number in numbers]


def last_resize_number(store: Store) -> int:
    """Number of the newest change of shape on record; 0 where there is none."""
    newest = store.actions(query=APPLICATION, kinds=(ActionKind.RESIZE,), last=1)
    return int(newest[0].action.details["number"]) if newest else 0
