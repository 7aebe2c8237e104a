"""Several queries on one engine in virtual time: jobs are served first in, first out, each by all cores."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count

from penstock.control.admission import AdmissionController
from penstock.control.engine import EngineCoordinator
from penstock.model import ActionKind, BatchSignal, Goal, QueryName
from plants import MicroBatchPlant, TakenBatch

CORES = 2.0


@dataclass
class GovernedQuery:
    """A query with its controller, and what became of its batches."""

    name: QueryName
    goal: Goal
    plant: MicroBatchPlant
    logic: AdmissionController
    task_overhead_core_s: float = 0.1
    signals: list[BatchSignal] = field(default_factory=list)

    def kept_share(self, since_s: float) -> float:
        """Kept over offered rows of the batches that began after a moment."""
        own = [signal for signal in self.signals if signal.started_s >= since_s]
        return sum(signal.work_rows for signal in own) / max(1, sum(signal.rows for signal in own))


def run_together(queries: list[GovernedQuery], seconds: float) -> EngineCoordinator:
    """Run until a moment in virtual time.

    A batch is planned by the driver, without cores, for the plant's overhead; then its tasks wait for those of batches
    that came before. As with Spark, a query plans its next batch as soon as one is done.
    """
    engine = EngineCoordinator(CORES)
    order, free_s = count(), 0.0
    events: list[tuple[float, int, GovernedQuery, TakenBatch | None]] = []
    for query in queries:
        query.plant.limit_rows = query.plant.next_limit_rows = query.logic.on_start()[0].value or 1.0
        heapq.heappush(events, (query.plant.now_s, next(order), query, None))
    while events and events[0][0] < seconds:
        now_s, _, query, batch = heapq.heappop(events)
        if batch is not None:
            _finish(query, batch, now_s, engine)
        planned = query.plant.plan()
        begins_s = max(free_s, query.plant.now_s + query.plant.overhead_s)
        free_s = begins_s + planned.work_s + query.task_overhead_core_s / CORES
        heapq.heappush(events, (free_s, next(order), query, planned))
    return engine


def _finish(query: GovernedQuery, batch: TakenBatch, now_s: float, engine: EngineCoordinator) -> None:
    plant, logic = query.plant, query.logic
    signal = plant.finish(batch, now_s - batch.started_s)
    query.signals.append(signal)
    engine.hear(
        query.name,
        query.goal,
        signal.finished_s,
        logic.arrival_rows_per_s or 0.0,
        batch_s=logic.target_batch_s or 1.0,
        read_rows=signal.rows,
        kept_rows=signal.work_rows,
        core_s=CORES * batch.work_s + query.task_overhead_core_s,
        lag_rows=signal.lag_rows,
    )
    logic.hold_share(engine.bounds(query.name, signal.finished_s))
    plant.limit_rows = plant.next_limit_rows
    decided = logic.on_batch(signal, fair_pace=engine.fair_pace(query.name, signal.finished_s))
    plant.keep = logic.keep
    limits = [action.value for action in decided if action.kind is ActionKind.READ_LIMIT and action.value]
    plant.next_limit_rows = limits[-1] if limits else plant.next_limit_rows
