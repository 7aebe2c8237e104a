"""What a load generator counts while it sends: rows by second, and how late they were."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - the dataclass is pickled with its fields

_LONGEST_MS = 60_000


@dataclass(slots=True)
class LoadTally:
    """Rows by the second in which they were handed on, and their lateness against the moment they were due.

    A row that had to wait is late from the moment that the profile meant for it, not from the moment at which the
    generator found time for it (no coordinated omission).

    Examples
    --------
    >>> tally = LoadTally()
    >>> tally.add(100.25, np.array([100.2, 100.24]))
    >>> tally.add(101.0, np.array([100.5]))
    >>> tally.rows_by_second, tally.late_ms(1.0), tally.rows
    ({100: 2, 101: 1}, 500.0, 3)
    """

    rows_by_second: dict[int, int] = field(default_factory=dict)
    lateness: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_LONGEST_MS + 1, dtype=np.int64))
    lost: int = 0
    last_sent_s: float = 0.0

    @property
    def rows(self) -> int:
        """All rows that were handed on."""
        return sum(self.rows_by_second.values())

    def add(self, sent_s: float, due_s: NDArray[np.float64]) -> None:
        """Count rows that were handed on at a moment and were due at these."""
        second = int(sent_s)
        self.last_sent_s = max(self.last_sent_s, sent_s)
        self.rows_by_second[second] = self.rows_by_second.get(second, 0) + len(due_s)
        late_ms = np.clip(np.rint((sent_s - due_s) * 1000), 0, _LONGEST_MS).astype(np.int64)
        self.lateness += np.bincount(late_ms, minlength=_LONGEST_MS + 1)

    def merge(self, other: LoadTally) -> None:
        """Take in what another process counted."""
        for second, rows in other.rows_by_second.items():
            self.rows_by_second[second] = self.rows_by_second.get(second, 0) + rows
        self.lateness += other.lateness
        self.lost += other.lost
        self.last_sent_s = max(self.last_sent_s, other.last_sent_s)

    def late_ms(self, share: float) -> float:
        """Lateness at or below which that share of the rows lies; from one minute on it is not told apart."""
        counts = np.cumsum(self.lateness)
        return float(np.searchsorted(counts, share * counts[-1])) if counts[-1] else 0.0

    def truth_lines(self) -> list[str]:
        """The true rate of every second as a table that a load profile can be made of again."""
        if not self.rows_by_second:
            return ["second,rate"]
        seconds = range(min(self.rows_by_second), max(self.rows_by_second) + 1)
        return ["second,rate", *(f"{second},{self.rows_by_second.get(second, 0)}" for second in seconds)]
