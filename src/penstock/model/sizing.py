"""The shape of an engine, what is seen of its use, and a decision to give it another shape.

Heap is ``spark.executor.memory``; memory is heap, overhead and ``spark.executor.pyspark.memory`` together; CPU is
executor cores; parallelism is task slots, executors times cores over ``spark.task.cpus``. Figures of memory are those
of the fullest executor: an executor dies of its own memory, whatever the others have left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Resource(StrEnum):
    """What a policy may change."""

    HEAP = "heap"
    MEMORY = "memory"
    CPU = "cpu"
    PARALLELISM = "parallelism"


class MemoryPart(StrEnum):
    """Which memory beside the heap: native memory of the JVM, or Python workers."""

    OVERHEAD = "overhead"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class EngineShape:
    """How many executors, and what each is made of.

    Examples
    --------
    >>> shape = EngineShape(executors=4, heap_mb=2048, overhead_mb=384, python_mb=256, cores=2)
    >>> shape.memory_mb, shape.total(Resource.MEMORY), shape.total(Resource.HEAP), shape.slots
    (2688, 10752.0, 8192.0, 8)
    >>> str(shape)
    '4 executors of 2 cores, heap 2,048 MB, overhead 384 MB, Python 256 MB'
    >>> EngineShape.from_dict(shape.to_dict()) == shape
    True
    """

    executors: int
    heap_mb: int
    overhead_mb: int
    python_mb: int = 0
    cores: int = 1
    task_cpus: int = 1

    @property
    def memory_mb(self) -> int:
        """Memory of one executor."""
        return self.heap_mb + self.overhead_mb + self.python_mb

    @property
    def slots(self) -> int:
        """Tasks that run at once, over all executors."""
        return self.executors * (self.cores // self.task_cpus)

    def total(self, resource: Resource) -> float:
        """Amount of a resource over all executors: megabytes, cores or slots."""
        each = {
            Resource.HEAP: self.executors * self.heap_mb,
            Resource.MEMORY: self.executors * self.memory_mb,
            Resource.CPU: self.executors * self.cores,
            Resource.PARALLELISM: self.slots,
        }
        return float(each[resource])

    def to_dict(self) -> dict[str, int]:
        """Give the shape as plain data."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EngineShape:
        """The shape that :meth:`to_dict` gave."""
        return cls(**{each.name: int(values[each.name]) for each in fields(cls) if each.name in values})

    def __str__(self) -> str:
        number = "1 executor" if self.executors == 1 else f"{self.executors} executors"
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        python = f", Python {self.python_mb:,} MB" if self.python_mb else ""
        slots = f", {self.task_cpus} cores a task" if self.task_cpus > 1 else ""
        return f"{number} of {cores}, heap {self.heap_mb:,} MB, overhead {self.overhead_mb:,} MB{python}{slots}"


