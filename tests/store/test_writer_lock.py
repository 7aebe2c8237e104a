"""One writer per store, whoever asks and however the last one ended."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.errors import StoreError
from penstock.model import Action, ActionKind, Mode, QueryName
from penstock.store import SqliteStore, open_reader
from penstock.store.writer_lock import WriterLock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = Action(ActionKind.HOLD, QueryName("clicks"), "batch 1", "fits")

HOLD_THE_STORE = """
import sys, time
from penstock.store import SqliteStore
store = SqliteStore(sys.argv[1])
print("open", flush=True)
time.sleep(60)
"""

# The child waits for its standard input to end, which happens after the test has killed the parent.
HOLD_AND_FORK = """
import os, sys, time
from penstock.errors import StoreError
from penstock.model import Action, ActionKind, Mode, QueryName
from penstock.store import SqliteStore
store = SqliteStore(sys.argv[1])
if os.fork() == 0:
    try:
        store.append(Action(ActionKind.HOLD, QueryName("q"), "c", "r"), time_s=1.0, mode=Mode.ACT)
    except StoreError as error:
        print(error, flush=True)
    store.close()
    sys.stdin.read()
    os._exit(0)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "penstock.db"


@pytest.fixture
def other_writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the store."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_STORE, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def test_a_second_writer_in_the_same_process_is_refused(path: Path) -> None:
    """The error names the file and this process, and the first writer goes on."""
    with SqliteStore(path) as first:
        with pytest.raises(StoreError, match=rf"penstock\.db is already being written by this process.*{os.getpid()}"):
            SqliteStore(path)
        assert first.append(HOLD, time_s=1.0, mode=Mode.ACT).action_id == 1


def test_a_second_name_of_the_same_file_is_the_same_store(path: Path, tmp_path: Path) -> None:
    """A symbolic link does not let a second writer in."""
    link = tmp_path / "link.db"
    link.symlink_to(path)

    with SqliteStore(path), pytest.raises(StoreError, match="already being written"):
        SqliteStore(link)


def test_a_writer_in_another_process_is_named_and_its_death_frees_the_store(
    path: Path, other_writer: subprocess.Popen[str]
) -> None:
    """The error names the file and the process id; after kill -9 of that process the store opens at once."""
    with pytest.raises(StoreError) as caught:
        SqliteStore(path)
    assert str(path) in str(caught.value)
    assert f"pid {other_writer.pid}" in str(caught.value)
    with open_reader(path) as reader:
        assert reader.actions() == []

    other_writer.kill()
    other_writer.wait()
    with SqliteStore(path) as store:
        assert store.append(HOLD, time_s=1.0, mode=Mode.ACT).action_id == 1


def test_closing_lets_the_next_writer_in(path: Path) -> None:
    """After close the same process may open the store again, as often as it likes."""
    for number in range(1, 4):
        with SqliteStore(path) as store:
            assert store.append(HOLD, time_s=1.0, mode=Mode.ACT).action_id == number


def test_a_failed_open_holds_nothing(path: Path) -> None:
    """A writer that could not open its file leaves the lock free."""
    path.write_bytes(b"notes, not a database" * 100)
    with pytest.raises(StoreError, match="not a database"):
        SqliteStore(path)
    path.unlink()

    with SqliteStore(path) as store:
        assert store.actions() == []


def test_a_holder_that_has_not_written_its_id_yet_is_still_refused(path: Path) -> None:
    """Between locking and writing the id there is nothing to read, and the error says so without one."""
    lock = WriterLock(path)
    lock.path.write_text("")
    try:
        with pytest.raises(StoreError, match="already being written by a process that has just started"):
            WriterLock(path)
    finally:
        lock.release()


def test_a_forked_child_neither_writes_nor_keeps_the_store(path: Path) -> None:
    """A pool worker that outlives its killed parent is refused its inherited store and keeps nobody out."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_FORK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            assert parent.stdout is not None
            assert f"was opened by process {parent.pid}" in parent.stdout.readline()
            with pytest.raises(StoreError, match=f"pid {parent.pid}"):
                SqliteStore(path)
        finally:
            parent.kill()
            parent.wait()
        # The child still waits for its standard input, which ends with this block.
        with SqliteStore(path) as store:
            assert store.append(HOLD, time_s=1.0, mode=Mode.ACT).action_id == 1
