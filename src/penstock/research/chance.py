"""Random numbers inside compiled loops: one small generator for each source of chance.

Every element and stream has its own sequence, so that two policies on the same topology meet the same bursts, and a
change to one element leaves the chances of all others as they were.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from penstock.estimate.compiled import compiled_inline

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_MIX = np.uint64(0x94D049BB133111EB)
_SHIFT_30, _SHIFT_27, _SHIFT_31, _SHIFT_11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TO_UNIT = 2.0**-53


@compiled_inline
def uniform(states: NDArray[np.uint64], index: int) -> float:
    """Next number of one sequence, from 0 to below 1 (splitmix64).

    Examples
    --------
    >>> states = np.array([1, 2], np.uint64)
    >>> [round(uniform(states, 0), 4) for _ in range(3)]
    [0.5666, 0.7458, 0.971]
    """
    states[index] += _STEP
    mixed = states[index]
    mixed = (mixed ^ (mixed >> _SHIFT_30)) * _FIRST_MIX
    mixed = (mixed ^ (mixed >> _SHIFT_27)) * _SECOND_MIX
    mixed ^= mixed >> _SHIFT_31
    return float((mixed >> _SHIFT_11) * _TO_UNIT)


@compiled_inline
def exponential(states: NDArray[np.uint64], index: int, mean: float) -> float:
    """Next exponentially distributed number of that mean."""
    return -mean * math.log(1.0 - uniform(states, index))


@compiled_inline
def poisson(states: NDArray[np.uint64], index: int, mean: float) -> int:
    """Next Poisson number of that mean, by inversion; meant for means of a few."""
    left = uniform(states, index)
    chance = math.exp(-mean)
    count = 0
    while left >= chance and count < 1000:  # noqa: PLR2004 - a bound against a mean that inversion cannot serve
        left -= chance
        count += 1
        chance *= mean / count
    return count
