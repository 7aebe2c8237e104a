"""All sizing policies, in the order in which they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.control.sizing.cpu_down import CpuDown
from penstock.control.sizing.cpu_up import CpuUp
from penstock.control.sizing.heap_down import HeapDown
from penstock.control.sizing.heap_up import HeapUp
from penstock.control.sizing.memory_down import MemoryDown
from penstock.control.sizing.memory_up import MemoryUp
from penstock.control.sizing.parallelism_down import ParallelismDown
from penstock.control.sizing.parallelism_up import ParallelismUp

if TYPE_CHECKING:
    from penstock.control.sizing.base import SizingPolicy

POLICIES: tuple[SizingPolicy, ...] = (
    HeapUp(), MemoryUp(), CpuUp(), ParallelismUp(), HeapDown(), MemoryDown(), CpuDown(), ParallelismDown(),
)  # fmt: skip
"""Memory before CPU before parallelism, because each may take for granted that those before it found nothing; steps
down after all steps up."""
