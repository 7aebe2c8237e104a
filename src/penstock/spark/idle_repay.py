r"""Repaying while there is room: one batch at a time, on one core, as long as no query of the engine is short.

Room is judged before each batch. A query has some when it keeps everything, meets its goal, and when what arrives takes
less than a part of the time that there is: :math:`\lambda c \le \rho`, with the rows that arrive in a second, what
the reading and the work of a row cost, and the setting ``repay.idle_below``. All governed queries share the engine, so
their parts are added.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


@dataclass(frozen=True, slots=True)
class _Work:
    open: Callable[[], Repay]
    function: Callable[[DataFrame, int], Any]

    def on_one_core(self, frame: DataFrame, batch_id: int) -> None:
        """Process one batch; the other cores are for the batches that come meanwhile."""
        self.function(frame.coalesce(1), batch_id)


class IdleRepayer:
    """Repays what queries owe, when the loop finds that there is room.

    Parameters
    ----------
    spark
        The session whose cores it uses.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._work: dict[QueryName, _Work] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def take_on(
        self, query: QueryName, open_repay: Callable[[], Repay], function: Callable[[DataFrame, int], Any]
    ) -> None:
        """Repay a query from now on, whenever there is room."""
        with self._lock:
            self._work[query] = _Work(open_repay, function)

    def drop(self, query: QueryName) -> None:
        """Repay a query no more, as it cannot be."""
        with self._lock:
            self._work.pop(query, None)

    def look(self) -> None:
        """Begin with the next batch, unless one is being repaid; there is room for it. Returns at once."""
        with self._lock:
            is_busy = self._thread is not None and self._thread.is_alive()
            if is_busy or not self._work:
                return
            self._thread = threading.Thread(target=self._repay, args=(dict(self._work),), name=POOL, daemon=True)
            self._thread.start()

    def _repay(self, work: dict[QueryName, _Work]) -> None:
        self._spark.sparkContext.setLocalProperty(internals.POOL_PROPERTY, POOL)
        for name, each in work.items():
            try:
                if each.open().run(each.on_one_core, most=1):
                    return
            except Exception:
                logger.exception("what query %s dropped cannot be repaid; it is not tried again", name)
                self.drop(name)

    def close(self) -> None:
        """Wait a while for the batch that is being repaid; one that is not done is repaid again later."""
        with self._lock:
            self._work.clear()
            thread = self._thread
        if thread is not None:
            thread.join(_ENDS_WITHIN_S)
