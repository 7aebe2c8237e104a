"""How much to keep: demand against capacity."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeepDecision:
    """A fraction to keep, and how many rows per batch even the minimum accuracy leaves without room."""

    fraction: float
    demand_rows: float
    missing_rows: float

    @property
    def is_feasible(self) -> bool:
        """Whether the demand fits with this fraction."""
        return self.missing_rows <= 0


def keep_fraction(
    *,
    capacity_rows: float,
    arrivals_rows: float,
    backlog_rows: float,
    drain_batches: float,
    minimum_accuracy: float,
    smallest_keep: float,
    headroom: float = 0.0,
) -> KeepDecision:
    r"""The largest share of rows that can be processed in time, never below the minimum accuracy.

    Per batch, the demand is what arrives while one runs, plus the backlog spread over a drain horizon of :math:`h`
    batches; :math:`\rho` rows can be processed in full:

    .. math:: D = a + b / h, \qquad p = \min\big(1, \max(p_{min}, (1 - \epsilon)\,\rho / D)\big)

    Shed rows are demand: :math:`a` counts all arrivals, not those that were kept. Where even :math:`p_{min} D` does not
    fit, the minimum accuracy is held and the missing rows are told, so that capacity can be found elsewhere.

    Examples
    --------
    Three times more arrives than fits, and nothing waits yet:

    >>> decision = keep_fraction(
    ...     capacity_rows=100.0, arrivals_rows=300.0, backlog_rows=0.0, drain_batches=2.0,
    ...     minimum_accuracy=0.1, smallest_keep=0.001,
    ... )
    >>> round(decision.fraction, 3), decision.is_feasible
    (0.333, True)

    With a minimum accuracy of 0.7, 110 rows of each batch find no room:

    >>> decision = keep_fraction(
    ...     capacity_rows=100.0, arrivals_rows=300.0, backlog_rows=0.0, drain_batches=2.0,
    ...     minimum_accuracy=0.7, smallest_keep=0.001,
    ... )
    >>> decision.fraction, round(decision.missing_rows)
    (0.7, 110)
    """
    demand_rows = arrivals_rows + backlog_rows / drain_batches
    if demand_rows <= capacity_rows:
        return KeepDecision(1.0, demand_rows, 0.0)
    floor = max(minimum_accuracy, smallest_keep)
    fitting = (1.0 - headroom) * capacity_rows / demand_rows
    fraction = min(1.0, max(floor, fitting))
    return KeepDecision(fraction, demand_rows, max(0.0, fraction * demand_rows - capacity_rows))
