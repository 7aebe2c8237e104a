"""What batches of a query cost, learned from what they turn out to cost."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.estimate.rls import RecursiveLeastSquares

# How much an older batch counts, from batch to batch: in the level of costs, and in how they split.
_KEEP = 0.75
_FORGETTING = 0.9
# What is believed of the first batch: this part of its cost was fixed.
_FIRST_FIXED_SHARE = 0.3
# How far batches of equal size may lie apart, as a part of their cost.
_NOISE = 0.15
# The least part of a batch's cost that is due to its rows; without it a batch could be had for any number of rows.
_LEAST_ROW_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class CostSums:
    """Batches, rows and core seconds; decayed, or of batches whose cost is yet to come."""

    batches: float = 0.0
    rows: float = 0.0
    core_s: float = 0.0


class BatchCostTracker:
    r"""Core seconds of a batch, ``fixed + rows * row``, from nothing but finished batches.

    Two estimates in one. Recursive least squares over :math:`core = f n + r\,rows` tells what is fixed from what rows
    cost, whenever batches differ in size. As batches of a governed query are all about as large, and a machine gets
    faster while it warms up, a ratio of sums gives the level of both:

    .. math:: factor = \frac{\sum_k \kappa^k core_k}{f \sum_k \kappa^k n_k + r \sum_k \kappa^k rows_k}

    so that the cost is right at the size in use, however little is known of the split. Spark's report of a batch may
    come before that of its job: such a batch seems to cost nothing, and the next one brings the core seconds of both.
    Its rows are put aside until then.

    Examples
    --------
    Half a second for a batch and a hundredth for a row, every other report late:

    >>> tracker = BatchCostTracker()
    >>> for rows in (100, 20, 60, 50, 200, 40) * 3:
    ...     tracker.on_batch(rows=rows, core_s=0.0)
    ...     tracker.on_batch(rows=50, core_s=2 * 0.5 + (rows + 50) * 0.01)
    >>> tracker.known
    18
    >>> round(tracker.fixed_core_s, 2), round(tracker.row_core_s, 3), round(tracker.core_s(100), 2)
    (0.5, 0.01, 1.5)
    """

    def __init__(self) -> None:
        self.known = 0
        self._split: RecursiveLeastSquares | None = None
        self._recent = CostSums()
        self._owed = CostSums()

    @property
    def fixed_core_s(self) -> float:
        """Core seconds of a batch without a row."""
        return 0.0 if self._split is None else self._factor * self._split.theta[0]

    @property
    def row_core_s(self) -> float:
        """Core seconds of one row more; zero before the first batch."""
        return 0.0 if self._split is None else self._factor * self._split.theta[1]

    def core_s(self, rows: float) -> float:
        """Core seconds of a batch of so many rows."""
        return self.fixed_core_s + rows * self.row_core_s

    def on_batch(self, *, rows: int, core_s: float | None) -> None:
        """Take over what a batch kept busy: None where nobody knows, zero where that is yet to be told."""
        if rows <= 0 or core_s is None:
            return
        own = CostSums(self._owed.batches + 1.0, self._owed.rows + rows, core_s)
        if core_s <= 0:
            self._owed = own
            return
        self._owed = CostSums()
        self.known += 1
        if self._split is None:
            self._split = _first(own)
        else:
            noise = (_NOISE * core_s) ** 2
            self._split.update((own.batches, own.rows), core_s, noise_variance=noise, forgetting=_FORGETTING)
        recent = self._recent
        self._recent = CostSums(
            _KEEP * recent.batches + own.batches, _KEEP * recent.rows + own.rows, _KEEP * recent.core_s + own.core_s
        )
        self._split.hold_above((0.0, _LEAST_ROW_SHARE * self._recent.core_s / self._recent.rows))

    @property
    def _factor(self) -> float:
        assert self._split is not None
        fixed_s, row_s = self._split.theta
        return self._recent.core_s / (fixed_s * self._recent.batches + row_s * self._recent.rows)


def _first(own: CostSums) -> RecursiveLeastSquares:
    batch_s, row_s = own.core_s / own.batches, own.core_s / own.rows
    prior = (_FIRST_FIXED_SHARE * batch_s, (1.0 - _FIRST_FIXED_SHARE) * row_s)
    return RecursiveLeastSquares(prior, (batch_s**2, row_s**2))
