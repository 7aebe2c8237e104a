"""The batch length that a latency goal allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model import Goal

_SMALLEST_SHARE = 0.1
CATCHING_UP = 1.1
_LONGEST_IN_OVERHEADS = 6.0


def target_batch_s(goal: Goal, trigger_interval_s: float, share_of_goal: float) -> float | None:
    r"""Length that a batch may have under a latency goal.

    A row waits up to one batch, or one trigger interval :math:`P`, for its own batch to begin, and is then processed in
    it. So a batch may take a share of the goal :math:`L` a little below one half, or what the interval leaves of it:

    .. math:: T = \min(s L,\; L - P)

    and a tenth of the goal where the interval alone is longer than that.

    Examples
    --------
    >>> from penstock.model import Goal
    >>> target_batch_s(Goal(latency="5 seconds"), trigger_interval_s=1.0, share_of_goal=0.5)
    2.5
    >>> target_batch_s(Goal(latency="5 seconds"), trigger_interval_s=4.0, share_of_goal=0.5)
    1.0
    """
    latency_s = goal.latency_s
    if latency_s is None:
        return None
    longest_s = max(latency_s - trigger_interval_s, _SMALLEST_SHARE * latency_s)
    return min(share_of_goal * latency_s, longest_s)


def sustainable_batch_s(
    target_s: float,
    *,
    overhead_s: float,
    least_load: float,
    interval_s: float = 0.0,
    reserve: float = CATCHING_UP,
) -> float:
    r"""Length of batches that keep up with what arrives, where those of the target length cannot.

    A batch of length :math:`d` spends :math:`o` on itself whatever its size, and the rest on the rows that came since
    the one before began, an interval :math:`P` of the trigger or a batch ago, whichever is longer:
    :math:`d = o + \rho \max(P, d)`, with :math:`\rho` the seconds of work that each second brings after everything
    that may be dropped is. Where that is longer than the target :math:`T`, short batches would be little but overhead;
    the lag would grow without end, though the query on its own keeps up with longer ones. So a batch may take

    .. math:: d = \max\big(T,\; \min(r\, o / (1 - \rho),\; 6\, o),\; \min(r\,(o + \rho P),\; P)\big)

    with a reserve :math:`r` of a tenth at the least, to catch up. Six overheads are the most: five sixths of the time
    then go into rows.

    Examples
    --------
    A target of 2 s: an overhead of 0.2 s is no trouble, one of 1.6 s at a load of 0.6 is, and so is any overload.

    >>> sustainable_batch_s(2.0, overhead_s=0.2, least_load=0.6)
    2.0
    >>> round(sustainable_batch_s(2.0, overhead_s=1.6, least_load=0.6), 2)
    4.4
    >>> round(sustainable_batch_s(2.0, overhead_s=1.6, least_load=3.0), 2)
    9.6

    A trigger of 4 s leaves 1 s of a goal of 5 s: the rows of 4 s need more.

    >>> round(sustainable_batch_s(1.0, overhead_s=0.5, least_load=0.3, interval_s=4.0), 2)
    1.87
    """
    most_s = _LONGEST_IN_OVERHEADS * overhead_s
    needed_s = reserve * overhead_s / (1.0 - least_load) if least_load < 1.0 else most_s
    within_interval_s = min(reserve * (overhead_s + least_load * interval_s), interval_s)
    return max(target_s, min(needed_s, most_s), within_interval_s)
