"""The schema of the store's file, as an ordered list of steps from one version to the next.

A step that has been released is never edited; a change of the schema is a new step at the end. The version stands in
SQLite's ``user_version``, and ``application_id`` tells a store from the SQLite files of other programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import StoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

APPLICATION_ID = 0x50454E53
"""``PENS`` in ASCII."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: what it brings, and the statements that bring it."""

    version: int
    purpose: str
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        version=1,
        purpose="the action log and the time series",
        statements=(
            # Without AUTOINCREMENT an id is the largest one plus 1, also after a rollback: ids rise without gaps.
            """
            CREATE TABLE actions (
                action_id INTEGER PRIMARY KEY,
                time_s REAL NOT NULL,
                mode TEXT NOT NULL,
                kind TEXT NOT NULL,
                query TEXT NOT NULL,
                cause TEXT NOT NULL,
                reason TEXT NOT NULL,
                target TEXT NOT NULL,
                value REAL,
                previous REAL,
                unit TEXT NOT NULL,
                expected TEXT NOT NULL
            )
            """,
            """
            CREATE TABLE series (
                point_id INTEGER PRIMARY KEY,
                time_s REAL NOT NULL,
                query TEXT NOT NULL,
                metric TEXT NOT NULL,
                value REAL NOT NULL,
                batch_id INTEGER
            )
            """,
        ),
    ),
    Migration(
        version=2,
        purpose="observations of a query's parts, and look-ups that do not read the whole file",
        statements=(
            "ALTER TABLE series ADD COLUMN subject TEXT NOT NULL DEFAULT ''",
            "CREATE INDEX actions_by_query ON actions (query)",
            "CREATE INDEX actions_by_time ON actions (time_s)",
            "CREATE INDEX series_by_query ON series (query, metric, time_s)",
            "CREATE INDEX series_by_time ON series (time_s)",
        ),
    ),
    Migration(
        version=3,
        purpose="messages to tasks, so that a batch that runs again finds those of the first time",
        statements=(
            """
            CREATE TABLE messages (
                query_id TEXT NOT NULL,
                name TEXT NOT NULL,
                text TEXT NOT NULL,
                PRIMARY KEY (query_id, name)
            )
            """,
        ),
    ),
    Migration(
        version=4,
        purpose="the fields of decisions, the words of today, a name for the application, and bounded look-ups",
        statements=(
            "ALTER TABLE actions ADD COLUMN details TEXT NOT NULL DEFAULT '{}'",
            "UPDATE actions SET kind = 'keep_ratio' WHERE kind = 'keep_fraction'",
            "UPDATE actions SET kind = 'unmanaged' WHERE kind = 'leave_alone'",
            """
            UPDATE actions SET expected = replace(expected, '"keep_fraction":', '"keep_ratio":')
            WHERE expected LIKE '%"keep_fraction":%'
            """,
            "UPDATE series SET metric = 'keep_ratio' WHERE metric = 'keep_fraction'",
            # What was recorded of the application had the name of a query, which a query may have too. Holds, faults
            # and infeasible goals may be of either: they are the application's where no query of that name was seen.
            """
            UPDATE actions SET query = '' WHERE query = 'engine' AND (
                kind IN ('executors', 'executors_done', 'actuator_off')
                OR NOT EXISTS (
                    SELECT 1 FROM actions AS own WHERE own.query = 'engine'
                    AND own.kind IN ('govern', 'release', 'read_limit', 'keep_ratio', 'unmanaged')
                )
                AND NOT EXISTS (
                    SELECT 1 FROM series WHERE series.query = 'engine' AND series.metric NOT LIKE 'executor%'
                )
            )
            """,
            "UPDATE series SET query = '' WHERE query = 'engine' AND metric LIKE 'executor%'",
            "CREATE INDEX actions_by_query_kind ON actions (query, kind)",
            "CREATE INDEX actions_by_kind ON actions (kind)",
            "CREATE INDEX actions_by_kind_time ON actions (kind, time_s)",
        ),
    ),
)

LATEST_VERSION = MIGRATIONS[-1].version
EMPTY_FILE_VERSION = 0


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """Read the version of a store's file without changing it; 0 is a file that is still empty.

    Raises
    ------
    StoreError
        If the file belongs to another program or to a newer version of Penstock.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application_id != APPLICATION_ID:
        if tables or version or application_id:
            raise StoreError(
                f"{path} is an SQLite file of another program, and is left as it is: use another store path"
            )
        return EMPTY_FILE_VERSION
    if version > LATEST_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, and this version of Penstock knows versions up to {LATEST_VERSION}: "
            "it is left as it is; upgrade Penstock, or use another store path"
        )
    return int(version)


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring a file to the newest of these versions in one transaction: a death in the middle leaves the old version.

    The connection must be in autocommit mode (``isolation_level=None``), or Python would commit between the steps.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = schema_version(connection, path)
        if version == EMPTY_FILE_VERSION:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for migration in migrations:
            if migration.version > version:
                for statement in migration.statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {migration.version}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
