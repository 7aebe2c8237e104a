"""What was asked of a cluster and has not happened yet: executors that are to come, and executors that are to go."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    action_id: int | None


@dataclass(slots=True)
class Ledger:
    """Matches executors that come and go with what was asked for, oldest request first.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.update({"0": 10.0}, now_s=10.0)
    ([Joined(executor_id='0', start_s=None)], [])
    >>> ledger.ask(1, now_s=20.0)
    >>> ledger.update({"0": 10.0, "1": 26.5}, now_s=27.0)
    ([Joined(executor_id='1', start_s=6.5)], [])
    >>> ledger.release(["1"], action_id=7, now_s=40.0)
    >>> ledger.update({}, now_s=42.0)
    ([], [Gone(executor_id='0', release_s=None, action_id=None), Gone(executor_id='1', release_s=2.0, action_id=7)])
    """

    asked_s: list[float] = field(default_factory=list)
    released: dict[str, tuple[float, int]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def ask(self, count: int, *, now_s: float) -> None:
        """So many more executors are asked for; below zero, so many of the newest requests are taken back."""
        if count >= 0:
            self.asked_s += [now_s] * count
        else:
            self.asked_s = self.asked_s[:count]

    def release(self, executor_ids: Collection[str], *, action_id: int, now_s: float) -> None:
        """These executors are on their way out."""
        self.released |= dict.fromkeys(executor_ids, (now_s, action_id))

    def update(self, added_s: Mapping[str, float], *, now_s: float) -> tuple[list[Joined], list[Gone]]:
        """Compare with what is there now: executors by id, and when each was registered."""
        joined = [self._join(executor_id, added_s[executor_id]) for executor_id in sorted(set(added_s) - self.known)]
        gone = [self._leave(executor_id, now_s) for executor_id in sorted(self.known - set(added_s))]
        self.known = set(added_s)
        return joined, gone

    def leaving(self, action_id: int) -> int:
        """How many executors that one action released are still there."""
        return sum(1 for _, cause_id in self.released.values() if cause_id == action_id)

    def _join(self, executor_id: str, added_s: float) -> Joined:
        # One that was on its way before anybody asked says nothing about how long asking takes.
        if not self.asked_s or added_s < self.asked_s[0]:
            return Joined(executor_id, None)
        return Joined(executor_id, added_s - self.asked_s.pop(0))

    def _leave(self, executor_id: str, now_s: float) -> Gone:
        if executor_id not in self.released:
            return Gone(executor_id, None, None)
        released_s, action_id = self.released.pop(executor_id)
        return Gone(executor_id, now_s - released_s, action_id)
