"""The store in one SQLite file: an action that is recorded survives ``kill -9``.

The file is in WAL mode, so readers in other processes see every commit while the writer goes on, and
``synchronous=FULL``, so a commit is on the disk before :meth:`SqliteStore.append` returns. Nothing but SQLite ever
opens the file: closing any other descriptor on it would silently drop the locks that SQLite holds in this process.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from penstock.errors import StoreError
from penstock.model import ActionKind, Metric, QueryName
from penstock.store.migrations import EMPTY_FILE_VERSION, LATEST_VERSION, migrate, schema_version
from penstock.store.schema import (
    SOURCE_TARGET,
    ActionRow,
    action_from_row,
    action_to_row,
    checked_last,
    point_from_row,
    point_to_row,
)
from penstock.store.writer_lock import WriterLock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from penstock.model import Action, Mode, RecordedAction, SeriesPoint

BUSY_TIMEOUT_S = 5.0

_ACTION_COLUMNS = ", ".join(ActionRow._fields)
_INSERT_ACTION = f"""
    INSERT INTO actions ({_ACTION_COLUMNS}) VALUES ({", ".join("?" * len(ActionRow._fields))})
"""  # noqa: S608 - the columns are those of the typed row
_INSERT_POINT = """
    INSERT INTO series (time_s, query, metric, value, batch_id, subject) VALUES (?, ?, ?, ?, ?, ?)
"""
_SELECT_ACTIONS = f"SELECT action_id, {_ACTION_COLUMNS} FROM actions WHERE {{}} ORDER BY action_id DESC LIMIT ?"  # noqa: S608 - as above
_SELECT_NEXT_ACTIONS = f"SELECT action_id, {_ACTION_COLUMNS} FROM actions WHERE {{}} ORDER BY action_id LIMIT ?"  # noqa: S608 - as above
# Of several kinds together SQLite would read all and sort them; of each alone it takes the newest from the index.
_SELECT_KINDS = "SELECT * FROM ({}) ORDER BY action_id DESC LIMIT ?"
# The newest of each query and kind stays, and that of each source: they are in force.
_DELETE_ACTIONS = """
    DELETE FROM actions WHERE action_id IN (
        SELECT old.action_id FROM actions AS old WHERE old.kind = ? AND old.time_s < ? AND EXISTS (
            SELECT 1 FROM actions AS newer
            WHERE newer.query = old.query AND newer.kind = old.kind AND newer.action_id > old.action_id
            AND (old.target NOT LIKE ? OR newer.target = old.target)
        ) LIMIT ?
    )
"""
_SELECT_POINTS = """
    SELECT point_id, time_s, query, metric, value, batch_id, subject
    FROM series WHERE {} ORDER BY time_s DESC, point_id DESC LIMIT ?
"""
# DISTINCT would read every observation; this jumps from one name to the next in the index.
_SELECT_QUERIES = """
    WITH RECURSIVE
    acted (name) AS (
        SELECT min(query) FROM actions
        UNION ALL SELECT (SELECT min(query) FROM actions WHERE query > name) FROM acted WHERE name IS NOT NULL
    ),
    observed (name) AS (
        SELECT min(query) FROM series
        UNION ALL SELECT (SELECT min(query) FROM series WHERE query > name) FROM observed WHERE name IS NOT NULL
    )
    SELECT name FROM acted WHERE name IS NOT NULL UNION SELECT name FROM observed WHERE name IS NOT NULL ORDER BY name
