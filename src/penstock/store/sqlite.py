"""The store in one SQLite file: an action that is recorded survives ``kill -9``.

The file is in WAL mode, so readers in other processes see every commit while the writer goes on, and
``synchronous=FULL``, so a commit is on the disk before :meth:`SqliteStore.append` returns. Nothing but SQLite ever
opens the file: closing any other descriptor on it would silently drop the locks that SQLite holds in this process.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from penstock.errors import StoreError
from penstock.model import ActionKind, Metric, QueryName
from penstock.store.bins import read_bins
from penstock.store.file import (
    BUSY_TIMEOUT_S,
    READER_REMEDIES,
    REMEDIES,
    connect,
    file_id,
    make_directory,
    make_durable,
    make_private,
    plain_errors,
)
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
from penstock.store.where import Where, of_actions, values_of
from penstock.store.writer_lock import WriterLock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock.model import Action, Mode, RecordedAction, SeriesBin, SeriesPoint

logger = logging.getLogger("penstock")

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
_DELETE_POINTS = """
    DELETE FROM series WHERE point_id IN (SELECT point_id FROM series WHERE time_s < ? ORDER BY time_s LIMIT ?)
"""
_SELECT_POINTS = """
    SELECT point_id, time_s, query, metric, value, batch_id, subject
    FROM series WHERE {} ORDER BY time_s DESC, point_id DESC LIMIT ?
"""
_SELECT_NEXT_POINTS = """
    SELECT point_id, time_s, query, metric, value, batch_id, subject
    FROM series WHERE point_id > ? ORDER BY point_id LIMIT ?
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
        self._remedies = READER_REMEDIES if read_only else REMEDIES
        self._lock = threading.Lock()
        self._process_id = os.getpid()
        self._is_held_by_another = False
        self._file_id: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None
        self._writer_lock: WriterLock | None = None
        with plain_errors(self.path, self._remedies):
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
        wanted = values_of(kinds)
        limit = checked_last(last)
        if limit is None or len(wanted) <= 1:
            where = of_actions(query, wanted, since_s, until_s, after_id)
            rows = self._newest(_SELECT_ACTIONS, where, last)
        else:
            parts = [of_actions(query, [kind], since_s, until_s, after_id) for kind in wanted]
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
        wanted = values_of(kinds)
        seen_id = after_id
        while True:
            where = of_actions(query, wanted, since_s, until_s, seen_id)
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
        where = Where()
        where.add("query = ? AND metric = ?", query, Metric(metric).value)
        where.add_range(since_s, until_s)
        return [point_from_row(row[0], row[1:]) for row in self._newest(_SELECT_POINTS, where, last)]

    def bins(
        self, query: QueryName, metric: Metric, edges_s: Sequence[float], *, subject: str | None = ""
    ) -> list[SeriesBin | None]:
        """Give what the points between each two edges come to, None where there are none."""
        with self._using() as connection:
            return read_bins(connection, query, Metric(metric).value, edges_s, subject)

    def newest_point_id(self) -> int:
        """Give the id of the observation that was recorded last, 0 where there is none."""
        with self._using() as connection:
            (newest,) = connection.execute("SELECT max(point_id) FROM series").fetchone()
        return int(newest or 0)

    def points_after(self, point_id: int, *, limit: int) -> list[tuple[int, SeriesPoint]]:
        """Give observations of all queries that were recorded after one, in the order of recording."""
        with self._using() as connection:
            rows = connection.execute(_SELECT_NEXT_POINTS, (point_id, limit)).fetchall()
        return [(row[0], point_from_row(row[0], row[1:])) for row in rows]

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
        deleted, portion = 0, _PORTION_ROWS
        while portion == _PORTION_ROWS:
            with self._writing() as connection:
                portion = connection.execute(_DELETE_POINTS, (before_s, _PORTION_ROWS)).rowcount
            deleted += portion
        return deleted

    def delete_actions(self, *, before_s: float, kinds: Collection[ActionKind]) -> int:
        """Forget old actions of these kinds but the newest of each query, kind and source; gives how many went."""
        deleted = 0
        for kind in values_of(kinds):
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
        with self._lock, plain_errors(self.path, self._remedies), ExitStack() as stack:
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
            connection = stack.enter_context(closing(connect(self.path, "ro")))
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
            with closing(connect(self.path, "rw")) as connection:
                schema_version(connection, self.path)
        else:
            make_directory(self.path.parent)
        with ExitStack() as stack:
            writer_lock = WriterLock(self.path)
            stack.callback(writer_lock.release)
            make_private(self.path)
            connection = stack.enter_context(closing(connect(self.path, "rwc")))
            make_durable(connection, self.path)
            migrate(connection, self.path)
            self._connection, self._writer_lock = connection, writer_lock
            self._file_id = file_id(self.path)
            stack.pop_all()

    def _newest(self, select: str, where: Where, last: int | None) -> list[tuple[Any, ...]]:
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
        with self._lock, plain_errors(self.path, self._remedies):
            if self._connection is None:
                raise StoreError(f"the store {self.path} is closed: open it again")
            if not self.read_only:
                self._begin_anew_if_deleted()
            with self._waiting_once(self._connection):
                yield self._connection

    @contextmanager
    def _waiting_once(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Wait for another program at the first step that meets it, and at no other while it holds the file.

        A query that starts takes several steps on its own thread; each of them would wait.
        """
        try:
            yield
        except sqlite3.OperationalError as error:
            is_busy = (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_BUSY
            self._wait_for_others(connection, waits=not is_busy)
            raise
        self._wait_for_others(connection, waits=True)

    def _wait_for_others(self, connection: sqlite3.Connection, *, waits: bool) -> None:
        if self._is_held_by_another is waits:
            self._is_held_by_another = not waits
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_TIMEOUT_S) if waits else 0}")

    def _begin_anew_if_deleted(self) -> None:
        """Notice that the file is not the one that was opened, before anything is written where nobody can read it."""
        lock = self._writer_lock
        if file_id(self.path) == self._file_id and lock is not None and not lock.is_lost:
            return
        logger.warning("the store %s was deleted or replaced while it was in use: a new one is begun", self.path)
        if self._connection is not None:
            self._connection.close()
        if lock is not None:
            lock.release()
        self._connection = self._writer_lock = None
        try:
            self._open_writer()
        except BaseException:
            # Closed for good it would not be looked at again; the next step tries once more.
            self._connection = sqlite3.connect(":memory:", check_same_thread=False)
            raise

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
