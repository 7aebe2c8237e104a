"""A simulated fleet of stream applications for the sizing experiment: load, service times, heap, memory, remote calls.

An application is drawn once; what happens to it in every window (rows, service times, latency of the service that it
calls) is drawn with it, so that every size of it meets the same load.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.model.sizing import EngineShape

WINDOW_S = 15.0
WINDOWS = 240
GROWTH_BEGINS, GROWTH_ENDS = 120, 160
MOST_CORES_EACH = 8
JVM_GC_GOAL = 1.0 / 13.0
"""Part of the time in collections at which G1 takes more heap from the system: GCTimeRatio is 12."""

_SERVICE_DRAWS = 400
_HEAVY_TAIL = 2.5
_SLOW_PART, _SLOW, _FAST = 0.1, 5.5, 0.5
_KINDS = ("exponential", "heavy-tailed", "multi-modal")


@dataclass(frozen=True, slots=True)
class FleetApplication:
    """What one application is, apart from its size.

    Parameters
    ----------
    kind
        Distribution of service times.
    rows_per_s, cpu_s, wait_s
        Rows that come in every window; CPU time and waiting time of a row, each window's mean.
    service_ms, is_faltering
        What the remote service tells in every window, and whether it falters then; empty without one.
    heap_each_mb, heap_shared_mb, heap_by_row_mb
        Live heap of each executor, that all share (state), and that grows with rows a second.
    buffer_mb
        Heap that waiting rows take at the most, over all executors.
    gc_room
        Collections at the mean load: ``gc_fraction = gc_room * load * live / (heap - live)``.
    native_each_mb, native_shared_mb, python_slot_mb
        Memory beside the heap: of each JVM, of state, of the Python worker of each task slot.
    """

    name: str
    kind: str
    rows_per_s: NDArray[np.float64]
    cpu_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    service_ms: NDArray[np.float64]
    is_faltering: NDArray[np.bool_]
    heap_each_mb: float
    heap_shared_mb: float
    heap_by_row_mb: float
    buffer_mb: float
    gc_room: float
    native_each_mb: float
    native_shared_mb: float
    python_slot_mb: float
    grows: bool

    @property
    def has_service(self) -> bool:
        """Whether it calls a remote service."""
        return bool(self.service_ms.size)

    @property
    def mean_rows_per_s(self) -> float:
        """Rows that come before any growth."""
        return float(self.rows_per_s[:GROWTH_BEGINS].mean())


def draw_application(number: int, seed: int) -> FleetApplication:
    """One application of the fleet: a third each with exponential, heavy-tailed and multi-modal service times.

    A quarter grows by half in the middle of the run, three in ten call a remote service, of which two in three falter.
    """
    chance = np.random.default_rng([seed, number])
    kind = _KINDS[number % 3]
    rate = 10 ** chance.uniform(2.5, 4.3)
    cores = 10 ** chance.uniform(0.8, 1.9)
    waits = chance.random() < 0.3  # noqa: PLR2004 - three in ten, as the docstring says
    grows = chance.random() < 0.25  # noqa: PLR2004 - a quarter
    load = 1.0 + 0.02 * chance.standard_normal(WINDOWS)
    if grows:
        load *= np.interp(np.arange(WINDOWS), [GROWTH_BEGINS, GROWTH_ENDS], [1.0, 1.5])
    service = _service_means(kind, chance)
    cpu_part = chance.uniform(0.3, 0.6) if waits else 1.0
    busy_s = 0.8 * cores / rate
    latency, faltering = _latency(chance, falters=waits and chance.random() < 2 / 3)
    memory_mb = cores * 10 ** chance.uniform(2.9, 3.5)
    heap_part, python = chance.uniform(0.4, 0.7), chance.random() < 0.5  # noqa: PLR2004 - half of them run Python
    by_row = chance.uniform(0.2, 0.6) * memory_mb * heap_part
    return FleetApplication(
        name=f"app-{number:03d}",
        kind=kind,
        rows_per_s=rate * load,
        cpu_s=busy_s * cpu_part * service,
        wait_s=busy_s * (1.0 - cpu_part) * (latency / latency[0] if waits else np.ones(WINDOWS)),
        service_ms=latency if waits else np.empty(0),
        is_faltering=faltering if waits else np.zeros(WINDOWS, dtype=bool),
        heap_each_mb=60.0,
        heap_shared_mb=memory_mb * heap_part - by_row,
        heap_by_row_mb=by_row / rate,
        buffer_mb=0.03 * memory_mb * heap_part,
        gc_room=chance.uniform(0.015, 0.04),
        native_each_mb=120.0,
        native_shared_mb=memory_mb * (1.0 - heap_part) * (0.5 if python else 1.0),
        python_slot_mb=0.5 * memory_mb * (1.0 - heap_part) / cores if python else 0.0,
        grows=grows,
    )


def _service_means(kind: str, chance: np.random.Generator) -> NDArray[np.float64]:
    """Mean service time of the rows of every window, one where all are usual."""
    size = (WINDOWS, _SERVICE_DRAWS)
    if kind == "heavy-tailed":
        draws = (1.0 + chance.pareto(_HEAVY_TAIL, size)) * (_HEAVY_TAIL - 1.0) / _HEAVY_TAIL
    elif kind == "multi-modal":
        draws = np.where(chance.random(size) < _SLOW_PART, _SLOW, _FAST)
    else:
        draws = chance.exponential(1.0, size)
    means: NDArray[np.float64] = draws.mean(axis=1)
    return means


def _latency(chance: np.random.Generator, *, falters: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """What a service tells in every window; where it falters, two to five times as much for some minutes."""
    noise = np.zeros(WINDOWS)
    for window in range(1, WINDOWS):
        noise[window] = 0.7 * noise[window - 1] + 0.03 * chance.standard_normal()
    faltering = np.zeros(WINDOWS, dtype=bool)
    factor = np.ones(WINDOWS)
    if falters:
        begin = int(chance.integers(60, WINDOWS - 60))
        length = int(chance.integers(8, 17))
        faltering[begin : begin + length] = True
        factor[faltering] = chance.uniform(2.0, 5.0)
    latency = 20.0 * np.exp(noise) * factor
    latency[0] = 20.0
    return latency, faltering


def first_shape(best: EngineShape, number: int, seed: int) -> EngineShape:
    """The size that an application starts with: each resource a third of, equal to, or three times the optimum."""
    chance = np.random.default_rng([seed, number, 1])
    heap, beside, cpu = (float(chance.choice([1 / 3, 1.0, 3.0])) for _ in range(3))
    executors, cores = best.executors, best.cores
    if chance.random() < 0.5 and best.cores >= 3 and best.cores * cpu <= MOST_CORES_EACH:  # noqa: PLR2004 - a third of fewer than three cores is none
        cores = max(1, round(best.cores * cpu))
    else:
        executors = max(1, round(best.executors * cpu))
    spread = best.executors / executors
    return replace(
        best,
        executors=executors,
        cores=cores,
        heap_mb=max(128, math.ceil(best.heap_mb * heap * spread)),
        overhead_mb=max(128, math.ceil(best.overhead_mb * beside * spread)),
        python_mb=math.ceil(best.python_mb * beside * spread),
    )
