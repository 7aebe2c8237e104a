"""Durations as people write them: ``"5 seconds"``, ``"500 ms"``, ``2.5``."""

from __future__ import annotations

import math
import re

from penstock.errors import InvalidGoalError

_SECONDS_PER_UNIT: dict[str, float] = {
    "ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
}  # fmt: skip

_PATTERN = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_duration_s(text: str | float, *, what: str = "duration") -> float:
    """Seconds in a duration; it must be above zero.

    A number without a unit is in seconds.

    Examples
    --------
    >>> parse_duration_s("5 seconds"), parse_duration_s("500 ms"), parse_duration_s(2)
    (5.0, 0.5, 2.0)
    >>> parse_duration_s("-3 seconds", what="latency goal")
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidGoalError: latency goal '-3 seconds' must be above zero, such as '5 seconds'
    """
    match = _PATTERN.fullmatch(str(text))
    unit = (match.group(2).lower() or "s") if match else ""
    if match is None or unit not in _SECONDS_PER_UNIT:
        raise InvalidGoalError(f"{what} {text!r} is not a duration: write a number and a unit, such as '5 seconds'")
    seconds = float(match.group(1)) * _SECONDS_PER_UNIT[unit]
    if not math.isfinite(seconds) or seconds <= 0:
        raise InvalidGoalError(f"{what} {text!r} must be above zero, such as '5 seconds'")
    return seconds
