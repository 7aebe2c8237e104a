"""Queries joined by topics on one engine in virtual time: batches with a fixed cost share slots, first come first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.control.graph_flow import BatchDone
from penstock.control.graph_governor import BatchCost


@dataclass(frozen=True)
class QueryCost:
    """What it reads (None for the input), and core seconds for a batch and for a row."""

    reads: str | None
    batch_core_s: float
    row_core_s: float


@dataclass
class GraphPlant:
    """A batch has two tasks of equal length, as its topic has two partitions; a slot runs one at a time.

    The driver plans a batch and commits it without a slot. Where Spark's report of a batch comes before that of its
    job, a batch seems to cost nothing and the one after it both: every ``late_every``-th, none with zero.
    """

    queries: Mapping[str, QueryCost]
    load_rows_per_s: float
    batch_s: float
    limits: dict[str, int] = field(default_factory=dict)
    on_batch: Callable[[BatchDone, BatchCost], int] | None = None
    slots: int = 2
    plan_s: float = 0.15
    commit_s: float = 0.15
    late_every: int = 0

    def run(self, seconds: float, settle_s: float) -> dict[str, float]:
        """Rows a second of each query between two moments, a batch that is not done counting its part."""
        free_s = [0.0] * self.slots
        arrived: dict[str, list[tuple[float, int]]] = {name: [] for name in self.queries}
        taken, done = dict.fromkeys(self.queries, 0), dict.fromkeys(self.queries, 0.0)
        before_s: dict[str, float] = {}
        count = dict.fromkeys(self.queries, 0)
        owed_s = dict.fromkeys(self.queries, 0.0)
        events = [(0.0, place, name) for place, name in enumerate(self.queries)]
        heapq.heapify(events)
        finished: list[tuple[float, int, str, BatchDone, BatchCost]] = []
        while events:
            now_s, place, name = heapq.heappop(events)
            if now_s >= seconds:
                break
            while finished and finished[0][0] <= now_s:
                _, _, own, batch, cost = heapq.heappop(finished)
                if self.on_batch is not None:
                    self.limits[own] = self.on_batch(batch, cost)
            there = self._there(name, now_s, arrived)
            rows = min(there - taken[name], self.limits.get(name, there))
            if rows <= 0:
                heapq.heappush(events, (self._next_trigger(now_s), place, name))
                continue
            taken[name] += rows
            core_s = self.queries[name].batch_core_s + rows * self.queries[name].row_core_s
            starts_s, ends_s = [], []
            for _ in range(2):
                slot = free_s.index(min(free_s))
                starts_s.append(max(free_s[slot], now_s + self.plan_s))
                free_s[slot] = starts_s[-1] + core_s / 2
                ends_s.append(free_s[slot])
            end_s = max(ends_s) + self.commit_s
            busy = max(1e-9, max(ends_s) - min(starts_s))
            inside = max(0.0, min(seconds, max(ends_s)) - max(settle_s, min(starts_s)))
            done[name] += rows * inside / busy
            for reader in (other for other, query in self.queries.items() if query.reads == name):
                arrived[reader].append((end_s, rows))
            period_s = max(end_s - now_s, now_s - before_s.get(name, now_s))
            before_s[name] = now_s
            owed_s[name] += core_s
            count[name] += 1
            told_s = 0.0 if self.late_every and count[name] % self.late_every == 0 else owed_s[name]
            owed_s[name] -= told_s
            batch = BatchDone(name, end_s, float(there - taken[name]), period_s)
            heapq.heappush(finished, (end_s, place, name, batch, BatchCost(rows, told_s)))
            heapq.heappush(events, (max(end_s, self._next_trigger(now_s)), place, name))
        return {name: rows / (seconds - settle_s) for name, rows in done.items()}

    def _there(self, name: str, now_s: float, arrived: Mapping[str, list[tuple[float, int]]]) -> int:
        if self.queries[name].reads is None:
            return math.floor(self.load_rows_per_s * now_s)
        return sum(rows for time_s, rows in arrived[name] if time_s <= now_s)

    def _next_trigger(self, now_s: float) -> float:
        return (math.floor(now_s / self.batch_s + 1e-9) + 1) * self.batch_s
