"""A driver that is killed while it sheds: a batch that runs again keeps the rows that it kept before."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from live.helpers import show, wait_until
from live.test_crash import session_members
from penstock.model import ActionKind
from penstock.model.decision import KeepRatio, from_action
from penstock.store import open_reader

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1500)]

DRIVER = Path(__file__).parent / "driver_shedding.py"
KILLS = 10


def start(folder: Path, run: str, batches: int) -> subprocess.Popen[bytes]:
    """A driver in a session of its own, so that its JVM and workers die with it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
    with (folder / f"{run}.out").open("wb") as out, (folder / f"{run}.err").open("wb") as errors:
        command = [sys.executable, str(DRIVER), str(folder), run, str(batches)]
        return subprocess.Popen(command, stdout=out, stderr=errors, start_new_session=True, env=environment)


def shed_batches(folder: Path, run: str) -> int:
    """Batches that a run has told as finished and shed."""
    lines = (folder / f"{run}.out").read_text(encoding="utf-8").splitlines()
    return sum(line.startswith("batch ") and float(line.split()[2]) < 1.0 for line in lines if len(line.split()) == 3)


def told_batch(folder: Path, run: str) -> int:
    """The newest batch that a run has told as finished."""
    lines = [line.split() for line in (folder / f"{run}.out").read_text(encoding="utf-8").splitlines()]
    return max(int(words[1]) for words in lines if len(words) == 3 and words[0] == "batch")


def await_unfinished(folder: Path, run: str) -> None:
    """Wait until a task of a batch that is not told as finished has written what it kept."""

    def has_written() -> bool:
        newest = [path.name.split("-") for path in (folder / "attempts").glob(f"{run}-*")]
        return max((int(batch_id) for _, batch_id, _, _ in newest), default=-1) > told_batch(folder, run)

    wait_until(has_written, f"a task of an unfinished batch of {run}", within_s=60.0)


def kill(driver: subprocess.Popen[bytes]) -> None:
    """Kill driver and JVM at once, and see the Python workers go with them."""
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    wait_until(lambda: not session_members(driver.pid), "end of the killed driver's processes")


def attempts(folder: Path) -> dict[tuple[int, int], dict[str, str]]:
    """Offsets that each run wrote down, by batch and partition."""
    found: dict[tuple[int, int], dict[str, str]] = defaultdict(dict)
    for path in (folder / "attempts").iterdir():
        if not path.name.startswith("."):
            run, batch_id, partition, attempt = path.name.split("-")
            found[int(batch_id), int(partition)][f"{run}/{attempt}"] = path.read_text(encoding="utf-8")
    return found


def test_ten_kills_while_shedding_give_equal_rows(tmp_path: Path) -> None:
    """Whatever the moment of death, all attempts at a batch keep the same rows, and the log says which ratio."""
    moments = random.Random(11)  # noqa: S311 - moments of death, not secrets
    (tmp_path / "attempts").mkdir()
    (tmp_path / "epoch").write_text(f"{time.time() + 10.0:.3f}", encoding="utf-8")
    for number in range(KILLS):
        driver = start(tmp_path, f"run{number}", 0)
        try:
            wanted = moments.randint(1, 3)
            wait_until(
                lambda number=number, wanted=wanted: shed_batches(tmp_path, f"run{number}") >= wanted,
                f"shed batch {wanted} of run {number}",
                within_s=120.0,
            )
            if number % 2:
                # In mid-batch for sure: a task has written what it kept, and its batch is not done.
                await_unfinished(tmp_path, f"run{number}")
            else:
                time.sleep(moments.uniform(0.0, 1.5))
        finally:
            kill(driver)
    last = start(tmp_path, "last", 4)
    try:
        last.wait(timeout=240.0)
    finally:
        if last.poll() is None:
            kill(last)
    found = attempts(tmp_path)
    again = {key: runs for key, runs in found.items() if len(runs) > 1}
    differing = [key for key, runs in again.items() if len(set(runs.values())) > 1]
    with open_reader(tmp_path / "penstock.db") as store:
        answers = [from_action(each.action) for each in store.actions(kinds=(ActionKind.KEEP_RATIO,))]
        faults = [each.action.reason for each in store.actions(kinds=(ActionKind.FAULT,))]
    ratios: dict[int, set[float]] = defaultdict(set)
    for answer in answers:
        assert isinstance(answer, KeepRatio)
        ratios[answer.batch_id].add(answer.keep_ratio)
    shed_again = {batch_id for batch_id, _ in again if min(ratios.get(batch_id, {1.0})) < 1.0}
    show(f"{len(again)} partitions of batches ran again, {len(shed_again)} of these batches were shed")
    assert differing == []
    assert [batch_id for batch_id, told in ratios.items() if len(told) > 1] == []
    assert faults == []
    assert len(shed_again) >= 3, "too few batches ran again for this to say anything"
