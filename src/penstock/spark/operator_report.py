"""What an operator reports of a batch: figures of each task, added up by the driver.

Tasks send them in an accumulator, beside what they have learned. Spark counts what a task has sent once it has
succeeded, and before its job is done, so that all of a batch is there when the batch is reported. In the plan there is
nothing of it: a row of its own and ``DataFrame.observe`` took 40 ms of each batch and 0.2 us of each row.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.accumulators import Accumulator

BatchKey = tuple[str, int]
"""The run of a query, and its batch."""
Figures = tuple[float | None, ...]
StageReports = dict[int, tuple[int, list[Figures]]]
"""By partition the attempt that ran it, and what it said: several times where it read several partitions in one
(``coalesce``)."""
TaskReports = dict[str, dict[int, dict[int, StageReports]]]
"""By run, batch and stage."""

REPORT_FIELDS = (
    "offered_rows", "kept_rows", "keep_ratio", "answered", "everything", "oldest_s", "newest_s", "offered_work",
    "kept_work", "function_s", "late_rows", "kept_late_rows", "late_work", "kept_late_work",
)  # fmt: skip
_UNREAD = 16
"""Batches of a run whose reports wait for the driver: it reads each when its progress comes, one batch later."""
_UNREAD_RUNS = 256
"""Runs with reports that wait: those that ended before anybody read their last ones make room."""
_REMEMBERED = 4096
"""Batches whose sums are at hand: as many as those whose directives are."""
_adding = threading.Lock()


class ReportSum(AccumulatorParam[TaskReports]):
    """Puts the reports of all tasks together."""

    def zero(self, value: TaskReports) -> TaskReports:
        """Nothing reported."""
        del value
        return {}

    def addInPlace(self, value1: TaskReports, value2: TaskReports) -> TaskReports:  # noqa: N802 - Spark's name
        """Add what one task says; batches that nobody reads make room for newer ones of their query."""
        with _adding:
            for run_id, batches in value2.items():
                # Put last: the run that was longest silent is the one that makes room.
                known = value1[run_id] = value1.pop(run_id, {})
                for batch_id, stages in batches.items():
                    for stage, partitions in stages.items():
                        _add_stage(known.setdefault(batch_id, {}).setdefault(stage, {}), partitions)
                while len(known) > _UNREAD:
                    del known[min(known)]
            while len(value1) > _UNREAD_RUNS:
                del value1[next(iter(value1))]
        return value1


def _add_stage(known: StageReports, found: StageReports) -> None:
    """Add to a stage: a partition that runs again counts as its newest attempt says."""
    for partition, (attempt, figures) in found.items():
        before, told = known.get(partition, (-1, []))
        if attempt > before:
            known[partition] = (attempt, list(figures))
        elif attempt == before:
            told.extend(figures)


class OperatorReports:
    """What the operators of this process report, batch by batch."""

    def __init__(self) -> None:
        self._sums: dict[str, Accumulator[TaskReports]] = {}
        self._read: OrderedDict[BatchKey, dict[str, dict[str, float | None]]] = OrderedDict()
        self._reading = threading.Lock()

    def add(self, name: str, sums: Accumulator[TaskReports]) -> None:
        """An operator is built, whose tasks report there."""
        with _adding:
            self._sums[name] = sums

    def reports(self, run_id: str, batch_id: int) -> dict[str, dict[str, float | None]]:
        """What each operator reports of a finished batch, by its name."""
        batch = (run_id, batch_id)
        with self._reading:
            if batch not in self._read:
                self._remember(batch, self._taken(run_id, batch_id))
            return self._read.get(batch, {})

    def _taken(self, run_id: str, batch_id: int) -> dict[str, dict[str, float | None]]:
        with _adding:
            taken = {name: sums.value.get(run_id, {}).pop(batch_id, None) for name, sums in self._sums.items()}
        return {name: total_of_stages(stages) for name, stages in taken.items() if stages}

    def _remember(self, batch: BatchKey, found: dict[str, dict[str, float | None]]) -> None:
        if not found:
            return
        self._read[batch] = found
        while len(self._read) > _REMEMBERED:
            self._read.popitem(last=False)


reports = OperatorReports()


def total_of_stages(stages: dict[int, StageReports]) -> dict[str, float | None]:
    """The report of a batch, of all stages that ran the operator over rows of their own.

    ``foreachBatch`` may run it twice over the same partitions, which count once, or look into the first one, keep that,
    and run the others in a stage after it. Both copies in a union of a frame with itself are partitions of one stage,
    and both count.

    Examples
    --------
    >>> row = (4.0, 0.5, 1.0, 0.0, 100.0, 102.0, 3.0, 1.5, 0.2, 0.0, 0.0, 0.0, 0.0)
    >>> both = {0: (5, [(10.0, *row)]), 1: (6, [(5.0, *row)])}
    >>> total_of_stages({7: both, 8: {0: (7, [(10.0, *row)])}})["offered_rows"]
    15.0
    >>> total_of_stages({7: {0: (5, [(10.0, *row)])}, 8: {1: (7, [(5.0, *row)])}})["offered_rows"]
    15.0
    """
    counted: StageReports = {}
    for partitions in sorted(stages.values(), key=_offered_rows, reverse=True):
        if counted.keys().isdisjoint(partitions):
            counted |= partitions
    return total_report([figures for _, told in counted.values() for figures in told])


def _offered_rows(partitions: StageReports) -> float:
    return sum(figures[0] or 0.0 for _, told in partitions.values() for figures in told)


def total_report(partitions: Sequence[Sequence[float | None]]) -> dict[str, float | None]:
    """The reports of all partitions of a batch as one, by name.

    Examples
    --------
    >>> first = (10.0, 4.0, 0.5, 1.0, 0.0, 100.0, 102.0, 3.0, 1.5, 0.2, 0.0, 0.0, 0.0, 0.0)
    >>> second = (20.0, 6.0, 0.5, 0.0, 0.0, 99.0, 103.0, 6.0, 2.5, 0.3, 5.0, 1.0, 1.5, 0.5)
    >>> total = total_report([first, second])
    >>> total["offered_rows"], total["kept_late_rows"], total["answered"], total["oldest_s"], total["newest_s"]
    (30.0, 1.0, 0.0, 99.0, 103.0)
    """
    known = {
        name: [value for partition in partitions if (value := partition[place]) is not None]
        for place, name in enumerate(REPORT_FIELDS)
    }
    total: dict[str, float | None] = {name: sum(values) for name, values in known.items()}
    total |= {name: min(known[name], default=1.0) for name in ("answered", "everything")}
    total["keep_ratio"] = max(known["keep_ratio"], default=1.0)
    total["oldest_s"], total["newest_s"] = min(known["oldest_s"], default=None), max(known["newest_s"], default=None)
    return total
