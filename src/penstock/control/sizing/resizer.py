"""From a total that a policy wants to executors of a size that hosts can hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.model.sizing import Capacity, EngineShape, MemoryPart, Resource, SizingDecision

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_EXECUTORS = 10_000
MB_OF_A_CORE = 4096.0
"""What a core is worth, in megabytes: hosts have about 4 GB for each."""
JVM_MB = 128
"""What a JVM takes of its heap, and beside it, before it does anything."""
_SMALLEST_MB = 64
"""Least memory of a part: a JVM has threads, buffers and code beside its heap."""


@dataclass(frozen=True, slots=True)
class Resized:
    """The shape that a decision becomes, and what of it could not be placed (empty: all of it was).

    ``fits_beside`` says whether the new executors have room while the old ones are still there, as they must to take
    over without a restart; None where nobody knows what is free.
    """

    shape: EngineShape
    unplaced: str = ""
    fits_beside: bool | None = None


def resize(shape: EngineShape, decision: SizingDecision, capacity: Capacity) -> Resized:
    """The cheapest shape that gives the total, on hosts as they are; as much of it as there is room for.

    An executor lies on one host, so that what is free in pieces does not add up: executors of one size are placed host
    by host, ``sum(min(cores_free // cores, memory_free // memory))``, with what the application's own executors take
    now counted as free. What does not fit one host is split over more executors; what does not fit at all is left out
    and told.

    The paper's examples: 100 GB become 25 containers of 4 GB, and 2,000 threads become 125 of 16.

    Examples
    --------
    >>> one = EngineShape(executors=1, heap_mb=3072, overhead_mb=1024, cores=16)
    >>> memory = SizingDecision("P2", Resource.MEMORY, 100 * 1024, "")
    >>> found = resize(one, memory, Capacity(host_memory_mb=4096))
    >>> found.shape.executors, found.shape.memory_mb
    (25, 4096)
    >>> threads = SizingDecision("P4", Resource.PARALLELISM, 2000, "")
    >>> found = resize(one, threads, Capacity(host_cores=16))
    >>> found.shape.executors, found.shape.cores
    (125, 16)
    """
    wanted = _first_that_fits_a_host(shape, decision, capacity)
    if wanted is None:
        return Resized(shape, f"no executor for {decision.total:,.0f} of {decision.resource} fits on a host")
    held, told = _under_quota(shape, wanted, decision, capacity)
    held, short = _under_capacity(shape, held, decision, capacity)
    beside = None if capacity.hosts is None else _room(held, shape, capacity, own=False) >= held.executors
    return Resized(held, "; ".join(filter(None, (told, short))), beside)


def candidates(shape: EngineShape, decision: SizingDecision) -> Iterator[EngineShape]:
    """Shapes that give the total, those with the fewest changes first."""
    total = decision.total
    if decision.resource is Resource.HEAP:
        for executors in range(shape.executors, _MOST_EXECUTORS):
            yield replace(shape, executors=executors, heap_mb=max(_SMALLEST_MB, math.ceil(total / executors)))
    elif decision.resource is Resource.MEMORY:
        for executors in range(shape.executors, _MOST_EXECUTORS):
            yield _with_memory(shape, executors, math.ceil(total / executors), decision)
    elif decision.resource is Resource.CPU:
        yield from _with_cores(shape, math.ceil(total - 1e-9))
    else:
        each = shape.cores // shape.task_cpus
        yield replace(shape, executors=max(1, math.ceil(total / each - 1e-9)))


def _with_memory(shape: EngineShape, executors: int, memory_mb: int, decision: SizingDecision) -> EngineShape:
    """So much memory each, by another overhead or other Python memory; more executors share the heap as well.

    Python memory is a limit of what each worker may map, not only of what it uses, and a worker that meets it fails. So
    where none is set Python workers live off the overhead, and none is set here; one that is set goes with the slots,
    of which each executor has as many as before, and is lowered only to what a decision says is mapped.
    """
    spread = shape.executors / executors
    heap, overhead = (math.ceil(size * spread) for size in (shape.heap_mb, shape.overhead_mb))
    beside, python = max(_SMALLEST_MB, memory_mb - heap), shape.python_mb
    if python and decision.python_mb is not None:
        python = min(python, math.ceil(decision.python_mb))
    elif python and decision.part is MemoryPart.PYTHON:
        python = max(python, beside - overhead)
    beside = max(beside, python + _SMALLEST_MB)
    return replace(shape, executors=executors, heap_mb=heap, overhead_mb=beside - python, python_mb=python)


def _with_cores(shape: EngineShape, total: int) -> list[EngineShape]:
    """So many cores in all: other cores for each executor, other executors, or both; the cheapest first.

    An executor keeps its memory for each share of the state and for each slot, whichever is more; Python workers go
    with the slots. A step down adds no executor: each has a JVM of its own to feed.
    """
    found = []
    for cores in range(1, total + 1):
        executors = math.ceil(total / cores)
        if total < shape.total(Resource.CPU) and executors > shape.executors:
            continue
        by_slots, by_state = cores / shape.cores, shape.executors / executors
        keep = by_state if by_state > 1 else min(1.0, max(by_slots, by_state))
        new = replace(
            shape, executors=executors, cores=cores, heap_mb=_kept(shape.heap_mb, keep),
            overhead_mb=_kept(shape.overhead_mb, keep), python_mb=math.ceil(shape.python_mb * by_slots),
        )  # fmt: skip
        cost = new.total(Resource.MEMORY) + MB_OF_A_CORE * new.total(Resource.CPU)
        # What is as cheap to a hundredth is decided by how little changes.
        found.append((round(100 * cost / MB_OF_A_CORE / total), abs(executors - shape.executors), cores, new))
    return [new for *_, new in sorted(found, key=lambda each: each[:3])]


def _kept(size_mb: int, part: float) -> int:
    """So much of a size, and what a JVM takes for itself however small its part is."""
    return math.ceil(size_mb * part + (JVM_MB * (1.0 - part) if part < 1.0 else 0.0))


def _first_that_fits_a_host(shape: EngineShape, decision: SizingDecision, capacity: Capacity) -> EngineShape | None:
    # An executor that is larger already must not keep the others of its resources from changing.
    most_cores = max(capacity.host_cores or math.inf, shape.cores)
    most_memory = max(capacity.host_memory_mb or math.inf, shape.memory_mb)
    fitting = (
        each for each in candidates(shape, decision) if each.cores <= most_cores and each.memory_mb <= most_memory
    )
    return next(fitting, None)


def _under_quota(
    before: EngineShape, wanted: EngineShape, decision: SizingDecision, capacity: Capacity
) -> tuple[EngineShape, str]:
    """As many executors of that size as the quota allows; a larger size that the quota has no room for is not taken."""
    by_cores = capacity.quota_cores // wanted.cores if capacity.quota_cores else _MOST_EXECUTORS
    by_memory = capacity.quota_memory_mb // wanted.memory_mb if capacity.quota_memory_mb else _MOST_EXECUTORS
    allowed = min(by_cores, by_memory)
    if wanted.executors <= allowed:
        return wanted, ""
    quota = f"{capacity.quota_cores} cores" if by_cores < by_memory else f"{capacity.quota_memory_mb:,} MB"
    return _fewer(before, wanted, allowed, decision, f"the quota of {quota} allows")


def _under_capacity(
    before: EngineShape, wanted: EngineShape, decision: SizingDecision, capacity: Capacity
) -> tuple[EngineShape, str]:
    """As many executors of that size as there is room for on hosts as they are."""
    if capacity.hosts is None:
        return wanted, ""
    room = _room(wanted, before, capacity, own=True)
    if wanted.executors <= room:
        return wanted, ""
    free_mb = sum(host.memory_free_mb for host in capacity.hosts)
    return _fewer(before, wanted, room, decision, f"hosts with {free_mb:,} MB free, in pieces, have room for")


def _fewer(
    before: EngineShape, wanted: EngineShape, executors: int, decision: SizingDecision, what: str
) -> tuple[EngineShape, str]:
    held = replace(wanted, executors=executors)
    told = f"{what} {executors} of {wanted.executors} executors of {wanted.memory_mb:,} MB and {wanted.cores} cores"
    if executors < 1 or held.total(decision.resource) <= before.total(decision.resource):
        return before, f"{told}: the shape stays"
    missing = decision.total - held.total(decision.resource)
    unit = "MB" if decision.resource in {Resource.HEAP, Resource.MEMORY} else "cores"
    return held, f"{told}: {missing:,.0f} {unit} not placed"


def _room(wanted: EngineShape, before: EngineShape, capacity: Capacity, *, own: bool) -> int:
    """Executors of a size that fit on the hosts: beside the application's own executors, or in their place."""
    room = 0
    for host in capacity.hosts or ():
        leaving = host.own_executors if own else 0
        cores = host.cores_free + leaving * before.cores
        memory_mb = host.memory_free_mb + leaving * before.memory_mb
        room += min(cores // wanted.cores, memory_mb // wanted.memory_mb)
    return room