"""
_REPLACE_MESSAGE = "INSERT OR REPLACE INTO messages (query_id, name, text) VALUES (?, ?, ?)"
_SELECT_MESSAGES = "SELECT name, text FROM messages WHERE query_id = ? ORDER BY name"
_NO_LIMIT = -1
# Rows that are read, or deleted, at one go: whoever records meanwhile waits no longer than for these.
_PORTION_ROWS = 1000

_REMEDIES: dict[int, str] = {
    sqlite3.SQLITE_NOTADB: "it is not an SQLite file and is left as it is; use another store path",
    sqlite3.SQLITE_CORRUPT: "the file is damaged and is left as it is; move it away or restore a copy of it",
    sqlite3.SQLITE_FULL: "make room on the disk; nothing of this step was recorded",
    sqlite3.SQLITE_READONLY: "give this user the right to write the file and its directory, or use another store path",
    sqlite3.SQLITE_CANTOPEN: "give this user the right to read and write the directory, or use a store path elsewhere",
    sqlite3.SQLITE_BUSY: "another program holds the file; close it and try again",
    sqlite3.SQLITE_IOERR: "the disk fails to read or write; check it, or use a store path elsewhere",
}
_COPY_TO_READ = "reading a store that nobody writes makes two files beside it: copy it where this user may write"
_READER_REMEDIES = _REMEDIES | {sqlite3.SQLITE_READONLY: _COPY_TO_READ, sqlite3.SQLITE_CANTOPEN: _COPY_TO_READ}
_OTHER_REMEDY = "the file is not as this version of Penstock wrote it; restore a copy, or use another store path"


class SqliteStore:
    """The action log and the time series in a file; all methods may be called from any thread.

    Parameters
    ----------
    path
        The file; a writer creates it, and its directories.
    read_only
        Read beside a writer. The file must be there already.

    Raises
    ------
    StoreError
        If the file cannot be opened, belongs to another program or a newer version, or has a writer already. The text
        tells what to do; the file is left as it was.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path).expanduser().resolve()
        self.read_only = read_only
        self._remedies = _READER_REMEDIES if read_only else _REMEDIES
        self._lock = threading.Lock()
        self._process_id = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._writer_lock: WriterLock | None = None
        with _plain_errors(self.path, self._remedies):
            if read_only:
                self._open_reader()
            else:
                self._open_writer()

    def append(self, action: Action, *, time_s: float, mode: Mode) -> RecordedAction:
        """Record an action durably and give it its id."""
        (recorded,) = self.append_all([action], time_s=time_s, mode=mode)
        return recorded

    def append_all(self, actions: Sequence[Action], *, time_s: float, mode: Mode) -> list[RecordedAction]:
        """Record several actions of one moment in one transaction, in this order, and give them their ids."""
        rows = [action_to_row(action, time_s=time_s, mode=mode) for action in actions]
        with self._writing() as connection:
            connection.execute("BEGIN IMMEDIATE")
            ids = [connection.execute(_INSERT_ACTION, row).lastrowid for row in rows]
            connection.execute("COMMIT")
        return [action_from_row(action_id or 0, row) for action_id, row in zip(ids, rows, strict=True)]

    def append_points(self, points: Sequence[SeriesPoint]) -> None:
        """Record observations, all of them or none."""
        rows = [point_to_row(point) for point in points]
        with self._writing() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT_POINT, rows)
            connection.execute("COMMIT")

    def actions(
        self,
        *,
        query: QueryName | None = None,
        kinds: Collection[ActionKind] = (),
        since_s: float | None = None,
        until_s: float | None = None,
        after_id: int = 0,
        last: int | None = None,
    ) -> list[RecordedAction]:
        """Give the recorded actions that match, in the order of recording; both ends of the time range belong to it."""
        wanted = _values_of(kinds)
        limit = checked_last(last)
        if limit is None or len(wanted) <= 1:
            where = _of_actions(query, wanted, since_s, until_s, after_id)
            rows = self._newest(_SELECT_ACTIONS, where, last)
        else:
            parts = [_of_actions(query, [kind], since_s, until_s, after_id) for kind in wanted]
            selects = [f"SELECT * FROM ({_SELECT_ACTIONS.format(part.text)})" for part in parts]  # noqa: S608 - no values inside
            values = [value for part in parts for value in (*part.values, limit)]
            with self._using() as connection:
                statement = _SELECT_KINDS.format(" UNION ALL ".join(selects))
                rows = connection.execute(statement, (*values, limit)).fetchall()[::-1]
        return [action_from_row(row[0], row[1:]) for row in rows]

    def each_action(
        self,
        *,
        query: QueryName | None = None,
        kinds: Collection[ActionKind] = (),
        since_s: float | None = None,
        until_s: float | None = None,
        after_id: int = 0,
    ) -> Iterator[RecordedAction]:
        """Give the recorded actions that match one by one, oldest first; a portion of them is in memory at a time."""
        wanted = _values_of(kinds)
        seen_id = after_id
        while True:
            where = _of_actions(query, wanted, since_s, until_s, seen_id)
            with self._using() as connection:
                statement = _SELECT_NEXT_ACTIONS.format(where.text)
                rows = connection.execute(statement, (*where.values, _PORTION_ROWS)).fetchall()
            for row in rows:
                seen_id = row[0]
                yield action_from_row(seen_id, row[1:])
            if len(rows) < _PORTION_ROWS:
                return

    def points(
        self,
        query: QueryName,
        metric: Metric,
        *,
        since_s: float | None = None,
        until_s: float | None = None,
        last: int | None = None,
    ) -> list[SeriesPoint]:
        """Give a time series of a query, oldest first; both ends of the time range belong to it."""
        where = _Where()
        where.add("query = ? AND metric = ?", query, Metric(metric).value)
        where.add_range(since_s, until_s)
        return [point_from_row(row[0], row[1:]) for row in self._newest(_SELECT_POINTS, where, last)]

    def put_messages(self, query_id: str, messages: Sequence[tuple[str, str]]) -> None:
        """Record durably what the tasks of a query are told, all of it or nothing; a name keeps its newest text."""
        with self._writing() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_REPLACE_MESSAGE, [(query_id, name, text) for name, text in messages])
            connection.execute("COMMIT")

    def messages(self, query_id: str) -> list[tuple[str, str]]:
        """Give the newest text of each name, sorted by name."""
        with self._using() as connection:
            return connection.execute(_SELECT_MESSAGES, (query_id,)).fetchall()

    def queries(self) -> list[QueryName]:
        """Give the names of all queries that anything is recorded of, sorted."""
        with self._using() as connection:
            rows = connection.execute(_SELECT_QUERIES).fetchall()
        return [QueryName(name) for (name,) in rows]

    def delete_points(self, *, before_s: float) -> int:
        """Forget observations older than that; actions stay. Gives how many went."""
        with self._writing() as connection:
            return connection.execute("DELETE FROM series WHERE time_s < ?", (before_s,)).rowcount

    def delete_actions(self, *, before_s: float, kinds: Collection[ActionKind]) -> int:
        """Forget old actions of these kinds but the newest of each query, kind and source; gives how many went."""
        deleted = 0
        for kind in _values_of(kinds):
            portion = _PORTION_ROWS
            while portion == _PORTION_ROWS:
                with self._writing() as connection:
                    values = (kind, before_s, f"{SOURCE_TARGET}%", _PORTION_ROWS)
                    portion = connection.execute(_DELETE_ACTIONS, values).rowcount
                deleted += portion
        return deleted

    def close(self) -> None:
        """Let the file go; closing twice does nothing."""
        if self._process_id != os.getpid():
            return
        with self._lock, _plain_errors(self.path, self._remedies), ExitStack() as stack:
            connection, self._connection = self._connection, None
            writer_lock, self._writer_lock = self._writer_lock, None
            if writer_lock is not None:
                stack.callback(writer_lock.release)
            if connection is not None:
                connection.close()

    def _open_reader(self) -> None:
        if not self.path.is_file():
            raise StoreError(
                f"there is no store at {self.path}: attach with that store path first, or name another with --store"
            )
        with ExitStack() as stack:
            connection = stack.enter_context(closing(_connect(self.path, "ro")))
            version = schema_version(connection, self.path)
            if version == EMPTY_FILE_VERSION:
                raise StoreError(f"{self.path} holds no store yet: attach with that store path first")
            if version < LATEST_VERSION:
                raise StoreError(
                    f"{self.path} has schema version {version}, and this version of Penstock reads {LATEST_VERSION}: "
                    "attach once with that store path, which brings the file up to date"
                )
            self._connection = connection
            stack.pop_all()

    def _open_writer(self) -> None:
        if self.path.exists():
            # Looked at before the lock file is made, so that a file of another program gets no lock file beside it.
            with closing(_connect(self.path, "rw")) as connection:
                schema_version(connection, self.path)
        else:
            _make_directory(self.path.parent)
        with ExitStack() as stack:
            writer_lock = WriterLock(self.path)
            stack.callback(writer_lock.release)
            connection = stack.enter_context(closing(_connect(self.path, "rwc")))
            _make_durable(connection, self.path)
            migrate(connection, self.path)
            self._connection, self._writer_lock = connection, writer_lock
            stack.pop_all()

    def _newest(self, select: str, where: _Where, last: int | None) -> list[tuple[Any, ...]]:
        limit = checked_last(last)
        with self._using() as connection:
            statement = select.format(where.text)
            rows = connection.execute(statement, (*where.values, _NO_LIMIT if limit is None else limit)).fetchall()
        return rows[::-1]

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        # Before the lock: in a forked child it may be held for ever by a thread that does not exist there.
        if self._process_id != os.getpid():
            raise StoreError(f"{self.path} was opened by process {self._process_id}: open it again in this one")
        with self._lock, _plain_errors(self.path, self._remedies):
            if self._connection is None:
                raise StoreError(f"the store {self.path} is closed: open it again")
            yield self._connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if self.read_only:
            raise StoreError(f"{self.path} is open for reading only: record through the process that writes it")
        with self._using() as connection:
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_reader(path: str | Path) -> SqliteStore:
    """Open the store at that path for reading, beside its writer if there is one."""
    return SqliteStore(path, read_only=True)


