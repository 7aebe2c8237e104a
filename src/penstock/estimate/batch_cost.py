"""What batches of a query cost, learned from what they turn out to cost."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.estimate.rls import RecursiveLeastSquares

# How much an older batch counts, from batch to batch: in the level of costs, and in how they split.
_KEEP = 0.75
"""What recent batches cost is an average over four of them: more would be another load's."""
_FORGETTING = 0.9
"""How fixed and row costs are divided is learned from ten batches: fewer have too few sizes among them."""
LARGEST_BATCH_DECAY = 0.99
"""What is left of the largest batch yet seen, from batch to batch: what was possible once may be so no more."""
_FIRST_FIXED_SHARE = 0.3
"""What is believed of the first batch: this part of its cost was fixed.

It is small and runs on cold code. If its rows were dear after all, the next batch, some times as large, shows it; if
they are taken for dear and are not, batches stay small, and nothing does.
"""
# What reading a dropped row costs, in parts of one that is kept, until batches tell.
_DROPPED_PART = 0.1
"""What a dropped row is taken to cost before any was, in parts of a kept one: as for batch times."""
_NOISE = 0.15
"""How far batches of equal size may lie apart, as a part of their cost."""
TOLD_APART = 0.25
"""Error of the cost of a row, as a part of it, from which on that is told apart from the fixed cost.

Nine in ten batches then cost what is expected of them within half of it, and a plan by it is off by less than the
scatter of single batches brings anyway.
"""
# The least part of a batch's cost that is due to its rows; without it a batch could be had for any number of rows.
_LEAST_ROW_SHARE = 0.05
"""Part of what a batch costs that its rows cost at the least: a row that costs nothing would be given without bound."""


@dataclass(frozen=True, slots=True)
class CostSums:
    """Batches, rows and core seconds; decayed, or of batches whose cost is yet to come."""

    batches: float = 0.0
    rows: float = 0.0
    dropped: float = 0.0
    core_s: float = 0.0

    def plus(self, other: CostSums, *, keep: float = 1.0) -> CostSums:
        """Both together, this one decayed."""
        return CostSums(
            keep * self.batches + other.batches,
            keep * self.rows + other.rows,
            keep * self.dropped + other.dropped,
            keep * self.core_s + other.core_s,
        )


@dataclass(frozen=True, slots=True)
class CoreCosts:
    """Core seconds of a batch without a row, and of one row more."""

    fixed_core_s: float
    row_core_s: float


