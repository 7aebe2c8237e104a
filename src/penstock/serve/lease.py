"""Which of several instances leads: a lease in a file, with a number that tells an old leader from the new one.

A leader renews its lease long before it ends. When it dies, the lease ends by itself and whoever asks next has it, with
a fence that is one higher. What a leader does carries its fence, and whoever acts refuses a fence lower than one seen:
a leader that was only asleep cannot act beside its successor.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from penstock.errors import ServiceError
from penstock.store.file import make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_BUSY_S = 2.0

_TABLES = (
    "CREATE TABLE IF NOT EXISTS lease (place INTEGER PRIMARY KEY, holder TEXT, fence INTEGER, ends_s REAL)",
    """
    CREATE TABLE IF NOT EXISTS orders (
        order_id INTEGER PRIMARY KEY AUTOINCREMENT,
        engine TEXT NOT NULL, path TEXT NOT NULL, body TEXT NOT NULL,
        asked_s REAL NOT NULL, done_s REAL, outcome TEXT, fence INTEGER
    )
    """,
)


@contextmanager
def shared_state(path: Path) -> Iterator[sqlite3.Connection]:
    """The file that instances share, this user's alone, in one transaction that either happens or does not."""
    try:
        make_private(path)
        with closing(sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            for table in _TABLES:
                connection.execute(table)
            yield connection
            connection.execute("COMMIT")
    except (sqlite3.Error, OSError) as error:
        raise ServiceError(
            f"the state file {path} cannot be used ({error}): use a path on a local disk that this user may write to"
        ) from error


class Lease:
    """The right to act, for so long.

    Parameters
    ----------
    path
        The file that instances share.
    holder
        Who asks; no two instances have the same.
    lasts_s
        How long a lease lasts unless it is renewed. A successor acts within it.
    clock
        The same for all instances: seconds since the epoch.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "state.db"
    >>> now = [0.0]
    >>> first, second = (Lease(path, name, lasts_s=5.0, clock=lambda: now[0]) for name in ("first", "second"))
    >>> first.take(), second.take()
    (1, None)
    >>> now[0] = 6.0
    >>> second.take(), first.take()
    (2, None)
    """

    def __init__(self, path: Path, holder: str, *, lasts_s: float, clock: Callable[[], float] = time.time) -> None:
        self.path, self.holder, self.lasts_s, self._clock = path, holder, lasts_s, clock

    def take(self) -> int | None:
        """Take the lease or renew it: its fence, or None where another instance has it."""
        now_s = self._clock()
        with shared_state(self.path) as connection:
            row = connection.execute("SELECT holder, fence, ends_s FROM lease WHERE place = 1").fetchone()
            holder, fence, ends_s = row or ("", 0, 0.0)
            # An end that no lease can have was written under another clock: nobody would ever lead again.
            is_over = ends_s <= now_s or ends_s > now_s + 10 * self.lasts_s
            if holder != self.holder and not is_over:
                return None
            fence += int(is_over or holder != self.holder)
            connection.execute(
                "INSERT OR REPLACE INTO lease (place, holder, fence, ends_s) VALUES (1, ?, ?, ?)",
                (self.holder, fence, now_s + self.lasts_s),
            )
        return int(fence)

    def release(self) -> None:
        """Let another instance lead at once."""
        with shared_state(self.path) as connection:
            connection.execute("UPDATE lease SET ends_s = 0 WHERE holder = ?", (self.holder,))
