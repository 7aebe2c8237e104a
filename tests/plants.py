"""A micro-batch engine in virtual time, for closed-loop tests of controllers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

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
    QueryName,
    QuerySpec,
    SourceSignal,
    SourceSpec,
)
from penstock.settings import AdmissionSettings, SheddingSettings

QUERY = QueryName("plant")


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
    keep: KeepSchedule = field(default_factory=KeepSchedule)
    batch_id: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.waiting_rows = self.backlog_rows

    def run_batch(self) -> BatchSignal:
        """Plan a batch under the limit and the share in force, process it, and report it."""
        rows = int(min(self.waiting_rows, self.limit_rows))
        if rows == 0:
            self._advance(0.1)
            rows = int(min(self.waiting_rows, self.limit_rows))
        started_s = self.now_s
        self.waiting_rows -= rows
        lag_rows = self.waiting_rows
        noise = float(np.exp(self.noise * self.rng.standard_normal())) if self.noise else 1.0
        share = self.keep.fraction_at(self.batch_id)
        kept = round(rows * share)
        cost_s = self.cost_per_row_s(self.now_s)
        work_s = rows * self.read_share * cost_s + kept * (1 - self.read_share) * cost_s
        duration_s = (self.overhead_s + work_s) * noise
        self._advance(duration_s)
        source = SourceSignal(0, rows, float(rows), lag_rows)
        guard = GuardSignal(rows, kept, share)
        signal = BatchSignal(QUERY, self.batch_id, started_s, duration_s, rows, (source,), guard=guard)
        self.batch_id += 1
        return signal

    def _advance(self, seconds: float) -> None:
        step_s = 0.01
        for _ in range(max(1, round(seconds / step_s))):
            self.waiting_rows += self.arrival_rows_per_s(self.now_s) * step_s
            self.now_s += step_s


def controller(latency_s: float = 5.0, *, minimum_accuracy: float | None = None) -> AdmissionController:
    """Admission with batches of half the goal; with a minimum accuracy, the query has a guard."""
    spec = QuerySpec(QUERY, (SourceSpec(0, "plant", LimitUnit.ROWS),))
    shedding = None if minimum_accuracy is None else SheddingSettings()
    goal = Goal(latency=latency_s, minimum_accuracy=1.0 if minimum_accuracy is None else minimum_accuracy)
    return AdmissionController(spec, goal, AdmissionSettings(batch_share_of_goal=0.5), shedding)


@dataclass
class Run:
    """What happened in a closed loop."""

    signals: list[BatchSignal]
    limits: list[float]
    actions: list[Action]


def closed_loop(plant: MicroBatchPlant, logic: AdmissionController, batches: int) -> Run:
    """Plant and controller together; the limit decided after batch n acts on batch n + 2, as on a busy engine."""
    run = Run([], [], [])
    start = logic.on_start()
    run.actions += start
    plant.limit_rows = start[0].value or 1.0
    newest = plant.limit_rows
    for _ in range(batches):
        in_force = newest
        signal = plant.run_batch()
        plant.limit_rows = in_force
        actions = logic.on_batch(signal)
        plant.keep = logic.keep
        newest = next((a.value for a in actions if a.kind is ActionKind.READ_LIMIT and a.value), newest)
        run.signals.append(signal)
        run.limits.append(newest)
        run.actions += actions
    return run
