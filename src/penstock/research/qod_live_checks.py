"""What the scenarios of "Stream-Economics" must show on live engines, and what was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.research.qod_checks import check, lowest_above_minimum, rises, values_text
from penstock.research.qod_figures import SETTLED_AFTER_S, backlog_rows, mean_of, seconds
from penstock.research.qod_live import LATENCY_GOAL_S, queries_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from penstock.research.qod import Scenario
    from penstock.research.qod_figures import Row
    from penstock.sim.fleet import FleetRun

_SETTLES_S = 35.0
_SAME, _ALL, _SCATTER = 0.05, 0.97, 0.03
_DOWNTIME_S = 10.0
_LATE_RATIO = 0.015
_ESTIMATE_ERROR, _ROUNDING = 0.062, 1e-6
_FIRST, _SECOND, _NEIGHBOURS = "TDSnk1", "TDSnk2", "KNNSrc1"
_SOURCES = ("TDSrc1", "TDSrc2")


def live_checks(scenario: Scenario, run: FleetRun, number: int) -> list[Row]:
    """All checks of a live scenario."""
    own = {1: _checks_1, 2: _checks_2, 3: _checks_3}[number]
    return [*own(scenario, run), *_common(scenario, run)]


def measured_accuracy(run: FleetRun, task: str, begin_s: float, end_s: float) -> float:
    """Part of the application's input that a task kept: what its guard kept of what its sources had kept."""
    before = np.mean([_kept(run, source, begin_s, end_s) for source in _SOURCES]) if task.startswith("TD") else 1.0
    return float(before) * _kept(run, task, begin_s, end_s)


def _kept(run: FleetRun, task: str, begin_s: float, end_s: float) -> float:
    found = [
        second for query in run.queries if query.startswith(task) for second in seconds(run, query, begin_s, end_s)
    ]
    read = sum(second.arrived_rows for second in found)
    return sum(second.kept_rows for second in found) / read if read > 0 else 1.0


def _checks_1(scenario: Scenario, run: FleetRun) -> list[Row]:
    (load_s, _), (added_s, _) = scenario.marks
    span, after = (load_s + _SETTLES_S, added_s), (scenario.until_s - 50, scenario.until_s)
    decided = [mean_of(run, name, "accuracy", *span) for name in ("TDSnk1-0", _SECOND)]
    apart = (1 - decided[0]) / (1 - 0.4) - (1 - decided[1]) / (1 - 0.6)
    seen = [measured_accuracy(run, task, *span) for task in (_FIRST, _SECOND)]
    moved = [str(move.query) for _, move in run.moves]
    to_second = [move for at_s, move in run.moves if move.engine == "TM2" and at_s > 0]
    one, two = (_throughput(run, *each) for each in (span, after))
    return [
        check("part given up by TDSnk1 less that by TDSnk2, as decided (A)", "within 0.05", apart, abs(apart) < _SAME),
        check(
            "accuracies in overload, as measured: TDSnk1, TDSnk2 (A)", "0.4 to 1, 0.6 to 1", values_text(*seen),
            0.4 - _SCATTER <= seen[0] < _ALL and 0.6 - _SCATTER <= seen[1] < _ALL,
        ),
        check("moves to the engine added later", "at least 1", ", ".join(moved) or "none", bool(to_second)),
        check("rows/s kept by the sinks, one engine, then two", "rises", f"{one:.0f}, {two:.0f}", two > one),
    ]  # fmt: skip


def _checks_2(scenario: Scenario, run: FleetRun) -> list[Row]:
    ends = [*(at_s for at_s, _ in scenario.marks[1:]), scenario.until_s]
    spans = [(at_s + _SETTLES_S, end_s) for (at_s, _), end_s in zip(scenario.marks, ends, strict=True)]
    ranked = (_NEIGHBOURS, _FIRST, _SECOND)
    grown, drives, beyond = ([measured_accuracy(run, task, *span) for task in ranked] for span in spans)
    moved = [str(move.query) for _, move in run.moves]
    late = _late_part(run, _SECOND, LATENCY_GOAL_S)
    return [
        check(
            "KNN grows (B): KNN, TDSnk1, TDSnk2", "KNN below 1, the others all", values_text(*grown),
            grown[0] < _ALL <= min(grown[1:]),
        ),
        check("drives grow (C): KNN, TDSnk1, TDSnk2", "in order of priority", values_text(*drives), rises(drives)),
        check("beyond capacity (D): KNN, TDSnk1, TDSnk2", "in order of priority", values_text(*beyond), rises(beyond)),
        check(
            "who moves", "a sink of lower priority than TDSnk2", ", ".join(moved) or "none",
            bool(moved) and not {_SECOND} & set(moved),
        ),
        check(
            f"part of TDSnk2's rows in batches later than {LATENCY_GOAL_S:g} s", "at most 0.015", late,
            late <= _LATE_RATIO,
        ),
    ]  # fmt: skip


