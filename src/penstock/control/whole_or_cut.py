"""Whether a batch that is too long is cut or kept whole: by the rows that are out in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.batch_cut import cut_to, late_part_of
from penstock.control.batch_length import WORTH, late_part, useful_length_s
from penstock.estimate.bisection import largest_that_holds
from penstock.model.directive import LATE_PART
from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.control.planned_load import KeepChoice, PlannedLoad, RowGoal
    from penstock.estimate.batch_costs import BatchCosts
    from penstock.estimate.batch_time import BatchTimeModel

_SHORTEST_S = 0.001
"""Spark's reports count in milliseconds: no batch is taken to be shorter, whatever is predicted of one without rows."""
_MOST_OVERHEAD_OF_GOAL = 1.0 / 3.0
"""Beyond this part of the goal the length with most rows in time is no longer one whose rows are all in time.

(:func:`~penstock.control.batch_length.useful_length_s`.) What counts there is rows in time, and to drop rows for time
that is overhead in truth costs the most of them.
"""
_BELIEVED_ERRORS = 0.5
"""Errors of the model by which either way gets the benefit of the doubt.

With none, first batches that make rows look dear are believed for too long where overhead is half of the goal (four of
240 simulated loads below 0.9 of plain Spark instead of two); with one, whole batches get it too often where batches
scatter by 0.3 (rows late 9.5 % instead of 7.2 %, with an overhead of a quarter of the goal; six runs each).
"""


def better_of(
    model: BatchTimeModel,
    load: PlannedLoad,
    whole: KeepChoice,
    cut: KeepChoice,
    goal: RowGoal,
    *,
    longest_s: float,
    may_try: bool,
) -> KeepChoice:
    r"""The way that has more rows out in time each second, in this batch and in all that would follow it.

    Batches that keep everything settle at :math:`d = o / (1 - \rho)`, with :math:`\rho` the seconds of work that each
    second brings; batches that are cut have a length and keep what fits into it, the youngest rows first. Neither is
    known but from batches that were seen, and batches of one kind tell little of the other. So each way is judged by
    what it may come to at best, and is tried where that is more than the other has: a mistake ends with the first
    batch that shows it.

    - *Overhead is well below a third of the goal.* What is known decides.
    - *Overhead may be more than that.* Whole and cut batches are held against each other as if rows cost
      ``_BELIEVED_ERRORS`` less and overhead took the rest: rows that are dropped for time that is overhead in truth
      make batches smaller, and rows seem the dearer for it. The cut is made by that reading too, and so tells whether
      it was right.
    - *Whole batches are the better way by what is known.* If the model may be so far off that cut ones would be, one
      is cut, in every other batch at the most (``may_try``): batches that are all whole would never tell.
    - *Reading is nearly all that a row costs.* Dropping rows makes no batch shorter, the cut has no more rows in time
      than the whole, and everything stays: the query runs as it would without a guard.
    - *No row can be in time*, whole or cut: reading alone takes all the time. Rows are dropped only where that saves a
      tenth of the time, so that the query falls behind less.
    """
    rates = _InTimeRates(load, goal)
    costs, length_s = _favouring_whole(model, load, goal)
    whole_now = rates.now(whole, min(whole.predicted_s, costs.predict_s(load.rows, load.rows)))
    whole_later = rates.later_whole(costs)

    def gains(found: KeepChoice, batch_s: float, later: float) -> bool:
        return rates.now(found, batch_s) > WORTH * whole_now or later > WORTH * whole_later

    length_s = min(length_s, longest_s)
    # However large the doubt, by what is known the youngest rows at least are in time: a trial that took several times
    # the goal has cost more rows than it could ever bring.
    bounded_s = max(load.batch_s, goal.latency_s)
    fitting_rows = min(costs.kept_rows_within(length_s, load.rows), model.costs.kept_rows_within(bounded_s, load.rows))
    fitting = cut_to(costs, load, goal, length_s, kept_rows=fitting_rows)
    later = rates.later_cut(length_s, lambda read_rows: costs.kept_rows_within(length_s, read_rows))
    if gains(fitting, costs.predict_s(load.rows, fitting.kept_rows), later):
        return fitting
    if may_try:
        trial_s = min(_favouring_cut_s(model, load, goal), longest_s)
        trial = cut_to(model.costs, load, goal, trial_s, kept_rows=_rows_at_best(model, trial_s, load.rows))
        later = rates.later_cut(trial_s, lambda read_rows: _rows_at_best(model, trial_s, read_rows))
        if gains(trial, _at_best_s(model, load.rows, trial.kept_rows), later):
            return evolve(trial, is_doubtful=True)
    return cut if whole_later <= 0.0 and _saves_time(model.costs, goal.keep_floor) else whole


