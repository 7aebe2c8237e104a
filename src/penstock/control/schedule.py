"""Fractions to keep, each from a batch on."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import isfinite

from penstock.errors import InvalidGoalError

_KEPT_ENTRIES = 64


@dataclass(frozen=True, slots=True)
class KeepSchedule:
    """Which batch keeps which fraction.

    A fraction is bound to the batches it is for before any of them is planned, and recorded with that. A batch that is
    run again after a crash, or a task after its executor was lost, therefore finds the fraction of the first time.

    Examples
    --------
    >>> schedule = KeepSchedule().with_entry(7, 0.5).with_entry(9, 0.25)
    >>> [schedule.fraction_at(batch) for batch in (0, 6, 7, 8, 9, 100)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    >>> schedule.to_text()
    '7:0.5;9:0.25'
    >>> KeepSchedule.from_text('7:0.5;9:0.25') == schedule
    True
    """

    entries: tuple[tuple[int, float], ...] = ()

    def fraction_at(self, batch_id: int) -> float:
        """The fraction that a batch keeps; all, before the first entry."""
        index = bisect_right(self.entries, (batch_id, float("inf")))
        return self.entries[index - 1][1] if index else 1.0

    def with_entry(self, from_batch: int, fraction: float) -> KeepSchedule:
        """Add a fraction from a batch on; entries at or after that batch give way."""
        if not fraction > 0 or not isfinite(fraction):
            # A row kept with probability zero has no weight: every estimate that it belongs to would be wrong.
            raise InvalidGoalError(
                f"a share of {fraction!r} cannot be kept: it must be above zero, so set a minimum accuracy above zero"
            )
        kept = tuple(entry for entry in self.entries if entry[0] < from_batch)
        return KeepSchedule((*kept, (from_batch, fraction))[-_KEPT_ENTRIES:])

    def to_text(self) -> str:
        """The schedule as it goes to the executors."""
        return ";".join(f"{batch_id}:{fraction!r}" for batch_id, fraction in self.entries)

    @classmethod
    def from_text(cls, text: str) -> KeepSchedule:
        """Read what :meth:`to_text` wrote."""
        pairs = [entry.split(":") for entry in text.split(";") if entry]
        return cls(tuple((int(batch_id), float(fraction)) for batch_id, fraction in pairs))
