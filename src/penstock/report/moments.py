"""Moments as people write them."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.errors import InvalidMomentError
from penstock.model.duration import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable


def moment_s(text: str | float, *, now_s: float) -> float:
    """Seconds since the epoch of a moment as people write it.

    ``"10 minutes"`` is that long ago, ``"2026-01-05T10:00:00"`` is local time unless it has an offset, and a plain
    number is seconds since the epoch, as ``--json`` writes them.

    Examples
    --------
    >>> moment_s("10 minutes", now_s=1000.0)
    400.0
    >>> moment_s("1970-01-01T00:01:00+00:00", now_s=1000.0)
    60.0
    """
    readings: tuple[Callable[[str], float], ...] = (
        float,
        lambda written: datetime.fromisoformat(written).timestamp(),
        lambda written: now_s - parse_duration_s(written),
    )
    for reading in readings:
        with suppress(ValueError, OverflowError):
            read_s = reading(str(text))
            if math.isfinite(read_s):
                return read_s
    raise InvalidMomentError(text)
