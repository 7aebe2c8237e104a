"""What a batch is asked for, against what fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.estimate.batch_time import BatchTimeModel

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Demand:
    """Rows a batch is to work on, the ratio of them that can be kept, and kept rows that find no room even so."""

    rows: float
    keep_ratio: float
    missing_rows: float

    @property
    def is_feasible(self) -> bool:
        """Whether the demand fits with this ratio."""
        return self.missing_rows <= 0


def demand_of(
    model: BatchTimeModel,
    *,
    batch_s: float,
    arrival_rows: float,
    backlog_rows: float,
    drain_batches: float,
    keep_floor: float,
) -> Demand:
    r"""The largest ratio of rows that can be processed in time, never below the floor.

    Per batch, the demand is what arrives while one runs, plus the backlog spread over :math:`h` batches. All of it is
    read, and a ratio :math:`p` kept, in the length :math:`T`:

    .. math:: D = r T + b / h, \qquad o + a D + c\,p D = T

    Shed rows are demand: all arrivals count, not those that were kept. Where even the floor does not fit it is held,
    and the rows without room are told, so that capacity can be found elsewhere.

    Examples
    --------
    >>> from penstock.estimate.batch_time import BatchTimeModel
    >>> model = BatchTimeModel()
    >>> for read, kept in ((100, 100), (1_000, 1_000), (10_000, 10_000), (30_000, 3_000), (10_000, 1_000)):
    ...     for _ in range(9):
    ...         model.update(read, kept, 0.2 + read * 10e-6 + kept * 90e-6)
    >>> load = {"batch_s": 1.0, "arrival_rows": 24_000.0, "backlog_rows": 0.0, "drain_batches": 2.0}
    >>> demand = demand_of(model, **load, keep_floor=0.1)
    >>> round(demand.keep_ratio, 2), demand.is_feasible
    (0.26, True)
    >>> demand = demand_of(model, **load, keep_floor=0.7)
    >>> demand.keep_ratio, round(demand.missing_rows, -3)
    (0.7, 9000.0)
    """
    rows = arrival_rows + backlog_rows / drain_batches
    if rows <= 0 or model.predict_s(rows, rows) <= batch_s:
        return Demand(rows, 1.0, 0.0)
    ratio = min(1.0, max(keep_floor, model.keep_ratio_within(batch_s, rows)))
    kept_rows, fitting_rows = ratio * rows, model.kept_rows_within(batch_s, ratio)
    return Demand(rows, ratio, kept_rows - fitting_rows if kept_rows > fitting_rows * (1.0 + _ROUNDING) else 0.0)
