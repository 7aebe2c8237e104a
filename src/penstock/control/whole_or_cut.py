"""Whether a batch that is too long is cut or kept whole, and to what length: by the rows that are out in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.batch_cut import cut_to, in_time_of, late_part_of
from penstock.control.batch_length import WORTH, late_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.control.planned_load import KeepChoice, PlannedLoad, RowGoal
    from penstock.estimate.batch_costs import BatchCosts, CostBeliefs
    from penstock.estimate.batch_time import BatchTimeModel

_SHORTEST_S = 0.001
"""Spark's reports count in milliseconds: no batch is taken to be shorter, whatever is predicted of one without rows."""
_LENGTHS = 12
"""Lengths that are compared. Neighbours differ by a twentieth of the goal: less than their rates tell apart."""
_LONGEST_PART = 0.9
"""Part of the goal that the longest of them takes: one row in nine is young enough for it.

The best length is :math:`2 o L / (L + o)`, without reading (:func:`~penstock.control.batch_length.useful_length_s`), so
a longer one would be best only with an overhead of more than four fifths of the goal.
"""
_RATES = 33
"""Points of the curve of rows in time over lengths, in steps of three hundredths of the goal.

Sixteen of them are on its slope, from half of the goal, with which all rows are in time, to all of it, with none.
"""
_NOTHING = 0.01
"""Part of what arrives that counts as none in time: readings by which a way has fewer rule it out by no more than this.

With a third of it 167 of 216 simulated steps have 95 % of their rows in time, with three times of it 164, with it 168.
"""
_TINY = 1e-9
"""Rows and seconds below which there are none: nothing is divided by zero."""


def better_of(
    model: BatchTimeModel, load: PlannedLoad, whole: KeepChoice, cut: KeepChoice, goal: RowGoal, *, longest_s: float
) -> KeepChoice:
    r"""The way that has more rows out in time each second, in this batch and in all that would follow it.

    Neither way is known but from batches that were seen, and batches of one kind tell little of the other. So each is
    judged by all readings of what batches cost that are not ruled out, each as likely as it is
    (:class:`~penstock.estimate.batch_costs.CostBeliefs`): where batches of one size have left it open whether rows cost
    much or overhead does, whole batches count for the readings in which they are the better way. What counts is by what
    factor rows in time differ, so the rates :math:`v_i` of a way by the readings, of weights :math:`w_i`, are

    .. math:: \bar v = \prod_i \max(v_i, v_0)^{w_i}

    with :math:`v_0` a hundredth of what arrives. In an overload of five times, whole batches that a reading of one in
    five has in time promise as many rows on average as cut ones that are in time by all of them, and four times of five
    all rows would be late. By each reading:

    - *Batches that keep everything* settle at :math:`d = o / (1 - \rho)`, with :math:`\rho` the seconds of work that
      each second brings, and a part :math:`q(d)` of their rows is late;
    - *batches that are cut to a length* :math:`d` have room for :math:`(d - o - a\,r\,d) / c` rows, and old ones go
      first (:func:`~penstock.control.batch_cut.in_time_of`).

    A cut must bring a tenth, for what is expected of either way scatters by as much. It leaves hardly a row late; only
    where such a cut is no better than whole batches, as with an overhead of half the goal, is it as long as has most
    rows in time. Where *no row can be in time*, whole or cut, because reading alone takes all the time, rows are
    dropped only if that saves a tenth of it, so that the query falls behind less.
    """
    rates = InTimeRates(load, goal, model.beliefs)
    whole_later, cut_later = rates.whole(), rates.cut()
    if cut_later <= WORTH * whole_later:
        longer_s, cut_later = rates.longer()
        length_s = min(longer_s, longest_s)
        kept_rows = model.costs.kept_rows_within(length_s, load.rows)
        cut = cut_to(model.costs, load, goal, length_s, kept_rows=kept_rows)
    if rates.now(cut) > WORTH * rates.now(whole) or cut_later > WORTH * whole_later:
        return cut
    return cut if whole_later <= WORTH * rates.nothing and _saves_time(model.costs, goal.keep_floor) else whole


