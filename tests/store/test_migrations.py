"""Files of every version: brought up to date in one step, or left exactly as they are."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.model import APPLICATION, Action, ActionKind, Metric, Mode, QueryName, SeriesPoint
from penstock.store import SqliteStore, open_reader
from penstock.store.migrations import APPLICATION_ID, LATEST_VERSION, MIGRATIONS, Migration, migrate

CLICKS = QueryName("clicks")

OLD_ACTION = Action(ActionKind.HOLD, CLICKS, "batch 1", "fits", expected={"duration_s": 2.0})
OLD_POINT = SeriesPoint(1.0, CLICKS, Metric.LAG_ROWS, 5.0, batch_id=1)

# Makes a connection on which SELECT die() kills the process, and migrates with it.
MIGRATE_AND_DIE = """
import os, signal, sqlite3, sys
from dataclasses import replace
from pathlib import Path
from penstock.store.migrations import MIGRATIONS, migrate

path, version, statements_before_death = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
steps = list(MIGRATIONS)
step = steps[version - 1]
done = step.statements[:statements_before_death]
steps[version - 1] = replace(step, statements=(*done, "SELECT die()"))
migrate(connection, path, steps)
"""


def _autocommit(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None))


def _version(path: Path) -> int:
    with _autocommit(path) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _schema(path: Path) -> list[tuple[str, str]]:
    with _autocommit(path) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


@pytest.fixture
def version_1(tmp_path: Path) -> Path:
    """A file of version 1 with one action and one point in it."""
    path = tmp_path / "old.db"
    with _autocommit(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, path, MIGRATIONS[:1])
        connection.execute(
            "INSERT INTO actions VALUES "
            "(1, 10.0, 'act', 'hold', 'clicks', 'batch 1', 'fits', '', NULL, NULL, '', '{\"duration_s\": 2.0}')"
        )
        connection.execute("INSERT INTO series VALUES (1, 1.0, 'clicks', 'lag_rows', 5.0, 1)")
    return path


def test_versions_count_up_from_one() -> None:
    """A step that is out of order would be skipped for some files."""
    assert [migration.version for migration in MIGRATIONS] == list(range(1, LATEST_VERSION + 1))


def test_a_new_file_has_the_newest_version(tmp_path: Path) -> None:
    """A fresh file carries the mark of Penstock and the newest version."""
    path = tmp_path / "penstock.db"
    SqliteStore(path).close()

    assert _version(path) == LATEST_VERSION
    with _autocommit(path) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_an_old_file_is_brought_up_to_date_with_its_content(version_1: Path, tmp_path: Path) -> None:
    """After the migration the old rows read back, new ones go in, and the schema is that of a new file."""
    with SqliteStore(version_1) as store:
        assert [record.action for record in store.actions()] == [OLD_ACTION]
        assert store.points(CLICKS, Metric.LAG_ROWS) == [OLD_POINT]
        assert store.append(OLD_ACTION, time_s=20.0, mode=Mode.ACT).action_id == 2
        part = SeriesPoint(2.0, CLICKS, Metric.LAG_ROWS, 6.0, subject="source 1")
        store.append_points([part])
        assert store.points(CLICKS, Metric.LAG_ROWS) == [OLD_POINT, part]

    SqliteStore(tmp_path / "new.db").close()
    assert _version(version_1) == LATEST_VERSION
    assert [name for name, _ in _schema(version_1)] == [name for name, _ in _schema(tmp_path / "new.db")]


def _version_3(path: Path, actions: list[tuple[str, str]], points: list[tuple[str, str]]) -> None:
    """A file of version 3 with actions of these kinds and queries, and points of these metrics and queries."""
    with _autocommit(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, path, MIGRATIONS[:3])
        connection.executemany(
            "INSERT INTO actions VALUES "
            "(NULL, 1.0, 'act', ?, ?, 'batch 1', 'fits', '', NULL, NULL, '', '{\"keep_fraction\": 0.5}')",
            actions,
        )
        connection.executemany("INSERT INTO series VALUES (NULL, 1.0, ?, ?, 5.0, 1, '')", [p[::-1] for p in points])


def test_old_words_become_those_of_today(tmp_path: Path) -> None:
    """Kinds, metrics and expectations that were renamed read back under their new names, without details."""
    path = tmp_path / "old.db"
    kinds = [("keep_fraction", "clicks"), ("leave_alone", "clicks"), ("hold", "clicks")]
    _version_3(path, kinds, [("keep_fraction", "clicks"), ("lag_rows", "clicks")])

    with SqliteStore(path) as store:
        actions = [record.action for record in store.actions()]
        assert [action.kind for action in actions] == [ActionKind.KEEP_RATIO, ActionKind.UNMANAGED, ActionKind.HOLD]
        assert [(action.expected, action.details) for action in actions] == [({"keep_ratio": 0.5}, {})] * 3
        assert len(store.points(CLICKS, Metric.KEEP_RATIO)) == len(store.points(CLICKS, Metric.LAG_ROWS)) == 1


ENGINE_RECORDS = [
    ("executors", "engine"),
    ("executors_done", "engine"),
    ("actuator_off", "engine"),
    ("fault", "engine"),
]


def test_records_of_the_application_get_its_name(tmp_path: Path) -> None:
    """What was kept under the name of an engine is the application's."""
    path = tmp_path / "old.db"
    _version_3(path, ENGINE_RECORDS, [("executor_busy_fraction", "engine"), ("executors_serving", "engine")])

    with SqliteStore(path) as store:
        assert {record.action.query for record in store.actions()} == {APPLICATION}
        assert store.queries() == [APPLICATION]
        assert len(store.points(APPLICATION, Metric.EXECUTORS_SERVING)) == 1


