"""One writer per store, held by the operating system so that no death of a process leaves it behind."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from pathlib import Path
from weakref import WeakSet

from penstock.errors import StoreError

_LONGEST_HOLDER = 32
_HOLDER = re.compile(rb"\d*\n?")

_held: WeakSet[WriterLock] = WeakSet()


class WriterLock:
    """The right to write a store: an ``flock`` on ``<path>.lock``, with the holder's process id written inside.

    The file stays when the lock is released. Deleting it would let a process that has just opened the old file and one
    that creates a new file both hold "the" lock.

    Raises
    ------
    StoreError
        If another writer holds the store (the text names its process id), or the lock file cannot be made.
    """

    def __init__(self, store_path: Path) -> None:
        self.path = Path(f"{store_path}.lock")
        try:
            # A link in its place, planted where others may write, would have the file that it leads to emptied.
            self._descriptor: int | None = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600
            )
        except OSError as error:
            if self.path.is_symlink():
                raise StoreError(
                    f"{self.path} is a link, and no lock file of Penstock: delete it, or use another store path"
                ) from error
            raise StoreError(
                f"cannot write beside the store {store_path}: {self.path} cannot be opened ({error.strerror}); "
                "use a store path in a directory that this user may write to"
            ) from error
        try:
            self._require_lock_file()
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write_holder(f"{os.getpid()}\n")
        except BlockingIOError as error:
            holder = self._read_holder()
            self._close()
            raise StoreError(
                f"{store_path} is already being written by {holder}: a store has one writer; close that one first, "
                "or use another store path (reading is possible meanwhile)"
            ) from error
        except OSError as error:
            self._close()
            raise StoreError(
                f"{self.path} cannot be locked ({error.strerror}): use a store path on a local file system with free "
                "space"
            ) from error
        except StoreError:
            self._close()
            raise
        _held.add(self)

    @property
    def is_lost(self) -> bool:
        """Whether the file that is locked is no longer the one at its path: the next writer would lock another."""
        if self._descriptor is None:
            return True
        try:
            there = self.path.stat(follow_symlinks=False)
        except OSError:
            return True
        held = os.fstat(self._descriptor)
        return (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino)

    def _require_lock_file(self) -> None:
        """Refuse whatever else has that name: it would be emptied."""
        assert self._descriptor is not None
        found = os.fstat(self._descriptor)
        is_file = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if not is_file or not _HOLDER.fullmatch(os.pread(self._descriptor, _LONGEST_HOLDER + 1, 0)):
            raise StoreError(f"{self.path} is no lock file of Penstock: move it away, or use another store path")

    def release(self) -> None:
        """Let the next writer in; releasing twice does nothing."""
        if self._descriptor is not None:
            self._write_holder("")
            self._close()

    def _write_holder(self, text: str) -> None:
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def _read_holder(self) -> str:
        assert self._descriptor is not None
        pid = os.pread(self._descriptor, _LONGEST_HOLDER, 0).decode(errors="replace").strip()
        if pid == str(os.getpid()):
            return f"this process (pid {pid})"
        # The holder writes its id just after it has locked: whoever comes in between finds nothing.
        return f"the process with pid {pid}" if pid else "a process that has just started"

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _let_go_in_forked_child() -> None:
    # A fork shares the lock: a pool worker that outlives its killed parent would keep every later writer out.
    for lock in list(_held):
        lock._close()  # noqa: SLF001 - the same module
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_forked_child)
