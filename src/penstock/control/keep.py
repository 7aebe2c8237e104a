"""How much to keep: demand against capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.estimate.batch_time import BatchTimeModel


@dataclass(frozen=True, slots=True)
class KeepDecision:
    """A fraction to keep, and how many kept rows per batch find no room even so."""

    fraction: float
    demand_rows: float
    missing_rows: float

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
) -> KeepDecision:
    r"""The largest share of rows that can be processed in time, never below the minimum accuracy.

    Per batch, the demand is what arrives while one runs, plus the backlog spread over a drain horizon of :math:`h`
    batches. All of it is read, and a share :math:`p` kept, in the target length :math:`T`:

    .. math:: D = a_r + b / h, \qquad o + a D + c\,p D = T, \qquad
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
    >>> decision = keep_fraction(model, **demand, minimum_accuracy=0.7, smallest_keep=0.001)
    >>> decision.fraction, round(decision.missing_rows, -3)
    (0.7, 9000.0)
    """
    demand_rows = arrivals_rows + backlog_rows / drain_batches
    if demand_rows <= 0 or model.predict_s(demand_rows, demand_rows) <= target_s:
        return KeepDecision(1.0, demand_rows, 0.0)
    fitting = (1.0 - headroom) * model.share_within(target_s, demand_rows)
    fraction = min(1.0, max(minimum_accuracy, smallest_keep, fitting))
    kept_rows = fraction * demand_rows
    return KeepDecision(fraction, demand_rows, _missing(kept_rows, model.kept_rows_within(target_s, fraction)))


def _missing(kept_rows: float, fitting_rows: float) -> float:
    """Rows without room; a rounding error is none."""
    return kept_rows - fitting_rows if kept_rows > fitting_rows * (1.0 + 1e-9) else 0.0