def _checks_3(scenario: Scenario, run: FleetRun) -> list[Row]:
    ends = [*(at_s for at_s, _ in scenario.marks[1:]), scenario.until_s]
    spans = [(at_s + _SETTLES_S, end_s) for (at_s, _), end_s in zip(scenario.marks, ends, strict=True)]
    doubled, again, fallen = (measured_accuracy(run, _NEIGHBOURS, *span) for span in spans)
    longest = max((float(row["back_after_s"] or 0) for row in backlog_rows(scenario, run)), default=0.0)
    errors = _estimate_errors(scenario, run, spans)
    (rate,) = scenario.script.rates.values()
    rates = [f"{rate(at_s):,.0f}" for at_s, _ in scenario.marks]
    return [
        check(
            f"accuracy at {', '.join(rates)} rows/s", "falls, then rises again",
            values_text(doubled, again, fallen), again < doubled and fallen > again,
        ),
        check(
            "s until backlogs are under 1 s of input after a change", f"at most {SETTLED_AFTER_S:g}", longest,
            longest <= SETTLED_AFTER_S,
        ),
        check(
            "rate estimate, mean error once settled", "0.4 % +- 6.2 % in the paper",
            f"{errors.mean():.2%} +- {errors.std():.1%}", abs(float(errors.mean())) <= _ESTIMATE_ERROR,
        ),
    ]  # fmt: skip


def _common(scenario: Scenario, run: FleetRun) -> list[Row]:
    decided = lowest_above_minimum(scenario, run)
    spans = [(at_s + _SETTLES_S, end_s) for at_s, end_s in _phases(scenario)]
    minima = {each.query.task_name: each.query.goal.minimum_accuracy for each in queries_of(scenario)}
    seen = min(
        measured_accuracy(run, task, *span) - minimum
        for task, minimum in minima.items()
        if task not in _SOURCES
        for span in spans
    )
    downtime_s = max((each for each in _move_downtimes_s(run)), default=0.0)
    return [
        check("smallest accuracy less its minimum, as decided", "not below 0", decided, decided >= -_ROUNDING),
        check("the same as measured, of phases that have settled", "not below -0.03", seen, seen >= -_SCATTER),
        check("longest downtime of a move, s", f"under {_DOWNTIME_S:g}", downtime_s, downtime_s < _DOWNTIME_S),
    ]


def _phases(scenario: Scenario) -> list[tuple[float, float]]:
    ends = [*(at_s for at_s, _ in scenario.marks[1:]), scenario.until_s]
    return [(at_s, end_s) for (at_s, _), end_s in zip(scenario.marks, ends, strict=True)]


def _move_downtimes_s(run: FleetRun) -> list[float]:
    moves = {f"move {move.number}" for _, move in run.moves}
    return [each.took_s for _, each in run.decisions if hasattr(each, "took_s") and each.cause in moves]


def _throughput(run: FleetRun, begin_s: float, end_s: float) -> float:
    return sum(mean_of(run, name, "kept_rows", begin_s, end_s) for name in ("TDSnk1-0", "TDSnk1-1", _SECOND))


def _late_part(run: FleetRun, query: str, goal_s: float) -> float:
    found = [(second.latency_s > goal_s, second.kept_rows) for second in seconds(run, query, _SETTLES_S, np.inf)]
    rows = sum(kept for _, kept in found)
    return sum(kept for late, kept in found if late) / rows if rows else 0.0


def _estimate_errors(scenario: Scenario, run: FleetRun, spans: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    (rate,) = scenario.script.rates.values()
    found = []
    for begin_s, end_s in spans:
        of_all = [
            [second.estimated_rows_per_s for second in seconds(run, query, begin_s, end_s)] for query in run.queries
        ]
        found += [sum(each) / rate(begin_s) - 1 for each in zip(*of_all, strict=True)]
    return np.array(found)
