"""Words, bounds and checks of load profiles: everything that refuses a profile which cannot mean anything."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.errors import InvalidProfileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]

MAX_RATE_ROWS_PER_S: Final = 1e12
MAX_SECONDS: Final = 1e10
MAX_ROWS: Final = 2**53
_SHOWN_CHARACTERS: Final = 120


class Interpolation(StrEnum):
    """How the rate runs from one grid point to the next."""

    CONSTANT = "constant"
    LINEAR = "linear"


class ProfileEnd(StrEnum):
    """What follows the last grid point: nothing, the last rate for ever, or the whole profile again."""

    STOP = "stop"
    HOLD = "hold"
    REPEAT = "repeat"


def array(values: Sequence[float]) -> FloatArray:
    """Numbers as an array of floats."""
    return np.asarray(values, dtype=np.float64)


def frozen(part: str, values: ArrayLike) -> FloatArray:
    """A copy of what was given, as an array of floats that nobody can change."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidProfileError(f"load profile: {part} = {short(values)} is not a list of numbers") from error
    array.flags.writeable = False
    return array


def check_grid(seconds: FloatArray, rates: FloatArray) -> None:
    """Refuse a grid that does not start at 0 and rise, or rates that are no rates."""
    if seconds.ndim != 1 or seconds.shape != rates.shape or not seconds.size:
        raise InvalidProfileError(
            f"load profile: {seconds.size} seconds with {rates.size} rates: give one rate for each second, at least one"
        )
    for part, values, high in (("second", seconds, MAX_SECONDS), ("rate", rates, MAX_RATE_ROWS_PER_S)):
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0) & (values <= high)))
        if bad.size:
            refuse(f"{part} {bad[0]}", float(values[bad[0]]), f"a number from 0 to {high:g}")
    if seconds[0] != 0:
        refuse("second 0", float(seconds[0]), "a profile starts at 0")
    falls = np.flatnonzero(np.diff(seconds) <= 0)
    if falls.size:
        refuse(f"second {falls[0] + 1}", float(seconds[falls[0] + 1]), f"more than {seconds[falls[0]]:g} before it")


def check_rate(part: str, value: float, *, shown: object = None) -> None:
    """Refuse a rate outside its bounds; ``shown`` is how the user wrote it."""
    if not 0 <= value <= MAX_RATE_ROWS_PER_S:
        refuse(part, value if shown is None else shown, f"a number from 0 to {MAX_RATE_ROWS_PER_S:g}")


def check_span(part: str, value: float, *, shown: object = None) -> None:
    """Refuse a stretch of time that is none; ``shown`` is how the user wrote it."""
    if not 0 < value <= MAX_SECONDS:
        refuse(part, value if shown is None else shown, f"a number above 0 and up to {MAX_SECONDS:g}")


def check_whole(part: str, value: object) -> None:
    """Refuse what is not a number of rows."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MAX_ROWS:
        refuse(part, value, "a whole number from 0 up")


def refuse(part: str, value: object, allowed: str) -> None:
    """Name the part, its value and what is allowed."""
    raise InvalidProfileError(f"load profile: {part} = {value!r} is not allowed: {allowed}")


def choice(part: str, value: str, choices: type[StrEnum]) -> StrEnum:
    """One of the words of an enum."""
    if value not in list(choices):
        refuse(part, str(value), f"one of {', '.join(choices)}")
    return choices(value)


def read_number(part: str, text: str) -> float:
    """A finite number from its text."""
    try:
        value = float(text)
    except ValueError as error:
        raise InvalidProfileError(f"load profile: {part} = {text!r} is not a number") from error
    if not math.isfinite(value):
        raise InvalidProfileError(f"load profile: {part} = {text!r} is not a finite number")
    return value


def read_whole(part: str, text: str) -> int:
    """A whole number from its text."""
    value = read_number(part, text)
    if value != math.floor(value) or abs(value) >= MAX_ROWS:
        refuse(part, text, "a whole number")
    return int(value)


def short(value: Any) -> str:  # noqa: ANN401 - whatever was given, to be shown
    """What was given, cut to a length that fits into an error."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
