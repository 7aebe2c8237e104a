"""The longest batch that a latency goal allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.control.batch_length import MIN_PART_OF_GOAL

if TYPE_CHECKING:
    from penstock.model import Goal


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
    longest_s = max(latency_s - trigger_interval_s, MIN_PART_OF_GOAL * latency_s)
    return min(share_of_goal * latency_s, longest_s)
