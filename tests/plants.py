"""A micro-batch engine in virtual time, for closed-loop tests of controllers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.control.admission import AdmissionController
from penstock.control.schedule import KeepSchedule
from penstock.model import (
    Action,
    ActionKind,
    BatchSignal,
    Goal,
    GuardSignal,
    LimitUnit,
    PlannedBatch,
    QueryName,
    QuerySpec,
    SourceSignal,
    SourceSpec,
)
from penstock.settings import AdmissionSettings, SheddingSettings

QUERY = QueryName("plant")


@dataclass(frozen=True)
class TakenBatch:
    """Rows that a batch has taken and not yet finished, as they arrived together, and the share kept of each."""

    started_s: float
    rows: int
    kept: int
    late: float
    share: float
    lag_rows: float
    work_s: float
    taken: list[tuple[float, float]]
    shares: list[float]


@dataclass
class MicroBatchPlant:
    """One query: rows arrive at a rate, batches take overhead plus cost per row, limits act one batch late."""

    arrival_rows_per_s: Callable[[float], float]
    overhead_s: float = 0.2
    cost_per_row_s: Callable[[float], float] = field(default=lambda _: 20e-6)
    read_share: float = 0.0
    """Part of a row's cost that is paid for reading it, kept or not."""
    backlog_rows: float = 0.0
    noise: float = 0.0
    seed: int = 1
    now_s: float = 0.0
    limit_rows: float = float("inf")
    next_limit_rows: float = float("inf")
    keep: KeepSchedule = field(default_factory=KeepSchedule)
    late_after_s: float | None = None
    """Age of a waiting row at which it is late; None where rows tell no arrival."""
    late_share: float = 1.0
    is_seen: bool = False
    """Whether a report of a batch tells of the next one, which was planned just before."""
    batch_id: int = 0
    planned: TakenBatch | None = None

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.waiting_rows = self.backlog_rows
        self.queue: deque[tuple[float, float]] = deque([(self.now_s, self.backlog_rows)])
        self.ages: list[tuple[float, float]] = []
        """Age at the end of its batch, and number, of kept rows."""

    def run_batch(self) -> BatchSignal:
        """Plan a batch under the limit and the share in force, process it, and report it."""
        batch = self.planned or self.plan()
        self.planned = None
        noise = float(np.exp(self.noise * self.rng.standard_normal())) if self.noise else 1.0
        return self.finish(batch, (self.overhead_s + batch.work_s) * noise)

    def plan(self) -> TakenBatch:
        """Take rows under the limit and decide which of them stay."""
        rows = int(min(self.waiting_rows, self.limit_rows))
        if rows == 0:
            self._advance(0.1)
            rows = int(min(self.waiting_rows, self.limit_rows))
        self.waiting_rows -= rows
        share = self.keep.fraction_at(self.batch_id)
        taken = self._take(rows)
        late = sum(count for arrived_s, count in taken if self._is_late(arrived_s))
        shares = [share if share >= 1.0 or not self._is_late(arrived_s) else self.late_share for arrived_s, _ in taken]
        kept = round(sum(count * part for (_, count), part in zip(taken, shares, strict=True)))
        cost_s = self.cost_per_row_s(self.now_s)
        work_s = rows * self.read_share * cost_s + kept * (1 - self.read_share) * cost_s
        return TakenBatch(self.now_s, rows, kept, late, share, self.waiting_rows, work_s, taken, shares)

    def finish(self, batch: TakenBatch, duration_s: float) -> BatchSignal:
        """Let time pass until a batch is done, and report it."""
        self._advance(duration_s)
        self.ages += [
            (self.now_s - arrived_s, count * part)
            for (arrived_s, count), part in zip(batch.taken, batch.shares, strict=True)
        ]
        source = SourceSignal(0, batch.rows, float(batch.rows), batch.lag_rows)
        oldest_s = batch.taken[0][0] if batch.taken and self.late_after_s is not None else None
        on_time = batch.share if batch.rows > batch.late else None
        guard = GuardSignal(
            batch.rows, batch.kept, batch.share, oldest_s, late_rows=round(batch.late), on_time_fraction=on_time
        )
        signal = BatchSignal(QUERY, self.batch_id, batch.started_s, duration_s, batch.rows, (source,), guard=guard)
        self.batch_id += 1
        return signal

    def plan_next(self, signal: BatchSignal) -> BatchSignal:
        """Plan the batch after a finished one, and tell of it in the report."""
        batch = self.planned = self.plan()
        source = SourceSignal(0, batch.rows, float(batch.rows), batch.lag_rows)
        return replace(signal, planned=PlannedBatch(self.batch_id, batch.started_s, (source,)))

    def _advance(self, seconds: float) -> None:
        step_s = 0.01
        for _ in range(max(1, round(seconds / step_s))):
            arrived = self.arrival_rows_per_s(self.now_s) * step_s
            self.waiting_rows += arrived
            self.queue.append((self.now_s, arrived))
            self.now_s += step_s

    def _is_late(self, arrived_s: float) -> bool:
        return self.late_after_s is not None and self.now_s - arrived_s > self.late_after_s

    def _take(self, rows: float) -> list[tuple[float, float]]:
        """Rows in the order of their arrival, as they arrived together."""
        taken = []
        while rows > 0 and self.queue:
            arrived_s, count = self.queue.popleft()
            part = min(count, rows)
            if part < count:
                self.queue.appendleft((arrived_s, count - part))
            if part > 0:
                taken.append((arrived_s, part))
            rows -= part
        return taken


def controller(
    latency_s: float = 5.0, *, minimum_accuracy: float | None = None, batch_share: float = 0.5
) -> AdmissionController:
    """Admission with batches of half the goal; with a minimum accuracy, the query has a guard."""
    spec = QuerySpec(QUERY, (SourceSpec(0, "plant", LimitUnit.ROWS),))
    shedding = None if minimum_accuracy is None else SheddingSettings()
    goal = Goal(latency=latency_s, minimum_accuracy=1.0 if minimum_accuracy is None else minimum_accuracy)
    return AdmissionController(spec, goal, AdmissionSettings(batch_share_of_goal=batch_share), shedding)


@dataclass
class Run:
    """What happened in a closed loop."""

    signals: list[BatchSignal]
    limits: list[float]
    actions: list[Action]


def closed_loop(plant: MicroBatchPlant, logic: AdmissionController, batches: int) -> Run:
    """Plant and controller together for so many batches."""
    run = Run([], [], [])
    for _ in range(batches):
        signal, actions = closed_loop_step(plant, logic)
        run.signals.append(signal)
        run.limits.append(plant.next_limit_rows)
        run.actions += actions
    return run


def closed_loop_step(plant: MicroBatchPlant, logic: AdmissionController) -> tuple[BatchSignal, list[Action]]:
    """One batch; the limit decided after batch n acts on batch n + 2, as on a busy engine."""
    actions: list[Action] = []
    if plant.batch_id == 0:
        actions = logic.on_start()
        plant.limit_rows = plant.next_limit_rows = actions[0].value or 1.0
    signal = plant.run_batch()
    plant.limit_rows = plant.next_limit_rows
    if plant.is_seen:
        signal = plant.plan_next(signal)
    decided = logic.on_batch(signal)
    plant.keep = logic.keep
    limits = [action.value for action in decided if action.kind is ActionKind.READ_LIMIT and action.value]
    plant.next_limit_rows = limits[-1] if limits else plant.next_limit_rows
    return signal, actions + decided
