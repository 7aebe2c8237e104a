"""Arrivals on a grid of rates: how many rows by when, and when each row, in closed form.

Between two grid points the rate is constant or runs in a straight line, so both directions have closed forms::

    N(t) = N(t_i) + r_i x + (r_{i+1} - r_i) x^2 / (2 d_i)            x = t - t_i,  d_i = t_{i+1} - t_i
    x    = 2 y / (r_i + sqrt(r_i^2 + 2 y (r_{i+1} - r_i) / d_i))     y = level - N(t_i)

The inverse is written with the root in the denominator: the schoolbook form loses all digits where the slope is small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from penstock.errors import InvalidProfileError
from penstock.model.profile_checks import MAX_ROWS

if TYPE_CHECKING:
    from penstock.model.profile_checks import FloatArray

_SNAP_ROWS: Final = 1e-6


class ArrivalGrid(NamedTuple):
    """Grid points, the rates at both ends of each stretch between them, and N at the points.

    Examples
    --------
    >>> grid = ArrivalGrid.build(np.array([0.0, 10.0]), np.array([0.0]), np.array([100.0]))
    >>> grid.rows_at(np.array([5.0, 10.0])).tolist()
    [125.0, 500.0]
    >>> grid.reached_s(np.array([125.0, 500.0])).tolist()
    [5.0, 10.0]
    """

    seconds: FloatArray
    left: FloatArray
    right: FloatArray
    rows: FloatArray

    @classmethod
    def build(cls, seconds: FloatArray, left: FloatArray, right: FloatArray) -> ArrivalGrid:
        """Sum up N. What is a whole number but for rounding is made one, or the last row would be lost."""
        rows = np.concatenate(([0.0], np.cumsum((left + right) / 2 * np.diff(seconds))))
        if rows[-1] >= MAX_ROWS:
            raise InvalidProfileError(
                f"load profile: {rows[-1]:.3g} rows are more than can be counted; lower the rates"
            )
        whole = np.rint(rows)
        return cls(seconds, left, right, np.where(np.abs(rows - whole) <= _SNAP_ROWS, whole, rows))

    @property
    def last_rows(self) -> float:
        """N at the end of the grid."""
        return float(self.rows[-1])

    def rows_at(self, times_s: FloatArray) -> FloatArray:
        """N at times from 0 on; behind the end it stays as it is there."""
        if len(self.seconds) == 1:
            return np.zeros_like(times_s)
        left, right = self.left, self.right
        place = np.minimum(np.searchsorted(self.seconds, times_s, side="right") - 1, len(left) - 1)
        width = self.seconds[place + 1] - self.seconds[place]
        x = np.minimum(times_s - self.seconds[place], width)
        rows = self.rows[place] + left[place] * x + (right[place] - left[place]) * x * x / (2 * width)
        bounded: FloatArray = np.minimum(rows, self.rows[place + 1])
        return bounded

    def reached_s(self, levels: FloatArray) -> FloatArray:
        """When N first reaches levels that it has on the grid."""
        if len(self.seconds) == 1:
            return np.zeros_like(levels)
        left, right = self.left, self.right
        place = np.clip(np.searchsorted(self.rows, levels, side="left") - 1, 0, len(left) - 1)
        start, width = self.seconds[place], self.seconds[place + 1] - self.seconds[place]
        y = np.maximum(levels - self.rows[place], 0.0)
        slope = (right[place] - left[place]) / width
        denominator = left[place] + np.sqrt(np.maximum(left[place] ** 2 + 2 * y * slope, 0.0))
        x = np.divide(2 * y, denominator, out=np.zeros_like(y), where=denominator > 0)
        arrivals: FloatArray = start + np.minimum(x, width)
        return arrivals
