"""Moves under way, queries that warm up, engines that were left, and what moves have taken so far."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.settings import FleetSettings

_NEWEST = 0.3
"""Weight of the newest downtime: what a move takes follows the machine's load within a few moves."""
_FIRST_WARM_UP_S = 20.0
"""Until one is measured, a warm-up is taken to last a third of its default time-out."""
_SETTLED, _SETTLED_WITHIN_S = 0.25, 5.0
"""A cost of a row has settled where it differs by less than this part from what it was so long before."""


@dataclass(frozen=True, slots=True)
class PendingMove:
    """A query on its way; ``leaves`` is empty for one that ran nowhere."""

    number: int
    engine: str
    leaves: str
    since_s: float


@dataclass(slots=True)
class WarmUp:
    """A query that runs on a new engine and has yet to settle."""

    engine: str
    since_s: float
    until_s: float
    core_s_per_row: float | None = None
    measured_s: float = 0.0


class MoveLedger:
    """Who moves, who warms up, who may not go back where, and how long moves take.

    Examples
    --------
    >>> from penstock.settings import FleetSettings
    >>> ledger = MoveLedger(FleetSettings())
    >>> ledger.start("clicks", "west", leaves="east", now_s=0.0)
    1
    >>> ledger.finish("clicks", 1, downtime_s=4.0, now_s=5.0).engine
    'west'
    >>> round(ledger.downtime_s, 2), ledger.barred("clicks", 6.0), ledger.is_busy("clicks")
    (8.2, 'east', True)
    """

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        self.number = 0
        self.pending: dict[str, PendingMove] = {}
        self.warming: dict[str, WarmUp] = {}
        self._left: dict[str, tuple[str, float]] = {}
        self.downtime_s = settings.downtime_s
        self.warm_up_s = min(_FIRST_WARM_UP_S, settings.warm_up_s)

    def start(self, query: str, engine: str, *, leaves: str, now_s: float) -> int:
        """A query is sent to an engine; gives the number of the move."""
        self.number += 1
        self.pending[query] = PendingMove(self.number, engine, leaves, now_s)
        if leaves:
            self._left[query] = (leaves, now_s + self._settings.stay_s)
        return self.number

    def finish(self, query: str, number: int, *, downtime_s: float, now_s: float) -> PendingMove | None:
        """A query arrived; None where that is not the move that it is on."""
        pending = self.pending.get(query)
        if pending is None or pending.number != number:
            return None
        del self.pending[query]
        if pending.leaves:
            self.downtime_s += _NEWEST * (downtime_s - self.downtime_s)
        self.warming[query] = WarmUp(pending.engine, now_s, now_s + self._settings.warm_up_s)
        return pending

    def fail(self, query: str, number: int, now_s: float) -> PendingMove | None:
        """A move came to nothing; the engine that did not take the query is barred for it."""
        pending = self.pending.get(query)
        if pending is None or pending.number != number:
            return None
        del self.pending[query]
        self._left[query] = (pending.engine, now_s + self._settings.stay_s)
        return pending

    def settle(
        self,
        query: str,
        *,
        core_s_per_row: float | None,
        accuracy: float,
        minimum: float,
        now_s: float,
        is_idle: bool = False,
    ) -> bool:
        """A report of a query that warms up; gives whether it has settled with it: cost steady, minimum reached.

        One that has nothing to do has settled too.
        """
        warm, is_steady = self.warming[query], False
        before = warm.core_s_per_row
        if core_s_per_row is not None and (before is None or now_s - warm.measured_s >= _SETTLED_WITHIN_S):
            is_steady = before is not None and abs(core_s_per_row - before) <= _SETTLED * before
            warm.core_s_per_row, warm.measured_s = core_s_per_row, now_s
        if is_idle or (is_steady and accuracy >= minimum - 0.01):
            self._end(query, now_s)
            return True
        return False

    def time_out(self, now_s: float) -> list[str]:
        """End the warm-ups whose time is over; gives the queries."""
        over = [query for query, warm in self.warming.items() if now_s >= warm.until_s]
        for query in over:
            self._end(query, now_s)
        return over

    def _end(self, query: str, now_s: float) -> None:
        warm = self.warming.pop(query)
        self.warm_up_s += _NEWEST * (now_s - warm.since_s - self.warm_up_s)

    def forget(self, query: str) -> None:
        """A query is gone."""
        self.pending.pop(query, None)
        self.warming.pop(query, None)
        self._left.pop(query, None)

    def is_busy(self, query: str) -> bool:
        """Whether it is on its way or warms up: such a one does not move."""
        return query in self.pending or query in self.warming

    def barred(self, query: str, now_s: float) -> str | None:
        """The engine that it left not long ago, or that did not take it."""
        left = self._left.get(query)
        if left is None:
            return None
        if now_s >= left[1]:
            del self._left[query]
            return None
        return left[0]

    @property
    def has_left(self) -> dict[str, tuple[str, float]]:
        """Engines that queries left, and until when they do not go back."""
        return dict(self._left)

    def snapshot(self) -> dict[str, Any]:
        """All of it, as plain data."""
        return {
            "number": self.number,
            "pending": {query: asdict(move) for query, move in self.pending.items()},
            "warming": {query: asdict(warm) for query, warm in self.warming.items()},
            "left": {query: list(left) for query, left in self._left.items()},
            "downtime_s": self.downtime_s,
            "warm_up_s": self.warm_up_s,
        }

    @classmethod
    def restored(cls, settings: FleetSettings, snapshot: dict[str, Any]) -> MoveLedger:
        """The ledger of a snapshot."""
        ledger = cls(settings)
        ledger.number = snapshot["number"]
        ledger.pending = {query: PendingMove(**move) for query, move in snapshot["pending"].items()}
        ledger.warming = {query: WarmUp(**warm) for query, warm in snapshot["warming"].items()}
        ledger._left = {query: (left[0], left[1]) for query, left in snapshot["left"].items()}
        ledger.downtime_s, ledger.warm_up_s = snapshot["downtime_s"], snapshot["warm_up_s"]
        return ledger
