"""Latency of ACES and of a rival at the same weighted throughput: ACES lets in less until both have as much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.research.aces import AcesExperiment, AcesJob, run_aces_job
from penstock.research.element_policies import Policy
from penstock.sim.paired import half_width_95
from penstock.sim.parallel import run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.research.aces import AcesMeasures, Row

_ROUNDS = 7
# Beyond this a limit is none: the plan takes nearly all that elements can do.
_MOST_OF_PLAN = 1.5
_SAME_THROUGHPUT = 0.01


@dataclass(frozen=True, slots=True)
class EqualJob:
    """One topology with one buffer, under both policies."""

    experiment: AcesExperiment
    rival: Policy
    seed: int


@dataclass(frozen=True, slots=True)
class EqualMeasures:
    """Both policies at the throughput of the rival, or ACES without a limit where it has no more than that."""

    aces: AcesMeasures
    rival: AcesMeasures

    @property
    def latency_ratio(self) -> float:
        """Mean latency of ACES over the rival's."""
        return self.aces.latency_mean_s / self.rival.latency_mean_s


def run_equal_job(job: EqualJob) -> EqualMeasures:
    """Limit the ingress of ACES, by bisection, to the least with which its throughput is still the rival's.

    Every stream is limited to the same part of what tier one planned to take of it. The same buffer for both: a smaller
    one for ACES would flatter it.
    """
    both = run_aces_job(AcesJob(job.experiment, (Policy.ACES, job.rival), job.seed))
    rival, found = both[job.rival], both[Policy.ACES]
    wanted_rows_per_s = rival.weighted_rows_per_s
    too_little, enough = 0.0, _MOST_OF_PLAN
    for _ in range(_ROUNDS):
        if found.weighted_rows_per_s <= (1.0 + _SAME_THROUGHPUT) * wanted_rows_per_s:
            break
        part = (too_little + enough) / 2
        limited = replace(job.experiment, ingress_of_plan=part)
        tried = run_aces_job(AcesJob(limited, (Policy.ACES,), job.seed))[Policy.ACES]
        if tried.weighted_rows_per_s >= wanted_rows_per_s:
            found, enough = tried, part
        else:
            too_little = part
    return EqualMeasures(found, rival)


def run_equal_throughput(
    points: Sequence[AcesExperiment],
    *,
    topologies: int,
    seed: int = 1,
    rival: Policy = Policy.LOCK_STEP,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """One row for each point: throughput of both, latencies, and the ratio of latencies, paired over topologies."""
    jobs = [EqualJob(point, rival, seed + number) for point in points for number in range(topologies)]
    results = run_all(run_equal_job, jobs, processes=processes, progress=progress)
    rows: list[Row] = []
    for place, point in enumerate(points):
        own = results[place * topologies : (place + 1) * topologies]
        ratios = [each.latency_ratio for each in own]
        rows.append(
            {
                "clock": point.clock.value,
                "elements": point.shape.elements,
                "nodes": point.shape.engines,
                "buffer_rows": point.buffer_rows,
                "rival": rival.value,
                "rival_weighted_rows_per_s": float(np.mean([each.rival.weighted_rows_per_s for each in own])),
                "aces_weighted_rows_per_s": float(np.mean([each.aces.weighted_rows_per_s for each in own])),
                "rival_latency_ms": 1000.0 * float(np.mean([each.rival.latency_mean_s for each in own])),
                "aces_latency_ms": 1000.0 * float(np.mean([each.aces.latency_mean_s for each in own])),
                "latency_ratio": float(np.mean(ratios)),
                "latency_ratio_half_width_95": half_width_95(ratios),
                "topologies": topologies,
            }
        )
    return rows
