"""Pools of Spark's fair scheduler, one for each priority: whose task a slot takes when it becomes free.

Spark takes the task of the pool with the fewest running tasks over its weight, and of equal ones the first by name. On
an engine with one slot all are equal whenever it becomes free: pools named after queries would serve them in the order
of the alphabet, whatever their priority. So names sort by priority, from the highest down, and weights do the rest
where there are more slots. Within a pool, stages share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.goal import MAX_PRIORITY, MIN_PRIORITY

if TYPE_CHECKING:
    from pathlib import Path

POOLS_FILE = "pools.xml"


def pool_of(priority: int) -> str:
    """The pool of queries of a priority.

    Examples
    --------
    >>> pool_of(9), pool_of(1), pool_of(9) < pool_of(1)
    ('priority-091-down', 'priority-099-down', True)
    """
    return f"priority-{MAX_PRIORITY - priority:03d}-down"


def write_pools(directory: Path) -> Path:
    """Write the file of all pools that Spark reads when it starts, and say where it is."""
    pools = "".join(
        f'<pool name="{pool_of(priority)}"><schedulingMode>FAIR</schedulingMode><weight>{priority}</weight></pool>\n'
        for priority in range(MIN_PRIORITY, MAX_PRIORITY + 1)
    )
    path = directory.absolute() / POOLS_FILE
    path.write_text(f"<allocations>\n{pools}</allocations>\n", encoding="utf-8")
    return path
