"""Repay: precisely the rows that batches dropped, to be processed when there is room.

What a batch was told stands beside its checkpoint (:mod:`penstock.spark.record`), with its offsets. Whether a row was
kept is a hash of its identity against that. So the same rows are read again and the same decision is made, inverted:
what comes out is what was dropped, each row once. An aggregation over them, added to one over the rows that were kept,
is what a run that shed nothing gives.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Any

from penstock.errors import RepayError
from penstock.model import ActionKind, QueryName
from penstock.report.moments import moment_s
from penstock.spark.folders import open_folder
from penstock.spark.guard import dropped_rows, seed
from penstock.spark.record import FOLDER, CheckpointRecord, RepaidState
from penstock.spark.repay_sources import Remains, SourceAgain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.spark.guard_spec import GuardSpec
    from penstock.spark.record import BatchRecord
    from penstock.store import Store

_CHECKPOINT = "checkpoint"


class RepayState(StrEnum):
    """Where a batch stands."""

    OWED = "owed"
    BEGUN = "begun"
    REPAID = "repaid"
    GONE = "gone"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class OwedBatch:
    """A batch that shed, and what can be done about it.

    Parameters
    ----------
    batch_id, planned_s
        The batch, and when it was planned.
    state
        Owed: not yet repaid. Begun: somebody began to, and did not end. Gone: the source does not have all of its rows
        any more. Unclear: what it kept to is not known.
    keep_ratio
        What it was told.
    remains
        What the source still has of it; None where nobody asked.
    """

    batch_id: int
    planned_s: float
    state: RepayState
    keep_ratio: float
    remains: Remains | None = None

    def to_dict(self) -> dict[str, object]:
        """As one JSON object."""
        remains = self.remains
        return {
            "batch_id": self.batch_id,
            "planned_s": self.planned_s,
            "state": str(self.state),
            "keep_ratio": self.keep_ratio,
            "there": None if remains is None else remains.there,
            "gone": None if remains is None else remains.gone,
            "unit": None if remains is None else remains.unit,
        }


@dataclass(frozen=True, slots=True)
class RepayBatch:
    """The dropped rows of one batch, as they came to the guard."""

    batch_id: int
    frame: DataFrame


class Repay:
    """What a query owes, and the way to repay it.

    Go through it, or call :meth:`run`: each batch is marked as begun before its rows are handed out, and as done when
    the next is asked for. A program that is killed in between finds the batch again, under the same number: where the
    sink is idempotent by batch, as ``foreachBatch`` asks of any, each row counts once.

    Parameters
    ----------
    spark
        The session to read with.
    checkpoint
        Location of the query's checkpoint.
    since, until
        Batches planned from, and before, these moments: ``"10 minutes"`` is that long ago, others as in
        ``"2026-01-05T10:00:00"``; a number is seconds since the epoch.
    rows
        What the query does between source and guard, as a function from one frame to the other. Needed where the guard
        does not stand right behind its source.
    utility
        The guard's utility, where that is a column object.
    options
        Options of the source that are not on record, such as passwords.
    partial
        Repay what is there even where the source has lost rows, or where it is unclear what a batch kept to.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        *,
        since: str | float | None = None,
        until: str | float | None = None,
        rows: Callable[[DataFrame], DataFrame] | None = None,
        utility: Column | None = None,
        options: Mapping[str, str] | None = None,
        partial: bool = False,
    ) -> None:
        self._spark, self._prepare, self._utility = spark, rows, utility
        self._options, self._partial = dict(options or {}), partial
        now_s = time.time()
        self._since_s = None if since is None else moment_s(since, now_s=now_s)
        self._until_s = None if until is None else moment_s(until, now_s=now_s)
        self._checkpoint = open_folder(checkpoint, spark)
        self.record = CheckpointRecord(open_folder(f"{checkpoint.rstrip('/')}/{FOLDER}", spark))
        self._sources: dict[str | None, SourceAgain] = {}

    # What is owed

    def batches(self, *, ask_source: bool = True) -> list[OwedBatch]:
        """Batches that shed, oldest first, each with its state; and those of which it is unclear whether they did."""
        marks, records = self.record.marks(), self.record.batches()
        committed = set(_numbers(self._checkpoint.names("commits")))
        last = max(committed, default=-1)
        found: list[OwedBatch] = []
        on_record = {record.batch_id for record in records}
        for record in records:
            if record.sheds and record.batch_id <= last:
                found.append(self._standing(record, marks.get(record.batch_id), ask_source=ask_source))
            after = record.batch_id + 1
            if record.sheds and after <= last and after not in on_record:
                found.append(OwedBatch(after, record.planned_s, RepayState.UNCLEAR, record.directive.keep_ratio))
        return [each for each in found if self._is_asked_for(each)]

    def _standing(self, record: BatchRecord, mark: RepaidState | None, *, ask_source: bool) -> OwedBatch:
        directive = record.directive
        if mark is RepaidState.DONE:
            return OwedBatch(record.batch_id, record.planned_s, RepayState.REPAID, directive.keep_ratio)
        if not record.ranges:
            return OwedBatch(record.batch_id, record.planned_s, RepayState.UNCLEAR, directive.keep_ratio)
        remains = self._source(record).remains(record.ranges[0]) if ask_source else None
        state = RepayState.BEGUN if mark is RepaidState.BEGUN else RepayState.OWED
        if remains is not None and not remains.is_whole:
            state = RepayState.GONE
        return OwedBatch(record.batch_id, record.planned_s, state, directive.keep_ratio, remains)

    def _is_asked_for(self, batch: OwedBatch) -> bool:
        is_late_enough = self._since_s is None or batch.planned_s >= self._since_s
        return is_late_enough and (self._until_s is None or batch.planned_s < self._until_s)

    def debt(self) -> tuple[list[OwedBatch], list[OwedBatch]]:
        """Batches that can be repaid, and those that cannot be in full, oldest first.

        With ``partial`` a batch of which the source has lost rows is among the former, and no other is told of.
        """
        return self._sorted(self.batches())

    def _sorted(self, found: list[OwedBatch]) -> tuple[list[OwedBatch], list[OwedBatch]]:
        wanted = {RepayState.OWED, RepayState.BEGUN}
        if self._partial:
            return [each for each in found if each.state in {*wanted, RepayState.GONE}], []
        lost = [each for each in found if each.state in {RepayState.GONE, RepayState.UNCLEAR}]
        return [each for each in found if each.state in wanted], lost

    # Repaying

    def __iter__(self) -> Iterator[RepayBatch]:
        """Batch after batch; asking for the next says that the one before is done."""
        for batch_id in self._payable():
            # Whatever can be refused is refused before anything is marked.
            frame = self.frame_of(batch_id)
            self.record.mark(batch_id, RepaidState.BEGUN)
            yield RepayBatch(batch_id, frame)
            self.record.mark(batch_id, RepaidState.DONE)

    def run(self, function: Callable[[DataFrame, int], Any], *, most: int | None = None) -> int:
        """Call a function with the dropped rows of every batch and its number, as ``foreachBatch`` would.

        Gives the number of batches repaid; no more than ``most``.
        """
        wanted = self._payable()[:most]
        for batch_id in wanted:
            self.run_batch(batch_id, function)
        return len(wanted)

    def run_batch(self, batch_id: int, function: Callable[[DataFrame, int], Any]) -> None:
        """Call a function with the dropped rows of one batch, whatever becomes of the others."""
        frame = self.frame_of(batch_id)
        self.record.mark(batch_id, RepaidState.BEGUN)
        function(frame, batch_id)
        self.record.mark(batch_id, RepaidState.DONE)

    def frame(self) -> DataFrame:
        """The dropped rows of all batches that are owed, in one frame; nothing is marked."""
        frames = [self.frame_of(batch_id) for batch_id in self._payable()]
        if not frames:
            raise RepayError("nothing is owed: every batch in this time kept all its rows, or is repaid")
        return reduce(lambda one, other: one.unionByName(other), frames)

    def frame_of(self, batch_id: int) -> DataFrame:
        """The rows that one batch dropped, as they came to the guard."""
        record = self.record.read(batch_id)
        if record is None or not record.ranges:
            raise RepayError(
                f"batch {batch_id} has no offsets on record: pass partial=True to go on without it", may_pass=True
            )
        spec = self._spec(record)
        rows = self._source(record).rows(record.ranges[0])
        if self._prepare is not None:
            rows = self._prepare(rows)
        utility = self._utility if self._utility is not None else spec.utility
        _check_columns(rows, spec)
        return dropped_rows(
            rows, record.directive, key=spec.key, arrival=spec.arrival, utility=utility, identity=tuple(spec.identity)
        )

    def _payable(self) -> list[int]:
        found = self.batches()
        payable, lost = self._sorted(found)
        if lost:
            first = lost[0]
            why = (
                "the source has not kept all its rows" if first.state is RepayState.GONE else "what it kept is unclear"
            )
            raise RepayError(
                f"{len(lost)} of {len(found)} batches cannot be repaid in full, the first is batch {first.batch_id}: "
                f"{why}; choose a later time with since=, or pass partial=True to repay what is there",
                # Of a batch that was not answered it is known as soon as its report has come.
                may_pass=all(each.state is RepayState.UNCLEAR for each in lost),
            )
        return [each.batch_id for each in payable]

    # By which columns

    def _spec(self, record: BatchRecord) -> GuardSpec:
        spec = self.record.guard(record.guard)
        number = f"batch {record.batch_id}"
        if spec is None:
            raise RepayError(f"{number} has no guard on record, so nobody knows by which columns it drew its rows")
        if spec.operators:
            raise RepayError(
                f"{number} was shed by the operator {spec.operators[0]}, which chooses by what else is in its batch of "
                "rows: use a guard where rows are to be repaid"
            )
        if spec.guards != 1:
            raise RepayError(f"the query has {spec.guards} guards: only the rows of a single one can be repaid")
        if spec.seed != seed():
            raise RepayError(f"{number} was drawn with the seed {spec.seed}, this version draws with {seed()}")
        if spec.key is None and not spec.identity:
            raise RepayError(
                f"{number} drew its rows by chance, as they have no identity: give the guard a key, or columns that "
                "tell each row from all others"
            )
        if spec.has_utility and spec.utility is None and self._utility is None:
            raise RepayError("the guard's utility is a column object, which is not on record: pass it with utility=")
        if spec.source is None:
            raise RepayError("the guard's rows come from several sources: place a guard right behind a single one")
        if not spec.is_at_source and self._prepare is None:
            raise RepayError(
                "the guard does not stand right behind its source: pass rows=, a function that does to a frame of the "
                "source what the query does in front of the guard"
            )
        return spec

    def _source(self, record: BatchRecord) -> SourceAgain:
        if record.guard not in self._sources:
            spec = self._spec(record)
            assert spec.source is not None
            if len(record.ranges) != 1:
                raise RepayError(f"the query has {len(record.ranges)} sources: only those with one can be repaid")
            self._sources[record.guard] = SourceAgain(self._spark, self._checkpoint, spec.source, self._options)
        return self._sources[record.guard]


