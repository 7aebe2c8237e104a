"""A store that others delete, hold, replace or would like to read; and one that has grown large."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.errors import StoreError
from penstock.model import Action, ActionKind, Mode, QueryName
from penstock.model.decision import Govern, KeepRatio, to_action
from penstock.report import explain
from penstock.settings import Settings
from penstock.store import SqliteStore, forget_old, open_reader
from penstock.store import file as store_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLICKS = QueryName("clicks")
HOLD = Action(ActionKind.HOLD, CLICKS, "batch 1", "fits")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "state" / "penstock.db"


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_store_is_its_users_own(path: Path) -> None:
    """Nobody else may read the file, the files beside it, or the directory that was made for it."""
    with SqliteStore(path) as store:
        store.append(HOLD, time_s=1.0, mode=Mode.ACT)
        assert {entry.name: rights(entry) for entry in path.parent.iterdir()} == dict.fromkeys(
            ["penstock.db", "penstock.db-shm", "penstock.db-wal", "penstock.db.lock"], 0o600
        )
    assert rights(path.parent) == 0o700


def old_store(path: Path, mode: int) -> None:
    """A store that an earlier version left with these rights."""
    with SqliteStore(path) as store:
        store.append(HOLD, time_s=1.0, mode=Mode.ACT)
    path.chmod(mode)


def test_a_store_that_everybody_could_read_is_restricted(path: Path) -> None:
    """One that an earlier version left open is its user's alone from the next start on, and what was in it is there."""
    old_store(path, 0o644)
    names = ("penstock.db", "penstock.db-shm", "penstock.db-wal")
    # Whoever reads it meanwhile keeps the files beside it there, with the rights that it had.
    with open_reader(path) as reader:
        assert len(reader.actions()) == 1
        assert [rights(path.parent / name) for name in names] == [0o644] * 3
        with SqliteStore(path) as store:
            assert [record.action for record in store.actions()] == [HOLD]
            assert [rights(path.parent / name) for name in names] == [0o600] * 3


def test_a_store_that_is_shared_with_a_group_stays_so(path: Path) -> None:
    """Who gave a group the right to read the file meant it."""
    old_store(path, 0o640)
    with SqliteStore(path):
        assert [rights(path.parent / name) for name in ("penstock.db", "penstock.db-wal")] == [0o640] * 2


