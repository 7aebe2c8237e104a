"""``penstock repay`` as a shell runs it: what is owed, what is repaid, and that nothing is repaid twice."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import penstock
from live.repay_helpers import Kept, run, shed
from penstock import Goal
from penstock.spark.repay import Repay
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.timeout(750)]

COMMAND = [sys.executable, "-c", "import sys; from penstock.cli import main; sys.exit(main())", "repay", "clicks"]
FILES, ROWS_A_FILE, FILES_A_BATCH = 12, 100, 2
BATCHES = FILES // FILES_A_BATCH
KILLED_BATCH = 2
JOB = f"""
import os, signal
from pathlib import Path

def add(frame, batch_id):
    frame.write.mode("overwrite").parquet(f"out/batch={{batch_id}}")
    if batch_id == {KILLED_BATCH} and Path("to be killed").exists():
        Path("to be killed").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
"""

Rows = dict[int, set[int]]


@dataclass(frozen=True)
class Shed:
    """A query that shed and ended: its store, its checkpoint and files, and what each batch kept and dropped."""

    store: Path
    checkpoint: Path
    files: Path
    kept: Rows
    dropped: Rows


def write_files(folder: Path) -> None:
    """Rows with ids that go on from file to file, and users that come again and again; one file older than the next."""
    folder.mkdir()
    for number in range(FILES):
        ids = range(ROWS_A_FILE * number, ROWS_A_FILE * (number + 1))
        path = folder / f"{number:02}.json"
        path.write_text("\n".join(json.dumps({"id": each, "user": f"u{each % 37}"}) for each in ids), encoding="utf-8")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shed:
    """What a query leaves behind that kept half of every batch."""
    folder = tmp_path_factory.mktemp("original")
    write_files(folder / "in")
    kept = Kept(["id"])
    with (
        pytest.MonkeyPatch.context() as patch,
        # Without a latency the read limit is the query's own, and so are its batches.
        penstock.attach(
            spark, goals={"clicks": Goal(minimum_accuracy=0.05)}, store=SqliteStore(folder / "penstock.db")
        ) as pen,
    ):
        shed(pen, patch, lambda _: 0.5, lambda _: None)
        reader = spark.readStream.format("json").schema("id long, user string")
        reader = reader.option("maxFilesPerTrigger", FILES_A_BATCH)
        rows = pen.guard(reader.load(str(folder / "in")), key="user", arrival=None)
        run(rows, kept, folder / "checkpoint", "clicks", until=BATCHES - 1, count=FILES * ROWS_A_FILE)
    found = {batch_id: {key[0] for key in attempts[-1]} for batch_id, attempts in kept.attempts.items()}
    size = ROWS_A_FILE * FILES_A_BATCH
    dropped = {number: set(range(size * number, size * (number + 1))) - kept for number, kept in found.items()}
    assert sorted(found) == list(range(BATCHES))
    assert all(0 < len(each) < size for each in found.values())
    return Shed(folder / "penstock.db", folder / "checkpoint", folder / "in", found, dropped)


@pytest.fixture
def owing(original: Shed, tmp_path: Path) -> Iterator[Shed]:
    """The same with a checkpoint of the test's own, of which nothing is repaid, and the files as they were."""
    checkpoint, beside = tmp_path / "checkpoint", tmp_path / "files"
    shutil.copytree(original.checkpoint, checkpoint, ignore=shutil.ignore_patterns("repaid"))
    shutil.copytree(original.files, beside)
    yield Shed(original.store, checkpoint, original.files, original.kept, original.dropped)
    for path in beside.iterdir():
        shutil.copy2(path, original.files / path.name)


def repay(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory, as a shell would."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        [*COMMAND, *words], cwd=where, capture_output=True, text=True, timeout=240, check=False, env=environment
    )


def repaid(where: Path, *words: str) -> dict[str, Any]:
    """What the command says as JSON."""
    ended = repay(where, *words, "--json")
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def written(folder: Path) -> Rows:
    """Rows by batch, each of which is there once."""
    found: Rows = {}
    for place in folder.iterdir():
        ids = pq.ParquetDataset(place).read().column("id").to_pylist() if any(place.glob("*.parquet")) else []
        assert len(ids) == len(set(ids)), "a row is there twice"
        found[int(place.name.removeprefix("batch="))] = set(ids)
    return found


