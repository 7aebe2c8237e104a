"""What the runs of the fan-out benchmark amount to: weighted rows that were young enough, and how old they were."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.estimate.bisection import largest_that_holds
from penstock.sim.paired import half_width_95

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.bench.fanout_runs import GraphRun
    from penstock.sim.two_states import TwoStates

PLAIN, STATIC, MIN_FLOW, ACES = "plain", "static_limit", "min_flow", "aces"
MODES = (PLAIN, STATIC, MIN_FLOW, ACES)
RIVALS = tuple(mode for mode in MODES if mode != ACES)
_MOST_TIMES = 1e6
TIMES = 1.5
"""So many times the rows of each rival ACES is to have."""


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One stage in one run; ages and lengths are of the batches that were done in its window, None without any.

    ``young_rows_per_s`` were out within the goal; ``rows_per_s`` is what tasks have read. The window began
    ``counted_after_s`` after the load, and ``load_average`` is the machine's when it ended.
    """

    mode: str
    round: int
    stage: str
    weight: float
    rows_per_s: float
    young_rows_per_s: float
    batches: int
    batch_mean_s: float | None
    oldest_age_s: float | None
    cores: float
    counted_after_s: float = 0.0
    load_average: float | None = None

    def to_dict(self) -> dict[str, object]:
        """As one row of a table, units in the keys."""
        return {
            "mode": self.mode,
            "round": self.round,
            "stage": self.stage,
            "weight": self.weight,
            "rows_per_s": round(self.rows_per_s, 1),
            "young_rows_per_s": round(self.young_rows_per_s, 1),
            "batches": self.batches,
            "batch_mean_s": None if self.batch_mean_s is None else round(self.batch_mean_s, 2),
            "oldest_age_s": None if self.oldest_age_s is None else round(self.oldest_age_s, 1),
            "cores": round(self.cores, 2),
            "counted_after_s": round(self.counted_after_s, 1),
            "load_average": None if self.load_average is None else round(self.load_average, 1),
        }


