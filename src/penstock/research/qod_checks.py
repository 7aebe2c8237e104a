"""What the scenarios of "Stream-Economics" must show, what was seen, and whether it is as it must be."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from penstock.model.fleet import Move
from penstock.research.qod import LATENCY_GOAL_S, Scenario, scenario_3
from penstock.research.qod_figures import SETTLED_AFTER_S, SINKS, backlog_rows, estimate_errors, mean_of, seconds
from penstock.sim.fleet_queries import SimulatedFleetQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.research.qod_figures import Row
    from penstock.sim.fleet import FleetRun

_ROUNDING = 1e-6
_SAME, _ALL = 0.05, 0.99
_LONGEST_WARM_UP_S = 60.0
_LATE_RATIO = 0.015
_PAPER_MEAN_ERROR, _PAPER_NINTH = 0.004, 0.028
_MINIMUM_1, _MINIMUM_2 = 0.4, 0.6


def checks(scenario: Scenario, run: FleetRun, number: int) -> list[Row]:
    """All checks of a scenario."""
    return [*_common_checks(scenario, run), *{1: _checks_1, 2: _checks_2, 3: _checks_3}[number](run)]


def _common_checks(scenario: Scenario, run: FleetRun) -> list[Row]:
    longest = max((float(row["back_after_s"] or 0) for row in backlog_rows(scenario, run)), default=0.0)
    lowest, warm_up = lowest_above_minimum(scenario, run), _longest_warm_up_s(run)
    return [
        check(
            "s from a change until backlogs are under 1 s of input, moves that it leads to included",
            f"at most {SETTLED_AFTER_S:g}",
            longest,
            longest <= SETTLED_AFTER_S,
        ),
        check("smallest accuracy less its minimum", "not below 0", lowest, lowest >= -_ROUNDING),
        check("longest warm-up after a move, s", "under 60 in the paper", warm_up, warm_up < _LONGEST_WARM_UP_S),
    ]


def _checks_1(run: FleetRun) -> list[Row]:
    first, second = (mean_of(run, name, "accuracy", 90, 180) for name in ("TDSnk1-0", "TDSnk2"))
    apart = (1 - first) / (1 - _MINIMUM_1) - (1 - second) / (1 - _MINIMUM_2)
    shed = _MINIMUM_1 < first < 1 and _MINIMUM_2 < second < 1
    moved = [str(move.query) for _, move in run.moves][:2]
    one, two, full = (_throughput(run, begin_s, begin_s + 60) for begin_s in (120, 390, 590))
    return [
        check("part given up by TDSnk1 less that by TDSnk2 (A)", "within 0.05", apart, abs(apart) < _SAME),
        check(
            "accuracies in overload, both above their minimum (A)",
            "0.4 to 1, 0.6 to 1",
            values_text(first, second),
            shed,
        ),
        check("first to move to the engine added later", "both TDSnk1", ", ".join(moved), _are_instances(moved)),
        check("rows/s kept by the sinks at 450/s, one engine, then two", "rises", f"{one:.0f}, {two:.0f}", two > one),
        check("rows/s kept by the sinks at 700/s, two engines", "rises", round(full), full > two),
        *_agreement(run),
    ]


def _checks_2(run: FleetRun) -> list[Row]:
    ranked = ("KNNSrc1", "TDSnk1-0", "TDSnk2")
    low, kept = (mean_of(run, name, "accuracy", 190, 300) for name in ranked[:2])
    grown, beyond = ([mean_of(run, name, "accuracy", *span) for name in ranked] for span in ((370, 480), (580, 660)))
    moved_s, first = next(((at_s, str(move.query)) for at_s, move in run.moves), (330.0, "none"))
    before = [_lowest(run, name, 301, moved_s - 1) for name in ranked[1:]]
    late = _late_part(run, "TDSnk2")
    return [
        check("KNN grows (B): KNN, TDSnk1", "KNN below 1, TDSnk1 all", values_text(low, kept), low < _ALL < kept),
        check(
            "drives grow (C), before a move: lowest of TDSnk1, TDSnk2",
            "TDSnk1 first",
            values_text(*before),
            rises(before),
        ),
        check("who makes room for TDSnk2 (C)", "TDSnk1", first, first.startswith("TDSnk1")),
        check("drives grow (C): KNN, TDSnk1, TDSnk2", "in order of priority", values_text(*grown), rises(grown)),
        check("beyond capacity (D): KNN, TDSnk1, TDSnk2", "in order of priority", values_text(*beyond), rises(beyond)),
        check(f"part of TDSnk2's rows later than {LATENCY_GOAL_S:g} s", "at most 0.015", late, late <= _LATE_RATIO),
    ]


def _checks_3(run: FleetRun) -> list[Row]:
    errors = estimate_errors(scenario_3(), run)
    mean, ninth = float(errors.mean()), float(np.percentile(np.abs(errors), 90))
    seen = f"{mean:.2%} +- {errors.std():.1%}"
    return [
        check("rate estimate, mean error", "0.4 % +- 6.2 % in the paper", seen, abs(mean) <= _PAPER_MEAN_ERROR),
        check("rate estimate, 90th percentile of errors", "0.028 in the paper", ninth, ninth <= _PAPER_NINTH),
    ]


def _throughput(run: FleetRun, begin_s: float, end_s: float) -> float:
    return sum(mean_of(run, name, "kept_rows", begin_s, end_s) for name in ("TDSnk1-0", "TDSnk1-1", "TDSnk2"))


def _agreement(run: FleetRun) -> list[Row]:
    """How far the current accuracy (Eq. 3) of the sources is from the accuracy that was decided."""
    rows = []
    for query, paper in (("TDSrc1", 0.024), ("TDSrc2", 0.018)):
        found = [abs(second.current_accuracy - second.accuracy) for second in seconds(run, query, 30, np.inf)]
        apart = float(np.mean(found))
        what = f"{query}: current accuracy against the one decided, mean difference"
        rows.append(check(what, f"{paper} in the paper", apart, apart <= paper))
    return rows


def _late_part(run: FleetRun, query: str) -> float:
    """Part of the seconds, each by the rows that it kept, whose 99th percentile of latency is beyond the goal."""
    found = [(second.latency_s > LATENCY_GOAL_S, second.kept_rows) for second in seconds(run, query, 30, np.inf)]
    rows = sum(kept for _, kept in found)
    return sum(kept for late, kept in found if late) / rows if rows else 0.0


def _lowest(run: FleetRun, query: str, begin_s: float, end_s: float) -> float:
    return min(second.accuracy for second in seconds(run, query, begin_s, end_s))


def lowest_above_minimum(scenario: Scenario, run: FleetRun) -> float:
    """By how much the smallest accuracy of a sink that was decided is above its minimum."""
    specs = [each for _, each in scenario.script.happenings if isinstance(each, SimulatedFleetQuery)]
    return min(
        second.accuracy - spec.query.goal.minimum_accuracy
        for spec in specs
        if spec.query.name in SINKS
        for second in seconds(run, spec.query.name, 0, scenario.until_s)
    )


def _longest_warm_up_s(run: FleetRun) -> float:
    """From a move to the moment at which nobody was held to its minimum for it any more."""
    begun = [time_s for time_s, each in run.decisions if isinstance(each, Move)]
    over = [time_s for time_s, each in run.decisions if each.cause == "warm-up over"]
    return max((min((end_s for end_s in over if end_s > at_s), default=at_s) - at_s for at_s in begun), default=0.0)


def _are_instances(moved: Sequence[str]) -> bool:
    return sorted(moved) == ["TDSnk1-0", "TDSnk1-1"]


def rises(values: Sequence[float]) -> bool:
    """Whether each is at least the one before, the dead band of keep ratios aside."""
    return all(after >= before - 0.02 for before, after in pairwise(values))


def check(what: str, required: str, seen: float | str, is_reached: bool) -> Row:  # noqa: FBT001 - a verdict
    """One row: what is looked at, what it must be, what was seen, and whether that is reached."""
    shown = round(seen, 4) if isinstance(seen, float) else seen
    return {"what": what, "required": required, "seen": shown, "reached": bool(is_reached)}


def values_text(*values: float) -> str:
    """Numbers, one after another."""
    return ", ".join(f"{value:.2f}" for value in values)
