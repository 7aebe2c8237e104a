"""The fast tier in virtual time: steps of load on machines of any overhead, scatter and disturbance.

Each run is the loop that governs live queries, on the simulated engine, beside the same query without it, and beside
the same law told what batches cost at every moment (:mod:`~penstock.bench.known_costs`). *What fits* is what somebody
who knows costs, speed and load of every second could keep in batches as long as the scatter allows. The time that
accidents take fits nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.bench.known_costs import InformedLoop
from penstock.control.batch_length import longest_in_time_s
from penstock.estimate.batch_costs import BatchCosts
from penstock.model import Application, Goal, QueryName
from penstock.sim.simulated_query import ACCIDENT
from penstock.testing import SimulatedEngine, SimulatedQuery, simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.sim.simulated_query import BatchOutcome, QueryRun

GOAL_S = 5.0
LATE_RATIO = 0.02
_COST_S, _READ_PART, _FLOOR = 13e-6, 0.03, 0.01
_LEAST_WORK_S = 1e-12
_STEP_S, _END_S = 40.0, 160.0
_TICK_S = 0.01
SAME_OF_PLAIN = 0.98
"""Two runs that do the same differ by two hundredths at the most: what batches at their ends count."""
_NAME = "query"
_SLOWER = 1.7
"""What a neighbour that takes one of two cores costs: less than half of the speed, for tasks are not all of a batch."""
_DRIFT = 0.6
_ACCIDENTS = 0.03
"""Part of the batches that take three times as long: a garbage collection, a slow commit."""
STEP_OVERHEADS_S, STEP_NOISES, STEP_LOADS = (0.2, 0.5, 1.0, 1.3), (0.05, 0.12, 0.3), (1.5, 3.0, 5.0)

Speed = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class LoopCase:
    """One closed loop: the load is in multiples of what fits into batches of half the goal.

    ``disturbance`` is none, drift (rows become 1.6 times as expensive within a minute), spells (a neighbour takes a
    core for 5 to 15 s, again and again) or accidents (three batches of a hundred take three times as long).
    ``read_part`` is what reading is of a row's cost: so much of it no guard can save.
    """

    overhead_s: float
    noise: float
    load: float
    disturbance: str = "none"
    seed: int = 0
    calm_load: float = 0.4
    read_part: float = _READ_PART


@dataclass(frozen=True, slots=True)
class LoopResult:
    """What became of the rows of one closed loop, after the step; ``known_*`` if costs need not be learned."""

    case: LoopCase
    late_ratio: float
    kept_of_fitting_ratio: float
    kept_ratio: float
    useful_rows_per_s: float
    plain_useful_rows_per_s: float
    p95_s: float
    known_late_ratio: float
    known_kept_of_fitting_ratio: float
    known_useful_rows_per_s: float
    known_p95_s: float

    @property
    def of_plain(self) -> float:
        """Rows out in time each second, over those of the same query alone; without bound where that has none."""
        return self._of_plain(self.useful_rows_per_s)

    @property
    def known_of_plain(self) -> float:
        """The same, if costs need not be learned."""
        return self._of_plain(self.known_useful_rows_per_s)

    def _of_plain(self, useful_rows_per_s: float) -> float:
        plain = self.plain_useful_rows_per_s
        return useful_rows_per_s / plain if plain > 0 else float("inf")


def step_cases(seeds: int) -> list[LoopCase]:
    """Steps of load on engines of any overhead, scatter and disturbance."""
    grid = itertools.product(
        STEP_OVERHEADS_S, STEP_NOISES, STEP_LOADS, ("none", "drift", "spells", "accidents"), range(seeds)
    )
    return [LoopCase(overhead, noise, load, kind, seed) for overhead, noise, load, kind, seed in grid]


def constant_cases(seeds: int) -> list[LoopCase]:
    """Constant loads from half of what fits to three times that, with overheads of up to half of the goal."""
    grid = itertools.product((0.2, 0.7, 1.3, 1.8, 2.2, 2.5), (0.05, 0.15), (0.5, 0.8, 1.0, 1.5, 3.0), range(seeds))
    return [LoopCase(overhead, noise, load, seed=seed, calm_load=load) for overhead, noise, load, seed in grid]


def reading_cases(seeds: int) -> list[LoopCase]:
    """Steps of load on queries whose rows cost little beside reading them, so that dropping them saves little."""
    grid = itertools.product((0.5, 1.0, 1.5, 2.0), (0.8, 0.9, 1.0), (0.7, 1.5, 3.0), range(seeds))
    return [
        LoopCase(overhead, 0.1, load, seed=seed, calm_load=0.3, read_part=read) for overhead, read, load, seed in grid
    ]


def run_loop(case: LoopCase) -> LoopResult:
    """Run one case, governed and alone."""
    query, rate, speed = _simulated(case)
    governed, plain, known = _governed(query), _plain(query), _known(query, case, rate, speed)
    kept, late, p95_s = _after_step(governed)
    plain_kept, plain_late, _ = _after_step(plain)
    known_kept, known_late, known_p95_s = _after_step(known)
    span_s = _END_S - _STEP_S
    fitting = _fitting_rows_per_s(case, rate, speed)
    return LoopResult(
        case,
        late_ratio=late / max(1.0, kept),
        kept_of_fitting_ratio=kept / span_s / fitting,
        kept_ratio=governed.kept_ratio_since(_STEP_S),
        useful_rows_per_s=(kept - late) / span_s,
        plain_useful_rows_per_s=(plain_kept - plain_late) / span_s,
        p95_s=p95_s,
        known_late_ratio=known_late / max(1.0, known_kept),
        known_kept_of_fitting_ratio=known_kept / span_s / fitting,
        known_useful_rows_per_s=(known_kept - known_late) / span_s,
        known_p95_s=known_p95_s,
    )


def run_unforeseeing(case: LoopCase, length_part: float) -> tuple[float, float]:
    """Late part of the kept rows, and kept of what fits, if costs are known but nothing of what is to come.

    ``length_part`` is how long batches are, in parts of what is in time on a machine of one speed.
    """
    query, rate, speed = _simulated(case)
    run = _known(query, case, rate, speed, sees_ahead=False, length_part=length_part)
    kept, late, _ = _after_step(run)
    return late / max(1.0, kept), kept / (_END_S - _STEP_S) / _fitting_rows_per_s(case, rate, speed)


def _simulated(case: LoopCase) -> tuple[SimulatedQuery, Speed, Speed]:
    """The query of a case, the rows that arrive each second at a moment, and how dear rows are at it."""
    capacity, speed = _capacity_rows_per_s(case.overhead_s), _speed(case)

    def rate(now_s: float) -> float:
        return (case.calm_load if now_s < _STEP_S else case.load) * capacity

    query = SimulatedQuery(
        rate, overhead_s=case.overhead_s, cost_per_row_s=lambda now_s: _COST_S * speed(now_s), read_part=case.read_part,
        noise=case.noise, seed=case.seed, backlog_rows=2 * capacity, has_guard=True, warm_up=3.0,
        accident_ratio=_ACCIDENTS if case.disturbance == "accidents" else 0.0,
    )  # fmt: skip
    return query, rate, speed


def run_loops(cases: Sequence[LoopCase], *, processes: int) -> list[LoopResult]:
    """Run many, on several processes; the results are in the order of the cases."""
    if processes == 1:
        return [run_loop(case) for case in cases]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(run_loop, cases, chunksize=8))


def summed_up(results: Iterable[LoopResult], keys: Sequence[str]) -> list[dict[str, object]]:
    """A row for each combination of some fields of the cases."""
    groups: dict[tuple[object, ...], list[LoopResult]] = {}
    for result in results:
        fields = asdict(result.case)
        groups.setdefault(tuple(fields[key] for key in keys), []).append(result)
    return [dict(zip(keys, group, strict=True)) | _figures(found) for group, found in groups.items()]


def _figures(found: Sequence[LoopResult]) -> dict[str, object]:
    late = [result.late_ratio for result in found]
    kept = [result.kept_of_fitting_ratio for result in found]
    return {
        "runs": len(found),
        "late_ratio_mean": float(np.mean(late)),
        "late_ratio_max": float(np.max(late)),
        "kept_of_fitting_ratio_mean": float(np.mean(kept)),
        "kept_of_fitting_ratio_min": float(np.min(kept)),
        "kept_ratio_mean": float(np.mean([result.kept_ratio for result in found])),
        "useful_of_plain_ratio_mean": _useful_of_plain(found),
        "useful_of_plain_ratio_min": float(min(result.of_plain for result in found)),
        "runs_below_plain": sum(result.of_plain < SAME_OF_PLAIN for result in found),
        "runs_within_goal": sum(result.p95_s <= GOAL_S for result in found),
        "latency_p95_s_mean": float(np.mean([result.p95_s for result in found])),
        "latency_p95_s_max": float(np.max([result.p95_s for result in found])),
        "known_late_ratio_mean": float(np.mean([result.known_late_ratio for result in found])),
        "known_kept_of_fitting_ratio_mean": float(np.mean([result.known_kept_of_fitting_ratio for result in found])),
        "known_useful_of_plain_ratio_min": float(min(result.known_of_plain for result in found)),
        "known_runs_below_plain": sum(result.known_of_plain < SAME_OF_PLAIN for result in found),
        "known_runs_within_goal": sum(result.known_p95_s <= GOAL_S for result in found),
    }


def _useful_of_plain(found: Sequence[LoopResult]) -> float:
    """Of all runs together: where few rows are in time a ratio of single runs says little."""
    plain = sum(result.plain_useful_rows_per_s for result in found)
    return sum(result.useful_rows_per_s for result in found) / plain if plain > 0 else float("inf")


def _capacity_rows_per_s(overhead_s: float) -> float:
    """Rows that fit into batches of half the goal; a tenth of what cores could do where overhead fills them."""
    return max(1.0 - overhead_s / (GOAL_S / 2), 0.1) / _COST_S


def _governed(query: SimulatedQuery) -> QueryRun:
    goals = {_NAME: Goal(latency=GOAL_S, minimum_accuracy=_FLOOR)}
    return _run(simulate(Application.of_goals(goals), {_NAME: query}, tick_s=_TICK_S).engine)


def _plain(query: SimulatedQuery) -> QueryRun:
    return _run(simulate(Application.of_goals({}), {_NAME: query}, tick_s=_TICK_S).engine)


def _known(
    query: SimulatedQuery,
    case: LoopCase,
    rate: Speed,
    speed: Speed,
    *,
    sees_ahead: bool = True,
    length_part: float = 1.0,
) -> QueryRun:
    """By the same law, told what batches cost on average at every moment."""

    def costs(now_s: float) -> BatchCosts:
        mean, row_s = _mean_factor(case), _COST_S * speed(now_s)
        work_s = max((1.0 - case.read_part) * row_s, _LEAST_WORK_S)
        return BatchCosts(mean * case.overhead_s, mean * case.read_part * row_s, mean * work_s)

    goal = Goal(latency=GOAL_S, minimum_accuracy=_FLOOR)
    engine = SimulatedEngine({_NAME: query}, tick_s=_TICK_S)
    loop = InformedLoop(
        engine, costs, rate, goal, late_ratio=LATE_RATIO, noise=case.noise,
        sees_ahead=sees_ahead, length_part=length_part,
    )  # fmt: skip
    engine.connect(loop, {})
    return _run(engine)


def _run(engine: SimulatedEngine) -> QueryRun:
    """Run it to the end, and on until the batch that runs then is done.

    From the step on scatter is drawn anew: a cold start has more batches with Penstock than without, and its luck would
    be another for all that follows. So two runs that do the same have the same.
    """
    found = engine.queries[QueryName(_NAME)]
    found.latency_s = GOAL_S
    engine.run_until(_STEP_S)
    found.draw_anew()
    engine.run_until(_END_S)
    while not found.batches or found.batches[-1].signal.finished_s < _END_S:
        engine.run_batches(_NAME, 1)
    return found


def _after_step(run: QueryRun) -> tuple[float, float, float]:
    """Rows kept between step and end, late ones of them, and the age of 95 % of them.

    Of a batch that runs at either moment its part counts: a whole one more or less is worth three hundredths.
    """
    parts = [(batch, _part_between(batch, _STEP_S, _END_S)) for batch in run.batches]
    kept = sum(part * batch.kept_rows for batch, part in parts)
    late = sum(part * batch.late_kept_rows for batch, part in parts)
    ages, rows = run.ages(_STEP_S)
    if not ages.size:
        return kept, late, float("nan")
    order = np.argsort(ages)
    below = np.cumsum(rows[order])
    return kept, late, float(ages[order][np.searchsorted(below, 0.95 * below[-1])])


def _part_between(batch: BatchOutcome, begin_s: float, end_s: float) -> float:
    """Part of its time that a batch ran between two moments."""
    signal = batch.signal
    overlap_s = min(end_s, signal.finished_s) - max(begin_s, signal.started_s)
    return max(0.0, overlap_s) / signal.duration_s


def _speed(case: LoopCase) -> Speed:
    """How many times as much rows cost at a moment."""
    if case.disturbance == "drift":
        return lambda now_s: 1.0 + _DRIFT * min(1.0, max(0.0, now_s - _STEP_S) / 60.0)
    if case.disturbance != "spells":
        return lambda _: 1.0
    rng = np.random.default_rng(case.seed)
    edges = np.cumsum(rng.uniform(5.0, 15.0, size=64)) + _STEP_S / 2
    return lambda now_s: _SLOWER if np.searchsorted(edges, now_s) % 2 else 1.0


def _fitting_rows_per_s(case: LoopCase, rate: Speed, speed: Speed) -> float:
    length_s = longest_in_time_s(GOAL_S, 0.0, case.noise, late_ratio=LATE_RATIO)
    mean, accidents = _mean_factor(case), 1.0
    if case.disturbance == "accidents":
        accidents += _ACCIDENTS * (ACCIDENT - 1.0)
    kept = []
    for now_s in np.arange(_STEP_S, _END_S):
        arrivals, row_s = rate(now_s), mean * _COST_S * speed(now_s)
        left = 1.0 - mean * case.overhead_s / length_s - accidents * case.read_part * row_s * arrivals
        room = left / max((1.0 - case.read_part) * row_s, _LEAST_WORK_S) / accidents
        kept.append(min(arrivals, max(_FLOOR * arrivals, room)))
    return float(np.mean(kept))


def _mean_factor(case: LoopCase) -> float:
    """Mean of the log-normal factor that batches are multiplied by."""
    return float(np.exp(case.noise**2 / 2))
