"""How a command asks a running application for the size that is recommended: a file beside its action log.

The log has one writer, the application; a file that is there or not needs no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

_ENDING = ".apply-size"


def _request(store: Path) -> Path:
    return store.with_name(store.name + _ENDING)


def ask_for_size(store: Path) -> None:
    """Ask the application that writes a log for the size that it recommends."""
    try:
        _request(store).touch()
    except OSError as error:
        raise StoreError(
            f"{_request(store)} cannot be written ({error.strerror}): run as the application's user"
        ) from error


def take_request(store: Path) -> bool:
    """Whether somebody asked since the last call."""
    request = _request(store)
    try:
        request.unlink()
    except FileNotFoundError:
        return False
    except OSError:
        return False
    return True
