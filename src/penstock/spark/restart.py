"""A clean restart for another shape, where executors cannot take it on while queries run: measured, and rolled back.

For whoever starts drivers: a scheduler, a service manager, ``penstock bench reshape``. Queries go on from their
checkpoints, so that nothing is lost; what it costs is the time without batches.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.model.sizing import ResizeOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.sizing import EngineShape

_TRIES = 2


def restart_with(
    number: int,
    old: EngineShape,
    new: EngineShape,
    *,
    stop: Callable[[], None],
    start: Callable[[EngineShape], None],
    clock: Callable[[], float] = time.monotonic,
) -> ResizeOutcome:
    """Stop an engine and start it with another shape; with the old one where that fails twice.

    Parameters
    ----------
    number
        Of the decision that is carried out.
    old, new
        The last good shape, and the one that is wanted.
    stop
        Stops queries after their batch, and ends the engine.
    start
        Starts the engine with a shape and its queries from their checkpoints, and comes back after the first batch; an
        error means that it did not come up.

    Raises
    ------
    Exception
        Whatever ``start`` raised for the old shape: then nothing runs, and somebody has to look.
    """
    begun_s = clock()
    stop()
    reason = ""
    for _ in range(_TRIES):
        try:
            start(new)
        except Exception as error:  # noqa: BLE001 - whatever it is, the old shape is known to work
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
        else:
            took_s = clock() - begun_s
            return ResizeOutcome(number, new, is_done=True, way="restart", took_s=took_s, downtime_s=took_s)
    start(old)
    took_s = clock() - begun_s
    told = f"the engine did not come up with {new} in {_TRIES} attempts ({reason}): back to {old}"
    return ResizeOutcome(number, old, is_done=False, way="restart", took_s=took_s, reason=told, downtime_s=took_s)
