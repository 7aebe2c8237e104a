"""How much to keep: demand against capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.estimate.batch_time import BatchTimeModel

_MOST_FOR_LATE = 0.5
"""Rows that are late already take at most this share of a batch: those that can be in time must not wait for them."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows that will wait at the sources when a batch is planned, by whether they can still be out in time."""

    on_time_rows: float
    late_rows: float


def waiting_then(*, left_rows: float, arrivals_rows_per_s: float, next_s: float, late_after_s: float) -> Waiting:
    r"""What will wait when the batch after the next is planned.

    The next one leaves :math:`b` rows at the sources and will run for :math:`d`. With arrivals :math:`a`,

    .. math:: W = b + a d, \qquad W_{late} = \max(0, W - a\,t_{late})

    because rows are taken in the order of their arrival, and those that came in the last :math:`t_{late}` seconds are
    the only ones that can still be in time.

    Examples
    --------
    A step to 3,000 rows a second, where a batch of 1.8 s leaves 5,400 rows and those older than 2.2 s are late:

    >>> then = waiting_then(left_rows=5_400.0, arrivals_rows_per_s=3_000.0, next_s=1.8, late_after_s=2.2)
    >>> round(then.on_time_rows), round(then.late_rows)
    (6600, 4200)
    """
    rows = left_rows + arrivals_rows_per_s * next_s
    late_rows = max(0.0, rows - arrivals_rows_per_s * late_after_s)
    return Waiting(rows - late_rows, late_rows)


@dataclass(frozen=True, slots=True)
class KeepDecision:
    """A fraction to keep of the rows that can be in time, and how many kept rows per batch find no room even so."""

    fraction: float
    demand_rows: float
    missing_rows: float
    late_rows: float = 0.0

    @property
    def is_feasible(self) -> bool:
        """Whether the demand fits with this fraction."""
        return self.missing_rows <= 0


def keep_fraction(
    model: BatchTimeModel,
    *,
    target_s: float,
    arrivals_rows: float,
    backlog_rows: float,
    drain_batches: float,
    minimum_accuracy: float,
    smallest_keep: float,
    headroom: float = 0.0,
    late_rows: float = 0.0,
) -> KeepDecision:
    r"""The largest share of rows that can be processed in time, never below the minimum accuracy.

    Per batch, the demand is what arrives while one runs, plus the backlog spread over a drain horizon of :math:`h`
    batches. All of it is read, and a share :math:`p` kept, in the target length :math:`T`; rows that are late already,
    :math:`l`, go first, which means that of them no more is kept than must be:

    .. math:: D = a_r + b / h, \qquad o + a (D + l) + c\,(p D + p_{min} l) = T, \qquad
              p = \min\big(1, \max(p_{min}, (1 - \epsilon)\,p)\big)

    Shed rows are demand: :math:`a_r` counts all arrivals, not those that were kept. Where even the minimum does not fit
    it is held, and the rows without room are told, so that capacity can be found elsewhere.

    Examples
    --------
    >>> from penstock.estimate.batch_time import BatchTimeModel
    >>> model = BatchTimeModel(forgetting=1.0)
    >>> for read, kept in ((100, 100), (1_000, 1_000), (10_000, 10_000), (30_000, 3_000), (10_000, 1_000)):
    ...     for _ in range(9):
    ...         model.update(read, kept, 0.2 + read * 10e-6 + kept * 90e-6)
    >>> demand = {"target_s": 1.0, "arrivals_rows": 24_000.0, "backlog_rows": 0.0, "drain_batches": 2.0}
    >>> decision = keep_fraction(model, **demand, minimum_accuracy=0.1, smallest_keep=0.001)
    >>> round(decision.fraction, 2), decision.is_feasible
    (0.26, True)
    >>> late = keep_fraction(model, **demand, minimum_accuracy=0.1, smallest_keep=0.001, late_rows=10_000.0)
    >>> round(late.fraction, 2)
    0.17
    >>> decision = keep_fraction(model, **demand, minimum_accuracy=0.7, smallest_keep=0.001)
    >>> decision.fraction, round(decision.missing_rows, -3)
    (0.7, 9000.0)
    """
    demand_rows = arrivals_rows + backlog_rows / drain_batches
    all_rows = demand_rows + late_rows
    if demand_rows <= 0 or model.predict_s(all_rows, all_rows) <= target_s:
        return KeepDecision(1.0, demand_rows, 0.0, late_rows)
    smallest = max(minimum_accuracy, smallest_keep)
    late_s = late_rows * (model.read_cost_s + smallest * model.work_cost_s)
    room_s = target_s - min(late_s, _MOST_FOR_LATE * max(0.0, target_s - model.overhead_s))
    fitting = (1.0 - headroom) * model.share_within(room_s, demand_rows)
    fraction = min(1.0, max(smallest, fitting))
    missing = _missing(fraction * demand_rows, model.kept_rows_within(room_s, fraction))
    return KeepDecision(fraction, demand_rows, missing, late_rows)


def _missing(kept_rows: float, fitting_rows: float) -> float:
    """Rows without room; a rounding error is none."""
    return kept_rows - fitting_rows if kept_rows > fitting_rows * (1.0 + 1e-9) else 0.0
