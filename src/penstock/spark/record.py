"""What batches were told, beside the checkpoint of their query: ``<checkpoint>/penstock``.

::

    batches/<batch>.json     what the batch was told, and where it starts and ends in its sources
    guards/<print>.json      by which columns rows are drawn, and how the source was asked for
    repaid/<batch>.json      how far the batch is repaid: begun, or done

A batch that sheds has a file before it is told; so has the first one after it that keeps everything. Every other batch
kept everything. So a run of batches that shed always ends with a file, and where that is missing something is unclear:
Penstock was not there, or was killed before it heard what a batch that got no answer had kept to.

Every file also says when rows were dropped up to then, so that a run which begins knows all of it from the newest one,
however many there were and whichever of them are deleted by now.

Files live and die with the checkpoint. Nothing else decides what a batch that runs again keeps: neither the store, nor
the name of the query, nor its goal. See docs/adr/0018-told-beside-the-checkpoint.md.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isnan
from typing import TYPE_CHECKING, Any

from penstock.model.directive import SMALLEST_RATIO, Directive
from penstock.model.shed_history import LEVELS, NOTHING_SHED, ShedHistory
from penstock.spark.guard_spec import GuardSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.spark.folders import Folder

logger = logging.getLogger("penstock")

FOLDER = "penstock"
_BATCHES, _GUARDS, _REPAID = "batches", "guards", "repaid"
_SUFFIX = ".json"
_CLEAN_EVERY = 50
"""Files are looked through for old ones each time that so many were written."""
_DAY_S = 86_400.0
_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What reading a file raises that is half a file, or of somebody else: another type in it, a number without end."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Where a batch starts and ends in a source, as Spark's own JSON; a start of None is the very first."""

    start: Any
    end: Any


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What one batch was told.

    Parameters
    ----------
    directive
        Keep ratio, keep floor, and the moment before which rows are late.
    planned_s
        When the batch was planned, in seconds since the epoch.
    ranges
        Where it starts and ends in each of its sources; none where that is not known.
    guard
        Fingerprint of the guard.
    costs
        What each operator was told of the costs of its rows, by the operator's name.
    history
        When batches of the query, this one included, last dropped rows.
    """

    directive: Directive
    planned_s: float
    ranges: tuple[SourceRange, ...] = ()
    guard: str | None = None
    costs: dict[str, bytes] = field(default_factory=dict)
    history: ShedHistory = NOTHING_SHED

    @property
    def batch_id(self) -> int:
        """The batch."""
        return self.directive.batch_id

    @property
    def sheds(self) -> bool:
        """Whether rows were dropped."""
        return self.directive.sheds

    def to_bytes(self) -> bytes:
        """As the file holds it."""
        values = {
            "directive": self.directive.to_plain(),
            "planned_s": self.planned_s,
            "ranges": [[each.start, each.end] for each in self.ranges],
            "guard": self.guard,
            "costs": {name: base64.b64encode(content).decode() for name, content in self.costs.items()},
            "history": list(self.history.moments_s),
        }
        return json.dumps(values).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> BatchRecord:
        """Read what :meth:`to_bytes` wrote; an error of reading for anything else.

        Costs that cannot be read are left out: what the batch was told holds without them. Without a history that can
        be read anything may have been dropped before.

        Examples
        --------
        >>> record = BatchRecord(Directive(7, 0.25), 10.0, (SourceRange({"row": 5}, {"row": 9}),), "f00d", {"f": b"c"})
        >>> BatchRecord.from_bytes(record.to_bytes()) == record
        True
        """
        values: Mapping[str, Any] = json.loads(content)
        return cls(
            directive=Directive.from_plain(values["directive"]),
            planned_s=float(values["planned_s"]),
            ranges=tuple(SourceRange(start, end) for start, end in values["ranges"]),
            guard=values["guard"],
            costs=_costs(values["costs"]),
            history=_history(values.get("history"), float(values["planned_s"])),
        )


class RepaidState(StrEnum):
    """How far a batch is repaid."""

    BEGUN = "begun"
    DONE = "done"


class CheckpointRecord:
    """The record of one query's checkpoint.

    Parameters
    ----------
    folder
        ``<checkpoint>/penstock``.
    keep_batches
        So many of the newest batches are never deleted: Spark may run them again.
    keep_days
        Age at which what is not repaid is given up.
    """

    def __init__(self, folder: Folder, *, keep_batches: int = 100, keep_days: float = 7.0) -> None:
        self._folder = folder
        self._keep_batches, self._keep_days = keep_batches, keep_days
        self._lock = threading.Lock()
        self._newest: BatchRecord | None = None
        self._guards: set[str] = set()
        self._written = 0

    # What batches were told

    @property
    def is_shedding(self) -> bool:
        """Whether the newest batch on record shed."""
        newest = self._newest
        return newest is not None and newest.sheds

    def read(self, batch_id: int) -> BatchRecord | None:
        """What a batch was told; None where nothing is on record, so that it kept everything."""
        newest = self._newest
        if newest is not None and newest.batch_id == batch_id:
            return newest
        content = self._folder.read(_batch_name(batch_id))
        if content is None:
            return None
        found: BatchRecord | None
        try:
            found = BatchRecord.from_bytes(content)
        except _DAMAGED:
            found = None
        if found is None or found.batch_id != batch_id:
            logger.warning("what batch %d was told cannot be read: %.80r", batch_id, content)
            return None
        with self._lock:
            if self._newest is None or self._newest.batch_id < found.batch_id:
                self._newest = found
        return found

    def put(self, record: BatchRecord) -> bool:
        """Put on record what a batch is told, before it is told; says whether there was anything to write.

        One that keeps everything is worth a file only where the last one shed.
        """
        with self._lock:
            newest = self._newest
            follows = newest is None or newest.batch_id < record.batch_id
            if not record.sheds and follows and (newest is None or not newest.sheds):
                return False
            if newest is not None:
                record = replace(record, history=record.history.merged(newest.history))
            self._folder.write(_batch_name(record.batch_id), record.to_bytes())
            if newest is None or newest.batch_id <= record.batch_id:
                self._newest = record
            self._written += 1
        return True

    def keep_all_after(self, batch_id: int, history: ShedHistory = NOTHING_SHED) -> None:
        """Nobody decides from the batch after this one on: everything is kept, unless somebody said otherwise since."""
        with self._lock:
            newest = self._newest
        if newest is not None and newest.sheds and newest.batch_id <= batch_id:
            self.put(BatchRecord(Directive(batch_id + 1, everything=True), time.time(), history=history))

    def told(self, batch_id: int) -> Directive | None:
        """What a batch that runs again is to keep; None for everything.

        Without a file of its own, but right behind one that shed, it got no answer and kept to what that one was told,
        as its tasks had it sent along.
        """
        own = self.read(batch_id)
        if own is not None:
            return own.directive
        before = self.read(batch_id - 1)
        return before.directive.as_fallback(batch_id) if before is not None and before.sheds else None

    def history(self, now_s: float) -> ShedHistory:
        """When rows were dropped by whatever ran from this checkpoint before; from the newest file alone.

        Where that one sheds nothing says until when: a batch without a file may have kept to the same up to now. One
        that cannot be read may say anything.
        """
        newest_id = max(self._ids(_BATCHES), default=None)
        if newest_id is None:
            return NOTHING_SHED
        newest = self.read(newest_id)
        if newest is None:
            return NOTHING_SHED.with_ratio(SMALLEST_RATIO, now_s)
        return newest.history.with_ratio(newest.directive.least_ratio, now_s)

    def batches(self) -> list[BatchRecord]:
        """All that is on record, oldest first."""
        found = []
        for batch_id in self._ids(_BATCHES):
            record = self.read(batch_id)
            if record is not None:
                found.append(record)
        return found

    # By which columns

    def put_guard(self, spec: GuardSpec) -> str:
        """Put a guard on record; gives its fingerprint."""
        name = spec.fingerprint
        if name not in self._guards:
            if self._folder.read(f"{_GUARDS}/{name}{_SUFFIX}") is None:
                self._folder.write(f"{_GUARDS}/{name}{_SUFFIX}", spec.to_json().encode())
            self._guards.add(name)
        return name

    def guard(self, fingerprint: str | None) -> GuardSpec | None:
        """The guard of a fingerprint; None where it is not on record."""
        content = None if fingerprint is None else self._folder.read(f"{_GUARDS}/{fingerprint}{_SUFFIX}")
        try:
            return None if content is None else GuardSpec.from_json(content)
        except _DAMAGED:
            logger.warning("guard %s cannot be read: %.80r", fingerprint, content)
            return None

    # What is repaid

    def mark(self, batch_id: int, state: RepaidState) -> None:
        """Say how far a batch is repaid."""
        self._folder.write(f"{_REPAID}/{batch_id}{_SUFFIX}", json.dumps({"state": state, "at_s": time.time()}).encode())

    def marks(self) -> dict[int, RepaidState]:
        """How far batches are repaid; one that is not in it has not been begun.

        A mark that cannot be read counts as begun: the batch runs again, under its own number.
        """
        return {batch_id: self._mark(batch_id) for batch_id in self._ids(_REPAID)}

    def _mark(self, batch_id: int) -> RepaidState:
        try:
            return RepaidState(json.loads(self._folder.read(f"{_REPAID}/{batch_id}{_SUFFIX}") or b"")["state"])
        except _DAMAGED:
            return RepaidState.BEGUN

    # What is old

    def tidy(self, now_s: float) -> None:
        """Clean up now and then; to be called when no batch waits for its answer."""
        if self._written >= _CLEAN_EVERY:
            self._written = 0
            self.clean(now_s)

    def clean(self, now_s: float) -> int:
        """Delete what neither a run of a batch again nor repaying needs; gives the number of batches deleted.

        From the oldest on, up to the first that is still needed: so that it costs what it deletes.
        """
        with self._lock:
            newest = self._newest
        if newest is None:
            return 0
        deleted = 0
        for batch_id in self._ids(_BATCHES):
            if batch_id > newest.batch_id - self._keep_batches or self._is_owed(batch_id, now_s):
                break
            self._folder.delete(_batch_name(batch_id))
            self._folder.delete(f"{_REPAID}/{batch_id}{_SUFFIX}")
            deleted += 1
        return deleted

    def _is_owed(self, batch_id: int, now_s: float) -> bool:
        record = self.read(batch_id)
        if record is None or not record.sheds or now_s - record.planned_s >= self._keep_days * _DAY_S:
            return False
        return self._mark(batch_id) is not RepaidState.DONE

    def _ids(self, inside: str) -> list[int]:
        names = [name.removesuffix(_SUFFIX) for name in self._folder.names(inside) if name.endswith(_SUFFIX)]
        return sorted(int(name) for name in names if name.isdecimal())


def with_costs(record: BatchRecord, name: str, costs: bytes) -> BatchRecord:
    """The same with what an operator was told of the costs of its rows."""
    return replace(record, costs={**record.costs, name: costs})


def _costs(found: Any) -> dict[str, bytes]:  # noqa: ANN401 - whatever JSON has there
    """Costs by the operator's name, as far as they can be read."""
    if not isinstance(found, dict):
        logger.warning("what operators were told of the costs of their rows cannot be read: %.80r", found)
        return {}
    costs: dict[str, bytes] = {}
    for name, text in found.items():
        try:
            costs[name] = base64.b64decode(text, validate=True)
        except _DAMAGED:
            logger.warning("what operator %s was told of the costs of its rows cannot be read: %.80r", name, text)
    return costs


def _history(found: Any, planned_s: float) -> ShedHistory:  # noqa: ANN401 - whatever JSON has there
    """When rows were dropped, as far as it can be read; otherwise as thinly as can be, until the batch was planned."""
    try:
        moments_s = tuple(map(float, found))
    except _DAMAGED:
        moments_s = ()
    if len(moments_s) != LEVELS or any(map(isnan, moments_s)):
        return NOTHING_SHED.with_ratio(SMALLEST_RATIO, planned_s)
    return ShedHistory(moments_s)


def _batch_name(batch_id: int) -> str:
    return f"{_BATCHES}/{batch_id}{_SUFFIX}"
