"""Why an executor was lost, by what Spark says of it."""

from __future__ import annotations

import re
from enum import StrEnum

_HEAP = re.compile(r"OutOfMemoryError|Java heap space|GC overhead|exited with code 52\b|exit code 52\b", re.IGNORECASE)
_MEMORY = re.compile(
    r"exit(?:ed with)? (?:code|status) 137\b|OOMKilled|exceeding (?:physical )?memory|memoryOverhead", re.IGNORECASE
)


class Loss(StrEnum):
    """What an executor did not have enough of."""

    HEAP = "heap"
    MEMORY = "memory"
    OTHER = "other"


def kind_of_loss(reason: str) -> Loss:
    """What an executor lacked, by the reason that Spark gives for its end.

    An executor ends with 52 when its heap is full (Spark's own exit code), and with 137 when the system, or its
    container, kills it.

    Examples
    --------
    >>> kind_of_loss("Command exited with code 52").value
    'heap'
    >>> kind_of_loss("Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5.5 GB used").value
    'memory'
    >>> kind_of_loss("Executor decommission: released by Penstock").value
    'other'
    """
    if _HEAP.search(reason):
        return Loss.HEAP
    return Loss.MEMORY if _MEMORY.search(reason) else Loss.OTHER
