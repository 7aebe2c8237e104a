"""What the search for the smallest heap found, and what sizes engines came to that began with wrong ones."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAPER_WINDOW_S = 15.0
"""A window of the settings as they come; a shorter one only makes a benchmark shorter."""


@dataclass(frozen=True, slots=True)
class HeapTrial:
    """One heap under the steady load, judged by the limits that policies go by.

    ``gc_sustained`` is the most that collections took of the time through two windows on end.
    """

    heap_mb: int
    gc_fractions: tuple[float, ...]
    gc_sustained: float | None
    median_batch_s: float
    failed_tasks: int
    lost_executors: int
    memory_used_mb: float
    keeps_goals: bool
    took_s: float
    load_average: float


def sustained(values: Sequence[float]) -> float | None:
    """The most that two values on end have in common; None where there are not two.

    Examples
    --------
    >>> sustained([0.02, 0.3, 0.08, 0.09]), sustained([0.2])
    (0.08, None)
    """
    pairs = [min(pair) for pair in pairwise(values)]
    return max(pairs, default=None)


_MORE, _ATTEMPTS = 1.4, 3
"""How much more is tried where the highest heap turns out too small, and how often."""


def next_heap(trials: Sequence[HeapTrial], low_mb: int, high_mb: int, resolution: float) -> int | None:
    """The heap to try next: the highest first, then halfway, by ratio, between too small and large enough.

    None where these are within the resolution. A heap that turned out too small stays so, and whatever is below it;
    where the highest does, 1.4 times of it is tried, twice.

    Examples
    --------
    >>> def trial(heap_mb, keeps_goals):
    ...     return HeapTrial(heap_mb, (), None, 1.0, 0, 0, 0.0, keeps_goals, 1.0, 0.0)
    >>> next_heap([], 100, 900, 0.05), next_heap([trial(900, True)], 100, 900, 0.05)
    (900, 300)
    >>> next_heap([trial(900, True), trial(300, False), trial(314, True)], 100, 900, 0.05) is None
    True
    >>> next_heap([trial(500, False)], 100, 500, 0.05), next_heap([trial(500, False)] * 3, 100, 500, 0.05)
    (700, None)
    """
    if not trials:
        return high_mb
    enough = min((trial.heap_mb for trial in trials if trial.keeps_goals), default=None)
    if enough is None:
        return None if len(trials) >= _ATTEMPTS else round(_MORE * trials[-1].heap_mb)
    small = max([low_mb, *(trial.heap_mb for trial in trials if not trial.keeps_goals and trial.heap_mb < enough)])
    return None if enough <= small * (1 + resolution) else round((small * enough) ** 0.5)


def optimum(trials: Sequence[HeapTrial]) -> HeapTrial | None:
    """The trial with the smallest heap that kept all goals."""
    return min((trial for trial in trials if trial.keeps_goals), key=lambda trial: trial.heap_mb, default=None)


@dataclass(frozen=True, slots=True)
class SizingStep:
    """One change that a policy made on the running engine, and the figures that it stood on.

    ``at_s`` is since the policies began to watch.
    """

    at_s: float
    policy: str
    resource: str
    is_up: bool
    heap_mb: int
    memory_mb: int
    took_s: float
    is_done: bool
    reason: str
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SizedCase:
    """An engine that began with a wrong heap, and what became of it."""

    name: str
    first_heap_mb: int
    last_heap_mb: int
    last_memory_mb: int
    optimum_heap_mb: int
    optimum_memory_mb: int
    steps: tuple[SizingStep, ...]
    window_s: float
    watched_s: float
    gc_after: float | None
    rows: int
    counted_rows: int
    offset_rows: int
    runs: int
    failed_tasks: int
    load_average: float
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Whether every row was counted once."""
        return self.rows == self.counted_rows == self.offset_rows

    def steps_down(self, resource: str) -> int:
        """Changes that made a resource smaller."""
        return sum(step.resource == resource and not step.is_up and step.is_done for step in self.steps)

    @property
    def oscillations(self) -> int:
        """Steps up of a resource after a step down of it: the load is the same all the time."""
        return sum(
            step.is_up
            and any(
                before.resource == step.resource and not before.is_up and before.is_done
                for before in self.steps[:number]
            )
            for number, step in enumerate(self.steps)
        )

    @property
    def right_size_s(self) -> float:
        """Time until the last change was over; 0 where there was none."""
        return max((step.at_s + step.took_s for step in self.steps if step.is_done), default=0.0)

    @property
    def right_size_at_15_s_windows_s(self) -> float:
        """The same with windows of 15 s: as many windows, and changes take as long as they took."""
        changing_s = sum(step.took_s for step in self.steps if step.is_done)
        return changing_s + (self.right_size_s - changing_s) / self.window_s * _PAPER_WINDOW_S

    def to_dict(self) -> dict[str, Any]:
        """Give the case as plain data."""
        return asdict(self) | {
            "heap_over_optimum": self.last_heap_mb / self.optimum_heap_mb - 1.0,
            "memory_over_optimum": self.last_memory_mb / self.optimum_memory_mb - 1.0,
            "heap_steps_down": self.steps_down("heap"),
            "memory_steps_down": self.steps_down("memory"),
            "oscillations": self.oscillations,
            "right_size_s": self.right_size_s,
            "right_size_at_15_s_windows_s": self.right_size_at_15_s_windows_s,
            "is_exact": self.is_exact,
        }


@dataclass(frozen=True, slots=True)
class SizeResult:
    """The search, the smallest heap and memory that do, and the cases."""

    trials: tuple[HeapTrial, ...]
    resolution: float
    memory_limit: float
    cases: tuple[SizedCase, ...] = ()

    @property
    def load_average(self) -> float:
        """Median of the machine's load over all that was run."""
        loads = [*(trial.load_average for trial in self.trials), *(case.load_average for case in self.cases)]
        return statistics.median(loads)

    def to_dict(self) -> dict[str, Any]:
        """Give the result as plain data."""
        best = optimum(self.trials)
        return {
            "bench": "size",
            "optimum_heap_mb": None if best is None else best.heap_mb,
            "optimum_memory_mb": None if best is None else optimum_memory_mb(best, self.memory_limit),
            "optimum_resolution": self.resolution,
            "load_average": self.load_average,
            "trials": [asdict(trial) for trial in self.trials],
            "rows": [case.to_dict() for case in self.cases],
        }


def optimum_memory_mb(best: HeapTrial, memory_limit: float) -> int:
    """Memory of which what was resident with the smallest heap is just the part that may be used.

    Nothing on the machine enforces memory beside the heap, so that it need not be tried: less would break the limit.
    """
    return round(best.memory_used_mb / memory_limit)
