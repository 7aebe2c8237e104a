"""A batch that keeps some of its rows: which of them are late whatever is done, and what is kept of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.control.batch_length import late_part, longest_wait_s, surest_wait_s
from penstock.control.planned_load import KeepChoice
from penstock.model.directive import LATE_PART

if TYPE_CHECKING:
    from penstock.control.planned_load import PlannedLoad, RowGoal
    from penstock.estimate.batch_costs import BatchCosts


def cut_to(costs: BatchCosts, load: PlannedLoad, goal: RowGoal, batch_s: float, *, kept_rows: float) -> KeepChoice:
    """A batch of a length that keeps so many rows: those that are late even so go first, then others at random."""
    # Where reading alone takes longer than the batch is to take, that decides which rows are late whatever is dropped.
    longer_s = max(batch_s, costs.predict_s(load.rows, goal.keep_floor * load.rows))
    late_after_s, late_rows = late_rows_of(load, goal, longer_s)
    on_time_rows = load.rows - late_rows
    ratio = ratio_of_rows(kept_rows, on_time_rows, late_rows, goal.keep_floor)
    kept_rows = ratio * on_time_rows + max(goal.keep_floor, LATE_PART * ratio) * late_rows
    return KeepChoice(ratio, late_after_s, late_rows, costs.predict_s(load.rows, kept_rows), kept_rows=kept_rows)


def late_rows_of(load: PlannedLoad, goal: RowGoal, batch_s: float) -> tuple[float | None, float]:
    """The age from which rows go first in a batch of such a length, and how many of its rows do; None for no age."""
    if not load.tells_arrival:
        return None, 0.0
    late_after_s = old_from_s(load.waited_s, batch_s, goal)
    if late_after_s <= 0:
        return None, 0.0
    on_time = late_after_s / load.waited_s if load.waited_s > late_after_s else 1.0
    return late_after_s, min(load.rows, (1.0 - on_time) * load.waiting_rows)


def old_from_s(waited_s: float, batch_s: float, goal: RowGoal) -> float:
    """The age from which rows go first in a batch of such a length, if they have waited for up to so long.

    Those that are not surely in time; where hardly any is, those that are less likely to be in time than the others
    (:func:`~penstock.control.batch_length.surest_wait_s`). If only the youngest few were kept as they are, an eighth of
    all others would be most of what is kept.
    """
    surely_s = longest_wait_s(batch_s, goal.latency_s, goal.noise, late_ratio=goal.late_ratio)
    if surely_s >= waited_s:
        return surely_s
    return max(surely_s, surest_wait_s(waited_s, batch_s, goal.latency_s, goal.noise, old_part=LATE_PART))


def in_time_of(span_s: float, batch_s: float, goal: RowGoal) -> tuple[float, float]:
    """Of rows that have waited for up to so long: what is kept by weight if old ones go first, and is in time of it.

    Both in seconds of arrivals, for a ratio of one of those that are not old.

    Examples
    --------
    >>> from penstock.control.planned_load import RowGoal
    >>> steady, scattering = (RowGoal(5.0, 0.01, 0.02, noise) for noise in (0.02, 0.3))
    >>> [round(each, 2) for each in (*in_time_of(2.8, 2.8, steady), *in_time_of(2.8, 2.8, scattering))]
    [2.31, 2.19, 1.34, 1.19]
    """
    young_s = min(span_s, old_from_s(span_s, batch_s, goal))
    young_late_s = young_s * late_part(young_s, batch_s, goal.latency_s, goal.noise)
    old_late_s = span_s * late_part(span_s, batch_s, goal.latency_s, goal.noise) - young_late_s
    kept_s = young_s + LATE_PART * (span_s - young_s)
    return kept_s, kept_s - young_late_s - LATE_PART * old_late_s


def ratio_of_rows(kept_rows: float, on_time_rows: float, late_rows: float, keep_floor: float) -> float:
    """The ratio of the others with which so many rows are kept in all; late ones get the floor, or a part of it."""
    # Also where all rows are late: an eighth of everything may be as much as arrives meanwhile, and all that comes
    # after them would be late for ever.
    ratio = kept_rows / (on_time_rows + LATE_PART * late_rows)
    if LATE_PART * ratio < keep_floor and on_time_rows > 0:
        ratio = (kept_rows - keep_floor * late_rows) / on_time_rows
    return min(1.0, max(keep_floor, ratio))


def late_part_of(load: PlannedLoad, goal: RowGoal, choice: KeepChoice, batch_s: float) -> float:
    r"""Part of the rows that a planned batch keeps as being in time which are out too late, if it takes so long.

    Of all that waits a batch takes the oldest. They have waited for :math:`w_0` to :math:`w`, and what is late of rows
    that have waited for up to :math:`w` is a part :math:`q(w)` (:func:`~penstock.control.batch_length.late_part`):

    .. math:: \frac{w\,q(w) - w_0\,q(w_0)}{w - w_0}
    """
    longest_s = load.waited_s if choice.late_after_s is None else min(load.waited_s, choice.late_after_s)
    shortest_s = load.waited_s * (1.0 - load.rows / load.waiting_rows)
    if longest_s <= shortest_s:
        return 1.0
    late_s = longest_s * late_part(longest_s, batch_s, goal.latency_s, goal.noise)
    late_s -= shortest_s * late_part(shortest_s, batch_s, goal.latency_s, goal.noise)
    return late_s / (longest_s - shortest_s)
