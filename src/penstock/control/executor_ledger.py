"""What was asked of a cluster and has not happened yet: executors that are to come, and executors that are to go."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class Joined:
    """An executor that came, and how long after it was asked for; None for one that nobody asked for."""

    executor_id: str
    start_s: float | None


@dataclass(frozen=True, slots=True)
class Gone:
    """An executor that is gone; ``release_s`` after it was released, None for one that was lost."""

    executor_id: str
    release_s: float | None
    number: int | None


@dataclass(frozen=True, slots=True)
class Released:
    """Since when an executor is on its way out, and by which decision."""

    since_s: float
    number: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Matches executors that come and go with what was asked for, oldest request first; a value that never changes.

    Examples
    --------
    >>> ledger, joined, gone = Ledger().update({"0": 10.0}, now_s=10.0)
    >>> joined, gone
    ([Joined(executor_id='0', start_s=None)], [])
    >>> ledger, joined, _ = ledger.ask(1, now_s=20.0).update({"0": 10.0, "1": 26.5}, now_s=27.0)
    >>> joined
    [Joined(executor_id='1', start_s=6.5)]
    >>> ledger, _, gone = ledger.release(["1"], number=7, now_s=40.0).update({}, now_s=42.0)
    >>> gone
    [Gone(executor_id='0', release_s=None, number=None), Gone(executor_id='1', release_s=2.0, number=7)]
    """

    asked_s: tuple[float, ...] = ()
    released: Mapping[str, Released] = field(default_factory=dict)
    known: frozenset[str] = frozenset()

    def ask(self, count: int, *, now_s: float) -> Ledger:
        """So many more executors are asked for; below zero, so many of the newest requests are taken back."""
        return replace(self, asked_s=(*self.asked_s, *[now_s] * count) if count >= 0 else self.asked_s[:count])

    def release(self, executor_ids: Collection[str], *, number: int, now_s: float) -> Ledger:
        """These executors are on their way out; one that is already keeps its time."""
        return replace(self, released={**dict.fromkeys(executor_ids, Released(now_s, number)), **self.released})

    def keep(self, executor_ids: Collection[str]) -> Ledger:
        """These executors stay after all."""
        return replace(self, released={one: on for one, on in self.released.items() if one not in executor_ids})

    def update(self, added_s: Mapping[str, float], *, now_s: float) -> tuple[Ledger, list[Joined], list[Gone]]:
        """Compare with what is there now: executors by id, and when each was registered."""
        asked_s, joined = list(self.asked_s), []
        for executor_id in sorted(set(added_s) - self.known):
            # One that was on its way before anybody asked says nothing about how long asking takes.
            is_asked_for = bool(asked_s) and added_s[executor_id] >= asked_s[0]
            joined.append(Joined(executor_id, added_s[executor_id] - asked_s.pop(0) if is_asked_for else None))
        gone = []
        for executor_id in sorted(self.known - set(added_s)):
            on = self.released.get(executor_id)
            gone.append(
                Gone(executor_id, None if on is None else now_s - on.since_s, None if on is None else on.number)
            )
        ledger = replace(self, asked_s=tuple(asked_s), known=frozenset(added_s))
        return ledger.keep([one.executor_id for one in gone]), joined, gone

    def leaving(self, number: int) -> int:
        """How many executors that one decision released are still there."""
        return sum(on.number == number for on in self.released.values())