@dataclass(frozen=True, slots=True)
class Fanout:
    """All runs of all modes; ``static_rows`` is the best limit of Spark's own that was found, of every query.

    Rows of every run, those of the search for that limit included, count for ``seconds`` from ``settle_s`` after its
    last query has started.
    """

    shape: str
    goal_s: float
    capacity_rows_per_s: float
    load_rows_per_s: float
    static_rows: int
    figures: tuple[StageFigures, ...]
    states: Mapping[str, TwoStates] = field(default_factory=dict)
    settle_s: float = 0.0
    seconds: float = 0.0

    def young_weighted_rows_per_s(self, mode: str) -> list[float]:
        """Weighted rows a second that were out within the goal, of a mode in each round."""
        rounds = sorted({each.round for each in self.figures})
        return [
            sum(
                each.weight * each.young_rows_per_s
                for each in self.figures
                if each.mode == mode and each.round == number
            )
            for number in rounds
        ]

    def times(self, rival: str) -> float:
        """Rows of ACES over those of a rival, of the means over rounds."""
        theirs = statistics.fmean(self.young_weighted_rows_per_s(rival))
        return statistics.fmean(self.young_weighted_rows_per_s(ACES)) / theirs if theirs > 0 else float("inf")

    def margin(self, rival: str, times: float) -> tuple[float, float | None]:
        """What ACES has beyond so many times a rival, paired over rounds, with half of its 95 % interval.

        A difference, not a ratio: a rival whose rows are all too old has none.
        """
        pairs = zip(self.young_weighted_rows_per_s(ACES), self.young_weighted_rows_per_s(rival), strict=True)
        margins = [own - times * other for own, other in pairs]
        return statistics.fmean(margins), half_width_95(margins)

    def times_95(self, rival: str) -> tuple[float, float]:
        """The 95 % interval of :meth:`times`, paired over rounds (Fieller): all multiples that could be true.

        From zero where even that could be, and without an upper end where the rival may have nothing. One round says
        nothing.
        """

        def is_surely_more(times: float) -> bool:
            more, half_width = self.margin(rival, times)
            return half_width is not None and more > half_width

        def is_perhaps_more(times: float) -> bool:
            more, half_width = self.margin(rival, times)
            return half_width is None or more >= -half_width

        return _last_that_holds(is_surely_more), _last_that_holds(is_perhaps_more)

    def oldest_ages_s(self, mode: str) -> dict[str, list[float | None]]:
        """Age of the oldest row that was out in its window, of each result in each round; None where none was out."""
        own = [each for each in self.figures if each.mode == mode and each.weight > 0]
        return {
            stage: [each.oldest_age_s for each in sorted(own, key=lambda each: each.round) if each.stage == stage]
            for stage in dict.fromkeys(each.stage for each in own)
        }

    @property
    def is_young(self) -> bool:
        """Whether no batch of a result of ACES had a row older than the goal."""
        ages = [each.oldest_age_s for each in self.figures if each.mode == ACES and each.weight > 0]
        return all(age is not None and age <= self.goal_s for age in ages)

    @property
    def is_met(self) -> bool:
        """Whether ACES has enough times each rival's rows, surely more than the rival has, and young ones."""
        return self.is_young and all(self.times(rival) >= TIMES and self.times_95(rival)[0] > 1.0 for rival in RIVALS)

    def to_dict(self) -> dict[str, object]:
        """As one JSON object."""
        margins = {rival: self.margin(rival, 1.0) for rival in RIVALS}
        return {
            "bench": "fanout",
            "shape": self.shape,
            "goal_s": self.goal_s,
            "settle_s": self.settle_s,
            "seconds": self.seconds,
            "capacity_rows_per_s": round(self.capacity_rows_per_s, 1),
            "load_rows_per_s": round(self.load_rows_per_s, 1),
            "static_rows": self.static_rows,
            "young_weighted_rows_per_s": {
                mode: [round(value, 1) for value in self.young_weighted_rows_per_s(mode)] for mode in MODES
            },
            "times": {rival: _finite(self.times(rival)) for rival in RIVALS},
            "times_95": {rival: [_finite(end) for end in self.times_95(rival)] for rival in RIVALS},
            "more_rows_per_s": {rival: round(more, 1) for rival, (more, _) in margins.items()},
            "more_half_width_95_rows_per_s": {
                rival: None if half is None else round(half, 1) for rival, (_, half) in margins.items()
            },
            "oldest_age_s": {
                mode: {
                    stage: [None if age is None else round(age, 1) for age in ages]
                    for stage, ages in self.oldest_ages_s(mode).items()
                }
                for mode in MODES
            },
            "is_young": self.is_young,
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


def _last_that_holds(holds: Callable[[float], bool]) -> float:
    """The multiple up to which something holds; zero where it holds for none, without bound where for all."""
    if not holds(0.0):
        return 0.0
    high = 1.0
    while holds(high):
        if high >= _MOST_TIMES:
            return math.inf
        high *= 2.0
    return largest_that_holds(holds, 0.0, high)


def _finite(value: float) -> float | None:
    """A number as JSON knows it; None for one without bound."""
    return round(value, 3) if math.isfinite(value) else None


def stage_figures(mode: str, number: int, stage: str, weight: float, run: GraphRun, goal_s: float) -> StageFigures:
    """Figures of a stage over the window of a run; a row is out when its batch is done."""
    window = run.window
    inside = [
        batch for batch in run.batches if batch.stage == stage and window.from_s <= batch.ended_s <= window.until_s
    ]
    seconds = window.until_s - window.from_s
    ages = [batch.oldest_age_s for batch in inside if batch.oldest_age_s is not None]
    return StageFigures(
        mode=mode,
        round=number,
        stage=stage,
        weight=weight,
        rows_per_s=window.rows_per_s(stage),
        young_rows_per_s=sum(batch.young_rows(goal_s) for batch in inside) / seconds,
        batches=len(inside),
        batch_mean_s=statistics.fmean(batch.duration_s for batch in inside) if inside else None,
        oldest_age_s=max(ages, default=None),
        cores=sum(batch.core_s for batch in inside) / seconds,
        counted_after_s=window.from_s - run.load_began_s,
        load_average=run.load_average,
    )
