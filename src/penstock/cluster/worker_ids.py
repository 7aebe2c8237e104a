"""Numbers of workers that are used again: what is behind ``POST /taskmanager`` and ``DELETE /taskmanager``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable


class WorkerIds:
    """Ids from 1 to ``maximum``; the id of a worker that went is the next one's.

    Adding takes the lowest ids that are free, and no more of them than there are. Removing takes ids that nobody uses,
    highest first, and leaves ``free`` idle ones for later.

    Reference: "Supporting elasticity in Flink", algorithms 8 and 9 and the requests ``POST`` and ``DELETE
    /taskmanager``. There the ids to take and to remove are any; here they are the lowest and the highest, so that the
    workers in use lie close together.

    Examples
    --------
    >>> ids = WorkerIds(5)
    >>> ids.add(3)
    [1, 2, 3]
    >>> ids.remove(used=[1, 3], free=0)
    [2]
    >>> ids.add(9)
    [2, 4, 5]
    >>> ids.add(1)
    []
    """

    def __init__(self, maximum: int, allocated: Iterable[int] = ()) -> None:
        if maximum < 1:
            raise ClusterError(f"a maximum of {maximum} workers: at least 1")
        self.maximum = maximum
        self._allocated = set(allocated)
        outside = sorted(number for number in self._allocated if not 1 <= number <= maximum)
        if outside:
            raise ClusterError(f"worker ids {outside}: from 1 to {maximum}")

    @property
    def allocated(self) -> tuple[int, ...]:
        """Ids in use or idle, lowest first."""
        return tuple(sorted(self._allocated))

    def add(self, target: int) -> list[int]:
        """Ids of ``target`` new workers, or of as many as there is space for."""
        if target < 0:
            raise ClusterError(f"target {target}: workers to add are counted from 0 on")
        chosen = [number for number in range(1, self.maximum + 1) if number not in self._allocated][:target]
        self._allocated.update(chosen)
        return chosen

    def remove(self, used: Iterable[int], free: int) -> list[int]:
        """Ids of idle workers to remove so that ``free`` idle ones are left; none that is used."""
        if free < 0:
            raise ClusterError(f"free {free}: idle workers to keep are counted from 0 on")
        idle = sorted(self._allocated - set(used))
        surplus = idle[free:][::-1]
        self._allocated.difference_update(surplus)
        return surplus
