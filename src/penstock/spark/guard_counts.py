"""What guards let through, batch by batch, read from the plan of each (:mod:`penstock.spark.guard_filters`)."""

from __future__ import annotations

import logging
import queue
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.model.directive import FLOOR_AT, RATIO_AT
from penstock.spark import internals
from penstock.spark.guard_filters import (
    MILLISECONDS,
    NOBODY,
    TAGS,
    guards_in,
    report_of,
    rows_at,
    rows_by_guard,
    sample_every,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.spark.guard_filters import GuardFilters
    from penstock.spark.internals import JavaObject

logger = logging.getLogger("penstock")

_REMEMBERED = 4096
"""Batches whose counts are at hand: as many as those whose directives are."""
_UNREAD = 2
"""A report comes while the next batch is planned; one whose report is not there when the one after it is stays away."""


@dataclass(slots=True)
class _Batch:
    """A batch that has asked; ``execution`` until its counts are read, by one thread."""

    tag: int
    ratio: float
    floor: float
    run_id: str
    execution: JavaObject | None = None
    is_known: bool = False
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    reading: threading.Lock = field(default_factory=threading.Lock)


class GuardCounts:
    """The counts of all guards of this process, batch by batch.

    The plan of a batch is at hand when the batch asks, and no longer when its report comes: the next one may be planned
    by then. So it is remembered from the question on, and let go of when its counts are read.
    """

    def __init__(self) -> None:
        self._collectors: dict[str, JavaObject | None] = {}
        self._streams: dict[str, JavaObject] = {}
        self._expected: dict[str, tuple[int, float | None]] = {}
        self._batches: OrderedDict[tuple[str, int], _Batch] = OrderedDict()
        self._arrivals: OrderedDict[tuple[str, int], tuple[int, int]] = OrderedDict()
        self._places: dict[str, list[GuardFilters]] = {}
        self._unreadable: set[str] = set()
        self._next_tag = 0
        self._lock = threading.Lock()
        self._late: queue.SimpleQueue[_Batch] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None

    def add(self, name: str, collector: JavaObject | None) -> None:
        """A guard is built that counts so; with the list of its arrivals, where it has any."""
        self._collectors[name] = collector

    def expect(self, run_id: str, batch_id: int, rows: float | None) -> None:
        """How many rows the batch that asks next has; None where nobody knows."""
        self._expected[run_id] = (batch_id, rows)

    def begin(self, query_id: str, run_id: str, batch_id: int, told: Sequence[float]) -> list[float]:
        """A batch is being planned, on this thread: what is added to the array that it is told."""
        batch = self._batches.get((run_id, batch_id))
        if batch is None:
            batch = self._begun(run_id, batch_id, told)
            if self._collectors and run_id not in self._unreadable:
                batch.execution = self._execution(query_id, run_id, batch_id)
            batch.is_known = batch.execution is not None
        if not batch.is_known:
            return [NOBODY, float(batch.tag * MILLISECONDS)]
        expected = self._expected.get(run_id)
        rows = expected[1] if expected is not None and expected[0] == batch_id else None
        return [float(sample_every(rows) - 1), float(batch.tag * MILLISECONDS)]

    def reports(self, run_id: str, batch_id: int) -> dict[str, dict[str, Any]]:
        """What the guards of a finished batch report; nothing for one that is not known, or cannot be read."""
        batch = self._batches.get((run_id, batch_id))
        if batch is None:
            return {}
        self._read(batch)
        return batch.reports

    def forget(self, run_id: str) -> None:
        """A query is over, and its last report was read: let go of its plans."""
        self._streams.pop(run_id, None)
        self._expected.pop(run_id, None)
        self._places.pop(run_id, None)
        self._unreadable.discard(run_id)
        with self._lock:
            for key, batch in self._batches.items():
                if key[0] == run_id:
                    # Not read: a batch that failed has no plan, and reading it would make one.
                    batch.execution = None

    def _begun(self, run_id: str, batch_id: int, told: Sequence[float]) -> _Batch:
        with self._lock:
            self._next_tag = (self._next_tag + 1) % TAGS
            batch = self._batches[run_id, batch_id] = _Batch(self._next_tag, told[RATIO_AT], told[FLOOR_AT], run_id)
            while len(self._batches) > _REMEMBERED:
                self._batches.popitem(last=False)
            before = self._batches.get((run_id, batch_id - _UNREAD))
        if before is not None and before.execution is not None:
            self._read_late(before)
        return batch

    def _read_late(self, batch: _Batch) -> None:
        """Read the counts of a batch whose report stays away, while its plan is there.

        Not on this thread, on which a batch waits to be planned, but on one for all: Py4J gives every thread a
        connection of its own.
        """
        with self._lock:
            if self._reader is None:
                self._reader = threading.Thread(target=self._read_on, name="penstock-counts", daemon=True)
                self._reader.start()
        self._late.put(batch)

    def _read_on(self) -> None:
        while True:
            self._read(self._late.get())

    def _execution(self, query_id: str, run_id: str, batch_id: int) -> JavaObject | None:
        stream = self._streams.get(run_id)
        if stream is None:
            stream = internals.stream_of(query_id, run_id)
            if stream is None:
                return None
            self._streams[run_id] = stream
        return internals.execution_of_batch(stream, batch_id)

    def _read(self, batch: _Batch) -> None:
        with batch.reading:
            execution, batch.execution = batch.execution, None
            if execution is None:
                return
            try:
                for name, found in self._rows(batch.run_id, execution).items():
                    batch.reports[name] = {**report_of(found, batch.ratio, batch.floor), **self._ends(name, batch.tag)}
            except Exception:
                logger.exception("the rows of a query cannot be counted: they are taken to be what it is told")
                self._unreadable.add(batch.run_id)

    def _rows(self, run_id: str, execution: JavaObject) -> dict[str, dict[str, int]]:
        """Rows by guard: from where they were in the batch before, or else from the whole plan."""
        guards = self._places.get(run_id)
        found = None if guards is None else rows_at(guards, execution)
        if found is not None:
            return found
        plan = internals.counted_plan(execution)
        guards = guards_in(plan, list(self._collectors))
        try:
            places = internals.places_of_filters(execution)
            self._places[run_id] = [guard.at(places) for guard in guards]
        except KeyError:
            # A plan that Spark still changes while it runs: its filters are found anew in every batch.
            self._places.pop(run_id, None)
        return rows_by_guard(guards, internals.counted_rows)

    def _ends(self, name: str, tag: int) -> dict[str, float]:
        """Oldest and newest arrival in a batch, of the rows that told."""
        collector = self._collectors.get(name)
        if collector is None:
            return {}
        with self._lock:
            for value in internals.take_collected(collector):
                key, moment = (name, value // MILLISECONDS), value % MILLISECONDS
                oldest, newest = self._arrivals.get(key, (moment, moment))
                self._arrivals[key] = (min(oldest, moment), max(newest, moment))
            while len(self._arrivals) > _REMEMBERED:
                self._arrivals.popitem(last=False)
            ends = self._arrivals.pop((name, tag), None)
        return {} if ends is None else {"oldest_s": ends[0] / 1000.0, "newest_s": ends[1] / 1000.0}


counts = GuardCounts()
