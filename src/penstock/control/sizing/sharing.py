"""What each executor needs when there are more of them: state is shared by all, and so is its memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.control.sizing.resizer import JVM_MB

if TYPE_CHECKING:
    from penstock.control.sizing.usage import Usage
    from penstock.model.sizing import EngineShape
    from penstock.settings import SizingSettings


def shared_out(before: EngineShape, after: EngineShape, usage: Usage, settings: SizingSettings) -> EngineShape:
    """Executors of a step up that adds some, each with the memory that its part of the use needs.

    ``heap = (JVM + (used - JVM) * executors before / after * arrival / processed * (1 + dead_band)) * (1 + margin)``,
    with the most that was used or committed since the last change; the dead band, because a load that has risen may
    rise on. Memory beside the heap in the same way, as P6 reckons it. Never more than each has now. Executors that
    brought all the memory with them that the others have would keep it for good: there is one step down. Unknown use
    leaves each as it is.

    Examples
    --------
    >>> from penstock.control.sizing.usage import Usage
    >>> from penstock.model.sizing import EngineShape, UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> usage = Usage(3600.0)
    >>> seen = UsageSignal(15.0, heap_used_mb=900.0, heap_committed_mb=928.0, off_heap_mb=328.0, jvm_rss_mb=1200.0)
    >>> usage.add(seen, cores=2, slots=2, is_clean=True)
    >>> two = EngineShape(2, 1024, 512)
    >>> print(shared_out(two, EngineShape(4, 1024, 512), usage, SizingSettings()))
    4 executors of 1 core, heap 577 MB, overhead 296 MB
    """
    heap = usage.most("heap_committed_mb"), usage.most("heap_used_mb")
    used_mb = max((size for size in heap if size is not None), default=None)
    if after.executors <= before.executors or after.cores != before.cores or used_mb is None:
        return after
    spread = before.executors / after.executors
    arrival, processed = usage.newest("arrival_rows_per_s"), usage.newest("processed_rows_per_s")
    growth = max(1.0, arrival / processed) if arrival and processed else 1.0
    part = spread * growth * (1 + settings.dead_band)
    heap_mb = min(after.heap_mb, math.ceil(_part(used_mb, part) * (1 + settings.margin)))
    beside_mb = usage.most("off_heap_mb")
    if beside_mb is None:
        return replace(after, heap_mb=heap_mb)
    python_mb = usage.most("python_rss_mb") or 0.0
    memory_mb = (heap_mb + _part(beside_mb, spread) + python_mb) * (1 + settings.margin) / settings.memory_limit
    overhead_mb = math.ceil(memory_mb - heap_mb - after.python_mb)
    return replace(after, heap_mb=heap_mb, overhead_mb=min(after.overhead_mb, max(JVM_MB, overhead_mb)))


def _part(size_mb: float, part: float) -> float:
    """So much of a size, beyond what a JVM takes for itself, and at most all of it."""
    return min(size_mb, JVM_MB + max(0.0, size_mb - JVM_MB) * part)
