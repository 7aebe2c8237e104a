"""The second plant of the loop: an engine with queries, cores and executors in virtual time.

A batch is planned under the read limit in force, asks the loop what to keep where its query has a guard, obeys in the
same batch, runs and reports. The driver plans it without cores; then its tasks wait for those of batches that were
planned before, and are served by all cores. Rows are a range of a cumulative count, so that a batch costs the same
whatever its size.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from typing import TYPE_CHECKING, Protocol

from penstock.control.events import BatchFinished, BatchPlanned, ExecutorsSeen, QueryStarted, WarmStart
from penstock.model import BatchSignal, PlannedBatch, QueryName, SourceSignal
from penstock.model.decision import Executors, ReadLimit
from penstock.sim.arrivals import Topic
from penstock.sim.clock import ManualClock
from penstock.sim.simulated_batch import RunningBatch, count_batch, guard_signal, kept_parts
from penstock.sim.simulated_executors import ExecutorPool
from penstock.sim.simulated_query import QueryRun, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.control.events import Event
    from penstock.model import Goal
    from penstock.model.decision import Decision, KeepRatio
    from penstock.sim.simulated_executors import SimulatedExecutors
    from penstock.sim.simulated_query import SimulatedQuery

_IDLE_POLL_S = 0.1
_LONGEST_IDLE_S = 600.0
_CYCLE = QueryName("")


class Steering(Protocol):
    """What an engine tells and asks: the loop, or whatever stands in its place."""

    def handle(self, event: Event) -> object:
        """Take note of what happened."""
        ...

    def answer(self, event: BatchPlanned) -> KeepRatio | None:
        """What a planned batch keeps."""
        ...

    def cycle(self) -> object:
        """Look at what is there."""
        ...


class SimulatedEngine:
    """Queries on shared cores, as a plant of the loop.

    Parameters
    ----------
    queries
        By name.
    cores
        Cores of the engine; with ``executors``, theirs count.
    executors
        Executors that can be asked for; None for an engine of fixed cores.
    cycle_every_s
        How often the loop looks at what is there.
    tick_s
        Batches begin at multiples of this, though their reports tell how long they really took; 0 for exact times.
    limit_delay_batches
        1: a limit that is decided after batch n acts on batch n + 2, as on a busy engine, where the next batch is
        planned before a report arrives. 0: it acts on the next batch.
    core_reports_late_every
        Every so many batches Spark's report comes before that of its job: the batch seems to cost nothing, and the next
        one both. 0 is never.
    keeps_batches
        Whether every batch is remembered; sums are always.
    """

    def __init__(
        self,
        queries: Mapping[str, SimulatedQuery],
        *,
        cores: float = 1.0,
        executors: SimulatedExecutors | None = None,
        cycle_every_s: float = 1.0,
        tick_s: float = 0.0,
        limit_delay_batches: int = 1,
        core_reports_late_every: int = 0,
        keeps_batches: bool = True,
    ) -> None:
        self.clock = ManualClock()
        self.drop_next_apply = False
        self.limit_delay_batches = limit_delay_batches
        self.pool = None if executors is None else ExecutorPool(executors)
        self._cores, self._tick_s, self._cycle_every_s = cores, tick_s, cycle_every_s
        self._core_reports_late_every, self._keeps_batches = core_reports_late_every, keeps_batches
        self._loop: Steering | None = None
        names = {stream for query in queries.values() for stream in query.writes}
        names |= {query.arrivals for query in queries.values() if isinstance(query.arrivals, str)}
        self.topics = {name: Topic() for name in sorted(names)}
        self.queries = {
            QueryName(name): QueryRun(
                QueryName(name), query, source_of(query, self.topics), math.inf, keeps_batches=keeps_batches
            )
            for name, query in queries.items()
        }
        self._order = 0
        self._events: list[tuple[float, int, QueryName, RunningBatch | None]] = []
        self._free_s = 0.0
        self._jobs: deque[tuple[float, float]] = deque()
        self._busy_s, self._viewed_s = 0.0, 0.0

    # The start

    def connect(
        self, loop: Steering, goals: Mapping[str, Goal], *, warm_starts: Mapping[str, WarmStart] | None = None
    ) -> None:
        """Start all queries under a loop, with what earlier runs taught; one without a goal runs ungoverned."""
        self._loop = loop
        known = warm_starts or {}
        for name, run in self.queries.items():
            goal = goals.get(name)
            if goal is not None:
                run.latency_s = math.inf if goal.latency_s is None else goal.latency_s
                loop.handle(
                    QueryStarted(
                        run.query.spec(name),
                        goal,
                        query_id=f"id-{name}",
                        has_guard=run.query.has_guard,
                        warm_start=known.get(name, WarmStart()),
                    )
                )
                run.limit_rows = run.next_limit_rows
            self._push(self.clock.now_s, name, None)
        self._push(self.clock.now_s, _CYCLE, None)

    # The plant

    def observe(self) -> Sequence[Event]:
        """The executors, where there are any."""
        if self.pool is None:
            return ()
        return (ExecutorsSeen(self.pool.view(self.clock.now_s, self._busy_fraction())),)

    def apply(self, decision: Decision) -> None:
        """Put a limit or a number of executors in force; a keep ratio was told to its batch."""
        if not isinstance(decision, ReadLimit | Executors):
            return
        if self.drop_next_apply:
            self.drop_next_apply = False
            return
        if isinstance(decision, ReadLimit):
            self.queries[decision.query].next_limit_rows = float(decision.units)
        elif self.pool is not None:
            now_s = self.clock.now_s
            self.pool.ask(decision.executors, decision.standby, now_s=now_s, busy_until_s=self._free_s)

    def in_force(self, decision: Decision) -> bool:
        """Whether the next batches are held to a limit, or so many executors are asked for."""
        if isinstance(decision, ReadLimit):
            return self.queries[decision.query].next_limit_rows == decision.units
        if isinstance(decision, Executors) and self.pool is not None:
            return self.pool.wanted == (decision.executors, decision.standby)
        return True

    def restore(self, query: QueryName) -> None:
        """A query reads without limit again."""
        run = self.queries[query]
        run.limit_rows = run.next_limit_rows = math.inf

    suspend = restore

    # Time

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return self.clock.now_s

    @property
    def executor_s(self) -> float:
        """Executor seconds until now; those of cores where there are no executors."""
        return self._cores * self.now_s if self.pool is None else self.pool.paid_executor_s(self.now_s)

    def run_until(self, time_s: float) -> None:
        """Go on until a moment."""
        events = self._events
        while events and events[0][0] < time_s:
            self._step()
        self.clock.now_s = max(self.clock.now_s, time_s)

    def run_batches(self, name: str, batches: int) -> None:
        """Go on until so many more batches of a query are done, or no row of it has come for ten minutes."""
        run = self.queries[QueryName(name)]
        for _ in range(batches):
            before, idle_until_s = run.batch_id, self.now_s + _LONGEST_IDLE_S
            while run.batch_id == before and self.now_s < idle_until_s:
                self._step()

    def _step(self) -> None:
        now_s, _, name, batch = heapq.heappop(self._events)
        self.clock.now_s = now_s
        if name == _CYCLE:
            assert self._loop is not None
            self._loop.cycle()
            self._push(now_s + self._cycle_every_s, _CYCLE, None)
        elif batch is None:
            self._plan(self.queries[name], now_s)
        else:
            self._finish(self.queries[name], batch, now_s)

    def _push(self, time_s: float, name: QueryName, batch: RunningBatch | None) -> None:
        self._order += 1
        heapq.heappush(self._events, (time_s, self._order, name, batch))

    def _rounded(self, time_s: float) -> float:
        return time_s if not self._tick_s else round(time_s / self._tick_s) * self._tick_s

    # A batch

    def _plan(self, run: QueryRun, now_s: float) -> None:
        if not self.limit_delay_batches:
            run.limit_rows = run.next_limit_rows
        waiting = run.source.total(now_s) - run.taken_rows
        rows = int(min(waiting + 1e-6, run.limit_rows))
        if rows <= 0:
            interval_s = run.query.trigger_interval_s
            later_s = _next(now_s, interval_s) if interval_s else self._rounded(now_s + _IDLE_POLL_S)
            self._push(later_s, run.name, None)
            return
        lag_rows = max(0.0, waiting - rows)
        answer = self._ask(run, rows, lag_rows, now_s)
        batch = self._priced(run, rows, lag_rows, answer, now_s)
        run.taken_rows += rows
        self._push(self._rounded(now_s + batch.duration_s), run.name, batch)

    def _ask(self, run: QueryRun, rows: int, lag_rows: float, now_s: float) -> KeepRatio | None:
        if not run.query.has_guard or self._loop is None:
            return None
        source = SourceSignal(0, rows, float(rows), lag_rows)
        planned = PlannedBatch(run.batch_id, now_s, (source,))
        return self._loop.answer(BatchPlanned(run.name, run.batch_id, planned))

    def _priced(
        self, run: QueryRun, rows: int, lag_rows: float, answer: KeepRatio | None, now_s: float
    ) -> RunningBatch:
        """What a batch keeps, and when its tasks are done."""
        query = run.query
        first = run.taken_rows
        cut, late_part, on_time_part = kept_parts(run, rows, answer, now_s)
        kept = round((cut - first) * late_part + (first + rows - cut) * on_time_part)
        cost_s = run.cost_s(now_s)
        noise = run.noise_factor()
        work_core_s = rows * query.read_part * cost_s + kept * (1.0 - query.read_part) * cost_s
        core_s = noise * run.warm_up_factor() * (work_core_s + query.task_overhead_core_s)
        begins_s = max(self._free_s, now_s + noise * query.overhead_s)
        ends_s = begins_s + core_s / (self._cores if self.pool is None else self.pool.cores(now_s))
        self._free_s = ends_s
        if self.pool is not None:
            self._jobs.append((begins_s, ends_s))
        duration_s = ends_s + noise * query.commit_s - now_s
        return RunningBatch(
            run.batch_id, now_s, rows, lag_rows, first, cut, kept, late_part, on_time_part, core_s, duration_s, answer
        )

    def _finish(self, run: QueryRun, batch: RunningBatch, now_s: float) -> None:
        query, rows = run.query, batch.rows
        source = SourceSignal(0, rows, float(rows), batch.lag_rows)
        guard = guard_signal(run, batch) if query.has_guard else None
        put_out = round(query.rows_out_per_row * batch.kept_rows) if query.writes else None
        signal = BatchSignal(
            run.name,
            batch.batch_id,
            batch.planned_s,
            batch.duration_s,
            rows,
            (source,),
            guard=guard,
            output_rows=put_out,
            is_next_planned=self.limit_delay_batches > 0,
        )
        count_batch(run, batch, signal)
        for stream in query.writes:
            self.topics[stream].write(now_s, query.rows_out_per_row * batch.kept_rows)
        run.batch_id += 1
        run.limit_rows = run.next_limit_rows
        if self._loop is not None:
            self._loop.handle(BatchFinished(signal, self._told_core_s(run, batch.core_s)))
        interval_s = query.trigger_interval_s
        self._push(now_s if not interval_s else max(now_s, _next(batch.planned_s, interval_s)), run.name, None)

    def _told_core_s(self, run: QueryRun, core_s: float) -> float:
        every = self._core_reports_late_every
        run.owed_core_s += core_s
        told_s = 0.0 if every and run.batch_id % every == 0 else run.owed_core_s
        run.owed_core_s -= told_s
        return told_s

    def _busy_fraction(self) -> float | None:
        """Part of the time since the last look in which tasks ran."""
        now_s, busy_s = self.clock.now_s, 0.0
        while self._jobs and self._jobs[0][0] < now_s:
            begin_s, end_s = self._jobs.popleft()
            busy_s += min(end_s, now_s) - begin_s
            if end_s > now_s:
                self._jobs.appendleft((now_s, end_s))
                break
        span_s, self._viewed_s = now_s - self._viewed_s, now_s
        return busy_s / span_s if span_s > 0 else None


def _next(now_s: float, interval_s: float) -> float:
    """The next trigger: a missed one is made up for at once, the next ones are on the grid again."""
    return (math.floor(now_s / interval_s + 1e-9) + 1) * interval_s