class _Where:
    """Conditions of a look-up; values travel beside the text, never inside it."""

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.values: list[object] = []

    def add(self, condition: str, *values: object) -> None:
        self._conditions.append(condition)
        self.values.extend(values)

    def add_range(self, since_s: float | None, until_s: float | None) -> None:
        if since_s is not None:
            self.add("time_s >= ?", float(since_s))
        if until_s is not None:
            self.add("time_s <= ?", float(until_s))

    @property
    def text(self) -> str:
        return " AND ".join(self._conditions)


def _values_of(kinds: Collection[ActionKind]) -> list[str]:
    return sorted({ActionKind(kind).value for kind in kinds})


def _of_actions(
    query: QueryName | None, kinds: Sequence[str], since_s: float | None, until_s: float | None, after_id: int
) -> _Where:
    where = _Where()
    where.add("action_id > ?", after_id)
    if query is not None:
        where.add("query = ?", query)
    if kinds:
        where.add(f"kind IN ({', '.join('?' * len(kinds))})", *kinds)
    where.add_range(since_s, until_s)
    return where


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # SQLite would take a device such as /dev/null for an empty database.
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is not a file but a directory or a device: use a store path such as penstock.db")
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _make_durable(connection: sqlite3.Connection, path: Path) -> None:
    (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if journal != "wal":
        raise StoreError(f"{path} is on a file system without shared memory files: use a store path on a local disk")
    connection.execute("PRAGMA synchronous = FULL")


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the directory {directory} of the store cannot be made ({error.strerror}): "
            "use a store path in a directory that this user may write to"
        ) from error


@contextmanager
def _plain_errors(path: Path, remedies: Mapping[int, str]) -> Iterator[None]:
    """Turn what SQLite and the file system report into a sentence with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the kind of error, the rest its details; Python's own misuse errors have no code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise StoreError(f"the store {path}: {error}; {remedies.get(code, _OTHER_REMEDY)}") from error
    except OSError as error:
        raise StoreError(f"the store {path} cannot be used ({error}): use a store path elsewhere") from error
