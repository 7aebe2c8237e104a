"""The file of a store: opened through SQLite, private to its user, with errors that say what to do."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BUSY_TIMEOUT_S = 1.0
"""How long one step waits for another program that holds the file; once it has waited, later steps do not."""

_PRIVATE_FILE, _PRIVATE_DIRECTORY = 0o600, 0o700

REMEDIES: dict[int, str] = {
    sqlite3.SQLITE_NOTADB: "it is not an SQLite file and is left as it is; use another store path",
    sqlite3.SQLITE_CORRUPT: "the file is damaged and is left as it is; move it away or restore a copy of it",
    sqlite3.SQLITE_FULL: "make room on the disk; nothing of this step was recorded",
    sqlite3.SQLITE_READONLY: "give this user the right to write the file and its directory, or use another store path",
    sqlite3.SQLITE_CANTOPEN: "give this user the right to read and write the directory, or use a store path elsewhere",
    sqlite3.SQLITE_BUSY: "another program holds the file; close it and try again",
    sqlite3.SQLITE_IOERR: "the disk fails to read or write; check it, or use a store path elsewhere",
}
_COPY_TO_READ = "reading a store that nobody writes makes two files beside it: copy it where this user may write"
READER_REMEDIES = REMEDIES | {sqlite3.SQLITE_READONLY: _COPY_TO_READ, sqlite3.SQLITE_CANTOPEN: _COPY_TO_READ}
_OTHER_REMEDY = "the file is not as this version of Penstock wrote it; restore a copy, or use another store path"


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a file in a mode of SQLite: ``"ro"``, ``"rw"`` or ``"rwc"``."""
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


def make_durable(connection: sqlite3.Connection, path: Path) -> None:
    """Have commits on the disk before they return, and readers beside the writer."""
    (journal,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if journal != "wal":
        raise StoreError(f"{path} is on a file system without shared memory files: use a store path on a local disk")
    connection.execute("PRAGMA synchronous = FULL")


def file_id(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_private(path: Path) -> None:
    """Make the file before SQLite does, for this user alone: reasons and names in it are nobody else's.

    One that is there keeps the rights that it has; SQLite gives the files beside it the same.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE))


def make_directory(directory: Path) -> None:
    """Make the directories of a store that are not there, for this user alone."""
    missing = [each for each in (directory, *directory.parents) if not each.is_dir()]
    try:
        for each in reversed(missing):
            each.mkdir(_PRIVATE_DIRECTORY, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the directory {directory} of the store cannot be made ({error.strerror}): "
            "use a store path in a directory that this user may write to"
        ) from error


@contextmanager
def plain_errors(path: Path, remedies: Mapping[int, str]) -> Iterator[None]:
    """Turn what SQLite and the file system report into a sentence with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the kind of error, the rest its details; Python's own misuse errors have no code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise StoreError(f"the store {path}: {error}; {remedies.get(code, _OTHER_REMEDY)}") from error
    except OSError as error:
        raise StoreError(f"the store {path} cannot be used ({error}): use a store path elsewhere") from error
