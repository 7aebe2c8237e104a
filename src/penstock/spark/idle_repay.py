r"""Repaying while there is room: one batch at a time, as long as no query of the engine is short.

Room is judged before each batch. A query has some when it keeps everything, meets its goal, and when what arrives takes
less than a part of the time that there is: :math:`\lambda c \le \rho`, with the rows that arrive in a second, what
the reading and the work of a row cost, and the setting ``repay.idle_below``. All governed queries share the engine, so
their parts are added.

A repayment that fails is tried again, after a pause that doubles from ten seconds to an hour: a sink, a broker or a
store may be away for a while. What Penstock itself refuses for good, such as rows that were drawn by chance, is not.
A batch that cannot be repaid, because the source has lost rows of it, is told of once and left out. What is done, and
what cannot be, goes on record (:class:`~penstock.model.decision.Repayment`).
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError, RepayError
from penstock.model.decision import ActuatorOff, Repayment
from penstock.spark import internals
from penstock.spark.repay import RepayState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.control.query_logic import QueryLogic
    from penstock.model import QueryName
    from penstock.model.decision import Decision
    from penstock.spark.repay import OwedBatch, Repay

logger = logging.getLogger("penstock")

POOL = "penstock-repay"
"""Scheduler pool of the jobs; under FAIR scheduling its weight and minimum share are the administrator's.

Without an administrator's word Spark makes it with a weight of one, as much as a query of the lowest priority has. Of
pools that are equal by their weights a free slot takes the first by name, so this one must sort behind those of all
governed queries (:func:`~penstock.spark.pools.pool_of`, where a digit follows the hyphen): what is repaid waits, not a
batch.
"""
_ENDS_WITHIN_S = 10.0
_CLEAR_WITHIN_S = 600.0
"""The report of a batch comes within a batch or two: of one that is older it is unlikely to come at all."""
_LOOKS_WITHOUT = 2
"""A query may be looked at right between its start and the line that says what becomes of its dropped rows."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 3600.0


def busy_part(queries: Iterable[QueryLogic]) -> float | None:
    """Part of the time that what arrives at these queries takes; None while that of one is not known."""
    total = 0.0
    for query in queries:
        model, arrival = query.batch_time, query.arrival_rows_per_s
        if arrival is None or not model.batches:
            return None
        total += arrival * (model.read_cost_s + model.work_cost_s)
    return total


def has_room(queries: Iterable[QueryLogic], idle_below: float) -> bool:
    """Whether no query is short, and what arrives leaves enough of the time."""
    known = list(queries)
    busy = busy_part(known)
    return busy is not None and busy <= idle_below and not any(query.is_short for query in known)


def cannot_get_better(error: Exception) -> bool:
    """Whether an error will be the same however often it is tried: a refusal, and no accident.

    Examples
    --------
    >>> refusals = RepayError("drawn by chance"), RepayError("its report has not come", may_pass=True)
    >>> [cannot_get_better(error) for error in (*refusals, OSError("no route to host"), ValueError("of the function"))]
    [True, False, False, False]
    """
    if isinstance(error, RepayError):
        return not error.may_pass
    # What somebody wrote cannot be meant: a moment that is none, a setting. A store that is held is let go of again.
    return isinstance(error, PenstockError) and isinstance(error, ValueError)


@dataclass(slots=True)
class _Work:
    open: Callable[[], Repay]
    function: Callable[[DataFrame, int], Any]
    failures: int = 0
    not_before_s: float = float("-inf")
    told: set[int] = field(default_factory=set)

    def pause_s(self) -> float:
        """How long it is left alone after so many failures."""
        return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self.failures - 1, 30)))

    def in_one_task(self, frame: DataFrame, batch_id: int) -> None:
        """Process one batch, read in one task: unless the function shuffles, the other cores are for other batches."""
        self.function(frame.coalesce(1), batch_id)

    def news(self, lost: Iterable[OwedBatch], now_s: float) -> list[OwedBatch]:
        """Batches that cannot be repaid, each once."""
        found = [
            each
            for each in lost
            if each.batch_id not in self.told
            and (each.state is RepayState.GONE or now_s - each.planned_s > _CLEAR_WITHIN_S)
        ]
        self.told.update(each.batch_id for each in found)
        return found


