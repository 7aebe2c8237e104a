"""How much of its rows a planned batch can keep: the law of the fast tier, without a memory of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.batch_length import kept_rows_per_s, late_part, longest_wait_s
from penstock.control.lookahead import longest_for_waiting_s, longest_saved_s
from penstock.model.directive import LATE_PART
from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from penstock.estimate.batch_time import BatchTimeModel

_SHORTEST_S = 0.001
"""Spark's reports count in milliseconds: no batch is taken to be shorter, whatever is predicted of one without rows."""
_LONGEST_PART = 0.5
"""Part of the goal that is left to rows that wait, however long their batch is to be."""
_WORTH = 1.1
"""Dropping rows must have a tenth more of them out in time: what is expected of either way scatters by as much."""
_MOST_OVERHEAD_OF_GOAL = 1.0 / 3.0
"""Beyond this part of the goal the length with most rows in time is no longer one whose rows are all in time.

(:func:`~penstock.control.batch_length.useful_length_s`.) What counts there is rows in time, and to drop rows for time
that is overhead in truth costs the most of them.
"""
_BELIEVED_ERRORS = 1.5
"""Errors of the cost of rows by which whole batches get the benefit of the doubt: the truth is beyond in one of 15."""


@dataclass(frozen=True, slots=True)
class PlannedLoad:
    """What is known of a batch when it is planned.

    Parameters
    ----------
    batch_id
        The batch.
    planned_s
        When its offsets were taken, in seconds since the epoch.
    rows
        Rows that it takes.
    waiting_rows
        Those, and the ones that it leaves at the sources.
    arrival_rows_per_s
        Rows that arrive each second.
    waited_s
        For how long the oldest of the waiting rows has waited.
    batch_s
        Length that the batch is to have.
    tells_arrival
        Whether rows tell when they arrived, so that late ones can go first.
    interval_s
        How often a batch begins; 0 is batch after batch.
    relief_s
        How long executors take to come; 0 where none will, and what the last ones found waiting is worked off.
    """

    batch_id: int
    planned_s: float
    rows: float
    waiting_rows: float
    arrival_rows_per_s: float
    waited_s: float
    batch_s: float
    tells_arrival: bool
    interval_s: float = 0.0
    relief_s: float = 0.0


