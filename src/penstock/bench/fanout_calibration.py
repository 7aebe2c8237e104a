"""What a graph of queries can do and what its batches cost, found by really running all of it on a backlog."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.estimate.service_rate import ServiceRate
from penstock.sim.two_states import TwoStates, fit_two_states

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.apps.stage_run import StageBatch
    from penstock.bench.fanout_runs import GraphRun, GraphRuns

_FIRST_ROWS = 6_000
# Queries take seconds to start, and a reader has no rows before its producer's first batch is done.
_WARM_UP_S, _SETTLE_S, _TRIAL_S = 15.0, 8.0, 12.0
_MOST_TRIALS = 3
# A limit that asks for so much more than was seen; what is done of it tells whether cores were the bound.
_ASK = 2.0
_IS_MORE = 1.15
_SMALL_PART = 0.25
# Rows to wait beyond those that batches on time would read.
_SPARE = 1.2


@dataclass(frozen=True, slots=True)
class Calibration:
    """Rows a second of all queries together, and what each one does with so many cores."""

    capacity_rows_per_s: float
    rates: dict[str, ServiceRate]
    states: dict[str, TwoStates]


def calibrate(runs: GraphRuns, say: Callable[[str], None]) -> Calibration:
    """Run until warm, then ask for more until cores bound it, then in small batches for the fixed cost."""
    warm = _on_backlog(runs, "warm", _FIRST_ROWS, 0.0, _WARM_UP_S)
    seen, full = max(_slowest(runs, warm), 0.1 * _FIRST_ROWS / runs.batch_s), warm
    say(f"warm-up: {seen:,.0f} rows/s of all queries")
    for trial in range(1, _MOST_TRIALS + 1):
        limit, before = round(_ASK * seen * runs.batch_s), seen
        full = _on_backlog(runs, f"full-{trial}", limit, _SETTLE_S, _TRIAL_S)
        # The best of all trials: whatever else ran on the machine meanwhile only took from them.
        seen = max(seen, _slowest(runs, full))
        say(f"trial {trial}: {limit:,} rows a batch, {_slowest(runs, full):,.0f} rows/s of all queries")
        if trial > 1 and seen < _IS_MORE * before:
            break
    small_rows = max(100, round(_SMALL_PART * seen * runs.batch_s))
    small = _on_backlog(runs, "small", small_rows, _SETTLE_S, _TRIAL_S)
    names = [stage.name for stage in runs.graph.stages]
    rates = {name: service_rate(name, small.batches, full.batches, batch_s=runs.batch_s) for name in names}
    states = {name: states_of(name, full.batches) for name in names if len(later_half(name, full.batches)) > 1}
    return Calibration(seen, rates, states)


def _on_backlog(runs: GraphRuns, name: str, limit_rows: int, settle_s: float, seconds: float) -> GraphRun:
    backlog_rows = round(_SPARE * limit_rows * (settle_s + seconds) / runs.batch_s)
    return runs.on_backlog(name, backlog_rows, limit_rows, settle_s, seconds)


def _slowest(runs: GraphRuns, run: GraphRun) -> float:
    return min(run.window.rows_per_s(stage.name) for stage in runs.graph.stages)


def later_half(stage: str, batches: Sequence[StageBatch]) -> list[StageBatch]:
    """The later half of a stage's batches whose cost is known: the first ones warm up."""
    own = [batch for batch in batches if batch.stage == stage and batch.core_s > 0]
    return own[len(own) // 2 :]


def service_rate(
    stage: str, small: Sequence[StageBatch], large: Sequence[StageBatch], *, batch_s: float
) -> ServiceRate:
    """What a stage does with so many cores, ``a c - b``, from batches of two sizes.

    Examples
    --------
    Half a second of a core for every batch and a hundredth for every row, in batches of two seconds:

    >>> from penstock.apps.stage_run import StageBatch
    >>> def done(rows):
    ...     return [StageBatch("fast", 0.0, 1.0, rows, 0.0, 0.5 + rows / 100, None)] * 3
    >>> rate = service_rate("fast", done(100), done(400), batch_s=2.0)
    >>> round(rate.rows_per_core_s, 3), round(rate.idle_rows_per_s, 3)
    (100.0, 25.0)
    """
    few, many = later_half(stage, small), later_half(stage, large)
    if not many:
        raise PenstockError(
            f"stage {stage!r} finished no batch while its cost was measured: the machine is too busy, or too slow"
        )
    many_rows, many_s = _means(many)
    row_s = many_s / many_rows
    if few:
        few_rows, few_s = _means(few)
        if few_rows < many_rows and few_s < many_s:
            # Small batches that cost less for each row than large ones tell of no fixed cost.
            row_s = min(row_s, (many_s - few_s) / (many_rows - few_rows))
    fixed_s = many_s - row_s * many_rows
    return ServiceRate(1.0 / row_s, fixed_s / batch_s / row_s)


def _means(batches: Sequence[StageBatch]) -> tuple[float, float]:
    return statistics.fmean(batch.rows for batch in batches), statistics.fmean(batch.core_s for batch in batches)


def states_of(stage: str, batches: Sequence[StageBatch]) -> TwoStates:
    """The two states of a stage, with which ``penstock experiment aces`` can repeat its bursts."""
    later = later_half(stage, batches)
    costs_s = [batch.core_s / batch.rows for batch in later]
    return fit_two_states(costs_s, statistics.fmean(batch.rows for batch in later))