class IdleRepayer:
    """Repays what queries owe, when the loop finds that there is room.

    Parameters
    ----------
    spark
        The session whose cores it uses.
    record
        Puts on record what is repaid, and what cannot be.
    clock
        Seconds that never go back.
    now
        Seconds since the epoch.
    """

    def __init__(
        self,
        spark: SparkSession,
        record: Callable[[Sequence[Decision]], object],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._spark, self._record, self._clock, self._now = spark, record, clock, now
        self._work: dict[QueryName, _Work] = {}
        self._taken_on: set[QueryName] = set()
        self._looks_without: dict[QueryName, int] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def take_on(
        self, query: QueryName, open_repay: Callable[[], Repay], function: Callable[[DataFrame, int], Any]
    ) -> None:
        """Repay a query from now on, whenever there is room."""
        with self._lock:
            self._taken_on.add(query)
            self._work[query] = _Work(open_repay, function)

    def miss(self, queries: Iterable[QueryName]) -> None:
        """Warn, once for each, of queries that are to be repaid and of which nobody said what becomes of the rows."""
        for name in queries:
            looks = self._looks_without[name] = self._looks_without.get(name, 0) + 1
            if name in self._taken_on or looks != _LOOKS_WITHOUT:
                continue
            reason = (
                f"what query {name} drops is not repaid, though it is declared with repay = 'when idle': say what "
                f"becomes of the rows with pen.on_repay({str(name)!r}, function)"
            )
            logger.warning("%s", reason)
            self._tell(ActuatorOff(query=name, cause="repay", reason=reason))

    def look(self) -> None:
        """Begin with the next batch, unless one is being repaid; there is room for it. Returns at once."""
        with self._lock:
            is_busy = self._thread is not None and self._thread.is_alive()
            now_s = self._clock()
            due = {name: each for name, each in self._work.items() if each.not_before_s <= now_s}
            if is_busy or not due:
                return
            self._thread = threading.Thread(target=self._repay, args=(due,), name=POOL, daemon=True)
            self._thread.start()

    def _repay(self, work: dict[QueryName, _Work]) -> None:
        self._spark.sparkContext.setLocalProperty(internals.POOL_PROPERTY, POOL)
        for name, each in work.items():
            try:
                done = self._repay_one(name, each)
            except Exception as error:  # noqa: BLE001 - whatever a sink raises must not end what others are owed
                self._failed(name, each, error)
                continue
            each.failures = 0
            if done:
                return

    def _repay_one(self, name: QueryName, work: _Work) -> bool:
        """Repay the oldest batch that can be; says whether there was one."""
        repay = work.open()
        payable, lost = repay.debt()
        self._tell_lost(name, work.news(lost, self._now()))
        if not payable:
            return False
        batch = payable[0]
        repay.run_batch(batch.batch_id, work.in_one_task)
        remains = batch.remains
        self._tell(
            Repayment(
                query=name,
                cause="idle",
                reason=f"there is room: what batch {batch.batch_id} dropped when it was told to keep "
                f"{min(1.0, batch.keep_ratio):.3g} of its rows is processed",
                first_batch_id=batch.batch_id,
                last_batch_id=batch.batch_id,
                is_repaid=True,
                parts=None if remains is None else remains.there,
                parts_unit="" if remains is None else remains.unit,
            )
        )
        return True

    def _tell_lost(self, name: QueryName, lost: Sequence[OwedBatch]) -> None:
        for state in (RepayState.GONE, RepayState.UNCLEAR):
            found = [each for each in lost if each.state is state]
            if not found:
                continue
            remains = [each.remains for each in found if each.remains is not None]
            gone = sum(each.gone for each in remains)
            unit = remains[0].unit if remains else ""
            if state is RepayState.GONE:
                read = gone + sum(each.there for each in remains)
                why = f"the source has lost {gone:,} of the {read:,} {unit} of it; partial=True repays the rest"
            else:
                why = "what was kept is not known"
            lost_of = Repayment(
                query=name,
                cause="idle",
                reason=why,
                first_batch_id=found[0].batch_id,
                last_batch_id=found[-1].batch_id,
                batches=len(found),
                is_repaid=False,
                parts=gone if remains else None,
                parts_unit=unit,
            )
            logger.warning("what query %s dropped in %s cannot be repaid: %s", name, lost_of.target, why)
            self._tell(lost_of)

    def _tell(self, decision: Decision) -> None:
        """Put a word on record; what is done is done, whether or not that can be."""
        try:
            self._record([decision])
        except Exception:
            logger.exception("what became of the rows that query %s dropped could not be recorded", decision.query)

    def _failed(self, name: QueryName, work: _Work, error: Exception) -> None:
        what = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
        if cannot_get_better(error):
            logger.error("what query %s dropped cannot be repaid, and it is not tried again: %s", name, what)
            with self._lock:
                # Not what somebody gave for the query meanwhile.
                if self._work.get(name) is work:
                    del self._work[name]
            return
        work.failures += 1
        pause_s = work.pause_s()
        work.not_before_s = self._clock() + pause_s
        # The trace once: a broker that is away for a night would fill the log with the same one.
        trace = error if work.failures == 1 else None
        logger.warning(
            "what query %s dropped could not be repaid, and is tried again in %g s: %s",
            name, pause_s, what, exc_info=trace,
        )  # fmt: skip

    def close(self) -> None:
        """Wait a while for the batch that is being repaid; one that is not done is repaid again later."""
        with self._lock:
            self._work.clear()
            thread = self._thread
        if thread is not None:
            thread.join(_ENDS_WITHIN_S)
