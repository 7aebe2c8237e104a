"""One application of the fleet in windows of 15 s: what a size of it does with its load, as an engine would tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.model.sizing import UsageSignal
from penstock.research.sage_fleet import JVM_GC_GOAL, WINDOW_S

if TYPE_CHECKING:
    from penstock.model.sizing import EngineShape
    from penstock.research.sage_fleet import FleetApplication

_FULL_BUFFER_S = 60.0
"""Waiting rows beyond a minute of load stay in the source: input buffers are bounded."""
_GIVEN_BACK = 0.95
"""G1 gives heap back to the system after concurrent cycles, a little in each window."""
_MOST_GC = 0.95
_NO_ROOM = 0.98


@dataclass(slots=True)
class SimulatedApplication:
    """An application with a size, a backlog and JVMs that remember how much heap they have taken."""

    application: FleetApplication
    shape: EngineShape
    backlog_rows: float = 0.0
    committed_mb: float = 0.0
    lost: int = field(default=0)

    def give(self, shape: EngineShape) -> None:
        """Another size; new JVMs begin with little heap."""
        if shape.heap_mb != self.shape.heap_mb or shape.executors != self.shape.executors:
            self.committed_mb = 0.0
        self.shape = shape

    def run_window(self, window: int) -> UsageSignal:
        """What happens in one window."""
        app, shape = self.application, self.shape
        executors, slots = shape.executors, float(shape.slots)
        rows = float(app.rows_per_s[window])
        full = min(1.0, self.backlog_rows / (_FULL_BUFFER_S * rows))
        shared = app.heap_shared_mb + app.heap_by_row_mb * rows + app.buffer_mb * full
        live = app.heap_each_mb + shared / executors
        wants = rows + self.backlog_rows / WINDOW_S
        cpu_s, wait_s = float(app.cpu_s[window]), float(app.wait_s[window])
        gc, done = 0.0, 0.0
        # Rows that are done make garbage, and garbage takes time from rows: a few rounds settle it.
        for _ in range(8):
            done = min(wants, slots / (cpu_s / (1.0 - gc) + wait_s))
            gc = 0.5 * gc + 0.5 * self._gc(live, done)
        lost_to_heap = executors if live > _NO_ROOM * shape.heap_mb else 0
        room = app.gc_room * done / app.mean_rows_per_s
        wanted = live * (1.0 + room / JVM_GC_GOAL)
        self.committed_mb = min(shape.heap_mb, max(_GIVEN_BACK * self.committed_mb, wanted))
        off_heap = app.native_each_mb + app.native_shared_mb / executors
        python = app.python_slot_mb * slots / executors
        resident = 0.95 * self.committed_mb + off_heap + python
        lost_to_memory = executors if resident > shape.memory_mb else 0
        if lost_to_heap or lost_to_memory:
            done, gc = 0.1 * done, max(gc, 0.5 if lost_to_heap else gc)
            self.lost += 1
        self.backlog_rows = max(0.0, self.backlog_rows + (rows - done) * WINDOW_S)
        per_row = cpu_s / (1.0 - gc)
        return UsageSignal(
            time_s=WINDOW_S * (window + 1),
            heap_used_mb=min(shape.heap_mb, live + 0.95 * max(0.0, self.committed_mb - live)),
            heap_committed_mb=self.committed_mb,
            gc_fraction=gc,
            gc_count=round(gc * WINDOW_S * 10),
            jvm_rss_mb=0.95 * self.committed_mb + off_heap,
            python_rss_mb=python,
            python_vm_mb=python,
            off_heap_mb=off_heap,
            cpu_fraction=min(1.0, done * per_row / (executors * shape.cores)),
            busy_fraction=min(1.0, done * (per_row + wait_s) / slots),
            backlog_rows=self.backlog_rows,
            arrival_rows_per_s=rows,
            processed_rows_per_s=done,
            lost_to_heap=lost_to_heap,
            lost_to_memory=lost_to_memory,
            services={"service": float(app.service_ms[window])} if app.has_service else {},
        )

    def _gc(self, live_mb: float, done_rows_per_s: float) -> float:
        room = self.application.gc_room * done_rows_per_s / self.application.mean_rows_per_s
        free_mb = max(self.shape.heap_mb - live_mb, 1e-3 * live_mb)
        # The JVM grows up to its limit before it collects more often than it likes to.
        return min(_MOST_GC, max(min(JVM_GC_GOAL, room), room * live_mb / free_mb))