class BatchCostTracker:
    r"""Core seconds of a batch, ``fixed + (rows + dropped) * read + rows * work``, from nothing but finished batches.

    Rows that a guard dropped have been read. Counted as a cost of the rows that stay, they would make these the dearer
    the fewer are kept, and fewer still would be kept. And whatever is kept has been read as well: a row that is kept
    never costs less than one that is dropped, which scatter alone would have it do now and then.

    Two estimates in one. Recursive least squares over :math:`core = f n + d\,(rows + dropped) + w\,rows` tells what is
    fixed from what rows cost, whenever batches differ in size. As batches of a governed query are all about as large,
    and a machine gets faster while it warms up, a ratio of sums gives the level of all:

    .. math:: factor = \frac{\sum_k \kappa^k core_k}{\sum_k \kappa^k (f n_k + d\,(rows_k + dropped_k) + w\,rows_k)}

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

    The same with nine of ten rows dropped after a thousandth of a second each:

    >>> for rows in (10, 20, 6, 50, 20, 40) * 3:
    ...     tracker.on_batch(rows=rows, dropped=9 * rows, core_s=0.5 + rows * 0.01 + 9 * rows * 0.001)
    >>> round(tracker.row_core_s, 3), round(tracker.dropped_core_s, 4)
    (0.01, 0.001)
    """

    def __init__(self) -> None:
        self.known = 0
        self._split: RecursiveLeastSquares | None = None
        self._recent = CostSums()
        self._owed = CostSums()
        self.largest_rows = 0.0

    @property
    def fixed_core_s(self) -> float:
        """Core seconds of a batch without a row."""
        return 0.0 if self._split is None else self._factor * self._split.theta[0]

    @property
    def row_core_s(self) -> float:
        """Core seconds of one row more; zero before the first batch."""
        return 0.0 if self._split is None else self._factor * (self._split.theta[1] + self._split.theta[2])

    @property
    def dropped_core_s(self) -> float:
        """Core seconds of one row more that is read and dropped."""
        return 0.0 if self._split is None else self._factor * self._split.theta[1]

    @property
    def is_told_apart(self) -> bool:
        """Whether it is known what a row costs beside what a batch does: batches of one size do not tell."""
        return self._split is not None and self._row_error_s <= TOLD_APART * self.row_core_s

    def costs(self, optimism: float) -> CoreCosts:
        """Fixed cost and cost of a row, of all that batches so far leave open what is believed, or the best of it.

        Once they are told apart that is what is believed. Before, an ``optimism`` of one takes rows to cost one error
        less, and batches of the size in use the same. Who took rows for dear would keep batches small, and then
        nothing tells.

        Examples
        --------
        Two batches of one size leave it open; one of four times that size, which costs a third more, does not:

        >>> tracker = BatchCostTracker()
        >>> for rows, core_s in ((1_000, 0.9), (1_000, 0.9)):
        ...     tracker.on_batch(rows=rows, core_s=core_s)
        >>> tracker.is_told_apart, round(1e6 * tracker.row_core_s), round(1e6 * tracker.costs(1.0).row_core_s)
        (False, 630, 45)
        >>> tracker.on_batch(rows=4_000, core_s=1.2)
        >>> tracker.is_told_apart, round(1e6 * tracker.row_core_s)
        (False, 112)
        >>> tracker.on_batch(rows=16_000, core_s=2.4)
        >>> tracker.is_told_apart, round(1e6 * tracker.row_core_s), round(tracker.costs(1.0).fixed_core_s, 1)
        (True, 102, 0.8)
        """
        fixed_s, row_s = self.fixed_core_s, self.row_core_s
        if self._split is None or self.is_told_apart:
            return CoreCosts(fixed_s, row_s)
        less_s = optimism * max(0.0, min(row_s - self._factor * self._least_row_s, self._row_error_s))
        mean_rows = self._recent.rows / self._recent.batches
        return CoreCosts(fixed_s + less_s * mean_rows, row_s - less_s)

    def core_s(self, rows: float) -> float:
        """Core seconds of a batch of so many rows."""
        return self.fixed_core_s + rows * self.row_core_s

    def on_batch(self, *, rows: int, core_s: float | None, dropped: int = 0) -> None:
        """Take over what a batch kept busy: None where nobody knows, zero where that is yet to be told."""
        if rows <= 0 or core_s is None:
            return
        own = self._owed.plus(CostSums(1.0, rows, dropped, core_s))
        if core_s <= 0:
            self._owed = own
            return
        self._owed = CostSums()
        self.known += 1
        if self._split is None:
            self._split = _first(own)
        else:
            noise = (_NOISE * core_s) ** 2
            regressor = (own.batches, own.rows + own.dropped, own.rows)
            self._split.update(regressor, core_s, noise_variance=noise, forgetting=_FORGETTING)
        self._recent = self._recent.plus(own, keep=_KEEP)
        self.largest_rows = max(own.rows / own.batches, LARGEST_BATCH_DECAY * self.largest_rows)
        self._split.hold_above((0.0, self._least_row_s, 0.0))

    @property
    def _row_error_s(self) -> float:
        assert self._split is not None
        return self._factor * self._split.prediction_std((0.0, 1.0, 1.0))

    @property
    def _least_row_s(self) -> float:
        return _LEAST_ROW_SHARE * self._recent.core_s / (self._recent.rows + self._recent.dropped)

    @property
    def _factor(self) -> float:
        assert self._split is not None
        fixed_s, read_s, work_s = self._split.theta
        recent = self._recent
        read_rows = recent.rows + recent.dropped
        return recent.core_s / (fixed_s * recent.batches + read_s * read_rows + work_s * recent.rows)


def _first(own: CostSums) -> RecursiveLeastSquares:
    batch_s, row_s = own.core_s / own.batches, own.core_s / own.rows
    all_s = (1.0 - _FIRST_FIXED_SHARE) * row_s
    prior = (_FIRST_FIXED_SHARE * batch_s, _DROPPED_PART * all_s, (1.0 - _DROPPED_PART) * all_s)
    return RecursiveLeastSquares(prior, (batch_s**2, (_DROPPED_PART * row_s) ** 2, row_s**2))
