"""Looks at what lives in the heaps of executors, one at a time and beside the loop.

A look collects all garbage, so it is made only when somebody asks, and while tasks run: what they hold on to is part of
what a heap has to have room for, and between two batches it is not there.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from penstock.spark import internals
from penstock.spark.rehearsal import in_one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from penstock.spark.internals import LivingHeap

logger = logging.getLogger("penstock")

_GROUP = "penstock heap look"
_LOOK_EVERY_S = (0.02, 0.3)
"""Pauses between two questions whether tasks run, drawn: or every look would fall on the begin of a batch. Tasks of a
short batch run for some tenths of a second, and longer pauses would miss most of them."""
_TRIES = 3
"""Looks that may fail one after another: a job that waits for a slot for too long says nothing of the next one."""
_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HeapLook:
    """What a look told, each figure of the executor for which it is largest.

    ``aging_mb_per_s`` is what joined the old generation since the look before, ``gcs_per_s`` how many collections
    there were and ``young_gc_s`` how long one took that was not full; None where there was no look before.
    ``taken_mb`` is the heap that the JVM had taken; ``collected_s`` is how long each executor collected for the look.
    """

    live_mb: float
    full_gc_s: float
    aging_mb_per_s: float | None = None
    collected_s: Mapping[str, float] = field(default_factory=dict)
    gcs_per_s: float | None = None
    young_gc_s: float | None = None
    taken_mb: float | None = None


def look_of(before: Sequence[LivingHeap], now: Sequence[LivingHeap]) -> HeapLook:
    """What one look, and the one before it, tell.

    Where the JVM made full collections of its own in between, the old generation was seen to grow only since the last
    one: with ``n`` of them for ``1 / (n + 1)`` of the time.

    Examples
    --------
    >>> from penstock.spark.internals import LivingHeap
    >>> megabyte = 1024 * 1024
    >>> first = LivingHeap("0", 10.0, live_bytes=200 * megabyte, old_before_bytes=380 * megabyte, collected_s=0.2)
    >>> second = LivingHeap("0", 20.0, live_bytes=190 * megabyte, old_before_bytes=260 * megabyte, collected_s=0.1)
    >>> look_of([first], [second])
    HeapLook(live_mb=190.0, full_gc_s=0.1, aging_mb_per_s=6.0, collected_s={'0': 0.1}, gcs_per_s=None, \
young_gc_s=None, taken_mb=None)
    """
    earlier = {one.executor_id: one for one in before}
    pairs = [(earlier[one.executor_id], one) for one in now if one.executor_id in earlier]
    pairs = [(last, one) for last, one in pairs if one.at_s > last.at_s]
    aging = [_aging_bytes(last, one) / _MEGABYTE / (one.at_s - last.at_s) for last, one in pairs]
    pace = max((known for last, one in pairs if (known := _pace(last, one)) is not None), default=None)
    return HeapLook(
        live_mb=max(one.live_bytes for one in now) / _MEGABYTE,
        full_gc_s=max(one.collected_s for one in now),
        aging_mb_per_s=max(aging, default=None),
        collected_s={one.executor_id: one.collected_s for one in now},
        gcs_per_s=None if pace is None else pace.gcs_per_s,
        young_gc_s=None if pace is None else pace.young_gc_s,
        taken_mb=None if pace is None else pace.taken_mb,
    )


class _Pace(NamedTuple):
    """How often one executor collected, how long a young collection took, and the heap that it had."""

    gcs_per_s: float
    young_gc_s: float
    taken_mb: float


def _pace(last: LivingHeap, one: LivingHeap) -> _Pace | None:
    """Of the time between two looks, without what they asked for themselves; None where that is not known.

    A JVM that finds no room for a young collection counts one nevertheless before the full one.
    """
    if last.after is None or one.before is None:
        return None
    young, young_s = one.before.young - last.after.young, one.before.young_s - last.after.young_s
    return _Pace(young / (one.at_s - last.at_s), young_s / young if young else 0.0, one.taken_bytes / _MEGABYTE)


def _aging_bytes(last: LivingHeap, one: LivingHeap) -> float:
    """What joined the old generation between two looks."""
    full = 0 if last.after is None or one.before is None else one.before.full - last.after.full
    if full <= 0 or not one.old_kept_bytes:
        return max(0.0, one.old_before_bytes - last.live_bytes)
    return max(0.0, one.old_before_bytes - one.old_kept_bytes) * (full + 1)


class HeapLooks:
    """Looks on a thread of its own; never raises, and what could not be seen is not told.

    Parameters
    ----------
    spark
        The session.
    within_s
        How long a look may wait for tasks to run, and then for its own to end.
    """

    def __init__(self, spark: SparkSession, *, within_s: float) -> None:
        self._spark, self._within_s = spark, within_s
        self._thread: threading.Thread | None = None
        self._before: list[LivingHeap] = []
        self._found: HeapLook | None = None
        self._failures = 0
        self._closed = threading.Event()

    @property
    def is_busy(self) -> bool:
        """Whether a look is under way."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        """Look, unless that is being done already or has failed too often."""
        if self.is_busy or self._failures >= _TRIES or self._closed.is_set():
            return
        self._thread = threading.Thread(target=self._look, name="penstock-heap-look", daemon=True)
        self._thread.start()

    def take(self) -> HeapLook | None:
        """What was seen since the last call; None where nothing was."""
        found, self._found = self._found, None
        return found

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def _look(self) -> None:
        try:
            now = self._ask()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, heaps are sized by what Spark tells
            self._failures += 1
            logger.info("what lives in the heap was not seen: %s", in_one_line(error))
            return
        if now:
            self._failures = 0
            self._found, self._before = look_of(self._before, now), now

    def _ask(self) -> list[LivingHeap]:
        group = f"{_GROUP} {uuid.uuid4().hex}"
        context = self._spark.sparkContext
        context.setJobGroup(group, _GROUP, interruptOnCancel=False)
        question = internals.heap_question(self._spark)
        if not self._await_tasks():
            return []
        watch = threading.Timer(self._within_s, context.cancelJobGroup, (group,))
        watch.daemon = True
        watch.start()
        try:
            return internals.living_heaps(question)
        finally:
            watch.cancel()

    def _await_tasks(self) -> bool:
        """Whether tasks came to run in time: an engine without work makes no garbage, and tells nothing of its need."""
        deadline_s = time.monotonic() + self._within_s
        while not internals.has_running_tasks(self._spark):
            pause_s = random.uniform(*_LOOK_EVERY_S)  # noqa: S311 - nobody has to be kept from guessing it
            if time.monotonic() > deadline_s or self._closed.wait(pause_s):
                return False
        return not self._closed.is_set()