@dataclass(frozen=True, slots=True)
class KeepChoice:
    """A ratio of the rows that can be in time, and the age from which they cannot (None: none counts as late).

    ``most_rows`` are those that others leave to a batch, where it keeps fewer for that reason.
    """

    ratio: float
    late_after_s: float | None
    late_rows: float
    predicted_s: float
    in_time_rows_per_s: float = 0.0
    is_in_time: bool = False
    is_doubtful: bool = False
    most_rows: float | None = None


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
      arrive while it runs are in time. And it stays where batches that keep everything, :math:`d = o / (1 - \rho)`,
      have as many rows out in time each second as batches of the wanted length :math:`T`, which drop some: dropping
      rows must never cost more than it saves.
    - *Otherwise* the batch is cut to :math:`T`. Rows that had to wait for too long to be in time even so go first (no
      more of them is kept than the floor), and of the others the ratio with which it takes :math:`T`.
    - *Until executors come* (``relief_s``) the batch is no longer than the floor can make good for in those after it
      (:func:`~penstock.control.lookahead.longest_saved_s`): where not even the floor can be done of what arrives, a
      batch that keeps everything is in time itself and makes all that follow late. And it is no longer than what the
      goal leaves to rows that have waited for longer than :math:`T` allows.
    - *Where a batch of this size is less known than batches scatter*, because it is far larger than those before or
      executors have just come, the model's own error is added to what it predicts, in every other batch at the most
      (``may_doubt``). What is dropped in one batch is little, what would be late for its sake is all that arrives
      meanwhile; but batches that are always cut never tell what whole ones would take.
    - *Where overhead may be more than a third of the goal*, both ways are held against each other by the reading under
      which more gets done (``_BELIEVED_ERRORS``): cut batches are all of about one size, and an unlucky few of them can
      make overhead look like a cost of rows for ever; whole ones are of another size, and tell.

    Examples
    --------
    Twenty thousand rows a second of which ten thousand fit, a batch of two seconds' arrivals:

    >>> from penstock.estimate.batch_time import BatchTimeModel
    >>> model = BatchTimeModel()
    >>> for read, kept in ((1_000, 1_000), (10_000, 10_000), (30_000, 3_000), (10_000, 1_000)) * 9:
    ...     model.update(read, kept, 0.2 + read * 10e-6 + kept * 90e-6)
    >>> load = PlannedLoad(7, 100.0, 40_000.0, 40_000.0, 20_000.0, 2.0, batch_s=2.0, tells_arrival=True)
    >>> choice = choose_keep_ratio(model, load, latency_s=5.0, keep_floor=0.05, late_ratio=0.02)
    >>> round(choice.ratio, 2), round(choice.late_after_s, 1), choice.late_rows
    (0.35, 3.0, 0.0)

    Half of that fits, and stays whole though it is a little longer:

    >>> calm = PlannedLoad(8, 102.0, 21_000.0, 21_000.0, 9_000.0, 2.3, batch_s=2.0, tells_arrival=True)
    >>> choose_keep_ratio(model, calm, latency_s=5.0, keep_floor=0.05, late_ratio=0.02).ratio
    1.0
    """
    whole = _whole(model, load, latency_s, late_ratio)
    saved_s = longest_saved_s(model, load, latency_s=latency_s, keep_floor=keep_floor, late_ratio=late_ratio)
    if load.rows <= 0 or (whole.is_in_time and whole.predicted_s <= saved_s):
        return whole
    doubt_s = model.uncertainty_s(load.rows, load.rows)
    wanted = evolve(load, batch_s=min(saved_s, _length_s(model, load, latency_s, keep_floor, late_ratio)))
    if whole.predicted_s + doubt_s <= wanted.batch_s:
        return whole
    if may_doubt and doubt_s > model.relative_deviation * whole.predicted_s:
        return _cut(model, wanted, latency_s, keep_floor, late_ratio, doubt=1.0)
    cut = _cut(model, wanted, latency_s, keep_floor, late_ratio)
    if whole.predicted_s <= saved_s and _is_whole_as_good(model, load, whole, cut, latency_s):
        return whole
    return cut


def _is_whole_as_good(
    model: BatchTimeModel, load: PlannedLoad, whole: KeepChoice, cut: KeepChoice, latency_s: float
) -> bool:
    """Whether keeping everything has as many rows out in time, now and later, with the benefit of the doubt.

    Without it where the overhead is sure to leave room within the goal.
    """
    doubted_overhead_s, _ = model.towards_overhead(_BELIEVED_ERRORS)
    errors = _BELIEVED_ERRORS if doubted_overhead_s > _MOST_OVERHEAD_OF_GOAL * latency_s else 0.0
    overhead_s, row_s = model.towards_overhead(errors)
    whole_s = min(whole.predicted_s, overhead_s + row_s * load.rows)
    late = late_part(load.waited_s, whole_s, latency_s, model.relative_noise)
    in_time = load.rows * (1.0 - late) / max(whole_s, load.interval_s, _SHORTEST_S)
    gains = _at_best(model, load, cut, errors) > _WORTH * in_time
    return not gains and _keeps_up_whole(model, load, latency_s, errors)


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

    >>> from penstock.estimate.batch_time import BatchTimeModel
    >>> load = PlannedLoad(7, 100.0, 40_000.0, 40_000.0, 10_000.0, 4.0, batch_s=3.0, tells_arrival=True)
    >>> whole = KeepChoice(1.0, None, 0.0, 1.0)
    >>> held = held_to_rows(
    ...     BatchTimeModel(), load, whole, 4_000.0, latency_s=5.0, keep_floor=0.01, late_ratio=0.02
    ... )
    >>> round(held.ratio, 2), round(held.late_rows)
    (0.2, 22645)
    """
    if most_rows >= choice.ratio * (load.rows - choice.late_rows):
        return choice
    late_after_s, late_rows = choice.late_after_s, choice.late_rows
    if late_after_s is None:
        late_after_s, late_rows = _late(load, load.batch_s, latency_s, model.relative_noise, late_ratio)
    if late_after_s is None and load.tells_arrival:
        # Batches that take as long as the goal leave no age at which rows are in time: the youngest stay even so.
        late_after_s, late_rows = _late(load, _LONGEST_PART * latency_s, latency_s, 0.0, late_ratio)
    on_time_rows = load.rows - late_rows
    ratio = _ratio_of_rows(most_rows, on_time_rows, late_rows, keep_floor)
    ratio = min(choice.ratio, ratio)
    return evolve(choice, ratio=ratio, late_after_s=late_after_s, late_rows=late_rows, most_rows=most_rows)


def _late(
    load: PlannedLoad, batch_s: float, latency_s: float, noise: float, late_ratio: float
) -> tuple[float | None, float]:
    """The age from which rows are late in a batch of such a length, and how many of its rows are; None for no age."""
    late_after_s = longest_wait_s(batch_s, latency_s, noise, late_ratio=late_ratio)
    if not load.tells_arrival or late_after_s <= 0:
        return None, 0.0
    on_time = late_after_s / load.waited_s if load.waited_s > late_after_s else 1.0
    return late_after_s, min(load.rows, (1.0 - on_time) * load.waiting_rows)


def _length_s(
    model: BatchTimeModel, load: PlannedLoad, latency_s: float, keep_floor: float, late_ratio: float
) -> float:
    """The wanted length; until executors come, less where rows have waited for so long that they would be late with it.

    But not less than the floor makes possible. In an overload that lasts, shorter batches would only be more overhead.
    """
    if load.relief_s <= 0.0:
        return load.batch_s
    in_time_s = longest_for_waiting_s(
        load.waited_s, load.batch_s, latency_s, model.relative_noise, late_ratio=late_ratio
    )
    return min(load.batch_s, max(in_time_s, model.predict_s(load.rows, keep_floor * load.rows)))


