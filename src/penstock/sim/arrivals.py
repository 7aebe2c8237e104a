"""Rows that have arrived by a moment, as a curve; ages of rows by its inverse."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

_FUNCTION_STEP_S = 0.01
_AHEAD = 256


class Arrivals(Protocol):
    """Rows in the order of their arrival, numbered from zero."""

    def total(self, time_s: float) -> float:
        """Rows that have arrived by a moment."""
        ...

    def time_of(self, row: float) -> float:
        """When a row arrived."""
        ...

    def between(self, first_row: float, end_row: float) -> Iterator[tuple[float, float]]:
        """Rows of a range as they arrived together: moment and number."""
        ...


class ArrivalCurve:
    """Rows at a rate: a rate for each step of time, or a function of time in steps of ten milliseconds.

    Parameters
    ----------
    rows_per_s
        Rates of the steps, after which nothing arrives; or a function of time, asked step by step as time goes on.
    step_s
        Length of a step; one second for rates, ten milliseconds for a function.
    backlog_rows
        Rows that are there at time zero.

    Examples
    --------
    >>> curve = ArrivalCurve(np.array([10.0, 30.0]), backlog_rows=5.0)
    >>> curve.total(1.5), curve.time_of(30.0), curve.total(9.0)
    (30.0, 1.5, 45.0)
    >>> ramp = ArrivalCurve(lambda now_s: 100.0 * now_s)
    >>> round(ramp.total(2.0)), round(ramp.time_of(50.0), 2)
    (199, 1.01)
    """

    def __init__(
        self,
        rows_per_s: Callable[[float], float] | NDArray[np.float64],
        *,
        step_s: float | None = None,
        backlog_rows: float = 0.0,
    ) -> None:
        self._function: Callable[[float], float] | None = None
        self._backlog_rows = backlog_rows
        if callable(rows_per_s):
            self._function = rows_per_s
            self._step_s = step_s or _FUNCTION_STEP_S
            self._cumulative = [backlog_rows]
        else:
            self._step_s = step_s or 1.0
            rows = np.asarray(rows_per_s, dtype=np.float64) * self._step_s
            self._cumulative = (backlog_rows + np.concatenate(([0.0], np.cumsum(rows)))).tolist()
        self._per_s = 1.0 / self._step_s

    @property
    def end_s(self) -> float:
        """Where the rates end; never for a function."""
        return math.inf if self._function is not None else (len(self._cumulative) - 1) * self._step_s

    def total(self, time_s: float) -> float:
        """Rows that have arrived by a moment."""
        if time_s < 0.0:
            return 0.0
        place = time_s * self._per_s
        step = int(place)
        if step + 1 >= len(self._cumulative):
            if self._function is None:
                return self._cumulative[-1]
            self._grow(step + _AHEAD)
        before = self._cumulative[step]
        return before + (place - step) * (self._cumulative[step + 1] - before)

    def time_of(self, row: float) -> float:
        """When a row arrived; those of the backlog were there at time zero."""
        known = self._cumulative
        if row < known[0]:
            return 0.0
        step = min(bisect_right(known, row), len(known) - 1)
        before, after = known[step - 1], known[step]
        part = (row - before) / (after - before) if after > before else 0.0
        return (step - 1 + min(1.0, part)) * self._step_s

    def between(self, first_row: float, end_row: float) -> Iterator[tuple[float, float]]:
        """Rows of a range step by step; the moment of a step is its beginning."""
        if first_row < self._backlog_rows:
            yield 0.0, min(end_row, self._backlog_rows) - first_row
            first_row = self._backlog_rows
        known = self._cumulative
        step = max(0, bisect_right(known, first_row) - 1)
        while first_row < end_row and step + 1 < len(known):
            upto = min(end_row, known[step + 1])
            if upto > first_row:
                yield step * self._step_s, upto - first_row
                first_row = upto
            step += 1

    def _grow(self, steps: int) -> None:
        assert self._function is not None
        total = self._cumulative[-1]
        for step in range(len(self._cumulative) - 1, steps):
            total += self._function(step * self._step_s) * self._step_s
            self._cumulative.append(total)


class Topic:
    """What queries write, for others to read: rows that come with the end of a batch.

    Examples
    --------
    >>> topic = Topic()
    >>> topic.write(2.0, 100.0)
    >>> topic.write(3.5, 50.0)
    >>> topic.total(3.0), topic.time_of(120.0), list(topic.between(90.0, 130.0))
    (100.0, 3.5, [(2.0, 10.0), (3.5, 30.0)])
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._totals: list[float] = []

    def write(self, time_s: float, rows: float) -> None:
        """Append rows at a moment, which is not before that of the last ones."""
        self._times_s.append(time_s)
        self._totals.append((self._totals[-1] if self._totals else 0.0) + rows)

    def total(self, time_s: float) -> float:
        """Rows that were written by a moment."""
        place = bisect_right(self._times_s, time_s)
        return self._totals[place - 1] if place else 0.0

    def time_of(self, row: float) -> float:
        """When a row was written."""
        place = min(bisect_right(self._totals, row), len(self._times_s) - 1)
        return self._times_s[place] if self._times_s else 0.0

    def between(self, first_row: float, end_row: float) -> Iterator[tuple[float, float]]:
        """Rows of a range write by write."""
        place = bisect_right(self._totals, first_row)
        while first_row < end_row and place < len(self._totals):
            upto = min(end_row, self._totals[place])
            yield self._times_s[place], upto - first_row
            first_row = upto
            place += 1
