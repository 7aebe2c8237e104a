"""The largest number for which something holds, by halving."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_HALVINGS = 30
"""A thousand-millionth of the range: far below what any measurement tells, and the same on every machine."""


def largest_that_holds(holds: Callable[[float], bool], low: float, high: float, *, halvings: int = _HALVINGS) -> float:
    """The largest number of a range for which something holds that ends to hold somewhere in it; ``low`` at the least.

    Examples
    --------
    >>> round(largest_that_holds(lambda number: number * number <= 2.0, 0.0, 5.0), 6)
    1.414214
    """
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