@dataclass(frozen=True, slots=True)
class UsageSignal:
    """What was seen of an engine over one window; None is unknown, and argues against acting.

    Parameters
    ----------
    time_s
        End of the window.
    heap_used_mb, heap_committed_mb
        Most heap in use, and heap that the JVM has taken from the system, of the fullest executor.
    heap_low_mb
        Least heap that was in use at any moment at which it was sampled: what lives, where a collection was just over.
    heap_live_mb, full_gc_s
        Heap in use right after all garbage was collected, and how long that took, of the fullest executor; only in
        windows in which that was asked for.
    aging_mb_per_s
        What joined the old generation, a second, since it was asked for before, of the executor with the most.
    gcs_per_s, young_gc_s, heap_taken_mb
        Collections a second since it was asked for before, how long one of the young generation took on average, and
        the heap that the JVM had taken for itself, of the executor that collects most.
    gc_fraction
        Part of the window in garbage collection, of the executor with the most.
    gc_count
        Collections over all executors.
    jvm_rss_mb, python_rss_mb, python_vm_mb
        Resident memory of the JVM and of its Python workers, and what the workers map, of the fullest executor.
    off_heap_mb
        Memory of the JVM beside its heap, of the fullest executor.
    cpu_fraction, busy_fraction
        CPU time over cores and window, and task time over slots and window.
    spilled_mb, state_mb
        Spilled to disk within the window, and memory of state stores, over all executors.
    backlog_rows, arrival_rows_per_s, processed_rows_per_s
        Rows that wait at the end of the window, that came and that were done.
    lost_to_heap, lost_to_memory
        Executors lost within the window because the heap, or the memory beside it, was not enough.
    services
        One figure for each remote service that the application calls, such as its latency.
    """

    time_s: float
    heap_used_mb: float | None = None
    heap_committed_mb: float | None = None
    heap_low_mb: float | None = None
    heap_live_mb: float | None = None
    full_gc_s: float | None = None
    aging_mb_per_s: float | None = None
    gcs_per_s: float | None = None
    young_gc_s: float | None = None
    heap_taken_mb: float | None = None
    gc_fraction: float | None = None
    gc_count: int | None = None
    jvm_rss_mb: float | None = None
    python_rss_mb: float | None = None
    python_vm_mb: float | None = None
    off_heap_mb: float | None = None
    cpu_fraction: float | None = None
    busy_fraction: float | None = None
    spilled_mb: float | None = None
    state_mb: float | None = None
    backlog_rows: float | None = None
    arrival_rows_per_s: float | None = None
    processed_rows_per_s: float | None = None
    lost_to_heap: int = 0
    lost_to_memory: int = 0
    services: Mapping[str, float] = field(default_factory=dict)

    @property
    def memory_used_mb(self) -> float | None:
        """Resident memory of the fullest executor, its Python workers included; None where the JVM's is unknown."""
        return None if self.jvm_rss_mb is None else self.jvm_rss_mb + (self.python_rss_mb or 0.0)

    @property
    def likely_resident_mb(self) -> float | None:
        """Memory that the executor would have if every page of its committed heap had been touched.

        The kernel gives a page when it is first written, so resident memory may be below what the JVM has committed
        and will come to use: ``python + max(jvm_rss, committed + off_heap)``.

        Examples
        --------
        >>> UsageSignal(0.0, heap_committed_mb=900.0, jvm_rss_mb=700.0, off_heap_mb=150.0).likely_resident_mb
        1050.0
        """
        if self.jvm_rss_mb is None:
            return None
        hidden = 0.0 if self.heap_committed_mb is None else self.heap_committed_mb + (self.off_heap_mb or 0.0)
        return (self.python_rss_mb or 0.0) + max(self.jvm_rss_mb, hidden)

    def to_dict(self) -> dict[str, Any]:
        """Give the signal as plain data."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "services"} | {
            "services": dict(self.services)
        }


@dataclass(frozen=True, slots=True)
class SizingDecision:
    """What one policy wants: another total of one resource.

    Parameters
    ----------
    policy
        ``"P1"`` to ``"P8"``.
    resource
        What is to change.
    total
        Amount over all executors that is wanted: megabytes, cores or slots.
    reason
        One sentence with the figures that decided.
    figures
        All figures that it stood on.
    expected
        What should be seen afterwards, by the names of :class:`UsageSignal`.
    part
        For memory: which part of it beside the heap.
    python_mb
        For less memory: what Python workers of each executor map; None leaves their limit as it is.
    """

    policy: str
    resource: Resource
    total: float
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)
    expected: Mapping[str, float] = field(default_factory=dict)
    part: MemoryPart = MemoryPart.OVERHEAD
    python_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one policy says in one round: a decision, or why none."""

    policy: str
    title: str
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)
    decision: SizingDecision | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the verdict as plain data."""
        wanted = None if self.decision is None else self.decision.total
        return {
            "policy": self.policy,
            "title": self.title,
            "decides": self.decision is not None,
            "total": wanted,
            "reason": self.reason,
            "figures": dict(self.figures),
        }


@dataclass(frozen=True, slots=True)
class HostRoom:
    """What one host has free, and how many executors of the application lie on it."""

    cores_free: int
    memory_free_mb: int
    own_executors: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """What an application may be given; None is no bound, or nobody knows.

    Parameters
    ----------
    hosts
        Free resources, host by host.
    host_cores, host_memory_mb
        The largest executor that one host can hold.
    quota_cores, quota_memory_mb
        The most that the application may have in all.
    """

    hosts: tuple[HostRoom, ...] | None = None
    host_cores: int | None = None
    host_memory_mb: int | None = None
    quota_cores: int | None = None
    quota_memory_mb: int | None = None


@dataclass(frozen=True, slots=True)
class ResizeOutcome:
    """How a change of shape ended, as the plant tells: the shape that is there, by which way, and what it cost."""

    number: int
    shape: EngineShape
    is_done: bool
    way: str
    took_s: float
    reason: str = ""
    downtime_s: float | None = None