def _at_best(model: BatchTimeModel, load: PlannedLoad, cut: KeepChoice, errors: float) -> float:
    """Rows of a cut batch that are out in time each second if rows cost so many errors less than is believed.

    Dropping rows saves less time then: rows that are cut for costs which are overhead in truth make batches smaller,
    and costs seem the higher for it.
    """
    overhead_s, row_s = model.towards_overhead(errors)
    kept_rows = (cut.predicted_s - model.overhead_s - model.read_cost_s * load.rows) / model.work_cost_s
    read_s = min(model.read_cost_s, row_s)
    batch_s = overhead_s + read_s * load.rows + (row_s - read_s) * max(0.0, kept_rows)
    shortest_s = max(load.interval_s, _SHORTEST_S)
    return cut.in_time_rows_per_s * max(cut.predicted_s, shortest_s) / max(batch_s, shortest_s)


def _whole(model: BatchTimeModel, load: PlannedLoad, latency_s: float, late_ratio: float) -> KeepChoice:
    """Everything stays."""
    rate, rows = load.arrival_rows_per_s, load.rows
    batch_s, noise = model.predict_s(rows, rows), model.relative_noise
    surely_s = batch_s + model.uncertainty_s(rows, rows)
    late = late_part(load.waited_s, surely_s, latency_s, noise)
    next_rows = rate * max(surely_s, load.interval_s)
    next_s = min(load.batch_s, model.predict_s(next_rows, next_rows))
    next_late = late_part(max(surely_s, load.interval_s), next_s, latency_s, noise)
    is_in_time = late <= late_ratio and next_late <= late_ratio
    in_time = rows * (1.0 - late) / max(batch_s, load.interval_s, _SHORTEST_S)
    return KeepChoice(1.0, None, 0.0, batch_s, in_time_rows_per_s=in_time, is_in_time=is_in_time)


def _cut(
    model: BatchTimeModel,
    load: PlannedLoad,
    latency_s: float,
    keep_floor: float,
    late_ratio: float,
    *,
    doubt: float = 0.0,
) -> KeepChoice:
    """The batch takes the wanted length: rows that would be late even so go first, then others at random.

    ``doubt`` is how many errors of the model are added to what it predicts.
    """
    rows, batch_s = load.rows, load.batch_s
    noise = model.relative_noise
    late_after_s, late_rows = _late(load, batch_s, latency_s, noise, late_ratio)
    on_time_rows = rows - late_rows
    doubt_s = doubt * model.uncertainty_s(rows, _fitting_rows(model, batch_s, rows))
    ratio = _ratio_beside_late(model, batch_s - doubt_s, on_time_rows, late_rows, keep_floor)
    predicted_s = model.predict_s(rows, ratio * on_time_rows + max(keep_floor, LATE_PART * ratio) * late_rows)
    in_time = ratio * on_time_rows / max(predicted_s, load.interval_s, _SHORTEST_S)
    return KeepChoice(
        ratio,
        late_after_s,
        late_rows,
        predicted_s,
        in_time_rows_per_s=in_time,
        is_doubtful=doubt > 0.0,
    )


def _fitting_rows(model: BatchTimeModel, batch_s: float, rows: float) -> float:
    """Rows of a batch that can be kept if it is to take so long."""
    return rows * min(1.0, model.keep_ratio_within(batch_s, rows))


def _ratio_beside_late(
    model: BatchTimeModel, batch_s: float, on_time_rows: float, late_rows: float, keep_floor: float
) -> float:
    """The ratio of the others, where late rows are kept with the floor or with a part of that ratio."""
    left_rows = max(0.0, batch_s - model.predict_s(on_time_rows + late_rows, 0.0)) / model.work_cost_s
    return _ratio_of_rows(left_rows, on_time_rows, late_rows, keep_floor)


def _ratio_of_rows(left_rows: float, on_time_rows: float, late_rows: float, keep_floor: float) -> float:
    """The ratio of the others with which so many rows are kept in all."""
    # Also where all rows are late: an eighth of everything may be as much as arrives meanwhile, and all that comes
    # after them would be late for ever.
    ratio = left_rows / (on_time_rows + LATE_PART * late_rows)
    if LATE_PART * ratio < keep_floor and on_time_rows > 0:
        ratio = (left_rows - keep_floor * late_rows) / on_time_rows
    return min(1.0, max(keep_floor, ratio))


def _keeps_up_whole(model: BatchTimeModel, load: PlannedLoad, latency_s: float, errors: float) -> bool:
    """Whether batches that keep everything have at least as many rows out in time each second, in the long run.

    If rows cost so many errors less than is believed.
    """
    rate, length_s = load.arrival_rows_per_s, load.batch_s
    overhead_s, row_s = model.towards_overhead(errors)
    all_load = rate * row_s
    if rate <= 0 or all_load >= 1.0:
        return False
    whole_s = overhead_s / (1.0 - all_load)
    noise = model.relative_noise
    whole_in_time = rate * (1.0 - late_part(max(whole_s, load.interval_s), whole_s, latency_s, noise))
    cut_in_time = kept_rows_per_s(model, length_s, rate)
    cut_in_time *= 1.0 - late_part(max(length_s, load.interval_s), length_s, latency_s, noise)
    return _WORTH * whole_in_time >= cut_in_time
