"""The token that lets a caller change things: a file that its owner alone can read."""

from __future__ import annotations

import os
import secrets
import stat
from typing import TYPE_CHECKING

from penstock.errors import ServiceError

if TYPE_CHECKING:
    from pathlib import Path

_TOKEN_BYTES = 32
"""256 bits: nobody guesses it, however often the server answers."""

_SHORTEST, _LONGEST = 16, 512
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def token_at(path: Path) -> str:
    """Give the token in a file; where there is no file, one is made with a new token, for its owner alone.

    Raises
    ------
    ServiceError
        If others than the owner may read the file, it belongs to somebody else, or what is in it is no token.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whole before it has its name: another instance that starts at the same moment must not read half of it.
        new = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        if not path.exists():
            _write_private(new, secrets.token_urlsafe(_TOKEN_BYTES))
            try:
                os.link(new, path)
            except FileExistsError:
                pass
            finally:
                new.unlink()
        return _read_private(path)
    except OSError as error:
        raise ServiceError(
            f"the token file {path} cannot be used ({error.strerror}): use a path that this user may write to"
        ) from error


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{text}\n")


def _read_private(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & _OTHERS:
            raise ServiceError(
                f"the token file {path} is not this user's alone: chmod 600 it, or delete it and a new one is made"
            )
        text = file.read(_LONGEST + 1).decode("ascii", "replace").strip()
    if not _SHORTEST <= len(text) <= _LONGEST or not text.isprintable() or " " in text or not text.isascii():
        raise ServiceError(f"the token file {path} holds no token: delete it, and a new one is made")
    return text
