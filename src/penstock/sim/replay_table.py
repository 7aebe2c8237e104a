"""Tables over many replayed traces: who violated how often, what it cost, and where the proactive policy loses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.sim.parallel import run_all
from penstock.sim.rate_traces import RateTrace, as_recorded, scaled_to
from penstock.sim.replay import POLICIES, YARDSTICKS, ReplaySettings, Row, Run, needed_sizes, replay, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from penstock.sim.calibration import Calibration

OURS = "proactive"


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """One trace and everything that its replay depends on."""

    trace: RateTrace
    calibration: Calibration
    settings: ReplaySettings
    policies: tuple[str, ...] = POLICIES
    keep_runs: bool = False


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Table of one trace; the runs themselves where they were to be kept, for charts."""

    name: str
    rows: list[Row]
    runs: dict[str, Run]


def replay_one(job: ReplayJob) -> ReplayResult:
    """Replay one trace with every policy."""
    rates, settings = _load(job)
    runs = replay(rates, job.calibration, settings, policies=job.policies)
    wanted = {policy: run for policy, run in runs.items() if policy in job.policies}
    rows = [row for row in summarise(runs, job.calibration, settings) if row["policy"] in wanted]
    rows = [{"trace": job.trace.name, "hours": round(job.trace.hours, 2), **row} for row in rows]
    return ReplayResult(job.trace.name, rows, wanted if job.keep_runs else {})


def _load(job: ReplayJob) -> tuple[NDArray[np.float64], ReplaySettings]:
    """The rows of every second, and the settings with the executors that their peak needs."""
    settings = job.settings
    if settings.as_recorded:
        rates = as_recorded(job.trace, seed=settings.seed).rates
        peak = int(needed_sizes(rates, job.calibration, settings).max())
        return rates, replace(settings, peak_executors=peak)
    window_s, peak = settings.interval_s, settings.peak_executors
    scaled = scaled_to(job.trace, job.calibration, peak_executors=peak, window_s=window_s, seed=settings.seed)
    return scaled.rates, settings


def replay_all(
    jobs: Sequence[ReplayJob], *, processes: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[ReplayResult]:
    """Replay all traces, the longest first so that no process is left with it at the end; results as the jobs came."""
    order = sorted(range(len(jobs)), key=lambda place: -jobs[place].trace.rates.size)
    found = run_all(replay_one, [jobs[place] for place in order], processes=processes, progress=progress)
    by_place = dict(zip(order, found, strict=True))
    return [by_place[place] for place in range(len(jobs))]


def by_policy(rows: Sequence[Row]) -> list[Row]:
    """One row a policy over all traces."""
    table: list[Row] = []
    for policy in dict.fromkeys(str(row["policy"]) for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        ratios = [float(row["of_clairvoyant"] or 0.0) for row in own]
        table.append(
            {
                "policy": policy,
                "traces": len(own),
                "violations": sum(int(row["violations"] or 0) for row in own),
                "traces_without_violation": sum(row["violations"] == 0 for row in own),
                "of_clairvoyant_median": float(np.median(ratios)),
                "of_clairvoyant_max": max(ratios),
                "executor_hours": sum(float(row["executor_hours"] or 0.0) for row in own),
                "rescales": sum(int(row["rescales"] or 0) for row in own),
            }
        )
    return table


def losses(rows: Sequence[Row]) -> list[Row]:
    """Traces on which some other policy, yardsticks aside, had fewer violations than the proactive one."""
    found: list[Row] = []
    for trace in dict.fromkeys(row["trace"] for row in rows):
        of_trace = {str(row["policy"]): row for row in rows if row["trace"] == trace}
        others = [row for policy, row in of_trace.items() if policy not in YARDSTICKS | {OURS}]
        if OURS not in of_trace or not others:
            continue
        own = of_trace[OURS]
        best = min(others, key=lambda row: (int(row["violations"] or 0), float(row["of_clairvoyant"] or 0.0)))
        if int(best["violations"] or 0) < int(own["violations"] or 0):
            found.append(
                {
                    "trace": trace,
                    "violations": own["violations"],
                    "of_clairvoyant": own["of_clairvoyant"],
                    "better": best["policy"],
                    "better_violations": best["violations"],
                    "better_of_clairvoyant": best["of_clairvoyant"],
                }
            )
    return found
