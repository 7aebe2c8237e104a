"""What batches of a query cost, corrected by what they turn out to cost."""

from __future__ import annotations

from dataclasses import dataclass, field

# How much an older batch counts, from batch to batch.
_KEEP = 0.75
_LARGEST_FACTOR = 20.0


@dataclass(slots=True)
class BatchCostTracker:
    """Core seconds of a batch, ``factor * (fixed + rows * row)``, with a factor that follows what is seen.

    Batches of a governed query are all about as large, which does not tell the fixed cost from that of rows; so both
    move together, and their sum is right at the size in use. A ratio of sums, not a mean of ratios: Spark's report of a
    batch may come before that of its job, and then the next batch brings the core seconds of both.

    Examples
    --------
    Half a second for a batch and a hundredth for a row, on a machine that turns out to need twice that:

    >>> tracker = BatchCostTracker(fixed_core_s=0.5, row_core_s=0.01)
    >>> for _ in range(20):
    ...     tracker.on_batch(rows=50, core_s=0.0)
    ...     tracker.on_batch(rows=50, core_s=4.0)
    >>> round(tracker.factor, 1), round(tracker.core_s(100), 1)
    (2.3, 3.4)
    """

    fixed_core_s: float
    row_core_s: float
    _expected_s: float = field(default=0.0, init=False)
    _seen_s: float = field(default=0.0, init=False)

    @property
    def factor(self) -> float:
        """How many times dearer batches are than was said at first."""
        if self._expected_s <= 0:
            return 1.0
        return min(_LARGEST_FACTOR, max(1.0 / _LARGEST_FACTOR, self._seen_s / self._expected_s))

    def core_s(self, rows: float) -> float:
        """Core seconds of a batch of so many rows."""
        return self.factor * (self.fixed_core_s + rows * self.row_core_s)

    def on_batch(self, *, rows: int, core_s: float) -> None:
        """Take over what a batch of so many rows kept busy."""
        expected_s = self.fixed_core_s + rows * self.row_core_s
        if self._expected_s <= 0:
            # What was said at first counts as one batch.
            self._expected_s = self._seen_s = expected_s
        self._expected_s = _KEEP * self._expected_s + expected_s
        self._seen_s = _KEEP * self._seen_s + core_s
