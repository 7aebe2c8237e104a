"""P2: more memory beside the heap for an executor that is about to be killed."""

from __future__ import annotations

from typing import ClassVar

from penstock.control.sizing.base import SizingContext, decided, silent, step
from penstock.control.wording import number_of_executors
from penstock.model.sizing import MemoryPart, Resource, Verdict


class MemoryUp:
    """P2, memory up: resident memory is above ``memory_limit`` of what the executor has, or it was killed for it.

    ``factor = step(used / (memory_limit * allotted) * (1 + margin))``, on the memory as a whole; the heap stays as P1
    left it, so all of it goes to the part that grew: Python workers where their resident memory is above what they
    have, else the overhead of the JVM. Where Python workers have no memory of their own they live off the overhead, and
    it goes there. One window is enough: the next one may be too late.

    Sage (LinkedIn), table 1: used over allotted memory, after heap and before CPU.

    Examples
    --------
    >>> from penstock.control.sizing.usage import Usage
    >>> from penstock.model.sizing import EngineShape, UsageSignal
    >>> from penstock.settings import SizingSettings
    >>> usage = Usage(3600.0)
    >>> usage.add(UsageSignal(15.0, jvm_rss_mb=600.0, python_rss_mb=600.0), cores=2, slots=2, is_clean=False)
    >>> context = SizingContext(EngineShape(2, 512, 384, python_mb=256), usage, SizingSettings())
    >>> decision = MemoryUp().judge(context).decision
    >>> decision.total, decision.part.value
    (2602.1..., 'python')
    """

    name: ClassVar[str] = "P2"
    title: ClassVar[str] = "memory up"
    resource: ClassVar[Resource] = Resource.MEMORY
    is_up: ClassVar[bool] = True

    def judge(self, context: SizingContext) -> Verdict:
        """Compare resident with allotted memory."""
        settings, usage, shape = context.settings, context.usage, context.shape
        lost = sum(seen.lost_to_memory for seen in usage.recent)
        used, python = usage.newest("memory_used_mb"), usage.newest("python_rss_mb")
        figures: dict[str, float | None] = {
            "memory_used_mb": used, "memory_mb": shape.memory_mb, "memory_limit": settings.memory_limit,
            "jvm_rss_mb": usage.newest("jvm_rss_mb"), "python_rss_mb": python, "python_mb": shape.python_mb,
            "lost_to_memory": lost,
        }  # fmt: skip
        part = MemoryPart.PYTHON if _is_python(context, python) else MemoryPart.OVERHEAD
        if lost:
            killed = f"{number_of_executors(lost)} killed for want of memory"
            return self._decide(context, settings.step_limit, killed, figures, part)
        if used is None:
            return silent(self, "resident memory is not known", figures)
        ratio = used / shape.memory_mb
        if ratio <= settings.memory_limit:
            return silent(self, f"uses {ratio:.0%} of its memory, at most {settings.memory_limit:.0%}", figures)
        factor = step(ratio / settings.memory_limit * (1 + settings.margin), settings)
        is_python = part is MemoryPart.PYTHON
        who = "Python workers have outgrown their part" if is_python else "the JVM has outgrown its part"
        what = f"an executor uses {ratio:.0%} of its memory and {who}".replace("%", " %")
        return self._decide(context, factor, what, figures, part)

    def _decide(
        self, context: SizingContext, factor: float, what: str, figures: dict[str, float | None], part: MemoryPart
    ) -> Verdict:
        total = context.shape.total(Resource.MEMORY) * factor
        expected = {"memory_used_mb": context.settings.memory_limit * total / context.shape.executors}
        reason = f"{what}: {factor:.2f} times the memory"
        return decided(self, total, reason, figures, expected, part=part)


def _is_python(context: SizingContext, python_rss_mb: float | None) -> bool:
    """Whether Python workers take more beyond memory of their own than the JVM does beyond its heap."""
    if not python_rss_mb:
        return False
    shape = context.shape
    beyond_heap = (context.usage.newest("jvm_rss_mb") or 0.0) - shape.heap_mb
    return python_rss_mb - shape.python_mb > beyond_heap
