"""One batch of the simulated engine: what it keeps, what it reports, and what is counted of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model import GuardSignal
from penstock.model.directive import LATE_PART
from penstock.sim.simulated_query import BatchOutcome

if TYPE_CHECKING:
    from penstock.model import BatchSignal
    from penstock.model.decision import KeepRatio
    from penstock.sim.simulated_query import QueryRun


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """A batch that is planned and not finished."""

    batch_id: int
    planned_s: float
    rows: int
    lag_rows: float
    first_row: float
    cut_row: float
    kept_rows: int
    late_part: float
    on_time_part: float
    core_s: float
    duration_s: float
    answer: KeepRatio | None


def kept_parts(run: QueryRun, rows: int, answer: KeepRatio | None, now_s: float) -> tuple[float, float, float]:
    """Where late rows of the next batch end, what is kept of them, and what is kept of the others."""
    first, end = run.taken_rows, run.taken_rows + rows
    if answer is None or answer.everything:
        return first, 1.0, 1.0
    cut = first
    if answer.late_before_s is not None and run.query.tells_arrival:
        cut = min(end, max(first, run.source.total(answer.late_before_s + run.clock_behind_s(now_s))))
    late_part = max(answer.keep_floor, LATE_PART * min(1.0, answer.keep_ratio))
    return cut, late_part, min(1.0, answer.keep_ratio * run.query.utility_gain)


def guard_signal(run: QueryRun, batch: RunningBatch) -> GuardSignal:
    """What the guard of a batch reports."""
    late_rows = round(batch.cut_row - batch.first_row)
    tells_newest = run.query.tells_arrival and run.query.clock_behind_s is not None and batch.rows > 0
    clock_s = run.clock_behind_s(batch.planned_s)
    return GuardSignal(
        batch.rows,
        batch.kept_rows,
        1.0 if batch.answer is None else batch.answer.keep_ratio,
        run.source.time_of(batch.first_row) - clock_s if run.query.tells_arrival else None,
        run.source.time_of(batch.first_row + batch.rows) - clock_s if tells_newest else None,
        late_rows=late_rows,
        on_time_ratio=batch.on_time_part if late_rows < batch.rows else None,
        answered=batch.answer is not None,
        everything=batch.answer is None or batch.answer.everything,
    )


def count_batch(run: QueryRun, batch: RunningBatch, signal: BatchSignal) -> None:
    """Add a finished batch to the sums of its query."""
    first, cut, end = batch.first_row, batch.cut_row, batch.first_row + batch.rows
    kept = (cut - first) * batch.late_part + (end - cut) * batch.on_time_part
    due = 0.0 if math.isinf(run.latency_s) else run.source.total(signal.finished_s - run.latency_s)
    late = max(0.0, min(due, cut) - first) * batch.late_part + max(0.0, min(due, end) - cut) * batch.on_time_part
    run.offered_rows += batch.rows
    run.kept_rows += kept
    run.late_rows += cut - first
    run.late_kept_rows += late
    if run.keeps_batches:
        outcome = BatchOutcome(signal, first, cut, end, batch.late_part, batch.on_time_part, kept, late, batch.core_s)
        run.batches.append(outcome)
