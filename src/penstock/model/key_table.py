"""Rows whose keys follow a table of frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidProfileError
from penstock.model.rows import PlainContent, row_hash, unit_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEY_COLUMN = 1


@dataclass(frozen=True, slots=True)
class KeyTableContent:
    r"""A named key and a value; key ``names[k]`` is drawn with a share proportional to ``counts[k]``.

    Examples
    --------
    >>> content = parse_key_table("key,count\nmedia,6\npolitician,3\nother,1\n")
    >>> np.bincount(content.places_of(np.arange(10_000))).tolist()
    [6042, 2961, 997]
    """

    names: tuple[str, ...]
    counts: tuple[float, ...]
    seed: int = 0

    def places_of(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Place in ``names`` of each row's key."""
        draws = unit_interval(row_hash(offsets, self.seed, _KEY_COLUMN))
        return np.searchsorted(_cumulative(self.counts), draws, side="right").astype(np.int64, copy=False)

    def values_of(self, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Value of each row, as other plain rows have it."""
        return PlainContent(seed=self.seed).values_of(offsets)


def parse_key_table(text: str, *, seed: int = 0) -> KeyTableContent:
    r"""Read a table with the header ``key,count``; empty lines and ``#`` lines are skipped.

    Examples
    --------
    >>> parse_key_table("key,count\na,-1\n")
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidProfileError: key table: line 2: count = '-1' is not allowed: a number above zero
    """
    numbered = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    lines = [(number, line) for number, line in numbered if line and not line.startswith("#")]
    if not lines or lines[0][1].lower().replace(" ", "") != "key,count":
        raise InvalidProfileError("key table: it must begin with the header key,count")
    names: dict[str, float] = {}
    for number, line in lines[1:]:
        # From the right, so that a key may hold commas.
        name, _, count = (cell.strip() for cell in line.rpartition(","))
        if not name or name in names:
            raise InvalidProfileError(f"key table: line {number}: key {name!r} is empty or there already")
        names[name] = _count(number, count)
    if not names:
        raise InvalidProfileError("key table: it has no keys")
    return KeyTableContent(tuple(names), tuple(names.values()), seed)


def _count(line: int, text: str) -> float:
    try:
        count = float(text)
    except ValueError:
        count = np.nan
    if not 0 < count < np.inf:
        raise InvalidProfileError(f"key table: line {line}: count = {text!r} is not allowed: a number above zero")
    return count


@lru_cache(maxsize=4)
def _cumulative(counts: tuple[float, ...]) -> NDArray[np.float64]:
    cumulative = np.cumsum(np.array(counts, dtype=np.float64))
    cumulative /= cumulative[-1]
    return cumulative
