"""Hash functions drawn at random from a family in which no two keys collide more often than chance.

``h(x) = ((a + high(x)) * (b + low(x)) + d mod 2**64) >> 32``, spread over the columns by ``h * columns >> 32``, where
``a``, ``b`` and ``d`` are random 64-bit numbers and ``high`` and ``low`` are the halves of a 64-bit key. For any two
different keys the chance of meeting in one column is at most ``1 / columns`` (up to ``2**-32``), over the draw of
``a``, ``b`` and ``d``: the family is 2-universal, as count-min sketches need (Carter and Wegman 1979). One
multiplication per half replaces the division by a prime of the textbook family; Thorup's "High speed hashing for
integers and strings" proves the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.estimate.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

COEFFICIENTS_PER_HASH = 3
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def draw_hashes(generator: np.random.Generator, rows: int) -> NDArray[np.uint64]:
    """Draw the coefficients of ``rows`` independent hash functions.

    Examples
    --------
    >>> draw_hashes(np.random.default_rng(7), 4).shape
    (4, 3)
    """
    return generator.integers(0, 2**64, size=(rows, COEFFICIENTS_PER_HASH), dtype=np.uint64)


@compiled
def column_of(key: np.uint64, hashes: NDArray[np.uint64], row: int, columns: np.uint64) -> np.uint64:
    """Column of a key under the hash function of one row.

    All operands are unsigned: numba turns a sum of signed and unsigned 64-bit numbers into a float, and the hash into
    noise that differs between machines.
    """
    product = (hashes[row, 0] + (key >> _HALF)) * (hashes[row, 1] + (key & _LOW)) + hashes[row, 2]
    return np.uint64(((product >> _HALF) * columns) >> _HALF)


@compiled
def columns_of(keys: NDArray[np.uint64], hashes: NDArray[np.uint64], row: int, columns: int) -> NDArray[np.int64]:
    """Columns of many keys under the hash function of one row."""
    result = np.empty(keys.size, np.int64)
    for index in range(keys.size):
        result[index] = column_of(keys[index], hashes, row, np.uint64(columns))
    return result
