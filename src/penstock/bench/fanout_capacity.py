"""What all queries of a graph can do together, found by running plain Spark on a backlog; it sets the load."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.sim.two_states import TwoStates, fit_two_states

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.bench.fanout_runs import GraphRun, GraphRuns, StageBatch

_FIRST_ROWS = 6_000
# Queries take seconds to start, and a reader has no rows before its producer's first batch is done.
_WARM_UP_S, _SETTLE_S, _TRIAL_S = 15.0, 8.0, 12.0
_MOST_TRIALS, _ENOUGH = 8, 2
"""Trials on end without more, after which there is no more: a single one may have met code that is still compiled."""
# A limit that asks for so much more than was seen; what is done of it tells whether cores were the bound.
_ASK = 2.0
_IS_MORE = 1.15
# Rows to wait beyond those that batches on time would read.
_SPARE = 1.2


@dataclass(frozen=True, slots=True)
class GraphCapacity:
    """Rows a second of all queries together, and how each one's cost changes from batch to batch."""

    rows_per_s: float
    states: dict[str, TwoStates] = field(default_factory=dict)


def find_capacity(runs: GraphRuns, say: Callable[[str], None]) -> GraphCapacity:
    """Run until warm, then ask for more until cores bound it."""
    full = _on_backlog(runs, "warm", _FIRST_ROWS, 0.0, _WARM_UP_S)
    seen = max(_slowest(runs, full), 0.1 * _FIRST_ROWS / runs.batch_s)
    say(f"warm-up: {seen:,.0f} rows/s of all queries")
    without_more = 0
    for trial in range(1, _MOST_TRIALS + 1):
        limit, before = round(_ASK * seen * runs.batch_s), seen
        full = _on_backlog(runs, f"full-{trial}", limit, _SETTLE_S, _TRIAL_S)
        # The best of all trials: whatever else ran on the machine meanwhile only took from them.
        seen = max(seen, _slowest(runs, full))
        say(f"trial {trial}: {limit:,} rows a batch, {_slowest(runs, full):,.0f} rows/s of all queries")
        without_more = without_more + 1 if seen < _IS_MORE * before else 0
        if without_more == _ENOUGH:
            break
    names = [stage.name for stage in runs.graph.stages]
    states = {name: states_of(name, full.batches) for name in names if len(later_half(name, full.batches)) > 1}
    return GraphCapacity(seen, states)


def _on_backlog(runs: GraphRuns, name: str, limit_rows: int, settle_s: float, seconds: float) -> GraphRun:
    backlog_rows = round(_SPARE * limit_rows * (settle_s + seconds) / runs.batch_s)
    return runs.on_backlog(name, backlog_rows, limit_rows, settle_s, seconds)


def _slowest(runs: GraphRuns, run: GraphRun) -> float:
    return min(run.window.rows_per_s(stage.name) for stage in runs.graph.stages)


def later_half(stage: str, batches: Sequence[StageBatch]) -> list[StageBatch]:
    """The later half of a stage's batches whose cost is known: the first ones warm up."""
    own = [batch for batch in batches if batch.stage == stage and batch.core_s > 0]
    return own[len(own) // 2 :]


def states_of(stage: str, batches: Sequence[StageBatch]) -> TwoStates:
    """The two states of a stage, with which ``penstock experiment aces`` can repeat its bursts."""
    later = later_half(stage, batches)
    costs_s = [batch.core_s / batch.rows for batch in later]
    return fit_two_states(costs_s, statistics.fmean(batch.rows for batch in later))
