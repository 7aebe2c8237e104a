"""What became of a sudden load while executors came: latency, accuracy, executors, side by side."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.apps.run import QueryFigures

JOINED, SCALING, SHEDDING = "joined", "scaling alone", "shedding alone"
MODES = (JOINED, SCALING, SHEDDING)
BACK_WITHIN_S = 30.0
MOST_OF_CLAIRVOYANT = 1.3


@dataclass(frozen=True, slots=True)
class Answered:
    """What one batch was told to keep, and what it kept."""

    planned_s: float
    rows: int
    keep_ratio: float
    kept_ratio: float


@dataclass(frozen=True, slots=True)
class BridgeRun:
    """One mode under the load; times are seconds since the epoch."""

    mode: str
    figures: QueryFigures
    batches: tuple[Answered, ...]
    sizes: tuple[tuple[float, int], ...]
    start_s: float | None
    faults: tuple[str, ...]
    began_s: float
    step_s: float
    ended_s: float

    @property
    def accuracy(self) -> float:
        """Kept over offered rows."""
        offered = sum(batch.rows for batch in self.batches)
        return sum(batch.rows * batch.kept_ratio for batch in self.batches) / offered if offered else 1.0

    @property
    def least_ratio(self) -> float:
        """The smallest keep ratio of any batch."""
        return min((min(1.0, batch.keep_ratio) for batch in self.batches), default=1.0)

    @property
    def back_after_s(self) -> float:
        """Time from the step to the first batch after which nothing is shed any more; none is shed: nothing."""
        shed = [batch.planned_s for batch in self.batches if batch.keep_ratio < 1.0]
        if not shed:
            return 0.0
        later = [batch.planned_s for batch in self.batches if batch.planned_s > max(shed)]
        return (min(later) if later else math.inf) - self.step_s

    @property
    def executor_s(self) -> float:
        """Executor-seconds while the load lasted, those that start or leave included."""
        moments = [*self.sizes, (self.ended_s, 0)]
        return sum(
            size * max(0.0, min(after, self.ended_s) - max(moment, self.began_s))
            for (moment, size), (after, _) in pairwise(moments)
        )


@dataclass(frozen=True, slots=True)
class Bridge:
    """All modes in one run."""

    goal_s: float
    minimum_accuracy: float
    capacity_rows_per_s: float
    calm_rows_per_s: float
    high_rows_per_s: float
    runs: tuple[BridgeRun, ...]
    load_average: float

    @property
    def needed(self) -> int:
        """Executors that the high load needs, by what the first size did."""
        return math.ceil(self.high_rows_per_s / self.capacity_rows_per_s - 1e-6)

    def clairvoyant_executor_s(self, run: BridgeRun) -> float:
        """Executor-seconds of somebody who knows the load: asks so early that all serve at the step, and no earlier."""
        calm_s, high_s = run.step_s - run.began_s, run.ended_s - run.step_s
        start_s = next((each.start_s for each in self.runs if each.start_s is not None), 0.0)
        return calm_s + self.needed * high_s + (self.needed - 1) * start_s

    def of_clairvoyant(self, run: BridgeRun) -> float:
        """Executor-seconds in multiples of the clairvoyant's."""
        return run.executor_s / self.clairvoyant_executor_s(run)

    @property
    def missed(self) -> list[str]:
        """Claims on the joined tiers that do not hold."""
        run = next((each for each in self.runs if each.mode == JOINED), None)
        if run is None:
            return ["the joined tiers were not run"]
        p95_s = run.figures.latency_p95_s
        claims = {
            f"95 % of rows within {self.goal_s:g} s (seen {p95_s})": p95_s is not None and p95_s <= self.goal_s,
            f"no batch below {self.minimum_accuracy:g} (seen {run.least_ratio:.3f})": run.least_ratio
            >= self.minimum_accuracy,
            f"all rows kept {BACK_WITHIN_S:g} s after the step (seen {run.back_after_s:.1f} s)": run.back_after_s
            <= BACK_WITHIN_S,
            f"{MOST_OF_CLAIRVOYANT:g} of the clairvoyant's executor-hours (seen {self.of_clairvoyant(run):.2f})": (
                self.of_clairvoyant(run) <= MOST_OF_CLAIRVOYANT
            ),
            f"no fault ({'; '.join(run.faults)})": not run.faults,
        }
        return [claim for claim, holds in claims.items() if not holds]

    def rows(self) -> list[dict[str, object]]:
        """One row a mode, units in the keys."""
        return [
            {
                "mode": run.mode,
                "latency_p50_s": run.figures.latency_p50_s,
                "latency_p95_s": run.figures.latency_p95_s,
                "latency_max_s": run.figures.latency_max_s,
                "accuracy": run.accuracy,
                "least_keep_ratio": run.least_ratio,
                "back_after_s": None if math.isinf(run.back_after_s) else run.back_after_s,
                "executor_hours": run.executor_s / 3600.0,
                "of_clairvoyant": self.of_clairvoyant(run),
                "sizes": _changes([size for _, size in run.sizes]),
                "start_s": run.start_s,
                "backlog_end_rows": run.figures.lag_end_rows,
                "faults": list(run.faults),
            }
            for run in self.runs
        ]

    def to_dict(self) -> dict[str, object]:
        """As one JSON object."""
        return {
            "bench": "bridge",
            "goal_s": self.goal_s,
            "minimum_accuracy": self.minimum_accuracy,
            "capacity_rows_per_s": self.capacity_rows_per_s,
            "calm_rows_per_s": self.calm_rows_per_s,
            "high_rows_per_s": self.high_rows_per_s,
            "needed_executors": self.needed,
            "load_average": self.load_average,
            "missed": self.missed,
            "rows": self.rows(),
            "batches": [{"mode": run.mode, **asdict(batch)} for run in self.runs for batch in run.batches],
        }


def _changes(sizes: Sequence[int]) -> list[int]:
    return [size for place, size in enumerate(sizes) if place == 0 or size != sizes[place - 1]]
