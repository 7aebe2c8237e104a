"""How busy the cores of an engine are, and how much of that is foreign.

Whoever shares the cores with an engine takes capacity from it, whether or not it is a query of ours: the scheduler
places by what is really left ("Stream-Economics", section 4). But a core that is busy is not a core that cannot be had:
others may use it only while nobody else wants it. What they take is what the engine waited for.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORTEST_S = 0.1
"""The system counts CPU time in hundredths of a second: over ten of them it is right to a tenth."""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Cores that were kept busy between two looks: by anybody, and by others than the engine.

    ``waited_cores`` is for how much more its threads were ready to run and had no core; None where the system does not
    tell.
    """

    busy_cores: float
    foreign_cores: float
    waited_cores: float | None = None


class HostCpu:
    """Looks at cores of this machine.

    Parameters
    ----------
    cores
        Numbers of the cores that the engine is pinned to; all that the process may use where it is not.
    """

    def __init__(self, cores: Sequence[int] | None = None) -> None:
        self._cores = sorted(os.sched_getaffinity(0)) if cores is None else sorted(cores)
        self._before: tuple[float, float, dict[tuple[int, float], float]] | None = None
        self._waited_before: dict[tuple[int, int], int] | None = None

    def look(self, now_s: float) -> CpuUse | None:
        """What was used since the last look; None at the first, and after too short a time to tell."""
        busy_s, own_s, waited_ns = self._busy_s(), _tree_s(), _tree_waited_ns()
        before, self._before = self._before, (now_s, busy_s, own_s)
        waited_before, self._waited_before = self._waited_before, waited_ns
        if before is None or now_s - before[0] < _SHORTEST_S:
            return None
        spent_s = now_s - before[0]
        # A child that ended in between took its last moments with it; it counts as foreign for one look.
        own_cores = sum(value_s - before[2].get(key, 0.0) for key, value_s in own_s.items()) / spent_s
        busy_cores = min(float(len(self._cores)), max(0.0, busy_s - before[1]) / spent_s)
        waited_cores = None
        if waited_ns is not None and waited_before is not None:
            waited_s = sum(value - waited_before.get(key, value) for key, value in waited_ns.items()) / 1e9
            waited_cores = max(0.0, waited_s / spent_s)
        return CpuUse(busy_cores, max(0.0, busy_cores - own_cores), waited_cores)

    def _busy_s(self) -> float:
        times = psutil.cpu_times(percpu=True)
        chosen = [times[core] for core in self._cores if core < len(times)]
        return float(sum(sum(each) - each.idle - getattr(each, "iowait", 0.0) - _guest(each) for each in chosen))


def _guest(times: Any) -> float:  # noqa: ANN401 - psutil has no types
    """Time of guests, which Linux counts as the user's as well."""
    return float(getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0))


def _tree_s() -> dict[tuple[int, float], float]:
    """CPU seconds of this process and all below it, by process."""
    found = {}
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        with suppress(psutil.Error):
            times = process.cpu_times()
            found[process.pid, process.create_time()] = times.user + times.system
    return found


def _tree_waited_ns() -> dict[tuple[int, int], int] | None:
    """Nanoseconds that each thread of this process and of all below it was ready and did not run; None off Linux."""
    found: dict[tuple[int, int], int] = {}
    own = psutil.Process()
    for process in [own.pid, *(child.pid for child in own.children(recursive=True))]:
        for thread in _threads(process):
            with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
                found[process, int(thread.name)] = int((thread / "schedstat").read_text(encoding="ascii").split()[1])
    return found or None


def _threads(process: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return []
