"""How long tests wait for what comes at once where nothing else runs on the machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 120.0
"""A wait ends when what it waits for is there, so it costs nothing to be long: only what never comes takes all of it.

Where a dozen programs want two cores, a program may stand still for many seconds, and no test is about that.
"""


def wait_for(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
    """Ask again and again until it holds, or patience is at its end."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True
