"""The cheapest size of an application that keeps all limits, found by search with its load known beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.sizing.resizer import MB_OF_A_CORE
from penstock.model.sizing import EngineShape, Resource
from penstock.research.sage_fleet import JVM_GC_GOAL, MOST_CORES_EACH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.research.sage_fleet import FleetApplication
    from penstock.settings import SizingSettings

MOST_MEMORY_EACH_MB = 65_536


@dataclass(frozen=True, slots=True)
class Optimum:
    """The size, and its cost in megabytes with cores counted at 4 GB."""

    shape: EngineShape
    cost_mb: float


def cost_mb(shape: EngineShape) -> float:
    """Cost of a size: its memory, and its cores at 4 GB each."""
    return shape.total(Resource.MEMORY) + MB_OF_A_CORE * shape.total(Resource.CPU)


def find_optimum(application: FleetApplication, settings: SizingSettings, *, since: int = 0) -> Optimum:
    """Search all numbers of executors for the cheapest size at which no limit is broken in two windows on end.

    Limits are those of the policies: garbage collection, memory used of memory allotted, cores and slots busy. Windows
    in which a remote service falters do not count: nobody sizes for these.
    """
    counted = ~application.is_faltering
    counted[:since] = False
    found: Optimum | None = None
    for executors in range(1, _most_executors(application) + 1):
        shape = _smallest(application, settings, executors, counted)
        if shape.cores > MOST_CORES_EACH or shape.memory_mb > MOST_MEMORY_EACH_MB:
            continue
        cost = cost_mb(shape)
        if found is None or cost < found.cost_mb:
            found = Optimum(shape, cost)
    assert found is not None
    return found


def _smallest(
    application: FleetApplication, settings: SizingSettings, executors: int, counted: NDArray[np.bool_]
) -> EngineShape:
    rows = application.rows_per_s[counted]
    live = application.heap_each_mb + (application.heap_shared_mb + application.heap_by_row_mb * rows) / executors
    room = application.gc_room * rows / application.mean_rows_per_s
    heap = _twice(live * (1.0 + room / settings.gc_limit))
    gc = np.maximum(np.minimum(JVM_GC_GOAL, room), room * live / (heap - live))
    per_row = application.cpu_s[counted] / (1.0 - gc)
    busy = np.maximum(per_row, per_row + application.wait_s[counted])
    cores = math.ceil(_twice(rows * busy / settings.cpu_limit) / executors - 1e-9)
    committed = min(heap, float((live * (1.0 + room / JVM_GC_GOAL)).max()))
    native = application.native_each_mb + application.native_shared_mb / executors
    python = application.python_slot_mb * cores
    memory = (0.95 * committed + native + python) / settings.memory_limit
    beside = max(memory - heap, 64.0)
    return EngineShape(
        executors,
        heap_mb=math.ceil(heap),
        overhead_mb=math.ceil(beside - python if beside > python else beside),
        python_mb=math.ceil(python) if beside > python else 0,
        cores=max(1, cores),
    )


def _twice(needed: NDArray[np.float64]) -> float:
    """The least amount that is too little in no two windows on end."""
    return float(np.minimum(needed[:-1], needed[1:]).max())


def _most_executors(application: FleetApplication) -> int:
    busy = application.cpu_s + application.wait_s
    return max(4, 2 * math.ceil(float((application.rows_per_s * busy).max())))
