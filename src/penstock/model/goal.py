"""What a user asks of a query."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from penstock.errors import InvalidGoalError
from penstock.model.duration import parse_duration_s

MIN_PRIORITY, MAX_PRIORITY = 1, 100


@dataclass(frozen=True, slots=True)
class Goal:
    """What a query must deliver; anything left out is not asked for.

    Parameters
    ----------
    latency
        How old a row may be when its result is out: ``"5 seconds"``, or a number of seconds.
    minimum_accuracy
        The smallest share of offered rows that must be kept, from 0 to 1. At 1 nothing is ever dropped.
    priority
        Whole number from 1 to 100; when capacity is short, low priorities give way first.
    weight
        How much one output row counts in the weighted throughput of all queries together.

    Examples
    --------
    >>> goal = Goal(latency="5 seconds", minimum_accuracy=0.7, priority=5)
    >>> goal.latency_s
    5.0
    >>> Goal(minimum_accuracy=1.5)
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidGoalError: minimum accuracy 1.5 must be between 0 and 1
    """

    latency: str | float | None = None
    minimum_accuracy: float = 1.0
    priority: int = 1
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.latency is not None:
            parse_duration_s(self.latency, what="latency goal")
        if not _is_number(self.minimum_accuracy) or not 0 <= self.minimum_accuracy <= 1:
            raise InvalidGoalError(f"minimum accuracy {self.minimum_accuracy!r} must be between 0 and 1")
        whole = isinstance(self.priority, int) and not isinstance(self.priority, bool)
        if not whole or not MIN_PRIORITY <= self.priority <= MAX_PRIORITY:
            raise InvalidGoalError(
                f"priority {self.priority!r} must be a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}"
            )
        if not _is_number(self.weight) or self.weight <= 0:
            raise InvalidGoalError(f"weight {self.weight!r} must be a number above zero")

    @property
    def latency_s(self) -> float | None:
        """The latency goal in seconds, or None where none was set."""
        return None if self.latency is None else parse_duration_s(self.latency, what="latency goal")

    def with_(self, **changes: object) -> Goal:
        """Give a copy with some fields changed, checked like a new goal."""
        return replace(self, **changes)  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