def _favouring_whole(model: BatchTimeModel, load: PlannedLoad, goal: RowGoal) -> tuple[BatchCosts, float]:
    """What batches are taken to cost, and how long a cut one is by that: with the benefit of the doubt for overhead."""
    doubted = model.costs_if(-_BELIEVED_ERRORS)
    if doubted.overhead_s <= _MOST_OVERHEAD_OF_GOAL * goal.latency_s:
        return model.costs, load.batch_s
    read_load = doubted.read_s * load.arrival_rows_per_s
    return doubted, max(load.in_time_s, useful_length_s(goal.latency_s, doubted.overhead_s, read_load))


def _favouring_cut_s(model: BatchTimeModel, load: PlannedLoad, goal: RowGoal) -> float:
    """How long a cut batch is if overhead is as little as it may be, and reading costs nothing."""
    overhead_s = model.costs_if(_BELIEVED_ERRORS).overhead_s
    return max(load.in_time_s, useful_length_s(goal.latency_s, overhead_s, 0.0))


def _at_best_s(model: BatchTimeModel, read_rows: float, kept_rows: float) -> float:
    """What a batch takes if the model is off by its errors; of one like those that were seen it is hardly off."""
    return model.predict_s(read_rows, kept_rows) - _BELIEVED_ERRORS * model.uncertainty_s(read_rows, kept_rows)


def _rows_at_best(model: BatchTimeModel, batch_s: float, read_rows: float) -> float:
    """Rows that a batch may be able to keep if it is to take so long."""
    return largest_that_holds(lambda kept_rows: _at_best_s(model, read_rows, kept_rows) <= batch_s, 0.0, read_rows)


def _saves_time(costs: BatchCosts, keep_floor: float) -> bool:
    """Whether rows that are dropped down to the floor save a tenth of the time."""
    return costs.row_s > WORTH * (costs.read_s + keep_floor * costs.work_s)


@dataclass(frozen=True, slots=True)
class _InTimeRates:
    """Rows that are out in time each second: of the planned batch, and of all to come if they are alike."""

    load: PlannedLoad
    goal: RowGoal

    def now(self, choice: KeepChoice, batch_s: float) -> float:
        """Of the planned batch, if it takes so long."""
        on_time_rows = choice.ratio * (self.load.rows - choice.late_rows)
        late = late_part_of(self.load, self.goal, choice, batch_s)
        return on_time_rows * (1.0 - late) / max(batch_s, self.load.interval_s, _SHORTEST_S)

    def later_whole(self, costs: BatchCosts) -> float:
        """Of batches that keep everything; none where they do not keep up."""
        rate = self.load.arrival_rows_per_s
        work = rate * costs.row_s
        return rate * (1.0 - self._late_part(costs.overhead_s / (1.0 - work))) if work < 1.0 else 0.0

    def later_cut(self, batch_s: float, kept_rows_of: Callable[[float], float]) -> float:
        """Of batches that are cut to a length; none where that is less than the floor."""
        cycle_s = max(batch_s, self.load.interval_s)
        read_rows = self.load.arrival_rows_per_s * cycle_s
        kept_rows = min(read_rows, kept_rows_of(read_rows))
        if kept_rows < self.goal.keep_floor * read_rows:
            return 0.0
        late = self._late_part(batch_s)
        if not self.load.tells_arrival:
            return kept_rows * (1.0 - late) / cycle_s
        young_rows = (1.0 - late) * read_rows
        ratio = min(1.0, kept_rows / (young_rows + LATE_PART * late * read_rows)) if read_rows > 0 else 1.0
        return ratio * young_rows / cycle_s

    def _late_part(self, batch_s: float) -> float:
        wait_s = max(batch_s, self.load.interval_s)
        return late_part(wait_s, batch_s, self.goal.latency_s, self.goal.noise)
