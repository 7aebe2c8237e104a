"""Figure 9 of the load-aware shedding paper: a stream that changes abruptly seven times, and who copes.

========= ================================================================================================
phase     what changes
========= ================================================================================================
A, C, G   as provisioned: the input rate is the capacity
B         twice the rate: 50 % under-provisioned
D         the most frequent key changes places with a rare one of the largest cost
E         the rate falls to 50 % over-provisioned
F         the rate of A, and every execution time doubles
========= ================================================================================================

What phase D changes lasts until G. All shedders start untrained: nothing is overloaded before they have learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.research.las import LasExperiment, run_algorithm
from penstock.sim.parallel import run_all
from penstock.sim.streams import Stream, StreamShape, draw_costs_s, draw_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

PHASES = "ABCDEFG"
PHASE_ROWS = 20_000
WINDOW_ROWS = 4_000
THRESHOLD_S = 0.064
FIGURE_9_ALGORITHMS = ("straw_man", "full_knowledge", "las", "economic")

_UNDERPROVISION = {"A": 0.0, "B": 0.5, "C": 0.0, "D": 0.0, "E": -0.5, "F": 0.0, "G": 0.0}
_SWAPPED = "DEF"
_DOUBLED = "F"


@dataclass(frozen=True, slots=True)
class PhaseJob:
    """One run of figure 9, as it travels to another process."""

    algorithms: tuple[str, ...]
    seed: int
    run: int
    phase_rows: int


def run_figure_9(
    *,
    runs: int = 10,
    seed: int = 1,
    algorithms: Sequence[str] = FIGURE_9_ALGORITHMS,
    phase_rows: int = PHASE_ROWS,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, float | int | str | None]]:
    """Mean wait and dropped share of each jumping window, averaged over runs."""
    jobs = [PhaseJob(tuple(algorithms), seed, run, phase_rows) for run in range(runs)]
    results = run_all(run_phase_job, jobs, processes=processes, progress=progress)
    rows: list[dict[str, float | int | str | None]] = []
    for algorithm in algorithms:
        series = np.array([result[algorithm] for result in results])
        for window, (latency_ms, dropped) in enumerate(series.mean(axis=0)):
            begin = window * WINDOW_ROWS
            rows.append({
                "figure": 9, "algorithm": algorithm, "phase": PHASES[begin // phase_rows], "x_name": "rows",
                "x": begin + WINDOW_ROWS, "latency_mean_ms": float(latency_ms), "dropped_fraction": float(dropped),
                "latency_std_ms": float(series[:, window, 0].std()), "threshold_ms": 1000.0 * THRESHOLD_S, "runs": runs,
                "seed": seed,
            })  # fmt: skip
    return rows


def run_phase_job(job: PhaseJob) -> dict[str, NDArray[np.float64]]:
    """Give each algorithm the changing stream; per window its mean wait in ms and its dropped share."""
    stream, arrivals_s, mean_cost_s = draw_phases(seed=job.seed, run=job.run, phase_rows=job.phase_rows)
    experiment = LasExperiment(underprovision=0.0, threshold_s=THRESHOLD_S, trained=False)
    series = {}
    for algorithm in job.algorithms:
        outcome = run_algorithm(algorithm, stream, arrivals_s, experiment, mean_cost_s=mean_cost_s)
        series[algorithm] = _windows(outcome.keep, outcome.waits_s)
    return series


def draw_phases(*, seed: int, run: int, phase_rows: int) -> tuple[Stream, NDArray[np.float64], float]:
    """Draw the stream of all phases, its arrival times, and the mean cost that the rates are set for."""
    shape = StreamShape(rows=phase_rows, training_rows=0)
    generator = np.random.default_rng([seed, run, 9])
    costs_s = draw_costs_s(shape, generator)
    rare = int(np.flatnonzero(costs_s == costs_s.max())[-1])
    parts = [_draw_phase(phase, shape, costs_s, rare, generator) for phase in PHASES]
    mean_cost_s = float(parts[0][1].mean())
    gaps = [np.full(phase_rows, mean_cost_s * (1.0 - _UNDERPROVISION[phase])) for phase in PHASES]
    empty = np.empty(0)
    stream = Stream(
        keys=np.concatenate([keys for keys, _ in parts]),
        costs_s=np.concatenate([costs for _, costs in parts]),
        uniforms=generator.random(phase_rows * len(PHASES)),
        training_keys=empty.astype(np.uint64),
        training_costs_s=empty,
        hash_seed=int(generator.integers(2**62)),
    )
    return stream, np.cumsum(np.concatenate(gaps)), mean_cost_s


def _draw_phase(
    phase: str, shape: StreamShape, costs_s: NDArray[np.float64], rare: int, generator: np.random.Generator
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    keys = draw_keys(shape, shape.rows, generator)
    if phase in _SWAPPED:
        keys = np.where(keys == 0, np.uint64(rare), np.where(keys == rare, np.uint64(0), keys))
    return keys, costs_s[keys] * (2.0 if phase in _DOUBLED else 1.0)


def _windows(keep: NDArray[np.bool_], waits_s: NDArray[np.float64]) -> NDArray[np.float64]:
    kept = keep.reshape(-1, WINDOW_ROWS)
    waited = np.where(kept, waits_s.reshape(-1, WINDOW_ROWS), 0.0).sum(axis=1)
    counts = kept.sum(axis=1)
    return np.column_stack([1000.0 * waited / np.maximum(counts, 1), 1.0 - counts / WINDOW_ROWS])
