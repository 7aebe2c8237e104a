"""An application that takes goals and does nothing else: ``python -m penstock.bench.serve_engine STORE``.

The benchmark of leaders asks it, and counts in its log how often each wish was carried out.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.bench.serve_load import begin, query_names
from penstock.model import Mode, QueryName
from penstock.model.decision import Govern, to_action
from penstock.serve.engine import ServedEngine
from penstock.serve.service import Service, announce
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from penstock.model import Goal


class RecordingControls:
    """Puts every goal on record, as often as it is asked to."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.observe_only = False

    def set_goal(self, query: str, goal: Goal, *, asked_by: str = "user") -> None:
        """Record one more goal."""
        decision = Govern(
            query=QueryName(query), cause=f"asked by {asked_by}", reason="asked for", query_id="id-0",
            latency_s=goal.latency_s, minimum_accuracy=goal.minimum_accuracy, priority=goal.priority,
            weight=goal.weight,
        )  # fmt: skip
        self._store.append(to_action(decision), time_s=time.time(), mode=Mode.ACT)

    def set_observe_only(self, observe_only: bool, *, asked_by: str = "user") -> None:  # noqa: ARG002, FBT001 - as the protocol has it
        """Switch."""
        self.observe_only = observe_only


def main(path: Path) -> None:
    """Serve until the process is ended."""
    with SqliteStore(path) as store:
        begin(store, query_names(2), time.time())
        engine = ServedEngine("app", store, controls=RecordingControls(store))
        with Service([engine], token_file=path.with_name("engine.token")) as service:
            announce(path, service)
            threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
