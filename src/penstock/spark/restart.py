"""A clean restart for another shape, where executors cannot take it on while queries run: measured, and rolled back.

For whoever starts drivers: a scheduler, a service manager, ``penstock bench reshape``. Queries go on from their
checkpoints, so that nothing is lost; what it costs is the time without batches.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.errors import InvalidSettingError
from penstock.model.sizing import ResizeOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.sizing import EngineShape

NEVER, ANY = "never", "any"
_TRIES = 2
_HOURS = re.compile(r"(\d{2}):(\d{2})-(\d{2}):(\d{2})")
_MINUTES_AN_HOUR, _HOURS_A_DAY = 60, 24


def may_restart(hours: str, now_s: float) -> bool:
    """Whether queries may be restarted at a moment, by the setting ``sizing.restart_hours``; hours are UTC.

    Examples
    --------
    >>> noon = 12 * 3600.0
    >>> may_restart("any", noon), may_restart("never", noon), may_restart("02:00-04:30", noon)
    (True, False, False)
    >>> may_restart("22:00-13:00", noon)
    True
    """
    if hours in {NEVER, ANY}:
        return hours == ANY
    found = _HOURS.fullmatch(hours.strip())
    times = [] if found is None else [int(each) for each in found.groups()]
    if not times or max(times[0], times[2]) > _HOURS_A_DAY or max(times[1], times[3]) >= _MINUTES_AN_HOUR:
        raise InvalidSettingError("sizing.restart_hours", hours, "'never', 'any', or hours such as '02:00-04:30'")
    begin, end = _MINUTES_AN_HOUR * times[0] + times[1], _MINUTES_AN_HOUR * times[2] + times[3]
    moment = datetime.fromtimestamp(now_s, UTC)
    minute = _MINUTES_AN_HOUR * moment.hour + moment.minute
    return begin <= minute < end if begin <= end else minute >= begin or minute < end


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
