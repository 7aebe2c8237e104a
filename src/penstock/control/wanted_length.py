"""How long the batches of a query are to be, from its goal and from what was learned of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.batch_length import (
    MOST_OVERHEAD_PART,
    keeping_up_s,
    length_among_jumps_s,
    longest_in_time_s,
    useful_length_s,
)
from penstock.estimate.batch_time import BATCHES_TO_KNOW

if TYPE_CHECKING:
    from penstock.estimate.batch_time import BatchTimeModel


@dataclass(frozen=True, slots=True)
class WantedLength:
    """What the goal, the trigger and the settings say of the length of batches.

    Parameters
    ----------
    goal_s
        The latency goal.
    target_s
        The part of it that a batch may take at the most.
    interval_s
        How often a batch begins; 0 is batch after batch.
    late_ratio
        Part of the kept rows that may be late.
    overhead_part
        Part of a batch that is overhead at which longer ones gain nothing.
    """

    goal_s: float
    target_s: float
    interval_s: float
    late_ratio: float
    overhead_part: float

    def in_time_s(self, model: BatchTimeModel) -> float:
        """The longest batch whose rows are in time, as much as batches scatter and the machine's speed jumps."""
        if model.batches < BATCHES_TO_KNOW:
            return self.target_s
        longest_s = longest_in_time_s(
            self.goal_s, self.interval_s, model.relative_deviation, late_ratio=self.late_ratio
        )
        return length_among_jumps_s(
            self.goal_s,
            self.interval_s,
            model.overhead_s,
            model.overruns,
            at_most_s=min(self.target_s, longest_s),
            late_ratio=self.late_ratio,
            noise=model.relative_noise,
        )

    def wanted_s(self, model: BatchTimeModel, arrival_rows_per_s: float, keep_floor: float | None) -> float:
        """For how long batches may read: in time, unless too little of it would be left for rows, or they fell behind.

        ``keep_floor`` is None where nothing is dropped.
        """
        read_load = arrival_rows_per_s * model.read_cost_s
        if keep_floor is None:
            filled_s = model.overhead_s / MOST_OVERHEAD_PART
        else:
            filled_s = useful_length_s(self.goal_s, model.overhead_s, read_load)
        return max(self.in_time_s(model), filled_s, self._needed_s(model, arrival_rows_per_s, keep_floor))

    def cut_s(self, model: BatchTimeModel) -> float:
        """How long a batch is made that drops rows: in time, or as long as has most rows in time.

        The most useful length counts only where it is more than half of the goal, that is with an overhead of more than
        a third of it: below that it knows nothing of scatter, and would make a scattering query late for a few rows.
        What must be read takes what it takes: such a batch is longer by itself, and is not filled with kept rows on top
        of that.
        """
        in_time_s = self.in_time_s(model)
        useful_s = useful_length_s(self.goal_s, model.overhead_s, 0.0)
        return max(in_time_s, useful_s) if useful_s > self.goal_s / 2.0 else in_time_s

    def _needed_s(self, model: BatchTimeModel, arrival_rows_per_s: float, keep_floor: float | None) -> float:
        """What it takes to keep up, once that is known."""
        if model.batches < BATCHES_TO_KNOW:
            return 0.0
        row_s = model.read_cost_s + (1.0 if keep_floor is None else keep_floor) * model.work_cost_s
        return keeping_up_s(
            model.overhead_s, arrival_rows_per_s * row_s, self.interval_s, overhead_part=self.overhead_part
        )
