"""Shuffle partitions for a query whose executors come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Mapping


def idle_share(partitions: int, slots: int) -> float:
    r"""Share of the task slots' time that is idle because partitions do not divide evenly.

    .. math:: 1 - \frac{P}{\lceil P / s \rceil\,s}

    Examples
    --------
    >>> idle_share(12, 8), idle_share(16, 8)
    (0.25, 0.0)
    """
    waves = -(-partitions // slots)
    return 1.0 - partitions / (waves * slots)


def shuffle_partitions(sizes: Mapping[int, float], *, cores: int, most_waves: int = 4, task_share: float = 0.02) -> int:
    """Number of shuffle partitions that wastes least over the sizes that a query has.

    A stateful query keeps the number of its first batch for good: its state lies in that many files. So it is chosen
    once, for all sizes that are to be expected: ``sizes`` says how large a share of the time each number of executors
    has. Every slot of the largest size gets work, and each wave of tasks costs ``task_share`` of a batch's time. This
    is the scaling by operator that the thesis leaves open: on Spark all stages share the same executors, and the number
    of partitions is the only thing that is an operator's own.

    Examples
    --------
    >>> shuffle_partitions({8: 1.0}, cores=2)
    16
    >>> shuffle_partitions({2: 0.4, 3: 0.3, 4: 0.3}, cores=4)
    48
    """
    if not sizes or min(sizes) < 1 or cores < 1:
        raise InvalidSettingError("executor sizes", dict(sizes), "at least one number of executors, each 1 or more")
    most_slots = max(sizes) * cores

    def waste(partitions: int) -> float:
        idle = sum(share * idle_share(partitions, size * cores) for size, share in sizes.items())
        waves = sum(share * -(-partitions // (size * cores)) for size, share in sizes.items())
        return (idle + task_share * waves) / sum(sizes.values())

    return min(range(most_slots, most_waves * most_slots + 1), key=lambda count: (round(waste(count), 9), count))
