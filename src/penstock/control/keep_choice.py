"""How much of its rows a planned batch can keep: the law of the fast tier, without a memory of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.control.batch_cut import cut_to, late_rows_of, ratio_of_rows
from penstock.control.batch_length import late_among_jumps, late_part
from penstock.control.lookahead import longest_for_waiting_s, longest_saved_s
from penstock.control.planned_load import KeepChoice, RowGoal
from penstock.control.whole_or_cut import better_of
from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from penstock.control.planned_load import PlannedLoad
    from penstock.estimate.batch_time import BatchTimeModel

_LONGEST_PART = 0.5
"""Part of the goal that is left to rows that wait, however long their batch is to be.

A row waits for up to one batch and is processed in the next, so batches one after the other have half of the goal each.
"""


def choose_keep_ratio(
    model: BatchTimeModel,
    load: PlannedLoad,
    *,
    latency_s: float,
    keep_floor: float,
    late_ratio: float,
    may_doubt: bool = True,
) -> KeepChoice:
    r"""The largest part of its rows with which a planned batch, and those after it, are out within the goal.

    A batch of :math:`n` rows that keeps :math:`k` of them takes :math:`d(n, k)`, give or take a part :math:`\sigma` of
    that. Rows arrive at a rate :math:`r`, :math:`W` of them wait, and no more than a part :math:`q` of the kept ones
    may be late (:func:`~penstock.control.batch_length.late_part`).

    - *Everything stays* where both the rows of this batch, which have waited for up to :math:`W / r`, and those that
      arrive while it runs are in time, also as often as the machine's speed jumps. And it stays where batches that keep
      everything have as many rows out in time each second as batches of the wanted length :math:`T`, which drop some:
      dropping rows must never cost more than it saves (:func:`~penstock.control.whole_or_cut.better_of`).
    - *Otherwise* the batch is cut to :math:`T`. Rows that had to wait for too long to be in time even so go first (no
      more of them is kept than the floor), and of the others the ratio with which it takes :math:`T`.
    - *Until executors come* (``relief_s``) the batch is no longer than the floor can make good for in those after it
      (:func:`~penstock.control.lookahead.longest_saved_s`): where not even the floor can be done of what arrives, a
      batch that keeps everything is in time itself and makes all that follow late. And it is no longer than what the
      goal leaves to rows that have waited for longer than :math:`T` allows.
    - *Where a batch that is cut is less known than batches scatter*, because it reads far more than those before or
      executors have just come, the model's own error is added to what it predicts, in every other batch at the most
      (``may_doubt``). What is dropped in one batch is little, what would be late for its sake is all that arrives
      meanwhile; but batches that are always cut never tell what whole ones would take.

    Examples
    --------
    Twenty thousand rows a second of which ten thousand fit, a batch of two seconds' arrivals:

    >>> from penstock.control.planned_load import PlannedLoad
    >>> from penstock.estimate.batch_time import BatchTimeModel
    >>> model = BatchTimeModel()
    >>> for read, kept in ((1_000, 1_000), (10_000, 10_000), (30_000, 3_000), (10_000, 1_000)) * 9:
    ...     model.update(read, kept, 0.2 + read * 10e-6 + kept * 90e-6)
    >>> load = PlannedLoad(7, 100.0, 40_000.0, 40_000.0, 20_000.0, 2.0, batch_s=2.0, tells_arrival=True)
    >>> choice = choose_keep_ratio(model, load, latency_s=5.0, keep_floor=0.05, late_ratio=0.02)
    >>> round(choice.ratio, 2), round(choice.late_after_s, 1), choice.late_rows
    (0.36, 3.0, 0.0)

    Half of that fits, and stays whole though it is a little longer:

    >>> calm = PlannedLoad(8, 102.0, 21_000.0, 21_000.0, 9_000.0, 2.3, batch_s=2.0, tells_arrival=True)
    >>> choose_keep_ratio(model, calm, latency_s=5.0, keep_floor=0.05, late_ratio=0.02).ratio
    1.0
    """
    goal = RowGoal(latency_s, keep_floor, late_ratio, model.relative_noise)
    whole = _whole(model, load, goal)
    saved_s = longest_saved_s(model, load, latency_s=latency_s, keep_floor=keep_floor, late_ratio=late_ratio)
    if load.rows <= 0 or (whole.is_in_time and whole.predicted_s <= saved_s):
        return whole
    doubt_s = model.uncertainty_s(load.rows, load.rows)
    length_s = min(saved_s, _length_s(model, load, goal))
    fits = whole.predicted_s + doubt_s <= length_s
    if fits and length_s <= _LONGEST_PART * latency_s:
        return whole
    kept_rows = min(load.rows, model.costs.kept_rows_within(length_s, load.rows))
    cut_doubt_s = model.uncertainty_s(load.rows, kept_rows)
    if not fits and may_doubt and cut_doubt_s > model.relative_deviation * length_s:
        sure_rows = model.costs.kept_rows_within(length_s - cut_doubt_s, load.rows)
        return evolve(cut_to(model.costs, load, goal, length_s, kept_rows=sure_rows), is_doubtful=True)
    cut = cut_to(model.costs, load, goal, length_s, kept_rows=kept_rows)
    if whole.predicted_s > saved_s:
        return cut
    return better_of(model, evolve(load, batch_s=length_s), whole, cut, goal, longest_s=saved_s)


def held_to_rows(
    model: BatchTimeModel,
    load: PlannedLoad,
    choice: KeepChoice,
    most_rows: float,
    *,
    latency_s: float,
    keep_floor: float,
    late_ratio: float,
) -> KeepChoice:
    """What a batch keeps that may keep no more than so many rows, for others' sake; late ones go first.

    Examples
    --------
    Of forty thousand rows half have waited for too long; nearly all of the four thousand that may stay are young:

    >>> from penstock.control.planned_load import PlannedLoad
    >>> from penstock.estimate.batch_time import BatchTimeModel
    >>> load = PlannedLoad(7, 100.0, 40_000.0, 40_000.0, 10_000.0, 4.0, batch_s=3.0, tells_arrival=True)
    >>> whole = KeepChoice(1.0, None, 0.0, 1.0)
    >>> held = held_to_rows(
    ...     BatchTimeModel(), load, whole, 4_000.0, latency_s=5.0, keep_floor=0.01, late_ratio=0.02
    ... )
    >>> round(held.ratio, 2), round(held.late_rows)
    (0.2, 23373)
    """
    if most_rows >= choice.ratio * (load.rows - choice.late_rows):
        return choice
    goal = RowGoal(latency_s, keep_floor, late_ratio, model.relative_noise)
    late_after_s, late_rows = choice.late_after_s, choice.late_rows
    if late_after_s is None:
        late_after_s, late_rows = late_rows_of(load, goal, load.batch_s)
    if late_after_s is None and load.tells_arrival:
        # Batches that take as long as the goal leave no age at which rows are in time: the youngest stay even so.
        late_after_s, late_rows = late_rows_of(load, evolve(goal, noise=0.0), _LONGEST_PART * latency_s)
    on_time_rows = load.rows - late_rows
    ratio = ratio_of_rows(most_rows, on_time_rows, late_rows, keep_floor)
    ratio = min(choice.ratio, ratio)
    return evolve(choice, ratio=ratio, late_after_s=late_after_s, late_rows=late_rows, most_rows=most_rows)


def _length_s(model: BatchTimeModel, load: PlannedLoad, goal: RowGoal) -> float:
    """The wanted length; until executors come, less where rows have waited for so long that they would be late with it.

    But not less than the floor makes possible. In an overload that lasts, shorter batches would only be more overhead.
    """
    if load.relief_s <= 0.0:
        return load.batch_s
    in_time_s = longest_for_waiting_s(
        load.waited_s, load.batch_s, goal.latency_s, goal.noise, late_ratio=goal.late_ratio
    )
    return min(load.batch_s, max(in_time_s, model.predict_s(load.rows, goal.keep_floor * load.rows)))


def _whole(model: BatchTimeModel, load: PlannedLoad, goal: RowGoal) -> KeepChoice:
    """Everything stays."""
    rate, rows = load.arrival_rows_per_s, load.rows
    batch_s = model.predict_s(rows, rows)
    surely_s = batch_s + model.uncertainty_s(rows, rows)
    late = late_part(load.waited_s, surely_s, goal.latency_s, goal.noise)
    cycle_s = max(surely_s, load.interval_s)
    next_s = min(load.batch_s, model.predict_s(rate * cycle_s, rate * cycle_s))
    next_late = late_part(cycle_s, next_s, goal.latency_s, goal.noise)
    jumps_late = late_among_jumps(load.waited_s, batch_s, goal.latency_s, model.overruns, goal.noise)
    is_in_time = max(late, next_late, jumps_late) <= goal.late_ratio
    return KeepChoice(1.0, None, 0.0, batch_s, kept_rows=rows, is_in_time=is_in_time)
