"""What the scenarios of "Stream-Economics" show, in rows: phases, backlog after changes, estimates, a rising rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.research.qod import AS_IN_THE_PAPER, Scenario, assessment_2, phases, scenario_3

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.sim.fleet import FleetRun, QuerySecond

    Row = dict[str, float | int | str | bool | None]

SETTLED_AFTER_S, MOST_WAITING_S = 30.0, 1.0
"""A backlog is to be back under one second of input within half a minute of a change of rate."""
SINKS = ("TDSnk1-0", "TDSnk1-1", "TDSnk2", "KNNSrc1", "KNNSrc1-0", "KNNSrc1-1")
_STEADY_AFTER_S, _KNOWN_AFTER_S = 30.0, 20.0


def seconds(run: FleetRun, query: str, begin_s: float, end_s: float) -> list[QuerySecond]:
    """What a query did within a span, where it was there."""
    rows = zip(run.time_s, run.queries[query], strict=True)
    return [second for time_s, second in rows if second is not None and begin_s < time_s <= end_s]


def phase_rows(scenario: Scenario, run: FleetRun) -> list[Row]:
    """Of each phase: rates, throughput, accuracies of the sinks once it has settled, and who moved."""
    rows: list[Row] = []
    for begin_s, end_s in phases(scenario):
        steady_s = min(begin_s + _STEADY_AFTER_S, (begin_s + end_s) / 2)
        moved = [f"{move.query} {move.leaves}-{move.engine}" for at_s, move in run.moves if begin_s <= at_s < end_s]
        row: Row = {"from_s": begin_s, "to_s": end_s}
        row["offered_rows_per_s"] = sum(rate(begin_s) for rate in scenario.script.rates.values())
        there = [name for name in SINKS if name in run.queries and seconds(run, name, steady_s, end_s)]
        row["kept_rows_per_s"] = sum(mean_of(run, name, "kept_rows", steady_s, end_s) for name in there)
        row |= {
            name: round(mean_of(run, name, "accuracy", steady_s, end_s), 3) for name in SINKS if name in run.queries
        }
        row["moves"] = ", ".join(moved) or None
        rows.append(row)
    return rows


def backlog_rows(scenario: Scenario, run: FleetRun) -> list[Row]:
    """Of each change: the longest backlog of any query, and how long until all were under a second of input again."""
    ends = [*scenario.changes_s[1:], scenario.until_s]
    rows: list[Row] = []
    for change_s, end_s in zip(scenario.changes_s, ends, strict=True):
        waiting = np.zeros(0)
        for query in run.queries:
            found = np.array([second.backlog_s for second in seconds(run, query, change_s, end_s)])
            waiting = np.maximum(waiting, found) if waiting.size == found.size else found
        over = np.flatnonzero(waiting > MOST_WAITING_S)
        moved = [at_s for at_s, _ in run.moves if change_s <= at_s < end_s]
        rows.append(
            {
                "change_s": change_s,
                "largest_backlog_s": round(float(waiting.max(initial=0.0)), 2),
                "back_after_s": float(over[-1] + 1) if over.size else 0.0,
                "moves": len(moved),
                "last_move_after_s": moved[-1] - change_s if moved else None,
            }
        )
    return rows


def estimate_errors(scenario: Scenario, run: FleetRun) -> NDArray[np.float64]:
    """Error of the estimated rate of the topic of scenario 3, as a part of the rate, for every second from 20 s on."""
    (rate,) = scenario.script.rates.values()
    found = []
    for position, time_s in enumerate(run.time_s):
        rows = [seconds[position] for seconds in run.queries.values()]
        if time_s >= _KNOWN_AFTER_S and all(row is not None for row in rows):
            estimated = sum(row.estimated_rows_per_s for row in rows if row is not None)
            found.append(estimated / rate(time_s - 1) - 1)
    return np.array(found)


def compare_backlogs(*, seed: int = 1) -> list[Row]:
    """Scenario 3 as the paper has it and as it is here: what waits after each change of rate."""
    scenario = scenario_3()
    rows: list[Row] = []
    for name, settings in (("as in the paper", AS_IN_THE_PAPER), ("here", None)):
        run = scenario.run(settings, seed=seed)
        rows += [{"control": name, **row} for row in backlog_rows(scenario, run)]
    return rows


def assess_rising_rate(*, seed: int = 1) -> tuple[FleetRun, FleetRun, list[Row]]:
    """Assessment 2: lag, throughput and latency as the rate rises, with the fleet's logic and without."""
    scenario = assessment_2()
    governed, alone = scenario.run(seed=seed), scenario.run_alone(seed=seed)
    rows: list[Row] = []
    for begin_s, end_s in phases(scenario):
        row: Row = {"offered_rows_per_s": sum(rate(begin_s) for rate in scenario.script.rates.values())}
        for name, run in (("with", governed), ("without", alone)):
            span = (begin_s + _STEADY_AFTER_S, end_s)
            lag = sum(mean_of(run, query, "backlog_rows", *span) for query in run.queries)
            read = mean_of(run, "TDSnk2", "kept_rows", *span) / max(mean_of(run, "TDSnk2", "accuracy", *span), 1e-9)
            row |= {
                f"{name}_lag_rows": round(lag),
                f"{name}_read_rows_per_s": round(read),
                f"{name}_latency_s": round(max(mean_of(run, query, "latency_s", *span) for query in SINKS[:3]), 2),
                f"{name}_accuracy": round(mean_of(run, "TDSnk2", "accuracy", *span), 3),
            }
        rows.append(row)
    return governed, alone, rows


def mean_of(run: FleetRun, query: str, what: str, begin_s: float, end_s: float) -> float:
    """Mean of one figure of a query over a span; zero where it was not there."""
    found = [getattr(second, what) for second in seconds(run, query, begin_s, end_s)] if query in run.queries else []
    return float(np.mean(found)) if found else 0.0
