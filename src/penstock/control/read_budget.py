"""How many rows the next batch may process and how many it may read: what fits, within what was seen to be possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.estimate.batch_time import BATCHES_TO_KNOW, READ_PART

if TYPE_CHECKING:
    from penstock.estimate.batch_time import BatchTimeModel
    from penstock.model import BatchSignal

_SURE_DEVIATIONS = 2.0
"""A batch larger than any before must be within the goal even if costs are off by so much: 97.7 % of cases."""
_PROBE_PART = 0.9
"""Part of the goal that a batch may take that is to tell overhead from cost: if all of the last one was cost, it takes
that, and a tenth is left for scatter."""
_COLD_BATCHES = BATCHES_TO_KNOW - 1
"""Batches that are learned from until costs are known, the first of a start not among them: so long it is cold."""


@dataclass(frozen=True, slots=True)
class ReadBudget:
    """Bounds of the next batch, by what is known now.

    Parameters
    ----------
    model
        What batches cost.
    goal_s
        The latency goal.
    batch_s
        How long batches are to be.
    growth_factor
        By how much a batch may be larger than any before it.
    largest_batch_rows, largest_read_rows
        The most rows that a batch of late has processed, and read.

    Examples
    --------
    A cold start grows step by step, however much would fit:

    >>> from penstock.estimate.batch_time import BatchTimeModel
    >>> model = BatchTimeModel()
    >>> for rows in (1_000, 4_000, 16_000, 64_000):
    ...     model.update(rows, rows, 0.2 + rows * 20e-6)
    >>> budget = ReadBudget(model, 5.0, 2.5, 4.0, largest_batch_rows=4_000.0, largest_read_rows=4_000.0)
    >>> round(budget.fits_rows, -3), budget.most_rows(under_way_rows=0.0), budget.most_rows(under_way_rows=6_000.0)
    (115000.0, 16000.0, 24000.0)
    """

    model: BatchTimeModel
    goal_s: float
    batch_s: float
    growth_factor: float
    largest_batch_rows: float
    largest_read_rows: float

    @property
    def fits_rows(self) -> float:
        """Rows of a batch of the wanted length that keeps them all."""
        return max(1.0, self.model.kept_rows_within(self.batch_s, 1.0))

    def largest_rows(self, under_way_rows: float) -> float:
        """The most rows that a batch will have processed when the limit that is decided now holds.

        The batch under way, of which so many rows are kept, was planned before this report came. Were it not counted, a
        limit that acts one batch late would grow in every other batch only, and a cold start would take twice as long.
        """
        if self.model.batches >= _COLD_BATCHES:
            return self.largest_batch_rows
        return max(self.largest_batch_rows, under_way_rows)

    def most_rows(self, under_way_rows: float) -> float:
        """Rows beyond which a batch would be a leap."""
        return self.growth_factor * self.largest_rows(under_way_rows)

    def rows_after(self, signal: BatchSignal, *, under_way_rows: float, fits_rows: float) -> float:
        """Rows that fit, within what is sure to be within the goal and what was seen to be possible.

        Where overhead and cost of rows are not told apart, what fits may be far too little, and batches of that size
        would never tell: the next one is then as large as can be within the goal if all of the last one was cost.
        """
        longest_s = max(self.goal_s, self.batch_s)
        most_rows = self.most_rows(under_way_rows)
        sure_rows = self.model.surely_within(
            longest_s, 1.0, at_most_rows=min(fits_rows, most_rows), deviations=_SURE_DEVIATIONS
        )
        if self.model.is_told_apart or not signal.lag_rows:
            return max(1.0, sure_rows)
        probe_rows = signal.work_rows * _PROBE_PART * longest_s / signal.duration_s
        return max(1.0, sure_rows, min(probe_rows, most_rows))

    def rows_after_first(self, signal: BatchSignal, *, under_way_rows: float) -> float | None:
        """A step of growth from the first batch, if that was short; None otherwise.

        It pays for code generation and cold workers, so nothing is learned of its costs; but they are no more than it
        took. Where that is too much of the goal for a step of ``growth_factor``, the next one is as small: batches of
        about one size tell overhead and cost apart by their scatter alone, which is as good as a guess.
        """
        rows = self.growth_factor * signal.work_rows
        possible_rows = self.rows_after(signal, under_way_rows=under_way_rows, fits_rows=float("inf"))
        return rows if rows <= possible_rows else None

    def rows_to_thin_out(self, budget_rows: float, *, keep_floor: float, is_held_to_rows: bool) -> float:
        """Rows that a batch may read of which what is too much will be dropped when it is planned.

        As many as could be read in time if no more than the floor of them were kept; but never by a leap beyond what
        was seen. Where a plan in rows drops all but so many, reading the others is the small part of what was seen.
        """
        work_s = keep_floor * self.model.work_cost_s
        readable_rows = max(1.0, (self.batch_s - self.model.overhead_s) / (self.model.read_cost_s + work_s))
        seen_rows = self.growth_factor * self.largest_read_rows
        if is_held_to_rows:
            seen_rows = max(seen_rows, self.growth_factor / READ_PART * self.largest_batch_rows)
        return max(budget_rows, min(readable_rows, seen_rows))

    def rows_at_ratio(self, budget_rows: float, keep_ratio: float) -> float:
        """Rows that a batch may read where the ratio in force may be the one of two batches ago: what that leaves."""
        return min(budget_rows / keep_ratio, self.growth_factor * self.largest_read_rows)
