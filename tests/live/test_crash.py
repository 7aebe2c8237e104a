"""A driver that is killed at any moment loses no recorded decision and no row."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from live.helpers import show, wait_until
from penstock.store import open_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.timeout(1000)]

DRIVER = Path(__file__).parent / "driver_governed.py"
ROWS = 40_000
EARLY_KILLS = 4
"""So many kills come before Penstock has attached, right after it has, and around the first batch."""


class Driver:
    """A driver process in a session of its own, with what it has told so far."""

    def __init__(self, folder: Path, mode: str) -> None:
        command = [sys.executable, str(DRIVER), str(folder), str(ROWS), mode]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        self._errors = folder / "driver.err"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True, env=environment
            )
        self._told = b""

    def lines(self) -> list[str]:
        """All whole lines so far; one that death cut off does not count."""
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], 0)[0]:
            piece = os.read(self.process.stdout.fileno(), 65_536)
            if not piece:
                break
            self._told += piece
        return self._told.decode().split("\n")[:-1]

    def wait_for(self, word: str, *, count: int = 1, within_s: float = 120) -> None:
        """Wait for so many lines that begin with a word."""

        def told() -> bool:
            ended = self.process.poll() is not None
            has_told = self._has(word, count)
            assert has_told or not ended, f"the driver ended without {word!r}: {self._errors.read_text()[-2000:]}"
            return has_told

        wait_until(told, f"{word!r} number {count} of the driver", within_s=within_s)

    def _has(self, word: str, count: int) -> bool:
        return sum(line.startswith(word) for line in self.lines()) >= count

    def kill(self) -> list[str]:
        """Kill driver and JVM at once, and see the Python workers go with them; gives what the driver had told."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not session_members(self.process.pid), "end of the killed driver's processes")
        assert self.process.stdout is not None
        rest = b"" if self.process.stdout.closed else self.process.stdout.read()
        self._told += rest
        self.process.stdout.close()
        return self._told.decode().split("\n")[:-1]


def session_members(leader: int) -> list[str]:
    """Processes that a driver started and that are still there, zombies apart.

    Spark's Python daemons make groups of their own, but stay in the session of the driver.
    """
    found = []
    for process in psutil.process_iter(["pid", "name", "status"]):
        try:
            if os.getsid(process.pid) == leader and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {process.info['name']}")
        except ProcessLookupError:
            continue
    return found


def run_until_killed(folder: Path, number: int, moments: random.Random) -> list[str]:
    """Start the driver and kill it: early at first, later at a random moment of its work."""
    driver = Driver(folder, "until-killed")
    try:
        if number == 0:
            time.sleep(moments.uniform(0.2, 1.5))
        elif number == 1:
            driver.wait_for("attached")
        elif number < EARLY_KILLS:
            driver.wait_for("action")
            time.sleep(moments.uniform(0, 1.5))
        else:
            driver.wait_for("batch", count=moments.randint(1, 3))
            time.sleep(moments.uniform(0, 0.5))
    finally:
        told = driver.kill()
    return told


def recorded_actions(told: list[str]) -> dict[int, dict[str, Any]]:
    """The actions that a driver told as recorded."""
    words = [line.split(" ", 2) for line in told if line.startswith("action ")]
    return {int(action_id): json.loads(content) for _, action_id, content in words}


def told_batches(told: list[str]) -> list[int]:
    """The batches that a driver told as finished."""
    return [int(line.split()[1]) for line in told if line.startswith("batch ")]


@pytest.mark.parametrize("kills", [EARLY_KILLS + 2, pytest.param(EARLY_KILLS + 8, marks=pytest.mark.slow)])
def test_kills_lose_no_action_and_no_row(spark: SparkSession, tmp_path: Path, kills: int) -> None:
    """Every action told as recorded is in the log, ids have no gap, the query resumes, each row is written once."""
    moments = random.Random(7)  # noqa: S311 - moments of death, not secrets
    told_actions: dict[int, dict[str, Any]] = {}
    newest_batch = -1
    for number in range(kills):
        told = run_until_killed(tmp_path, number, moments)
        told_actions |= recorded_actions(told)
        batches = told_batches(told)
        if batches:
            # A checkpoint is resumed: the last batch that was finished is at most run once more.
            assert min(batches) >= newest_batch
            newest_batch = max(batches)
    assert newest_batch >= kills - EARLY_KILLS - 1, "each of the later runs should have finished a batch"
    left = ROWS - written_rows(spark, tmp_path)
    assert left > 0, "the kills left nothing for the last run to do"

    driver = Driver(tmp_path, "to-the-end")
    try:
        driver.wait_for("done")
    finally:
        told = driver.kill() if driver.process.poll() is None else driver.lines()
    told_actions |= recorded_actions(told)
    assert min(told_batches(told)) >= newest_batch
    wait_until(lambda: not session_members(driver.process.pid), "end of the last driver's processes")

    with open_reader(tmp_path / "penstock.db") as store:
        stored = {record.action_id: record.to_dict() for record in store.actions()}
    assert list(stored) == list(range(1, len(stored) + 1))
    assert {action_id: stored.get(action_id) for action_id in told_actions} == told_actions
    # An action may be on the disk while death took its report; no more than one for each kill.
    assert len(stored) - len(told_actions) <= kills
    show(f"{len(stored)} actions, {newest_batch} batches before the last run, {left} rows left for it")
    table = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").toArrow()
    assert table.column("offset").to_pylist() == list(range(ROWS))


def written_rows(spark: SparkSession, folder: Path) -> int:
    """Rows that committed batches have written."""
    return spark.read.parquet(str(folder / "rows")).count()