def remember_checkpoint(store: Store, query_id: str, location: str) -> None:
    """Let whoever knows the name of a query find its checkpoint."""
    store.put_messages(query_id, [(_CHECKPOINT, location)])


def checkpoint_of(store: Store, query: str) -> str:
    """Where the query that was governed last under a name keeps its checkpoint."""
    name = QueryName(query)
    started = store.actions(query=name, kinds=(ActionKind.GOVERN,), last=1)
    query_id = str(started[-1].action.details.get("query_id", "")) if started else ""
    found = dict(store.messages(query_id)).get(_CHECKPOINT) if query_id else None
    if found is None:
        # A query that has not started yet will tell.
        raise RepayError(
            f"the store does not know where query {query!r} keeps its checkpoint: pass its location", may_pass=True
        )
    return found


def _check_columns(rows: DataFrame, spec: GuardSpec) -> None:
    wanted = [*spec.identity, *(name for name in (spec.key, spec.arrival) if name is not None)]
    missing = [name for name in wanted if name not in rows.columns]
    if missing:
        columns = ", ".join(rows.columns)
        raise RepayError(f"the guard drew by the column {missing[0]!r}, which is not there; rows= gave: {columns}")


def _numbers(names: list[str]) -> list[int]:
    return [int(name) for name in names if name.isdecimal()]
