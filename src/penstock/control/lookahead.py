"""How long a batch may be for the sake of those that come after it, until executors come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.control.batch_length import late_part
from penstock.estimate.bisection import largest_that_holds

if TYPE_CHECKING:
    from penstock.control.planned_load import PlannedLoad
    from penstock.estimate.batch_time import BatchTimeModel


def lasts_until_relief(
    first_s: float, model: BatchTimeModel, load: PlannedLoad, *, latency_s: float, keep_floor: float, late_ratio: float
) -> bool:
    r"""Whether all batches after one of that length are in time at the floor, until executors come.

    With :math:`r` rows a second, of which each takes :math:`c_f` at the floor, a batch that takes :math:`d` is followed
    by one of

    .. math:: d' = o + c_f\,r\,\max(P, d)

    which is longer than the one before where :math:`c_f\,r > 1`: nobody can keep up, and how long that goes well is
    decided by the first one. The batch that new executors serve is as long as is wanted.
    """
    rate, interval_s = load.arrival_rows_per_s, load.interval_s
    row_s = model.read_cost_s + keep_floor * model.work_cost_s
    left_rows, elapsed_s, batch_s = load.waiting_rows - load.rows, 0.0, first_s
    while rate > 0:
        cycle_s = max(batch_s, interval_s)
        elapsed_s += cycle_s
        waiting_rows, left_rows = left_rows + rate * cycle_s, 0.0
        waited_s = waiting_rows / rate
        if elapsed_s >= load.relief_s:
            return waited_s + load.batch_s <= latency_s
        batch_s = model.overhead_s + row_s * waiting_rows
        if late_part(waited_s, batch_s, latency_s, model.relative_noise) > late_ratio:
            return False
    return True


def longest_saved_s(
    model: BatchTimeModel, load: PlannedLoad, *, latency_s: float, keep_floor: float, late_ratio: float
) -> float:
    """The longest that a planned batch may take for the floor to save those after it; without bound if none comes.

    Where not even a batch at its floor does, that one: it saves the most.

    Examples
    --------
    Twice what can be done, half of which must be kept: 1.1 s of work a second. A second's rows take 2.2 s if all are
    kept, and 1.3 s at the floor; executors come in a moment, after two batches, or too late:

    >>> from penstock.control.planned_load import PlannedLoad
    >>> from penstock.estimate.batch_time import BatchTimeModel
    >>> model = BatchTimeModel()
    >>> for read, kept in ((1_000, 1_000), (10_000, 10_000), (30_000, 3_000), (10_000, 1_000)) * 9:
    ...     model.update(read, kept, 0.2 + read * 10e-6 + kept * 90e-6)
    >>> numbers = {"latency_s": 5.0, "keep_floor": 0.5, "late_ratio": 0.0005}
    >>> rate = 20_000.0
    >>> for relief_s in (1.0, 4.0, 9.0):
    ...     load = PlannedLoad(1, 0.0, rate, rate, rate, 1.0, batch_s=2.4, tells_arrival=True, relief_s=relief_s)
    ...     print(round(longest_saved_s(model, load, **numbers), 2))
    inf
    2.15
    1.31
    """
    if load.relief_s <= 0.0:
        return float("inf")

    def lasts(first_s: float) -> bool:
        return lasts_until_relief(
            first_s, model, load, latency_s=latency_s, keep_floor=keep_floor, late_ratio=late_ratio
        )

    low, high = model.predict_s(load.rows, keep_floor * load.rows), model.predict_s(load.rows, load.rows)
    if lasts(high):
        return float("inf")
    if not lasts(low):
        return low
    return largest_that_holds(lasts, low, high)


def longest_for_waiting_s(
    waited_s: float, at_most_s: float, latency_s: float, noise: float, *, late_ratio: float
) -> float:
    """The longest that a batch may take whose oldest row has waited so long, for its rows to be in time.

    Examples
    --------
    >>> longest_for_waiting_s(10.0, 15.0, 30.0, 0.05, late_ratio=0.01)
    15.0
    >>> round(longest_for_waiting_s(20.0, 15.0, 30.0, 0.05, late_ratio=0.01), 1)
    10.0
    """

    def is_in_time(batch_s: float) -> bool:
        return late_part(waited_s, batch_s, latency_s, noise) <= late_ratio

    return at_most_s if is_in_time(at_most_s) else largest_that_holds(is_in_time, 0.0, at_most_s)
