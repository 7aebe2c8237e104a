"""An open-loop load generator: rows leave when their profile says, whatever becomes of those before them.

Process ``i`` of ``n`` sends the rows whose offsets leave the remainder ``i``. What a row holds and when it is due are
functions of its offset, so the processes need not talk to one another, and anybody can say afterwards what was sent.
"""

from __future__ import annotations

import math
import multiprocessing
import queue
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import BrokerError
from penstock.kafka.load_records import json_records
from penstock.kafka.load_tally import LoadTally
from penstock.model.profile import LoadProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.process import BaseProcess
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Event

    from numpy.typing import NDArray

    from penstock.kafka.load_records import Content
    from penstock.kafka.load_sinks import FileTarget, KafkaTarget, Sink

_TICK_S = 0.01
_CHUNK_ROWS = 5_000
_START_MARGIN_S = 0.5
_READY_WITHIN_S = 60.0
_FILE_TICK_S = 1.0


@dataclass(frozen=True, slots=True)
class LoadJob:
    """What to send where.

    ``rows`` is how many rows there are in all; the profile says when.
    """

    profile_json: str
    content: Content
    target: KafkaTarget | FileTarget
    rows: int
    processes: int
    tick_s: float = _TICK_S


@dataclass(frozen=True, slots=True)
class LoadTick:
    """Where a run is: rows of the last full second, and how late the latest of them was."""

    elapsed_s: float
    rows_per_s: float
    late_max_ms: float
    rows: int


@dataclass(frozen=True, slots=True)
class _Report:
    process: int
    second: int
    rows: int
    late_max_ms: float


def run_load(
    profile: LoadProfile,
    content: Content,
    target: KafkaTarget | FileTarget,
    *,
    processes: int,
    seconds: float | None,
    watch: Callable[[LoadTick], None],
) -> tuple[LoadTally, float]:
    """Send a profile to its end, or for so many seconds; gives the tally and the moment at which the profile began."""
    from penstock.kafka.load_sinks import FileTarget  # noqa: PLC0415 - its import costs help nothing

    total = profile.total_rows if seconds is None else profile.rows_by(seconds)
    if total is None:
        raise BrokerError("this load profile never ends: say for how long with --seconds")
    tick_s = _FILE_TICK_S if isinstance(target, FileTarget) else _TICK_S
    job = LoadJob(profile.to_json(), content, target, total, processes, tick_s)
    # Forked processes would share the sockets and locks of whatever threads this one has.
    context = multiprocessing.get_context("spawn")
    reports: Queue[_Report | LoadTally | int] = context.Queue()
    epoch, stop = context.Value("d", 0.0), context.Event()
    workers = [
        context.Process(target=_work, args=(job, number, epoch, stop, reports), daemon=True)
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    try:
        _await_ready(workers, reports)
        # At a full second, so that the first line of the truth is not a part of one.
        began_s = math.ceil(time.time() + _START_MARGIN_S)
        epoch.value = float(began_s)
        return _gather(workers, reports, stop, began_s, watch), float(began_s)
    finally:
        stop.set()
        for worker in workers:
            worker.join(timeout=5.0)
            if worker.is_alive():
                worker.terminate()


def _await_ready(workers: Sequence[BaseProcess], reports: Queue[_Report | LoadTally | int]) -> None:
    for _ in workers:
        _next(workers, reports, _READY_WITHIN_S)


def _gather(
    workers: Sequence[BaseProcess],
    reports: Queue[_Report | LoadTally | int],
    stop: Event,
    began_s: int,
    watch: Callable[[LoadTick], None],
) -> LoadTally:
    total, done, rows = LoadTally(), 0, 0
    seconds: dict[int, list[_Report]] = {}
    while done < len(workers):
        try:
            report = _next(workers, reports, _READY_WITHIN_S)
        except KeyboardInterrupt:
            # What was sent so far is in the topic: the truth about it is wanted all the same.
            stop.set()
            continue
        if isinstance(report, LoadTally):
            total.merge(report)
            done += 1
        elif isinstance(report, _Report):
            told = seconds.setdefault(report.second, [])
            told.append(report)
            if len(told) == len(workers):
                rows += sum(one.rows for one in told)
                late_ms = max(one.late_max_ms for one in told)
                watch(LoadTick(report.second + 1 - began_s, sum(one.rows for one in told), late_ms, rows))
    return total


def _next(
    workers: Sequence[BaseProcess], reports: Queue[_Report | LoadTally | int], within_s: float
) -> _Report | LoadTally | int:
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        try:
            return reports.get(timeout=0.5)
        except queue.Empty:
            failed = [worker.exitcode for worker in workers if worker.exitcode not in {None, 0}]
            if failed:
                raise BrokerError(f"a process of the load generator ended with code {failed[0]}") from None
    raise BrokerError(f"the load generator's processes say nothing for {within_s:g} s: is the broker still there?")


def _work(job: LoadJob, process: int, epoch: object, stop: Event, reports: Queue[_Report | LoadTally | int]) -> None:
    """What one process does, from its start to its end."""
    profile = LoadProfile.from_json(job.profile_json)
    sink = job.target.open(process)
    json_records(job.content, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))  # builds the pools
    reports.put(process)
    while epoch.value == 0.0:  # type: ignore[attr-defined]
        if stop.wait(0.01):
            return
    worker = _Worker(job, process, profile, sink, epoch.value)  # type: ignore[attr-defined]
    with suppress(KeyboardInterrupt):
        worker.run(stop, reports)
    worker.tally.lost += sink.close()
    reports.put(worker.tally)


