"""How long batches may take within a latency goal, and how many rows may wait: derived, for any trigger."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.scaling import ScalingSignal

_WITHOUT_GOAL = 0.5


def longest_batch_s(goal_s: float, trigger_s: float) -> float:
    r"""The longest batch that no row is late with.

    A batch begins :math:`\max(T, D)` after the one before it. A row that just missed one waits for that and for the
    batch itself:

    .. math:: \max(T, D) + D \le goal \quad\Rightarrow\quad D \le goal / 2 \text{ or, where } T > goal / 2, goal - T

    With a trigger of the goal or more no batch is in time; a quarter of the goal is planned with then.

    Examples
    --------
    >>> longest_batch_s(30.0, 5.0), longest_batch_s(30.0, 0.0), longest_batch_s(30.0, 20.0), longest_batch_s(10.0, 60.0)
    (15.0, 15.0, 10.0, 2.5)
    """
    return max(goal_s / 4.0, min(goal_s / 2.0, goal_s - trigger_s))


def planned_batch_s(goal_s: float, trigger_s: float, *, margin: float, stretch: float = 0.5) -> float:
    r"""The batch that sizes are planned for: half-way from one that just keeps up to the longest.

    A batch that takes as long as the trigger just keeps up. Longer ones need fewer executors and leave less time when
    the load is higher than foretold: ``stretch`` is the part of the way. And the longest must hold for a batch that
    takes longer than planned by a part ``margin`` of it.

    Examples
    --------
    >>> [planned_batch_s(30.0, trigger_s, margin=0.08) for trigger_s in (5.0, 0.0)]
    [10.0, 7.5]
    >>> round(planned_batch_s(10.0, 5.0, margin=0.08), 2)
    4.63
    """
    longest_s = longest_batch_s(goal_s, trigger_s)
    full_s = min(trigger_s, longest_s)
    return min(full_s + stretch * (longest_s - full_s), longest_s / (1.0 + margin))


def beside(margin: float, other: float) -> float:
    r"""What is left to add of a margin where another is there already, and what they are for is independent.

    A batch that is longer than planned and a load that is higher than foretold are not both at their worst at once.
    Deviations add up in squares, so of margins :math:`a` and :math:`b` there must be :math:`\sqrt{a^2 + b^2}` in all:

    .. math:: (1 + b)(1 + x) = 1 + \sqrt{a^2 + b^2}

    Examples
    --------
    >>> [round(beside(0.1, other), 3) for other in (0.0, 0.1, 0.5)]
    [0.1, 0.038, 0.007]
    """
    return (1.0 + math.hypot(margin, other)) / (1.0 + other) - 1.0


def backlog_limit(goal_s: float, trigger_s: float) -> float:
    r"""Backlog ratio from which executors are missing: half-way from a batch that just keeps up to one that is late.

    Rows of a cycle wait for half of it and are in work for a batch: :math:`(\max(T, D) / 2 + D) / goal` of those that
    arrive within the goal are not done, on average.

    Examples
    --------
    >>> [round(backlog_limit(goal_s, trigger_s), 3) for goal_s, trigger_s in ((30, 5), (10, 5), (60, 30), (30, 0))]
    [0.5, 0.75, 0.75, 0.375]
    """
    longest_s = longest_batch_s(goal_s, trigger_s)
    full_s = min(trigger_s, longest_s)
    waiting_s = [max(trigger_s, batch_s) / 2.0 + batch_s for batch_s in (full_s, longest_s)]
    return sum(waiting_s) / 2.0 / goal_s


def limit_of(signal: ScalingSignal, told: float | None = None) -> float:
    """The limit of a signal's backlog ratio: as told, or by its goal and trigger; one half where it has no goal."""
    if told is not None:
        return told
    return _WITHOUT_GOAL if signal.goal_s is None else backlog_limit(signal.goal_s, signal.trigger_s or 0.0)
