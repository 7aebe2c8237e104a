"""The event kernel: what happens next, in virtual time.

Events come from *sources* (a stream's next row, a core's next completion, an engine's next step of control), each of
which has at most one event ahead. The heap holds sources, ordered by time, then by the priority of the source, then by
the order in which they were scheduled, so that equal times never depend on chance or on the number of sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from penstock.estimate.compiled import compiled_inline

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZE, NEXT_SEQUENCE = 0, 1


class Agenda(NamedTuple):
    """A heap of sources with the key of each: time, priority, sequence."""

    heap: NDArray[np.int64]
    times_s: NDArray[np.float64]
    priorities: NDArray[np.int64]
    sequences: NDArray[np.int64]
    counters: NDArray[np.int64]


def new_agenda(priorities: NDArray[np.int64]) -> Agenda:
    """An empty agenda for sources of these priorities; the smallest number comes first."""
    sources = priorities.size
    return Agenda(
        np.zeros(sources, np.int64), np.zeros(sources), priorities, np.zeros(sources, np.int64), np.zeros(2, np.int64)
    )


@compiled_inline
def comes_before(agenda: Agenda, first: int, second: int) -> bool:
    """Whether the event of one source comes before that of another."""
    times_s, priorities, sequences = agenda.times_s, agenda.priorities, agenda.sequences
    if times_s[first] != times_s[second]:
        return bool(times_s[first] < times_s[second])
    if priorities[first] != priorities[second]:
        return bool(priorities[first] < priorities[second])
    return bool(sequences[first] < sequences[second])


@compiled_inline
def schedule(agenda: Agenda, source: int, time_s: float) -> None:
    """Put the next event of a source, which must have none ahead, into the heap.

    Examples
    --------
    >>> agenda = new_agenda(np.array([1, 0, 0]))
    >>> for source in (0, 2, 1):
    ...     schedule(agenda, source, 1.0)
    >>> [take_next(agenda) for _ in range(4)]
    [2, 1, 0, -1]
    """
    agenda.times_s[source] = time_s
    agenda.sequences[source] = agenda.counters[NEXT_SEQUENCE]
    agenda.counters[NEXT_SEQUENCE] += 1
    place = agenda.counters[SIZE]
    agenda.counters[SIZE] += 1
    while place > 0:
        parent = (place - 1) // 2
        if not comes_before(agenda, source, agenda.heap[parent]):
            break
        agenda.heap[place] = agenda.heap[parent]
        place = parent
    agenda.heap[place] = source


@compiled_inline
def take_next(agenda: Agenda) -> int:
    """Take the source whose event is next out of the heap, or -1 where there is none."""
    size = agenda.counters[SIZE]
    if size == 0:
        return -1
    first = agenda.heap[0]
    size -= 1
    agenda.counters[SIZE] = size
    last = agenda.heap[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and comes_before(agenda, agenda.heap[child + 1], agenda.heap[child]):
            child += 1
        if not comes_before(agenda, agenda.heap[child], last):
            break
        agenda.heap[place] = agenda.heap[child]
        place = child
    agenda.heap[place] = last
    return int(first)
