"""What others on the cores of an engine really take from it.

A core that is busy is not a core that cannot be had: a process of lower priority uses it only while nobody else wants
it. Counted as used, such a one would hold an engine to its minima for ever, since it never asks for more. What others
take is what the engine's threads waited for; and a task that waited for its core took longer, which is no work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.engine_report import EngineReport

_NEWEST = 0.15
"""Weight of the newest report: nearly all of it is believed after twenty, and a batch of some seconds averaged over."""


def contended_cores(report: EngineReport) -> float | None:
    """Cores in use that the engine cannot have: its own, and of the foreign ones as many as it waited for.

    Examples
    --------
    >>> from penstock.model.engine_report import EngineReport
    >>> told = dict(name="left", kind="local", pid=1, started_s=0.0, cores=1.0, time_s=9.0)
    >>> round(contended_cores(EngineReport(**told, busy_cores=1.0, foreign_cores=0.7, waited_cores=0.1)), 3)
    0.4
    >>> contended_cores(EngineReport(**told, busy_cores=1.0, foreign_cores=0.7))
    1.0
    """
    busy, foreign, waited = report.busy_cores, report.foreign_cores, report.waited_cores
    if busy is None or foreign is None or waited is None:
        return busy
    return busy - foreign + min(foreign, waited)


class CpuParts:
    """Of each engine, the part of the time of its tasks in which they had a core.

    Spark counts how long a task took, not for how long it ran. Cores that are given out are cores that run.

    Examples
    --------
    >>> from penstock.model.engine_report import EngineReport
    >>> told = dict(name="left", kind="local", pid=1, started_s=0.0, cores=1.0, time_s=9.0)
    >>> parts = CpuParts()
    >>> parts.part("left")
    1.0
    >>> parts.observe(EngineReport(**told, busy_cores=1.0, foreign_cores=0.4, waited_cores=0.2))
    >>> round(parts.part("left"), 3)
    0.75
    """

    def __init__(self) -> None:
        self._own_waited: dict[str, tuple[float, float]] = {}

    def observe(self, report: EngineReport) -> None:
        """Take in how an engine's threads fared."""
        if report.busy_cores is None or report.foreign_cores is None or report.waited_cores is None:
            return
        now = (max(0.0, report.busy_cores - report.foreign_cores), report.waited_cores)
        own, waited = self._own_waited.get(report.name, now)
        self._own_waited[report.name] = own + _NEWEST * (now[0] - own), waited + _NEWEST * (now[1] - waited)

    def part(self, engine: str) -> float:
        """The part; one where nothing is known."""
        own, waited = self._own_waited.get(engine, (0.0, 0.0))
        return own / (own + waited) if own + waited > 0 else 1.0
