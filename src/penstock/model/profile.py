"""Load profiles: how many rows arrive in every second, and when exactly each of them does.

A profile is a table of rates on a grid of seconds. N(t) is the number of rows that have arrived by t; row k arrives
when N reaches k + 1. Both have closed forms on the grid (:mod:`penstock.model.profile_grid`).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidProfileError
from penstock.model import profile_shapes
from penstock.model.profile_checks import (
    Interpolation,
    ProfileEnd,
    check_grid,
    check_span,
    check_whole,
    choice,
    frozen,
    short,
)
from penstock.model.profile_grid import ArrivalGrid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from penstock.model.profile_checks import FloatArray


@dataclass(frozen=True, eq=False)
class LoadProfile:
    """Arrivals per second over time.

    Parameters
    ----------
    seconds
        The grid: starts at 0 and rises.
    rates
        Rows per second at each grid point. With constant interpolation a rate holds up to the next point, and the last
        one matters only to ``hold``.
    interpolation
        How the rate runs between grid points.
    end
        What follows the last grid point.
    backlog_rows
        Rows that wait at time 0 already, before the first one that arrives.

    Examples
    --------
    >>> profile = LoadProfile.ramp(from_rate=0, to_rate=100, seconds=10)
    >>> profile.total_rows, profile.rows_by(5), profile.rate_at(5)
    (500, 125, 50.0)
    >>> profile.arrival_s([124, 499]).tolist()
    [5.0, 10.0]
    >>> profile.scaled(height=2, time=0.5).rows_by(2.5)
    125
    """

    seconds: FloatArray
    rates: FloatArray
    interpolation: Interpolation = Interpolation.CONSTANT
    end: ProfileEnd = ProfileEnd.STOP
    backlog_rows: int = 0
    _grid: ArrivalGrid = field(init=False, repr=False)

    def __post_init__(self) -> None:
        seconds, rates = frozen("seconds", self.seconds), frozen("rates", self.rates)
        check_grid(seconds, rates)
        check_whole("backlog", self.backlog_rows)
        object.__setattr__(self, "seconds", seconds)
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "interpolation", choice("interpolation", self.interpolation, Interpolation))
        object.__setattr__(self, "end", choice("end", self.end, ProfileEnd))
        object.__setattr__(self, "_grid", self._build_grid())
        if self.end is ProfileEnd.REPEAT and self.duration_s <= 0:
            raise InvalidProfileError(
                "load profile: end = 'repeat' is not allowed without seconds to repeat: give seconds"
            )

    # -- constructors --------------------------------------------------------------------------------------------

    @classmethod
    def constant(cls, rate: float, seconds: float | None = None) -> LoadProfile:
        """The same rate all the time, for ever where no seconds are given."""
        return cls(*profile_shapes.constant(rate, seconds))

    @classmethod
    def ramp(cls, from_rate: float, to_rate: float, seconds: float) -> LoadProfile:
        """A straight line from one rate to another."""
        return cls(*profile_shapes.ramp(from_rate, to_rate, seconds))

    @classmethod
    def step(cls, from_rate: float, to_rate: float, at_s: float, seconds: float) -> LoadProfile:
        """One rate up to a moment, another one from there on."""
        return cls(*profile_shapes.step(from_rate, to_rate, at_s, seconds))

    @classmethod
    def levels(cls, rates: Sequence[float], each_s: float) -> LoadProfile:
        """Several rates after one another, each for the same time."""
        return cls(*profile_shapes.levels(rates, each_s))

    @classmethod
    def sine(cls, mean_rate: float, amplitude_rate: float, period_s: float, seconds: float) -> LoadProfile:
        """A wave around a mean, beginning at the mean and rising; 200 points a period, straight lines between."""
        return cls(*profile_shapes.sine(mean_rate, amplitude_rate, period_s, seconds))

    @classmethod
    def gaussian(cls, peak_rate: float, seconds: float, sigma_s: float | None = None) -> LoadProfile:
        """A bell from zero up to the peak in the middle and down to zero; sigma is a sixth of the seconds if not given.

        The bell is lowered by its height at the ends, and stretched back to the peak, so that it touches zero there.
        """
        return cls(*profile_shapes.gaussian(peak_rate, seconds, sigma_s))

    @classmethod
    def bursts(
        cls, low_rate: float, high_rate: float, *, mean_low_s: float, mean_high_s: float, seconds: float, seed: int = 0
    ) -> LoadProfile:
        """Two rates in turn, low first, each for an exponentially distributed time: a two-state Markov chain."""
        curve = profile_shapes.bursts(
            low_rate, high_rate, mean_low_s=mean_low_s, mean_high_s=mean_high_s, seconds=seconds, seed=seed
        )
        return cls(*curve)

    @classmethod
    def from_rates(
        cls, table: Sequence[tuple[float, float]], interpolation: Interpolation = Interpolation.CONSTANT
    ) -> LoadProfile:
        """From pairs of second and rate; the first second counts as 0, and the last rate holds for one more step."""
        return cls(*profile_shapes.from_rates(table, interpolation))

    @classmethod
    def from_threads(cls, table: Sequence[tuple[float, float]], rate_per_thread: float = 1.0) -> LoadProfile:
        """From pairs of how many seconds and how many threads, as load generators with client threads write them.

        Examples
        --------
        >>> profile = LoadProfile.from_threads([(10, 500), (20, 700), (10, 600)], rate_per_thread=2)
        >>> profile.duration_s, profile.rate_at(15), profile.total_rows
        (40.0, 1400.0, 50000)
        """
        return cls(*profile_shapes.from_threads(table, rate_per_thread))

    # -- the same profile, changed -------------------------------------------------------------------------------

    def scaled(self, *, height: float = 1.0, time: float = 1.0) -> LoadProfile:
        """Multiply all rates and all seconds by a factor each; the backlog stays."""
        for name, factor in (("height", height), ("time", time)):
            check_span(name, factor)
        return replace(self, seconds=self.seconds * time, rates=self.rates * height)

    def ending(self, end: ProfileEnd | str) -> LoadProfile:
        """The same profile with another end."""
        return replace(self, end=ProfileEnd(choice("end", end, ProfileEnd)))

    def with_backlog(self, rows: int) -> LoadProfile:
        """The same profile with so many rows waiting at time 0."""
        return replace(self, backlog_rows=rows)

    # -- what arrives when ---------------------------------------------------------------------------------------

    @property
    def duration_s(self) -> float:
        """Where the grid ends; what comes then is up to :attr:`end`."""
        return float(self.seconds[-1])

    @property
    def total_rows(self) -> int | None:
        """All rows that ever arrive, the backlog included; None when it never ends."""
        if self.end is ProfileEnd.HOLD and self.rates[-1] > 0:
            return None
        if self.end is ProfileEnd.REPEAT and self._grid.last_rows > 0:
            return None
        return self.backlog_rows + math.floor(self._grid.last_rows)

    def arrival_s(self, offsets: ArrayLike) -> FloatArray:
        """When the rows at these offsets arrive, in seconds from the start; infinity for rows that never do."""
        places = np.asarray(offsets, dtype=np.int64)
        if places.size and places.min() < 0:
            raise ValueError(f"offsets start at 0, not at {places.min()}")
        arrivals = self._inverse((places - self.backlog_rows + 1).astype(np.float64))
        return np.where(places < self.backlog_rows, 0.0, arrivals)

    def rows_by(self, t_s: float) -> int:
        """How many rows arrive at or before a moment: exactly those with ``arrival_s(offset) <= t_s``."""
        if not math.isfinite(t_s):
            raise ValueError(f"rows are counted up to a finite moment, not {t_s!r}")
        if t_s < 0:
            return 0
        total = self.total_rows
        rows = self.backlog_rows + math.floor(float(self.cumulative_rows(t_s)))
        rows = rows if total is None else min(rows, total)
        # N(t) rounds one way and its inverse the other; the arrival times decide, or a row would be read too early.
        while self._has_arrived(rows, t_s):
            rows += 1
        while rows > 0 and not self._has_arrived(rows - 1, t_s):
            rows -= 1
        return rows

    def _has_arrived(self, offset: int, t_s: float) -> bool:
        return bool(self.arrival_s([offset])[0] <= t_s)

    def cumulative_rows(self, times_s: ArrayLike) -> FloatArray:
        """N(t) as a real number, without the backlog."""
        cycle, times = self._within_cycle(times_s)
        held_rate = float(self.rates[-1]) if self.end is ProfileEnd.HOLD else 0.0
        after = np.maximum(times - self.duration_s, 0.0) * held_rate + cycle * self._grid.last_rows
        return after + self._grid.rows_at(times)

    def rate_at(self, t_s: float) -> float:
        """Rows per second at a moment."""
        return float(self.rates_at(t_s))

    def rates_at(self, times_s: ArrayLike) -> FloatArray:
        """Rows per second at several moments; zero before the start."""
        given = np.asarray(times_s, dtype=np.float64)
        _, times = self._within_cycle(given)
        if self.interpolation is Interpolation.LINEAR:
            rates = np.interp(times, self.seconds, self.rates)
        else:
            rates = self.rates[np.searchsorted(self.seconds, times, side="right") - 1]
        over = (given >= self.duration_s) & (self.end is ProfileEnd.STOP)
        return np.where((given < 0) | over, 0.0, rates)

    def _within_cycle(self, times_s: ArrayLike) -> tuple[FloatArray, FloatArray]:
        times = np.maximum(np.asarray(times_s, dtype=np.float64), 0.0)
        if self.end is not ProfileEnd.REPEAT:
            return np.zeros_like(times), times
        cycle = np.floor(times / self.duration_s)
        return cycle, np.clip(times - cycle * self.duration_s, 0.0, self.duration_s)

    def _build_grid(self) -> ArrivalGrid:
        left = self.rates[:-1]
        right = self.rates[1:] if self.interpolation is Interpolation.LINEAR else left
        return ArrivalGrid.build(self.seconds, left, right)

    def _inverse(self, levels: FloatArray) -> FloatArray:
        """When N first reaches these levels."""
        last = self._grid.last_rows
        if self.end is ProfileEnd.REPEAT and last > 0:
            cycle = np.maximum(np.ceil(levels / last) - 1, 0.0)
            rest = levels - cycle * last
            # Rounding may leave a level just outside the cycle it was put into.
            cycle, rest = np.where(rest > last, cycle + 1, cycle), np.where(rest > last, rest - last, rest)
            repeated: FloatArray = cycle * self.duration_s + self._grid.reached_s(rest)
            return repeated
        inside = self._grid.reached_s(np.minimum(levels, last))
        rate = float(self.rates[-1])
        if self.end is ProfileEnd.HOLD and rate > 0:
            return np.where(levels > last, self.duration_s + np.maximum(levels - last, 0.0) / rate, inside)
        return np.where(levels > last, np.inf, inside)

    # -- as plain data -------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Give the profile as a JSON text, which :func:`~penstock.model.profile_text.parse_profile` reads."""
        return json.dumps(
            {
                "seconds": self.seconds.tolist(),
                "rates": self.rates.tolist(),
                "interpolation": self.interpolation.value,
                "end": self.end.value,
                "backlog_rows": self.backlog_rows,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> LoadProfile:
        """Read what :meth:`to_json` gave."""
        try:
            tree = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidProfileError(f"load profile: not valid JSON ({error}): {short(text)}") from error
        known = {"seconds", "rates", "interpolation", "end", "backlog_rows"}
        if not isinstance(tree, dict) or not {"seconds", "rates"} <= set(tree) <= known:
            raise InvalidProfileError(f"load profile: JSON takes the keys {', '.join(sorted(known))}: {short(text)}")
        return cls(**tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoadProfile) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[bytes, bytes, str, str, int]:
        return self.seconds.tobytes(), self.rates.tobytes(), self.interpolation, self.end, self.backlog_rows