def states(found: dict[str, Any]) -> dict[int, str]:
    """The state of each batch."""
    return {row["batch_id"]: row["state"] for row in found["rows"]}


def test_what_is_owed_is_shown_then_repaid_and_not_repaid_again(
    spark: SparkSession, original: Shed, tmp_path: Path
) -> None:
    """A table of what is there, some batches by their moments, the rest, and nothing the third time."""
    by_store = ("--store", str(original.store))
    shown = repay(tmp_path, *by_store)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert re.split(r" {2,}", lines[0].strip()) == ["batch", "planned", "state", "told to keep", "still there", "gone"]
    assert lines[-1] == f"{BATCHES} owed"
    rows = [line for line in lines if re.match(r" *\d+ .* owed ", line)]
    assert len(rows) == BATCHES
    assert all(f"{FILES_A_BATCH} files" in line for line in rows)

    out = ("--to", str(tmp_path / "out"))
    planned = {each.batch_id: repr(each.planned_s) for each in Repay(spark, str(original.checkpoint)).batches()}
    some = repaid(tmp_path, *by_store, *out, "--since", planned[1], "--until", planned[3])
    assert (some["repaid_now"], states(some)) == (2, {1: "repaid", 2: "repaid"})
    assert written(tmp_path / "out") == {number: original.dropped[number] for number in (1, 2)}
    rest = repaid(tmp_path, *by_store, *out)
    assert (rest["repaid_now"], states(rest)) == (BATCHES - 2, dict.fromkeys(range(BATCHES), "repaid"))
    assert written(tmp_path / "out") == original.dropped
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    again = repaid(tmp_path, *by_store, *out)
    assert (again["repaid_now"], states(again)) == (0, dict.fromkeys(range(BATCHES), "repaid"))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


def test_a_repayment_that_is_killed_goes_on_where_it_was(owing: Shed, tmp_path: Path) -> None:
    """Killed when a batch is processed and before that is on record, it gives that batch again, and each other once."""
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    (tmp_path / "to be killed").touch()
    words = ("--checkpoint", str(owing.checkpoint), "--run", "job:add")
    assert repay(tmp_path, *words).returncode == -signal.SIGKILL
    assert sorted(written(tmp_path / "out")) == list(range(KILLED_BATCH + 1))
    rest = repaid(tmp_path, *words)
    assert (rest["repaid_now"], set(states(rest).values())) == (BATCHES - KILLED_BATCH, {"repaid"})
    assert written(tmp_path / "out") == owing.dropped


def test_what_its_source_has_lost_is_told_and_the_rest_repaid_where_that_is_welcome(
    owing: Shed, tmp_path: Path
) -> None:
    """Without --partial one line says what is gone and nothing is repaid; with it, what is there is."""
    lost = 2 * FILES_A_BATCH + 1
    (owing.files / f"{lost:02}.json").unlink()
    words = ("--checkpoint", str(owing.checkpoint))
    ended = repay(tmp_path, *words, "--to", str(tmp_path / "out"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1].startswith(f"error: 1 of {BATCHES} batches cannot be repaid in full")
    assert not (tmp_path / "out").exists()
    shown = repaid(tmp_path, *words)
    (gone,) = [row for row in shown["rows"] if row["state"] == "gone"]
    assert (gone["batch_id"], gone["there"], gone["gone"], gone["unit"]) == (2, FILES_A_BATCH - 1, 1, "files")
    done = repaid(tmp_path, *words, "--to", str(tmp_path / "out"), "--partial")
    assert (done["repaid_now"], set(states(done).values())) == (BATCHES, {"repaid"})
    missing = set(range(ROWS_A_FILE * lost, ROWS_A_FILE * (lost + 1)))
    assert written(tmp_path / "out") == {number: rows - missing for number, rows in owing.dropped.items()}