class _Worker:
    def __init__(self, job: LoadJob, process: int, profile: LoadProfile, sink: Sink, epoch_s: float) -> None:
        self.tally = LoadTally()
        self._job = job
        self._process = process
        self._profile = profile
        self._sink = sink
        self._epoch_s = epoch_s
        self._next = process
        self._second = int(epoch_s)
        self._second_rows = 0
        self._second_late_ms = 0.0

    def run(self, stop: Event, reports: Queue[_Report | LoadTally | int]) -> None:
        """Send whatever is due, again and again."""
        while self._next < self._job.rows and not stop.is_set():
            now_s = time.time()
            self._report_until(int(now_s), reports)
            due = (
                min(self._job.rows, self._profile.rows_by(max(0.0, now_s - self._epoch_s)))
                if now_s > self._epoch_s
                else 0
            )
            end = min(due, self._next + _CHUNK_ROWS * self._job.processes)
            offsets = np.arange(self._next, end, self._job.processes, dtype=np.int64)
            if len(offsets):
                self._send(offsets)
            if len(offsets) < _CHUNK_ROWS:
                self._sink.poll()
                time.sleep(max(0.0, self._job.tick_s - (time.time() - now_s)))
        self._report_until(self._second + 1, reports)

    def _send(self, offsets: NDArray[np.int64]) -> None:
        due_s = self._epoch_s + self._profile.arrival_s(offsets)
        arrival_us = np.rint(due_s * 1e6).astype(np.int64)
        keys, values = json_records(self._job.content, offsets, arrival_us)
        self._sink.send(keys, values)
        sent_s = time.time()
        self.tally.add(sent_s, due_s)
        self._second_rows += len(offsets)
        self._second_late_ms = max(self._second_late_ms, (sent_s - float(due_s[0])) * 1000)
        self._next = int(offsets[-1]) + self._job.processes

    def _report_until(self, second: int, reports: Queue[_Report | LoadTally | int]) -> None:
        while self._second < second:
            reports.put(_Report(self._process, self._second, self._second_rows, self._second_late_ms))
            self._second, self._second_rows, self._second_late_ms = self._second + 1, 0, 0.0