def _saves_time(costs: BatchCosts, keep_floor: float) -> bool:
    """Whether rows that are dropped down to the floor save a tenth of the time."""
    return costs.row_s > WORTH * (costs.read_s + keep_floor * costs.work_s)


@dataclass(frozen=True)
class InTimeRates:
    """Rows that are out in time each second: of the planned batch, and of all to come if they are alike."""

    load: PlannedLoad
    goal: RowGoal
    beliefs: CostBeliefs

    @property
    def nothing(self) -> float:
        """Rows in time each second that count as none."""
        return max(_NOTHING * self.load.arrival_rows_per_s, _TINY)

    def now(self, choice: KeepChoice) -> float:
        """Of the planned batch, if it takes what is predicted of it."""
        on_time_rows = choice.ratio * (self.load.rows - choice.late_rows)
        late = late_part_of(self.load, self.goal, choice, choice.predicted_s)
        return on_time_rows * (1.0 - late) / max(choice.predicted_s, self.load.interval_s, _SHORTEST_S)

    def whole(self) -> float:
        """Of all to come, if they keep everything."""
        return float(self._mean(self._whole()))

    def cut(self) -> float:
        """Of all to come, if they are cut to the wanted length."""
        return float(self._mean(self._cut(np.array([self.load.batch_s])))[0])

    def longer(self) -> tuple[float, float]:
        """The length of a cut with most rows in time, from the wanted one to nearly the goal, and what that has."""
        shortest_s = self.load.batch_s
        lengths_s = np.linspace(shortest_s, max(shortest_s, _LONGEST_PART * self.goal.latency_s), _LENGTHS)
        rates = self._mean(self._cut(lengths_s))
        best = int(np.argmax(rates))
        return float(lengths_s[best]), float(rates[best])

    def _mean(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Over all readings, as factors."""
        found: NDArray[np.float64] = np.exp(self.beliefs.weights @ np.log(np.maximum(rates, self.nothing)))
        return found

    def _whole(self) -> NDArray[np.float64]:
        """By each reading; none where whole batches do not keep up."""
        rate, beliefs, interval_s = self.load.arrival_rows_per_s, self.beliefs, self.load.interval_s
        work = rate * (beliefs.reads_s + beliefs.works_s)
        alone_s = np.where(work < 1.0, beliefs.overheads_s / np.maximum(1.0 - work, _TINY), np.inf)
        batch_s = np.where(alone_s < interval_s, beliefs.overheads_s + work * interval_s, alone_s)
        curve_s = np.linspace(0.0, self.goal.latency_s, _RATES)
        in_time = [
            1.0 - late_part(max(each, interval_s), each, self.goal.latency_s, self.goal.noise) for each in curve_s
        ]
        return rate * np.interp(batch_s, curve_s, in_time, right=0.0)

    def _cut(self, lengths_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """By each reading and for each length; none where that leaves no room for the floor."""
        beliefs, rate = self.beliefs, self.load.arrival_rows_per_s
        cycles_s = np.maximum(lengths_s, self.load.interval_s)
        read_rows = rate * cycles_s
        left_s = lengths_s - beliefs.overheads_s[:, None] - np.outer(beliefs.reads_s, read_rows)
        kept_rows = np.clip(left_s / beliefs.works_s[:, None], 0.0, read_rows)
        weighed_s, in_time_s = np.array([self._of_span(*each) for each in zip(cycles_s, lengths_s, strict=True)]).T
        in_time_rows = np.minimum(kept_rows / np.maximum(weighed_s, _TINY), rate) * in_time_s
        has_room = kept_rows >= self.goal.keep_floor * read_rows
        rates: NDArray[np.float64] = np.where(has_room, in_time_rows / cycles_s, 0.0)
        return rates

    def _of_span(self, cycle_s: float, length_s: float) -> tuple[float, float]:
        """Seconds of arrivals that are kept by weight, and those in time of them."""
        if self.load.tells_arrival:
            return in_time_of(cycle_s, length_s, self.goal)
        return cycle_s, cycle_s * (1.0 - late_part(cycle_s, length_s, self.goal.latency_s, self.goal.noise))
