"""One query's row budget, shared over its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def share_rows(budget_rows: float, demands_rows: Sequence[float | None]) -> tuple[float, ...]:
    r"""Split a budget in proportion to what each source has waiting.

    .. math:: s_i = B \, d_i / \sum_j d_j

    where the demand :math:`d_i` is the lag of a source plus what will arrive during a batch. As long as the demands
    together fit, every source's share is at least its demand, so that no source is cut for another's sake. A source
    that does not tell its demand counts as the average of those that do; where none tells, all are equal.

    Examples
    --------
    >>> share_rows(1_000, [3_000, 1_000])
    (750.0, 250.0)
    >>> share_rows(1_000, [300, None])
    (500.0, 500.0)
    >>> share_rows(1_000, [0, 0])
    (500.0, 500.0)
    """
    if not demands_rows:
        return ()
    known = [max(0.0, demand) for demand in demands_rows if demand is not None]
    average = sum(known) / len(known) if known else 1.0
    filled = [average if demand is None else max(0.0, demand) for demand in demands_rows]
    total = sum(filled)
    if total <= 0:
        return tuple(budget_rows / len(filled) for _ in filled)
    return tuple(budget_rows * (demand / total) for demand in filled)
