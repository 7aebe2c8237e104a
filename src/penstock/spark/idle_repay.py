r"""Repaying while there is room: one batch at a time, on one core, as long as no query of the engine is short.

Room is judged before each batch. A query has some when it keeps everything, meets its goal, and when what arrives takes
less than a part of the time that there is: :math:`\lambda c \le \rho`, with the rows that arrive in a second, what
the reading and the work of a row cost, and the setting ``repay.idle_below``. All governed queries share the engine, so
their parts are added.

A repayment that fails is tried again, after a pause that doubles from ten seconds to an hour: a sink, a broker or a
store may be away for a while. What Penstock itself refuses for good, such as rows that were drawn by chance, is not.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError, RepayError
from penstock.spark import internals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame, SparkSession

    from penstock.control.query_logic import QueryLogic
    from penstock.model import QueryName
    from penstock.spark.repay import Repay

logger = logging.getLogger("penstock")

POOL = "penstock-repay"
"""Scheduler pool of the jobs; under FAIR scheduling its weight and minimum share are the administrator's."""
_ENDS_WITHIN_S = 10.0
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

    def pause_s(self) -> float:
        """How long it is left alone after so many failures."""
        return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self.failures - 1, 30)))

    def on_one_core(self, frame: DataFrame, batch_id: int) -> None:
        """Process one batch; the other cores are for the batches that come meanwhile."""
        self.function(frame.coalesce(1), batch_id)


class IdleRepayer:
    """Repays what queries owe, when the loop finds that there is room.

    Parameters
    ----------
    spark
        The session whose cores it uses.
    clock
        Seconds that never go back.
    """

    def __init__(self, spark: SparkSession, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._spark, self._clock = spark, clock
        self._work: dict[QueryName, _Work] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def take_on(
        self, query: QueryName, open_repay: Callable[[], Repay], function: Callable[[DataFrame, int], Any]
    ) -> None:
        """Repay a query from now on, whenever there is room."""
        with self._lock:
            self._work[query] = _Work(open_repay, function)

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
                done = each.open().run(each.on_one_core, most=1)
            except Exception as error:  # noqa: BLE001 - whatever a sink raises must not end what others are owed
                self._failed(name, each, error)
                continue
            each.failures = 0
            if done:
                return

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
