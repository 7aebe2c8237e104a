"""What append has returned is there after kill -9, at whatever moment it comes."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.model import Action, ActionKind, Metric, Mode, QueryName
from penstock.store import SqliteStore, open_reader

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 8
POINTS_PER_STEP = 3

# Records one action and then three points a step, and prints the action's id when append has returned.
RECORD_FOR_EVER = """
import itertools, sys
from penstock.model import Action, ActionKind, Metric, Mode, QueryName, SeriesPoint
from penstock.store import SqliteStore

path, round_number = sys.argv[1], int(sys.argv[2])
query = QueryName(f"round {round_number}")
store = SqliteStore(path)
for step in itertools.count():
    action = Action(ActionKind.READ_LIMIT, query, f"batch {step}", "x" * (step % 700), value=step, expected={"n": step})
    recorded = store.append(action, time_s=step, mode=Mode.ACT)
    print(recorded.action_id, step, flush=True)
    store.append_points([SeriesPoint(step, query, Metric.LAG_ROWS, n, batch_id=step) for n in range(3)])
"""


def _record_until_killed(path: Path, round_number: int, seconds: float) -> list[tuple[int, int]]:
    """Give the ids and steps that the writer reported before it was killed."""
    command = [sys.executable, "-c", RECORD_FOR_EVER, str(path), str(round_number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        lines = [first, *writer.stdout.readlines()]
    assert writer.returncode == -signal.SIGKILL
    # The last line may have been cut off in the middle of a number.
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines if line.endswith("\n")]


def test_everything_that_was_reported_survives_kill_9(tmp_path: Path) -> None:
    """Over several rounds on one file: all reported ids are there with their content, without gaps."""
    path = tmp_path / "penstock.db"
    moments = random.Random(20)  # noqa: S311 - moments of death, not secrets
    reported: dict[int, Action] = {}
    for round_number in range(ROUNDS):
        query = QueryName(f"round {round_number}")
        printed = _record_until_killed(path, round_number, moments.uniform(0, 0.12))
        assert printed
        for action_id, step in printed:
            reported[action_id] = Action(
                ActionKind.READ_LIMIT, query, f"batch {step}", "x" * (step % 700), value=step, expected={"n": step}
            )

        with open_reader(path) as store:
            stored = {record.action_id: record.action for record in store.actions()}
            points = store.points(query, Metric.LAG_ROWS)
        assert list(stored) == list(range(1, len(stored) + 1))
        assert {action_id: stored.get(action_id) for action_id in reported} == reported
        # Whatever was not reported is at most the one action of each round whose report death cut off.
        assert len(stored) - len(reported) <= round_number + 1
        assert set(Counter(point.batch_id for point in points).values()) <= {POINTS_PER_STEP}

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with SqliteStore(path) as store:
        hold = Action(ActionKind.HOLD, QueryName("after"), "start", "still here")
        assert store.append(hold, time_s=0.0, mode=Mode.ACT).action_id == len(stored) + 1
