"""The file of a store: opened through SQLite, private to its user, with errors that say what to do."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

logger = logging.getLogger("penstock")

BUSY_TIMEOUT_S = 1.0
"""How long one step waits for another program that holds the file; once it has waited, later steps do not."""

_PRIVATE_FILE, _PRIVATE_DIRECTORY = 0o600, 0o700
_SQLITE_SUFFIXES = ("-wal", "-shm")
_warned: set[Path] = set()
"""Stores that everybody may read and that could not be restricted: told once in a process."""

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

    SQLite gives the files beside it the same rights. A file that is there and that everybody may read is restricted,
    and so are those beside it; one that only a group of its owner's choice may read stays as it is. What cannot be
    restricted is told in the log, once, and used all the same.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE))
    except FileExistsError:
        open_to_all = [each for each in (path, *_beside(path)) if not _restrict(each)]
        if open_to_all and path not in _warned:
            _warned.add(path)
            logger.warning(
                "everybody on this machine may read %s, and that cannot be changed: chmod 600 it as its owner, or use "
                "another store path",
                ", ".join(map(str, open_to_all)),
            )


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in _SQLITE_SUFFIXES]


def _restrict(path: Path) -> bool:
    """Take the rights of others from a file that is this user's; says whether they have none."""
    # By name: opening the file and closing it again would drop the locks that SQLite holds in this process.
    with suppress(OSError):
        if _is_open_to_all(path) and path.stat().st_uid == os.geteuid():
            path.chmod(_PRIVATE_FILE)
    try:
        return not _is_open_to_all(path)
    except OSError:
        # One that is not there is not open, and one that cannot even be looked at is for SQLite to complain about.
        return True


def _is_open_to_all(path: Path) -> bool:
    """Whether users who are neither its owner nor of its group may do anything with a file."""
    return bool(path.stat().st_mode & stat.S_IRWXO)


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
