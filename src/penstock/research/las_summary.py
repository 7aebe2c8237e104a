"""What is measured of one run, and what is told of many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from penstock.sim.streams import Stream

TWO_SIDED_95 = 1.96


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one algorithm did to one stream. Probabilities are known only where rows were dropped by lot."""

    keep: NDArray[np.bool_]
    waits_s: NDArray[np.float64]
    probability: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Measures:
    """One algorithm on one stream.

    Parameters
    ----------
    latency_ms, completion_ms
        Mean wait of the kept rows, and mean wait plus execution.
    dropped_fraction
        Share of the rows that went.
    cpu_fraction
        Share of the execution time that was spent.
    count_error, count_standard_error
        Error of the weighted count of all rows as a share of them, and the one that the probabilities promise.
    uniform_count_error, uniform_count_standard_error
        The same for uniform dropping that spends as much execution time, drawn from the same numbers.
    """

    latency_ms: float
    completion_ms: float
    dropped_fraction: float
    cpu_fraction: float
    count_error: float
    count_standard_error: float
    uniform_count_error: float
    uniform_count_standard_error: float


def measure(outcome: Outcome, stream: Stream) -> Measures:
    """Measure one run."""
    keep, rows = outcome.keep, outcome.keep.size
    kept = int(keep.sum())
    cpu = float(stream.costs_s[keep].sum() / stream.costs_s.sum())
    count_error = count_standard_error = uniform_error = uniform_standard_error = math.nan
    if outcome.probability is not None and kept:
        probability = outcome.probability
        count_error = float((1.0 / probability[keep]).sum()) / rows - 1.0
        count_standard_error = math.sqrt(float(((1.0 - probability) / probability).sum())) / rows
        uniform_error = float((stream.uniforms < cpu).sum()) / cpu / rows - 1.0
        uniform_standard_error = math.sqrt((1.0 / cpu - 1.0) / rows)
    wait_ms = 1000.0 * float(outcome.waits_s[keep].mean()) if kept else 0.0
    return Measures(
        latency_ms=wait_ms,
        completion_ms=wait_ms + (1000.0 * float(stream.costs_s[keep].mean()) if kept else 0.0),
        dropped_fraction=1.0 - kept / rows,
        cpu_fraction=cpu,
        count_error=count_error,
        count_standard_error=count_standard_error,
        uniform_count_error=uniform_error,
        uniform_count_standard_error=uniform_standard_error,
    )


def summarise(results: Sequence[dict[str, Measures]]) -> list[dict[str, float | int | str | None]]:
    """Mean, spread and extremes over runs, one row an algorithm; None where a figure does not exist."""
    rows = []
    for algorithm in results[0]:
        runs = [result[algorithm] for result in results]
        latency = np.array([run.latency_ms for run in runs])
        dropped = np.array([run.dropped_fraction for run in runs])
        row: dict[str, float | int | str | None] = {"algorithm": algorithm}
        row |= {f"latency_{name}_ms": value for name, value in _spread(latency).items()}
        row |= {"dropped_fraction": float(dropped.mean())}
        row |= {f"dropped_{name}": value for name, value in _spread(dropped).items() if name != "mean"}
        row |= {"shedding_ratio": _shedding_ratio(results, algorithm)}
        row |= {"completion_mean_ms": float(np.mean([run.completion_ms for run in runs]))}
        row |= {"cpu_fraction": float(np.mean([run.cpu_fraction for run in runs]))}
        for name in ("count_error", "count_standard_error", "uniform_count_error", "uniform_count_standard_error"):
            row[f"{name}_rms"] = _root_mean_square([getattr(run, name) for run in runs])
        rows.append(row)
    return rows


def _spread(values: NDArray[np.float64]) -> dict[str, float]:
    deviation = float(values.std(ddof=1)) if values.size > 1 else 0.0
    half_width = TWO_SIDED_95 * deviation / math.sqrt(values.size)
    return {
        "mean": float(values.mean()),
        "std": deviation,
        "half_width_95": half_width,
        "min": float(values.min()),
        "max": float(values.max()),
    }


def _shedding_ratio(results: Sequence[dict[str, Measures]], algorithm: str) -> float | None:
    """The paper's lambda: drops beyond Base Line's as a share of Base Line's, averaged over the runs."""
    pairs = [
        (result[algorithm].dropped_fraction, result["base_line"].dropped_fraction)
        for result in results
        if "base_line" in result and result["base_line"].dropped_fraction > 0
    ]
    return float(np.mean([(own - base) / base for own, base in pairs])) if pairs else None


def _root_mean_square(values: list[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return math.sqrt(sum(value * value for value in known) / len(known)) if known else None
