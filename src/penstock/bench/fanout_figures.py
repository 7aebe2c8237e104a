"""What the runs of the fan-out benchmark amount to."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.bench.fanout_runs import GraphRun, StageBatch
    from penstock.sim.two_states import TwoStates

PLAIN, MIN_FLOW, ACES = "plain", "min_flow", "aces"
MODES = (PLAIN, MIN_FLOW, ACES)


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One stage in one run; ages and lengths are of the batches that were done in its window, None without any."""

    mode: str
    round: int
    stage: str
    weight: float
    rows_per_s: float
    batches: int
    batch_mean_s: float | None
    age_mean_s: float | None
    cores: float

    def to_dict(self) -> dict[str, object]:
        """As one row of a table, units in the keys."""
        return {
            "mode": self.mode,
            "round": self.round,
            "stage": self.stage,
            "weight": self.weight,
            "rows_per_s": round(self.rows_per_s, 1),
            "batches": self.batches,
            "batch_mean_s": None if self.batch_mean_s is None else round(self.batch_mean_s, 2),
            "age_mean_s": None if self.age_mean_s is None else round(self.age_mean_s, 1),
            "cores": round(self.cores, 2),
        }


@dataclass(frozen=True, slots=True)
class Fanout:
    """All runs of all modes."""

    shape: str
    capacity_rows_per_s: float
    load_rows_per_s: float
    figures: tuple[StageFigures, ...]
    states: Mapping[str, TwoStates] = field(default_factory=dict)

    def weighted_rows_per_s(self, mode: str) -> list[float]:
        """Weighted throughput of a mode in each round."""
        rounds = sorted({each.round for each in self.figures})
        return [
            sum(each.weight * each.rows_per_s for each in self.figures if each.mode == mode and each.round == number)
            for number in rounds
        ]

    def gain_over(self, mode: str) -> float:
        """Gain of ACES over another mode, of the medians over rounds."""
        other = statistics.median(self.weighted_rows_per_s(mode))
        return statistics.median(self.weighted_rows_per_s(ACES)) / other - 1.0 if other > 0 else float("inf")

    @property
    def is_met(self) -> bool:
        """Whether ACES has the largest weighted throughput."""
        return all(self.gain_over(mode) > 0 for mode in MODES if mode != ACES)

    def to_dict(self) -> dict[str, object]:
        """As one JSON object."""
        return {
            "bench": "fanout",
            "shape": self.shape,
            "capacity_rows_per_s": round(self.capacity_rows_per_s, 1),
            "load_rows_per_s": round(self.load_rows_per_s, 1),
            "weighted_rows_per_s": {
                mode: [round(value, 1) for value in self.weighted_rows_per_s(mode)] for mode in MODES
            },
            "gain_over": {mode: round(self.gain_over(mode), 4) for mode in MODES if mode != ACES},
            "is_met": self.is_met,
            "states": {
                stage: {
                    "fast_ms": round(1000 * found.fast_s, 5),
                    "slow_ms": round(1000 * found.slow_s, 5),
                    "slow_share": round(found.slow_share, 3),
                    "burstiness_rows": round(found.burstiness_rows, 1),
                }
                for stage, found in self.states.items()
            },
            "rows": [each.to_dict() for each in self.figures],
        }


def stage_figures(
    mode: str, number: int, stage: str, weight: float, run: GraphRun, load_rows_per_s: float
) -> StageFigures:
    """Figures of a stage over the window of a run."""
    own = [batch for batch in run.batches if batch.stage == stage]
    window = run.window
    inside = [batch for batch in own if window.from_s <= batch.ended_s <= window.until_s]
    ages = batch_ages(own, run.load_began_s, load_rows_per_s)
    rows = sum(batch.rows for batch in inside)
    return StageFigures(
        mode=mode,
        round=number,
        stage=stage,
        weight=weight,
        rows_per_s=window.rows_per_s(stage),
        batches=len(inside),
        batch_mean_s=statistics.fmean(batch.duration_s for batch in inside) if inside else None,
        age_mean_s=sum(batch.rows * age_s for batch, age_s in zip(own, ages, strict=True) if batch in inside) / rows
        if rows
        else None,
        cores=sum(batch.core_s for batch in inside) / (window.until_s - window.from_s),
    )


def batch_ages(batches: Sequence[StageBatch], load_began_s: float, load_rows_per_s: float) -> list[float]:
    """Mean age of the rows of each batch of a stage when it was done, seconds since they were due in the input.

    Every stage passes on every row, in order, so the ``k``-th row of a stage is the ``k``-th of the input.

    Examples
    --------
    Batches of 100 rows, done after 10 and 20 seconds, of a load of ten rows a second:

    >>> from penstock.bench.fanout_runs import StageBatch
    >>> done = [StageBatch("fast", ended_s - 1.0, 1.0, 100, 0.0, 0.5) for ended_s in (10.0, 20.0)]
    >>> batch_ages(done, load_began_s=0.0, load_rows_per_s=10.0)
    [5.0, 5.0]
    """
    ages, before = [], 0
    for batch in batches:
        due_s = load_began_s + (before + batch.rows / 2) / load_rows_per_s
        ages.append(max(0.0, batch.ended_s - due_s))
        before += batch.rows
    return ages
