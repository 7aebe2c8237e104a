"""How a program ends that does not catch an error of Penstock."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from types import TracebackType

_given_hook = sys.excepthook


def tell_in_one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say what is wrong and how to mend it, without the calls that led there; other errors are shown as ever.

    Where the calls matter, ``python -X dev`` shows them.
    """
    if isinstance(error, PenstockError) and not sys.flags.dev_mode:
        sys.stderr.write(f"error: {' '.join(str(error).splitlines())}\n")
    else:
        _given_hook(kind, error, trace)


def install() -> None:
    """Let uncaught errors of Penstock end a program with one line; once, and after whatever hook is there."""
    if sys.excepthook is not tell_in_one_line:
        sys.excepthook = tell_in_one_line
