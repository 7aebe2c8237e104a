"""Whose task a slot takes when it becomes free: pools of Spark's fair scheduler by priority.

Spark takes the task of the pool with the fewest running tasks over its weight, and of equal ones the first by name. On
an engine with one slot all are equal whenever it becomes free: pools named after queries would serve them in the order
of the alphabet, whatever their priority. So names sort by priority, from the highest down, and weights do the rest
where there are more slots. Within a pool, stages share.

All of this needs ``spark.scheduler.mode`` to be ``FAIR``, which is set when an application starts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.model.goal import MAX_PRIORITY
from penstock.spark import internals

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger("penstock")

_NOT_OURS = ""


def pool_of(priority: int) -> str:
    """The pool of queries of a priority.

    Examples
    --------
    >>> pool_of(9), pool_of(1), pool_of(9) < pool_of(1)
    ('penstock-091-below-the-highest', 'penstock-099-below-the-highest', True)
    """
    return f"penstock-{MAX_PRIORITY - priority:03d}-below-the-highest"


def made_pool(context: SparkContext, priority: int) -> str:
    """The pool of queries of a priority, with its weight; where that cannot be had, Spark makes it with one of one."""
    try:
        internals.make_pool(context, pool_of(priority), priority)
    except Exception:
        logger.exception("the pool of priority %d could not be made: its tasks weigh as much as all others", priority)
    return pool_of(priority)


class PriorityPools:
    """Brings the threads of governed queries into the pools of their priorities, each when its batch is planned.

    A query that somebody has given a pool keeps it.
    """

    def __init__(self) -> None:
        self._priorities: dict[str, int] = {}
        self._pools: dict[str, str | None] = {}

    def ask_for(self, run_id: str, priority: int | None) -> None:
        """What the next batch of a run is to have; None where nobody governs it."""
        if priority is None:
            self._priorities.pop(run_id, None)
        else:
            self._priorities[run_id] = priority

    def join(self, run_id: str) -> None:
        """Bring the run whose batch is planned on this thread where it is to be. Never raises."""
        priority, before = self._priorities.get(run_id), self._pools.get(run_id)
        wanted = None if priority is None else pool_of(priority)
        if before in (_NOT_OURS, wanted):
            return
        try:
            self._pools[run_id] = self._moved(wanted, priority, before)
        except Exception:
            logger.exception("run %s could not be brought into the pool of its priority: it stays where it is", run_id)
            self._pools[run_id] = _NOT_OURS

    def _moved(self, wanted: str | None, priority: int | None, before: str | None) -> str | None:
        """Bring this thread from one pool into another, none for one that nobody governs; gives where it is now."""
        if wanted is None or priority is None:
            internals.leave_pool(before or "")
            return None
        return wanted if internals.join_pool(wanted, priority, leaving=before) else _NOT_OURS

    def forget(self, run_id: str) -> None:
        """A run is over."""
        self._priorities.pop(run_id, None)
        self._pools.pop(run_id, None)


pools = PriorityPools()
"""Those of this driver: answers are given on one thread, and batches are planned on another."""
