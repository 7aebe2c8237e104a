"""The store in a file: how it is opened, read beside its writer, and what it says when it cannot be."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import StoreError
from penstock.model import Action, ActionKind, Metric, Mode, QueryName, SeriesPoint
from penstock.store import SqliteStore, open_reader
from penstock.store import sqlite as sqlite_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLICKS = QueryName("clicks")
HOLD = Action(ActionKind.HOLD, CLICKS, "batch 1", "fits")
NOBODY = 65534

OPENERS = [SqliteStore, open_reader]
either_way = pytest.mark.parametrize("opener", OPENERS, ids=["writer", "reader"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "penstock.db"


@pytest.fixture
def locked_directory() -> Iterator[Path]:
    """A directory that the test's user may read but not write, with a closed store in it."""
    directory = Path(tempfile.mkdtemp())
    with SqliteStore(directory / "penstock.db") as store:
        store.append(HOLD, time_s=1.0, mode=Mode.ACT)
    (directory / "penstock.db").chmod(0o644)
    directory.chmod(0o555)
    # Permissions do not bind root, who runs the tests in containers.
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    yield directory
    if is_root:
        os.seteuid(0)
    directory.chmod(0o755)
    shutil.rmtree(directory)


def _fill(path: Path, actions: int) -> None:
    with SqliteStore(path) as store:
        for step in range(actions):
            store.append(replace(HOLD, reason="x" * 500), time_s=float(step), mode=Mode.ACT)


def _append_for_ever(store: SqliteStore) -> None:
    while True:
        store.append(replace(HOLD, reason="x" * 2000), time_s=1.0, mode=Mode.ACT)


def test_old_observations_are_deleted_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever records meanwhile waits for a portion, not for the whole of a week of a thousand queries."""
    monkeypatch.setattr(sqlite_store, "_PORTION_ROWS", 10)
    with SqliteStore(tmp_path / "app.db") as store:
        store.append_points([SeriesPoint(float(n), QueryName("clicks"), Metric.BATCH_ROWS, 1.0) for n in range(35)])
        writing, turns = store._writing, []

        def counted() -> Any:
            turns.append(None)
            return writing()

        monkeypatch.setattr(store, "_writing", counted)
        assert store.delete_points(before_s=25.0) == 25
        assert len(turns) == 3
        assert [point.time_s for point in store.points(QueryName("clicks"), Metric.BATCH_ROWS)] == list(range(25, 35))
        assert store.delete_points(before_s=25.0) == 0


def test_directories_are_made(tmp_path: Path) -> None:
    """The first start of an application need not prepare anything."""
    path = tmp_path / "a" / "b" / "penstock.db"
    with SqliteStore(path) as store:
        store.append(HOLD, time_s=1.0, mode=Mode.ACT)

    assert path.is_file()


@pytest.mark.parametrize("name", ["a b.db", "50%25.db", "what?mode=memory", "part#2.db", "größe.db"])
def test_any_file_name_is_taken_literally(tmp_path: Path, name: str) -> None:
    """Characters with a meaning in URIs do not change which file is opened."""
    with SqliteStore(tmp_path / name) as store:
        store.append(HOLD, time_s=1.0, mode=Mode.ACT)
    with open_reader(tmp_path / name) as store:
        assert len(store.actions()) == 1

    assert sorted(entry.name for entry in tmp_path.iterdir() if "-" not in entry.name) == [name, f"{name}.lock"]


def test_commits_wait_for_the_disk(path: Path) -> None:
    """The file is in WAL mode and every commit is synced, as the promise of append needs."""
    with SqliteStore(path) as store, store._using() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (1000,)


def test_a_reader_sees_every_commit_while_the_writer_is_open(path: Path) -> None:
    """A reader opened once follows the writer, and goes on after the writer has closed."""
    writer = SqliteStore(path)
    with open_reader(path) as reader:
        assert reader.actions() == []
        for number in range(1, 4):
            recorded = writer.append(HOLD, time_s=float(number), mode=Mode.ACT)
            writer.append_points([SeriesPoint(float(number), CLICKS, Metric.LAG_ROWS, 1.0)])
            assert reader.actions(after_id=number - 1) == [recorded]
            assert len(reader.points(CLICKS, Metric.LAG_ROWS)) == number
        writer.close()
        assert len(reader.actions()) == 3


def test_a_reader_in_the_middle_of_reading_does_not_stop_the_writer(path: Path) -> None:
    """The writer commits while another connection holds a snapshot, and that snapshot does not change."""
    _fill(path, 2)
    with SqliteStore(path) as writer, closing(sqlite3.connect(path)) as other:
        rows = other.execute("SELECT action_id FROM actions ORDER BY action_id")
        assert rows.fetchone() == (1,)
        assert writer.append(HOLD, time_s=9.0, mode=Mode.ACT).action_id == 3
        assert rows.fetchall() == [(2,)]


def test_a_reader_records_nothing(path: Path) -> None:
    """Every way of changing a store that is open for reading is refused."""
    _fill(path, 1)
    with open_reader(path) as reader:
        for change in (
            lambda: reader.append(HOLD, time_s=1.0, mode=Mode.ACT),
            lambda: reader.append_points([SeriesPoint(1.0, CLICKS, Metric.LAG_ROWS, 1.0)]),
            lambda: reader.append_all([HOLD], time_s=1.0, mode=Mode.ACT),
            lambda: reader.delete_points(before_s=1.0),
            lambda: reader.delete_actions(before_s=1.0, kinds=[ActionKind.HOLD]),
        ):
            with pytest.raises(StoreError, match="open for reading only"):
                change()
        assert len(reader.actions()) == 1


def test_a_missing_file_tells_the_reader_what_to_do(path: Path) -> None:
    """The error names the path and the remedies, and no file is made."""
    with pytest.raises(StoreError) as caught:
        open_reader(path)

    assert str(path) in str(caught.value)
    assert "attach with that store path" in str(caught.value)
    assert "--store" in str(caught.value)
    assert list(path.parent.iterdir()) == []


@either_way
def test_a_file_that_is_not_sqlite_is_left_alone(path: Path, opener: Callable[[Path], SqliteStore]) -> None:
    """A text file given by mistake keeps its content and gets no files beside it."""
    content = b"dear diary, today the lag was zero\n" * 200
    path.write_bytes(content)

    with pytest.raises(StoreError, match="not an SQLite file and is left as it is; use another store path"):
        opener(path)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


@either_way
@pytest.mark.parametrize(
    "table", ["CREATE TABLE songs (title)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"]
)
def test_the_sqlite_file_of_another_program_is_left_alone(
    path: Path, opener: Callable[[Path], SqliteStore], table: str
) -> None:
    """Neither its tables nor its version make it a store."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(table)
    content = path.read_bytes()

    with pytest.raises(StoreError, match="SQLite file of another program"):
        opener(path)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """A file made beforehand with nothing in it may be written, but not yet read."""
    path.touch()
    with pytest.raises(StoreError, match="holds no store yet"):
        open_reader(path)

    _fill(path, 1)
    with open_reader(path) as store:
        assert len(store.actions()) == 1


