"""Reports of finished batches, held back for a moment until the batch after each is planned.

A decision acts on the batch after the next. By the report alone it would rest on what waited when the finished batch
was planned, a whole batch ago; the next batch, which Spark plans within a fraction of a second, tells what waits now.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model import PlannedBatch

logger = logging.getLogger("penstock")

_LOOK_EVERY_S = 0.05
_ENDS_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class HeldReport:
    """How to look for the batch after a finished one, and what to do then, or at the deadline without it.

    The deadline is in seconds of the monotonic clock.
    """

    look: Callable[[], PlannedBatch | None]
    hand_on: Callable[[PlannedBatch | None], None]
    deadline_s: float


class Lookout:
    """Looks for planned batches on a thread of its own, so that reports of one query do not wait for another's."""

    def __init__(self) -> None:
        self._held: dict[str, HeldReport] = {}
        self._changed = threading.Condition()
        self._is_open = True
        self._thread: threading.Thread | None = None

    def hold(self, query_id: str, report: HeldReport) -> None:
        """Hold a report until its query's next batch is seen; one that is held of the same query goes first."""
        self.release(query_id)
        with self._changed:
            self._held[query_id] = report
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-lookout", daemon=True)
                self._thread.start()
            self._changed.notify()

    def release(self, query_id: str) -> None:
        """Hand on what is held of a query at once, on the calling thread."""
        with self._changed:
            report = self._held.pop(query_id, None)
        if report is not None:
            report.hand_on(None)

    def close(self) -> None:
        """Hold nothing any longer; what is held is dropped."""
        with self._changed:
            self._is_open = False
            self._held.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_ENDS_WITHIN_S)

    def _run(self) -> None:
        while self._wait():
            with self._changed:
                held = list(self._held.items())
            for query_id, report in held:
                self._look(query_id, report)

    def _wait(self) -> bool:
        with self._changed:
            while self._is_open and not self._held:
                self._changed.wait()
            if self._is_open:
                self._changed.wait(_LOOK_EVERY_S)
            return self._is_open

    def _look(self, query_id: str, report: HeldReport) -> None:
        planned = _seen(report)
        if planned is None and time.monotonic() < report.deadline_s:
            return
        with self._changed:
            if self._held.get(query_id) is not report:
                # Handed on meanwhile.
                return
            del self._held[query_id]
        report.hand_on(planned)


def _seen(report: HeldReport) -> PlannedBatch | None:
    try:
        return report.look()
    except Exception:
        # A session that ends meanwhile, for one. Without the look the report is as good as it was.
        logger.debug("no look at the next batch", exc_info=True)
        return None
