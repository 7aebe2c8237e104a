"""Decisions, each with its cause and its reason.

An action is recorded before it is carried out. "Nothing to do" and "cannot be done" are actions too
(:attr:`ActionKind.HOLD`, :attr:`ActionKind.INFEASIBLE`), so that a log without gaps answers why a query is where it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from penstock.model.query import QueryName

if TYPE_CHECKING:
    from collections.abc import Mapping


APPLICATION = QueryName("")
"""What stands for the query of a decision about the whole application: no query has an empty name."""


class ActionKind(StrEnum):
    """Everything that Penstock can decide."""

    GOVERN = "govern"
    RELEASE = "release"
    READ_LIMIT = "read_limit"
    KEEP_RATIO = "keep_ratio"
    EXECUTORS = "executors"
    EXECUTORS_DONE = "executors_done"
    RESIZE = "resize"
    RESIZE_DONE = "resize_done"
    GRAPH_PLAN = "graph_plan"
    PLACE = "place"
    MOVE = "move"
    MOVE_DONE = "move_done"
    STREAM_KEEP = "stream_keep"
    ACCURACY_BOUNDS = "accuracy_bounds"
    HOLD = "hold"
    INFEASIBLE = "infeasible"
    UNMANAGED = "unmanaged"
    PLAN_FINDING = "plan_finding"
    ACTUATOR_OFF = "actuator_off"
    REPAY = "repay"
    FAULT = "fault"


class Mode(StrEnum):
    """Whether decisions are carried out."""

    ACT = "act"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class Action:
    """One decision about one query.

    Parameters
    ----------
    kind
        What is to be done.
    query
        The query it is done to.
    cause
        What it answers to: ``"batch 12"``, ``"start"``, ``"detach"``.
    reason
        One sentence for a person, with the figures that decided.
    target
        What is acted on inside the query, such as ``"source 0"``.
    value, previous
        The new setting and the one it replaces, in ``unit``.
    expected
        What the action should bring about, to be compared with what happens.
    details
        The fields of the decision as it was made and applied, plain data
        (:func:`~penstock.model.decision.from_action` gives it back).
    """

    kind: ActionKind
    query: QueryName
    cause: str
    reason: str
    target: str = ""
    value: float | None = None
    previous: float | None = None
    unit: str = ""
    expected: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in (self.value, self.previous, *self.expected.values()):
            # A NaN would be stored as NULL and come back as "no value": the log would not replay to the same action.
            if number is not None and not math.isfinite(number):
                raise ValueError(f"an action takes finite numbers only, not {number!r}: {self.kind} of {self.query}")

    def to_dict(self) -> dict[str, Any]:
        """Give the action as plain data."""
        return {
            "kind": self.kind.value,
            "query": str(self.query),
            "cause": self.cause,
            "reason": self.reason,
            "target": self.target,
            "value": self.value,
            "previous": self.previous,
            "unit": self.unit,
            "expected": dict(self.expected),
            "details": dict(self.details),
        }


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """An action as it stands in the log, with its place and time there."""

    action_id: int
    time_s: float
    mode: Mode
    action: Action

    def to_dict(self) -> dict[str, Any]:
        """Give the record as plain data, units in the keys."""
        return {"action_id": self.action_id, "time_s": self.time_s, "mode": self.mode.value, **self.action.to_dict()}