@pytest.mark.parametrize(("kinds", "metrics"), [(["govern"], []), ([], ["lag_rows"])])
def test_a_query_that_was_named_engine_keeps_its_records(tmp_path: Path, kinds: list[str], metrics: list[str]) -> None:
    """Only what no query can have is taken for the application's where a query had that name."""
    path = tmp_path / "old.db"
    own = [(kind, "engine") for kind in kinds]
    points = [(metric, "engine") for metric in metrics]
    _version_3(path, [*ENGINE_RECORDS, *own], [*points, ("executors_serving", "engine")])

    with SqliteStore(path) as store:
        of_query = [record.action.kind for record in store.actions(query=QueryName("engine"))]
        assert of_query == [ActionKind.FAULT, *map(ActionKind, kinds)]
        assert len(store.actions(query=APPLICATION)) == 3
        assert len(store.points(APPLICATION, Metric.EXECUTORS_SERVING)) == 1
        assert len(store.points(QueryName("engine"), Metric.LAG_ROWS)) == len(metrics)


def test_a_reader_leaves_an_old_file_alone_and_says_what_to_do(version_1: Path) -> None:
    """Reading never migrates."""
    before = version_1.read_bytes()

    with pytest.raises(StoreError, match=r"old\.db has schema version 1.*attach once with that store path"):
        open_reader(version_1)
    assert version_1.read_bytes() == before


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_file_is_refused_and_untouched(tmp_path: Path, *, read_only: bool) -> None:
    """A file of a version to come keeps every byte, and no file appears beside it for a writer."""
    path = tmp_path / "penstock.db"
    SqliteStore(path).close()
    with _autocommit(path) as connection:
        connection.execute(f"PRAGMA user_version = {LATEST_VERSION + 1}")
    Path(f"{path}.lock").unlink()
    before = path.read_bytes()

    with pytest.raises(StoreError, match=rf"version {LATEST_VERSION + 1}.*up to {LATEST_VERSION}.*upgrade Penstock"):
        SqliteStore(path, read_only=read_only)
    assert path.read_bytes() == before
    assert not Path(f"{path}.lock").exists()


def test_a_step_that_fails_leaves_the_old_version(version_1: Path) -> None:
    """When the last statement fails, all earlier ones of the migration are undone."""
    before = _schema(version_1)
    broken = (
        MIGRATIONS[0],
        MIGRATIONS[1],
        Migration(3, "fails", ("CREATE TABLE extra (a)", "SELECT no_such_function()")),
    )

    with _autocommit(version_1) as connection:
        with pytest.raises(sqlite3.OperationalError, match="no_such_function"):
            migrate(connection, version_1, broken)
        assert not connection.in_transaction

    assert _schema(version_1) == before
    assert _version(version_1) == 1
    with SqliteStore(version_1) as store:
        assert [record.action for record in store.actions()] == [OLD_ACTION]


@pytest.mark.parametrize("statements_before_death", [1, len(MIGRATIONS[1].statements)])
def test_death_in_mid_migration_leaves_the_old_version(version_1: Path, statements_before_death: int) -> None:
    """Killed within the step to version 2, the file is version 1 with its rows, and migrates at the next start."""
    before = _schema(version_1)
    died = subprocess.run(
        [sys.executable, "-c", MIGRATE_AND_DIE, version_1, "2", str(statements_before_death)], check=False
    )

    assert died.returncode == -signal.SIGKILL
    assert _version(version_1) == 1
    assert _schema(version_1) == before
    with SqliteStore(version_1) as store:
        assert [record.action for record in store.actions()] == [OLD_ACTION]
        assert store.points(CLICKS, Metric.LAG_ROWS) == [OLD_POINT]
    assert _version(version_1) == LATEST_VERSION


def test_death_while_the_file_is_made_leaves_an_empty_file(tmp_path: Path) -> None:
    """Killed while the first tables are made, the next start finds an empty file and makes it anew."""
    path = tmp_path / "penstock.db"
    died = subprocess.run([sys.executable, "-c", MIGRATE_AND_DIE, path, "1", "1"], check=False)

    assert died.returncode == -signal.SIGKILL
    assert _schema(path) == []
    with pytest.raises(StoreError, match="holds no store yet"):
        open_reader(path)
    with SqliteStore(path) as store:
        assert store.append(OLD_ACTION, time_s=1.0, mode=Mode.ACT).action_id == 1
