"""How large the next batch may be while the cost of rows is not yet known."""

from __future__ import annotations

SAFE_SHARE_OF_GOAL = 0.9
_SHORT = 0.8
_OVERHEAD_SUSPECT = 0.5
_OVERHEAD_SURE = 0.75
_WORTH_GROWING = 1.2
_GROW_ANYWAY = 1.5
_BEYOND_WANTED = 1.2


def explored_rows(
    *,
    rows: int,
    duration_s: float,
    target_s: float,
    goal_s: float,
    overhead_s: float,
    sure_rows: float,
    wanted_rows: float,
    warming_up: bool,
    falls_behind: bool = False,
    has_backlog: bool = True,
) -> float:
    r"""Make the next batch tell overhead from cost, without risking the goal.

    A batch of :math:`n` rows took :math:`d`, where the target is :math:`T` and the latency goal :math:`L`. Even if all
    of :math:`d` was cost, a batch of :math:`0.9\,n\,L/d` rows takes no longer than the goal; nor does one of
    ``sure_rows``, as far as the model can be trusted. The larger of these is read

    - when :math:`d` is well below :math:`T`, or
    - when the engine is warming up or half of :math:`d` is overhead as far as known: fewer rows would hardly be faster,
      and only more of them can show what a row costs.

    Without a backlog there is nothing to explore with: the bound is then a fifth above what is wanted, so that a sudden
    load meets a limit that fits.

    A batch that takes too long although nearly all of it is overhead is followed by a larger one even beyond that
    bound, because otherwise no work would be done at all; and so is one of which half is overhead, where less was read
    than arrived meanwhile: the lag would grow for ever, while larger batches would take hardly longer. In all other
    cases it is what is wanted, but no more than the bound, and no more than :math:`n\,T/d` after a batch that took too
    long.

    Examples
    --------
    >>> last = {"rows": 1_000, "target_s": 2.0, "goal_s": 4.5, "sure_rows": 0.0, "warming_up": False}
    >>> explored_rows(duration_s=0.5, overhead_s=0.0, wanted_rows=9e9, **last)
    8100.0
    >>> round(explored_rows(duration_s=3.0, overhead_s=1.8, wanted_rows=500.0, **last))
    1350
    >>> explored_rows(duration_s=4.0, overhead_s=0.1, wanted_rows=9e9, **last)
    500.0
    """
    growth = max(SAFE_SHARE_OF_GOAL * goal_s / duration_s, sure_rows / rows)
    is_overhead = warming_up or overhead_s > _OVERHEAD_SUSPECT * duration_s
    if duration_s < _SHORT * target_s or (is_overhead and growth >= _WORTH_GROWING):
        return rows * growth if has_backlog else min(rows * growth, max(_BEYOND_WANTED * wanted_rows, rows))
    if overhead_s > _OVERHEAD_SURE * duration_s or (is_overhead and falls_behind):
        return rows * _GROW_ANYWAY
    if is_overhead:
        return float(rows)
    pace = target_s / duration_s
    return max(1.0, min(max(wanted_rows, rows * min(1.0, pace)), rows * max(pace, growth if pace > 1.0 else pace)))