@pytest.mark.parametrize("why", ["not ours", "refused", "without effect"])
def test_a_store_that_cannot_be_restricted_is_used_and_told_of_once(
    path: Path, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else's file, or one on a file system without rights, fails nothing and is one line in the log."""
    old_store(path, 0o644)

    def chmod(*_: object, **__: object) -> None:
        assert why != "not ours", "rights of somebody else's file are not touched"
        if why == "refused":
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.chmod", chmod)
    if why == "not ours":
        own = os.geteuid()
        monkeypatch.setattr("os.geteuid", lambda: own + 1)
    for _ in range(2):
        with SqliteStore(path) as store:
            store.append(HOLD, time_s=2.0, mode=Mode.ACT)
    (line,) = [record.getMessage() for record in caplog.records if "everybody" in record.getMessage()]
    assert str(path) in line
    assert "chmod 600" in line


def test_directories_that_are_there_keep_their_rights(tmp_path: Path) -> None:
    """What was not made here is not changed here."""
    tmp_path.chmod(0o755)
    SqliteStore(tmp_path / "penstock.db").close()
    assert rights(tmp_path) == 0o755


def test_a_link_in_place_of_the_lock_is_refused_and_its_target_kept(path: Path) -> None:
    """A planted link has nobody's file emptied."""
    path.parent.mkdir()
    target = path.parent / "letter"
    target.write_text("dear", encoding="utf-8")
    (path.parent / "penstock.db.lock").symlink_to(target)
    with pytest.raises(StoreError, match="is a link"):
        SqliteStore(path)
    assert target.read_text(encoding="utf-8") == "dear"


@pytest.mark.parametrize("linked", [True, False])
def test_another_file_in_place_of_the_lock_is_refused_and_kept(path: Path, *, linked: bool) -> None:
    """Neither a second name of a file nor a file with other words in it is emptied."""
    path.parent.mkdir()
    letter, lock = path.parent / "letter", path.parent / "penstock.db.lock"
    letter.write_text("12" if linked else "dear", encoding="utf-8")
    lock.hardlink_to(letter) if linked else letter.rename(lock)
    with pytest.raises(StoreError, match="no lock file of Penstock"):
        SqliteStore(path)
    assert lock.read_text(encoding="utf-8") == ("12" if linked else "dear")


def test_a_store_that_is_held_is_waited_for_once(path: Path) -> None:
    """The first step waits its time, the next ones do not; once the file is free, steps wait for others again."""
    with SqliteStore(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        waits = _busy_timeouts(store)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(6):
            with pytest.raises(StoreError, match="another program holds the file"):
                store.append(HOLD, time_s=1.0, mode=Mode.ACT)
        assert waits() == 0
        other.execute("ROLLBACK")
        store.append(HOLD, time_s=1.0, mode=Mode.ACT)
        assert waits() == round(1000 * store_file.BUSY_TIMEOUT_S)
        assert len(store.actions()) == 1


def _busy_timeouts(store: SqliteStore) -> Callable[[], int]:
    connection = store._connection
    assert connection is not None
    return lambda: int(connection.execute("PRAGMA busy_timeout").fetchone()[0])


def test_a_deleted_store_is_noticed_and_begun_anew(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next action stands in a file that can be read, and the loss of the others is told."""
    with SqliteStore(path) as store:
        store.append(HOLD, time_s=1.0, mode=Mode.ACT)
        for entry in path.parent.iterdir():
            entry.unlink()
        store.append(HOLD, time_s=2.0, mode=Mode.ACT)
        with SqliteStore(path, read_only=True) as reader:
            assert [record.time_s for record in reader.actions()] == [2.0]
        with pytest.raises(StoreError, match="already being written"):
            SqliteStore(path)
    assert "was deleted or replaced" in caplog.text


def test_a_deleted_store_that_another_writer_has_begun_is_left_to_it(path: Path) -> None:
    """Two writers are never at one store: the first one records nothing until the second has closed."""
    with SqliteStore(path) as store:
        for entry in path.parent.iterdir():
            entry.unlink()
        with SqliteStore(path) as second:
            for _ in range(2):
                with pytest.raises(StoreError, match="already being written"):
                    store.append(HOLD, time_s=1.0, mode=Mode.ACT)
            second.append(HOLD, time_s=2.0, mode=Mode.ACT)
        store.append(HOLD, time_s=3.0, mode=Mode.ACT)
        assert [record.time_s for record in store.actions()] == [2.0, 3.0]


def test_a_lock_that_is_deleted_alone_is_taken_again(path: Path) -> None:
    """Without its lock file the store has one writer still."""
    with SqliteStore(path) as store:
        (path.parent / "penstock.db.lock").unlink()
        store.append(HOLD, time_s=1.0, mode=Mode.ACT)
        with pytest.raises(StoreError, match="already being written"):
            SqliteStore(path)
        assert len(store.actions()) == 1


def storm(store: SqliteStore, batches: int) -> None:
    """A query that was governed once and has shed in every batch since."""
    govern = Govern(query=CLICKS, cause="start", reason="goal", query_id="id-1", latency_s=5.0)
    store.append(to_action(govern), time_s=0.0, mode=Mode.ACT)
    ratios = [
        KeepRatio(query=CLICKS, cause="b", reason="r", batch_id=n, keep_ratio=0.5, keep_floor=0.1)
        for n in range(batches)
    ]
    for begin in range(0, batches, 5000):
        chunk = [to_action(ratio) for ratio in ratios[begin : begin + 5000]]
        store.append_all(chunk, time_s=float(begin), mode=Mode.ACT)


def steps(store: SqliteStore, work: Callable[[], object]) -> int:
    """Hundreds of steps of SQLite's machine that some work takes: what it costs, whatever the machine is busy with."""
    counted = [0]

    def count() -> None:
        counted[0] += 1

    connection = store._connection
    assert connection is not None
    connection.set_progress_handler(count, 100)
    work()
    connection.set_progress_handler(None, 0)
    return counted[0]


def test_look_ups_do_not_grow_with_the_log(tmp_path: Path) -> None:
    """Explaining a query and listing queries take no more steps in a long log than in a short one."""
    costs = []
    for batches in (2_000, 40_000):
        with SqliteStore(tmp_path / f"{batches}.db") as store:
            storm(store, batches)
            costs.append(
                (
                    steps(store, lambda store=store: explain(store, CLICKS)),
                    steps(store, store.queries),
                )
            )
    few, many = costs
    assert all(after <= before + before // 2 + 2 for before, after in zip(few, many, strict=True)), costs


def test_all_actions_are_read_a_portion_at_a_time(tmp_path: Path) -> None:
    """However many there are, the first comes after as many steps as in a short log."""
    costs = []
    for batches in (2_000, 40_000):
        with SqliteStore(tmp_path / f"{batches}.db") as store:
            storm(store, batches)
            costs.append(steps(store, lambda store=store: next(store.each_action())))
    assert costs[1] <= costs[0] + 2


def test_old_keep_ratios_are_forgotten_and_the_newest_stays(tmp_path: Path) -> None:
    """The log of a long storm is as long as its retention, and what holds is still there."""
    with SqliteStore(tmp_path / "penstock.db") as store:
        storm(store, 12_000)
        forget_old(store, Settings().store, now_s=400.0 * 86_400.0)
        left = store.actions(query=CLICKS)
        assert [record.action.kind for record in left] == [ActionKind.GOVERN, ActionKind.KEEP_RATIO]
        assert left[-1].action.details["batch_id"] == 11_999