@either_way
def test_a_truncated_file_is_told_and_left_alone(path: Path, opener: Callable[[Path], SqliteStore]) -> None:
    """A file cut short, as by a full disk during a copy, gives a plain error and keeps its bytes."""
    _fill(path, 50)
    content = path.read_bytes()[:5000]
    path.write_bytes(content)

    with pytest.raises(StoreError, match="the file is damaged and is left as it is"):
        opener(path)
    assert path.read_bytes() == content


@either_way
def test_a_damaged_page_is_told_when_it_is_read(path: Path, opener: Callable[[Path], SqliteStore]) -> None:
    """Damage behind the first pages shows when those rows are asked for, as a plain error."""
    _fill(path, 50)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)

    with opener(path) as store, pytest.raises(StoreError, match="the file is damaged"):
        store.actions()


def test_missing_tables_are_told(path: Path) -> None:
    """A store whose table was dropped by hand gives a plain error."""
    _fill(path, 1)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE series")

    with open_reader(path) as store, pytest.raises(StoreError, match="no such table: series; the file is not as"):
        store.points(CLICKS, Metric.LAG_ROWS)


@either_way
def test_a_directory_or_device_is_no_store(tmp_path: Path, opener: Callable[[Path], SqliteStore]) -> None:
    """A path that is no file gives a plain error and gets no files beside it."""
    directory = tmp_path / "stores"
    directory.mkdir()

    for path in (directory, Path("/dev/null")):
        with pytest.raises(StoreError, match=str(path)):
            opener(path)
    assert list(tmp_path.iterdir()) == [directory]
    assert not Path("/dev/null.lock").exists()


def test_a_file_in_place_of_a_directory_is_told(tmp_path: Path) -> None:
    """When the directory cannot be made, the error names it and what to do."""
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match=r"the directory .*file of the store cannot be made .*use a store path"):
        SqliteStore(tmp_path / "file" / "penstock.db")


