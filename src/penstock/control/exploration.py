"""How large the next batch may be while the cost of rows is not yet known."""

from __future__ import annotations

_EXPLORE_BELOW = 0.8
_EXPLORE_UP_TO = 1.5
_OVERHEAD_BOUND = 0.75
_TELLING_PACE = 0.85


def explored_rows(
    *, rows: int, duration_s: float, target_s: float, overhead_s: float, wanted_rows: float, warming_up: bool
) -> float:
    r"""Keep the next batch near the last one, and make it tell overhead from cost.

    A batch of :math:`n` rows took :math:`d` where :math:`T` is allowed.

    - Well below :math:`T`: up to :math:`1.5\,n\,T/d` rows, which stays within the latency goal of about :math:`2T` even
      if all of :math:`d` was cost.
    - Too long although nearly all of it is overhead, as far as known: more rows, since fewer would not be shorter.
    - Too long while the engine is warming up: the same again. To shrink at once would take the falling overhead for the
      effect of fewer rows, and learn a cost far too high.
    - Too long otherwise: half of :math:`n\,T/d`. If the next batch takes as long, it was the overhead and not the rows.
    - Else what is wanted, between :math:`n` and the first bound.

    Examples
    --------
    >>> explored_rows(
    ...     rows=1_000, duration_s=0.5, target_s=2.0, overhead_s=0.1, wanted_rows=9e9, warming_up=False
    ... )
    6000.0
    >>> explored_rows(
    ...     rows=1_000, duration_s=4.0, target_s=2.0, overhead_s=0.1, wanted_rows=9e9, warming_up=False
    ... )
    250.0
    """
    pace = target_s / duration_s
    highest = max(1.0, rows * pace * _EXPLORE_UP_TO)
    if duration_s < _EXPLORE_BELOW * target_s:
        return highest
    if overhead_s > _OVERHEAD_BOUND * duration_s:
        return rows * _EXPLORE_UP_TO
    if warming_up:
        return max(min(wanted_rows, highest), float(rows))
    if pace < _TELLING_PACE:
        return max(1.0, 0.5 * rows * pace)
    return min(max(wanted_rows, rows * min(1.0, pace), 1.0), highest)