def test_a_directory_without_permission_is_told(locked_directory: Path) -> None:
    """New files, new directories, and old stores in a directory that may not be written: all plain errors."""
    for name in ("new.db", "new/new.db", "penstock.db"):
        with pytest.raises(StoreError, match=r"may write|right to write"):
            SqliteStore(locked_directory / name)
    with pytest.raises(StoreError, match="copy it where this user may write"):
        open_reader(locked_directory / "penstock.db")

    assert sorted(entry.name for entry in locked_directory.iterdir()) == ["penstock.db", "penstock.db.lock"]


def test_a_full_disk_loses_nothing_and_leaves_no_gap(path: Path) -> None:
    """What does not fit is refused as a whole; when there is room again, recording goes on with the next id."""
    with SqliteStore(path) as store:
        with store._using() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(StoreError, match="make room on the disk; nothing of this step was recorded"):
            _append_for_ever(store)
        stored = len(store.actions())
        assert stored > 0
        points = [SeriesPoint(float(step), CLICKS, Metric.LAG_ROWS, 1.0, subject="x" * 50) for step in range(1000)]
        with pytest.raises(StoreError, match="make room"):
            store.append_points(points)
        assert store.points(CLICKS, Metric.LAG_ROWS) == []
        assert len(store.actions()) == stored

        with store._using() as connection:
            connection.execute(f"PRAGMA max_page_count = {pages + 400}")
        assert store.append(HOLD, time_s=2.0, mode=Mode.ACT).action_id == stored + 1
        store.append_points(points)
        assert store.points(CLICKS, Metric.LAG_ROWS) == points


def test_a_file_held_by_another_program_is_told(path: Path) -> None:
    """A tool that keeps the file locked past the waiting time gives a plain error, and nothing is half recorded."""
    with SqliteStore(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as tool:
        with store._using() as connection:
            connection.execute("PRAGMA busy_timeout = 10")
        tool.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program holds the file"):
            store.append(HOLD, time_s=1.0, mode=Mode.ACT)
        tool.execute("ROLLBACK")
        assert store.append(HOLD, time_s=1.0, mode=Mode.ACT).action_id == 1


def test_lookups_use_the_indexes(path: Path) -> None:
    """The questions that the command line asks all the time do not read the whole file."""
    SqliteStore(path).close()
    statements: list[str] = []
    with open_reader(path) as store:
        with store._using() as connection:
            connection.set_trace_callback(statements.append)
        store.actions(query=CLICKS, last=10)
        store.actions(after_id=5)
        store.actions(query=CLICKS, kinds=[ActionKind.HOLD], last=10)
        store.actions(kinds=[ActionKind.HOLD], last=10)
        store.points(CLICKS, Metric.LAG_ROWS, last=10)
        store.points(CLICKS, Metric.LAG_ROWS, since_s=1.0, last=10)
        next(store.each_action(query=CLICKS, kinds=[ActionKind.HOLD]), None)
        in_order = len(statements)
        store.actions(query=CLICKS, kinds=[ActionKind.HOLD, ActionKind.FAULT], after_id=7, last=10)
        store.queries()
    assert len(statements) == in_order + 2

    plans = _plans(path, statements)
    for plan in plans:
        assert not [step for step in plan if re.match(r"SCAN (TABLE )?(actions|series)\b", step)]
    # The names of the queries are few and may be sorted; so may the newest few of each kind. Rows must come out of the
    # index in order.
    for plan in plans[:in_order]:
        assert not [step for step in plan if "ORDER BY" in step]
    searches = [step for step in plans[in_order] if step.startswith("SEARCH actions")]
    assert ["(query=? AND kind=? AND rowid>?)" in step for step in searches] == [True, True]


def test_deletion_of_actions_uses_the_indexes(path: Path) -> None:
    """Old rows are found by kind and time, and newer ones of the same query and kind by theirs."""
    statements: list[str] = []
    with SqliteStore(path) as store:
        with store._using() as connection:
            connection.set_trace_callback(statements.append)
        store.delete_actions(before_s=9.0, kinds=[ActionKind.READ_LIMIT])

    (plan,) = _plans(path, statements)
    assert any("actions_by_kind_time (kind=? AND time_s<?)" in step for step in plan)
    assert any("actions_by_query_kind (query=? AND kind=? AND rowid>?)" in step for step in plan)


def _plans(path: Path, statements: list[str]) -> list[list[str]]:
    with closing(sqlite3.connect(path)) as connection:
        return [[row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {each}")] for each in statements]
