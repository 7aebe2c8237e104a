"""Load profiles: how many rows arrive in every second, and when exactly each of them does.

A profile is a table of rates on a grid of seconds. Between two grid points the rate is constant or runs in a straight
line, so the number of rows that have arrived and the arrival time of any row both have closed forms::

    N(t) = N(t_i) + r_i x + (r_{i+1} - r_i) x^2 / (2 d_i)            x = t - t_i,  d_i = t_{i+1} - t_i
    x    = 2 y / (r_i + sqrt(r_i^2 + 2 y (r_{i+1} - r_i) / d_i))     y = k + 1 - N(t_i)

Row k arrives when N reaches k + 1. The inverse is written with the root in the denominator: the schoolbook form loses
all digits where the slope is small.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.errors import InvalidProfileError
from penstock.model.rows import row_hash, unit_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]

MAX_RATE_ROWS_PER_S: Final = 1e12
MAX_SECONDS: Final = 1e10
MAX_ROWS: Final = 2**53
_SNAP_ROWS: Final = 1e-6
_POINTS_PER_CURVE: Final = 200
_MAX_POINTS: Final = 1_000_000
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
    _rows: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        seconds, rates = _frozen("seconds", self.seconds), _frozen("rates", self.rates)
        _check_grid(seconds, rates)
        _check_whole("backlog", self.backlog_rows)
        object.__setattr__(self, "seconds", seconds)
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "interpolation", _choice("interpolation", self.interpolation, Interpolation))
        object.__setattr__(self, "end", _choice("end", self.end, ProfileEnd))
        object.__setattr__(self, "_rows", self._rows_at_grid())
        if self.end is ProfileEnd.REPEAT and self.duration_s <= 0:
            raise InvalidProfileError(
                "load profile: end = 'repeat' is not allowed without seconds to repeat: give seconds"
            )

    # -- constructors --------------------------------------------------------------------------------------------

    @classmethod
    def constant(cls, rate: float, seconds: float | None = None) -> LoadProfile:
        """The same rate all the time, for ever where no seconds are given."""
        _check_rate("rate", rate)
        if seconds is None:
            return cls(_array([0]), _array([rate]), end=ProfileEnd.HOLD)
        _check_span("seconds", seconds)
        return cls(_array([0, seconds]), _array([rate, rate]))

    @classmethod
    def ramp(cls, from_rate: float, to_rate: float, seconds: float) -> LoadProfile:
        """A straight line from one rate to another."""
        _check_rate("from", from_rate)
        _check_rate("to", to_rate)
        _check_span("seconds", seconds)
        return cls(_array([0, seconds]), _array([from_rate, to_rate]), Interpolation.LINEAR)

    @classmethod
    def step(cls, from_rate: float, to_rate: float, at_s: float, seconds: float) -> LoadProfile:
        """One rate up to a moment, another one from there on."""
        _check_rate("from", from_rate)
        _check_rate("to", to_rate)
        _check_span("at", at_s)
        _check_span("seconds", seconds)
        if at_s >= seconds:
            raise InvalidProfileError(f"load profile: at = {at_s:g} is not allowed: less than seconds = {seconds:g}")
        return cls(_array([0, at_s, seconds]), _array([from_rate, to_rate, to_rate]))

    @classmethod
    def levels(cls, rates: Sequence[float], each_s: float) -> LoadProfile:
        """Several rates after one another, each for the same time."""
        _check_span("each", each_s)
        return cls.from_threads([(each_s, rate) for rate in rates])

    @classmethod
    def sine(cls, mean_rate: float, amplitude_rate: float, period_s: float, seconds: float) -> LoadProfile:
        """A wave around a mean, beginning at the mean and rising; 200 points a period, straight lines between."""
        _check_rate("mean", mean_rate)
        _check_rate("amplitude", amplitude_rate)
        _check_span("period", period_s)
        _check_span("seconds", seconds)
        if amplitude_rate > mean_rate:
            raise InvalidProfileError(
                f"load profile: amplitude = {amplitude_rate:g} is not allowed: from 0 to the mean, {mean_rate:g}, "
                "because rates cannot be negative"
            )
        grid = _curve_grid(seconds, period_s)
        rates = mean_rate + amplitude_rate * np.sin(2 * np.pi * grid / period_s)
        return cls(grid, np.maximum(rates, 0.0), Interpolation.LINEAR)

    @classmethod
    def gaussian(cls, peak_rate: float, seconds: float, sigma_s: float | None = None) -> LoadProfile:
        """A bell from zero up to the peak in the middle and down to zero; sigma is a sixth of the seconds if not given.

        The bell is lowered by its height at the ends, and stretched back to the peak, so that it touches zero there.
        """
        _check_rate("peak", peak_rate)
        _check_span("seconds", seconds)
        sigma = seconds / 6 if sigma_s is None else sigma_s
        _check_span("sigma", sigma)
        grid = np.linspace(0.0, seconds, _POINTS_PER_CURVE + 1)
        bell = np.exp(-(((grid - seconds / 2) / sigma) ** 2) / 2)
        if bell[0] > 1 - 1e-9:
            raise InvalidProfileError(
                f"load profile: sigma = {sigma:g} is not allowed: at most about seconds, {seconds:g}"
            )
        return cls(grid, peak_rate * (bell - bell[0]) / (1 - bell[0]), Interpolation.LINEAR)

    @classmethod
    def bursts(
        cls, low_rate: float, high_rate: float, *, mean_low_s: float, mean_high_s: float, seconds: float, seed: int = 0
    ) -> LoadProfile:
        """Two rates in turn, low first, each for an exponentially distributed time: a two-state Markov chain."""
        _check_rate("low", low_rate)
        _check_rate("high", high_rate)
        _check_span("mean_low_s", mean_low_s)
        _check_span("mean_high_s", mean_high_s)
        _check_span("seconds", seconds)
        starts, second, turn = [0.0], 0.0, 0
        while True:
            # Drawn by hash and not by a generator: a restart under another numpy must give the same bursts.
            chance = unit_interval(row_hash(np.array([turn]), seed, 0))[0]
            second += -math.log1p(-float(chance)) * (mean_high_s if turn % 2 else mean_low_s)
            if second >= seconds or turn >= _MAX_POINTS:
                break
            # A stay too short to be told from none would make the grid stand still.
            starts.append(max(second, float(np.nextafter(starts[-1], np.inf))))
            turn += 1
        rates = [high_rate if place % 2 else low_rate for place in range(len(starts))]
        return cls(_array([*starts, seconds]), _array([*rates, rates[-1]]))

    @classmethod
    def from_rates(
        cls, table: Sequence[tuple[float, float]], interpolation: Interpolation = Interpolation.CONSTANT
    ) -> LoadProfile:
        """From pairs of second and rate; the first second counts as 0, and the last rate holds for one more step."""
        if not table:
            raise InvalidProfileError("load profile: the table of seconds and rates is empty: give at least one line")
        seconds, rates = (_array(column) for column in zip(*table, strict=True))
        last_step = seconds[-1] - seconds[-2] if len(seconds) > 1 else 1.0
        grid = np.append(seconds, seconds[-1] + last_step) - seconds[0]
        return cls(grid, np.append(rates, rates[-1]), interpolation)

    @classmethod
    def from_threads(cls, table: Sequence[tuple[float, float]], rate_per_thread: float = 1.0) -> LoadProfile:
        """From pairs of how many seconds and how many threads, as load generators with client threads write them.

        Examples
        --------
        >>> profile = LoadProfile.from_threads([(10, 500), (20, 700), (10, 600)], rate_per_thread=2)
        >>> profile.duration_s, profile.rate_at(15), profile.total_rows
        (40.0, 1400.0, 50000)
        """
        if not table:
            raise InvalidProfileError("load profile: the table of seconds and threads is empty: give at least one line")
        _check_rate("rate_per_thread", rate_per_thread)
        spans, threads = (_array(column) for column in zip(*table, strict=True))
        grid = np.concatenate(([0.0], np.cumsum(spans)))
        return cls(grid, np.append(threads, threads[-1]) * rate_per_thread)

    # -- the same profile, changed -------------------------------------------------------------------------------

    def scaled(self, *, height: float = 1.0, time: float = 1.0) -> LoadProfile:
        """Multiply all rates and all seconds by a factor each; the backlog stays."""
        for name, factor in (("height", height), ("time", time)):
            _check_span(name, factor)
        return replace(self, seconds=self.seconds * time, rates=self.rates * height)

    def ending(self, end: ProfileEnd | str) -> LoadProfile:
        """The same profile with another end."""
        return replace(self, end=ProfileEnd(_choice("end", end, ProfileEnd)))

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
        if self.end is ProfileEnd.REPEAT and self._rows[-1] > 0:
            return None
        return self.backlog_rows + math.floor(float(self._rows[-1]))

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
        after: FloatArray = np.maximum(times - self.duration_s, 0.0) * held_rate + cycle * self._rows[-1]
        if len(self.seconds) == 1:
            return after
        left, right = self._segment_rates()
        place = np.minimum(np.searchsorted(self.seconds, times, side="right") - 1, len(left) - 1)
        width = self.seconds[place + 1] - self.seconds[place]
        x = np.minimum(times - self.seconds[place], width)
        rows = self._rows[place] + left[place] * x + (right[place] - left[place]) * x * x / (2 * width)
        total: FloatArray = after + np.minimum(rows, self._rows[place + 1])
        return total

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

    def _segment_rates(self) -> tuple[FloatArray, FloatArray]:
        left = self.rates[:-1]
        return left, self.rates[1:] if self.interpolation is Interpolation.LINEAR else left

    def _rows_at_grid(self) -> FloatArray:
        """N at the grid points. What is a whole number but for rounding is made one, or the last row would be lost."""
        left, right = self._segment_rates()
        rows = np.concatenate(([0.0], np.cumsum((left + right) / 2 * np.diff(self.seconds))))
        if rows[-1] >= MAX_ROWS:
            raise InvalidProfileError(
                f"load profile: {rows[-1]:.3g} rows are more than can be counted; lower the rates"
            )
        whole = np.rint(rows)
        return np.where(np.abs(rows - whole) <= _SNAP_ROWS, whole, rows)

    def _inverse(self, levels: FloatArray) -> FloatArray:
        """When N first reaches these levels."""
        last = float(self._rows[-1])
        if self.end is ProfileEnd.REPEAT and last > 0:
            cycle = np.maximum(np.ceil(levels / last) - 1, 0.0)
            rest = levels - cycle * last
            # Rounding may leave a level just outside the cycle it was put into.
            cycle, rest = np.where(rest > last, cycle + 1, cycle), np.where(rest > last, rest - last, rest)
            repeated: FloatArray = cycle * self.duration_s + self._inverse_on_grid(rest)
            return repeated
        inside = self._inverse_on_grid(np.minimum(levels, last))
        rate = float(self.rates[-1])
        if self.end is ProfileEnd.HOLD and rate > 0:
            return np.where(levels > last, self.duration_s + np.maximum(levels - last, 0.0) / rate, inside)
        return np.where(levels > last, np.inf, inside)

    def _inverse_on_grid(self, levels: FloatArray) -> FloatArray:
        if len(self.seconds) == 1:
            return np.zeros_like(levels)
        left, right = self._segment_rates()
        place = np.clip(np.searchsorted(self._rows, levels, side="left") - 1, 0, len(left) - 1)
        start, width = self.seconds[place], self.seconds[place + 1] - self.seconds[place]
        y = np.maximum(levels - self._rows[place], 0.0)
        slope = (right[place] - left[place]) / width
        denominator = left[place] + np.sqrt(np.maximum(left[place] ** 2 + 2 * y * slope, 0.0))
        x = np.divide(2 * y, denominator, out=np.zeros_like(y), where=denominator > 0)
        arrivals: FloatArray = start + np.minimum(x, width)
        return arrivals

    # -- as plain data -------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Give the profile as a JSON text, which :func:`parse_profile` reads."""
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
            raise InvalidProfileError(f"load profile: not valid JSON ({error}): {_short(text)}") from error
        known = {"seconds", "rates", "interpolation", "end", "backlog_rows"}
        if not isinstance(tree, dict) or not {"seconds", "rates"} <= set(tree) <= known:
            raise InvalidProfileError(f"load profile: JSON takes the keys {', '.join(sorted(known))}: {_short(text)}")
        return cls(**tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoadProfile) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[bytes, bytes, str, str, int]:
        return self.seconds.tobytes(), self.rates.tobytes(), self.interpolation, self.end, self.backlog_rows


# -- the text form -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    build: Callable[..., LoadProfile]
    required: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)


_SHAPES: Final[Mapping[str, _Shape]] = {
    "constant": _Shape(LoadProfile.constant, {"rate": "rate"}, {"seconds": "seconds"}),
    "ramp": _Shape(LoadProfile.ramp, {"from": "from_rate", "to": "to_rate", "seconds": "seconds"}),
    "step": _Shape(LoadProfile.step, {"from": "from_rate", "to": "to_rate", "at": "at_s", "seconds": "seconds"}),
    "levels": _Shape(LoadProfile.levels, {"rates": "rates", "each": "each_s"}),
    "sine": _Shape(
        LoadProfile.sine,
        {"mean": "mean_rate", "amplitude": "amplitude_rate", "period": "period_s", "seconds": "seconds"},
    ),
    "gaussian": _Shape(LoadProfile.gaussian, {"peak": "peak_rate", "seconds": "seconds"}, {"sigma": "sigma_s"}),
    "bursts": _Shape(
        LoadProfile.bursts,
        {name: name for name in ("mean_low_s", "mean_high_s", "seconds")} | {"low": "low_rate", "high": "high_rate"},
        {"seed": "seed"},
    ),
}
_COMMON: Final = ("end", "backlog", "height", "time")
_FILE_KEYS: Final = ("rate_per_thread", "interpolation", "gaps")


def parse_profile(text: str, *, read_text: Callable[[str], str] | None = None) -> LoadProfile:
    """Read a profile from its text form: ``shape:key=value,...`` or ``file:PATH`` or JSON.

    Every shape also takes ``end`` (stop, hold, repeat), ``backlog`` (rows at time 0), and the factors ``height`` and
    ``time``. A file takes ``rate_per_thread``, ``interpolation`` (constant, linear) and ``gaps`` (refuse, hold) too.

    Parameters
    ----------
    text
        The text form.
    read_text
        Gives the content of the file at a path; without it ``file:`` is an error.

    Examples
    --------
    >>> parse_profile("step:from=1000,to=9000,at=30,seconds=60").total_rows
    300000
    >>> parse_profile("levels:rates=10/20/10,each=60,end=repeat").rate_at(90)
    20.0
    >>> parse_profile("square:rate=5")
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidProfileError: load profile 'square:rate=5': no shape 'square'; known shapes: \
constant, ramp, step, levels, sine, gaussian, bursts, file
    """
    text = text.strip()
    if text.startswith("{"):
        return LoadProfile.from_json(text)
    shape, _, rest = text.partition(":")
    try:
        if shape == "file":
            return _parse_file(rest, read_text)
        return _parse_shape(shape, rest)
    except InvalidProfileError as error:
        raise InvalidProfileError(
            f"load profile {_short(text)}: {str(error).removeprefix('load profile: ')}"
        ) from error


def _pairs(rest: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in rest.split(",") if rest.strip() else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or not equals or not value:
            raise InvalidProfileError(f"part {part.strip()!r} is not of the form key=value")
        if key in pairs:
            raise InvalidProfileError(f"part {key!r} is given twice")
        pairs[key] = value
    return pairs


def _parse_shape(name: str, rest: str) -> LoadProfile:
    if name not in _SHAPES:
        raise InvalidProfileError(f"no shape {name!r}; known shapes: {', '.join(_SHAPES)}, file")
    shape, pairs = _SHAPES[name], _pairs(rest)
    names = {**shape.required, **shape.optional}
    _refuse_unknown(pairs, [*names, *_COMMON], f"shape {name}")
    missing = [key for key in shape.required if key not in pairs]
    if missing:
        raise InvalidProfileError(f"shape {name} lacks {', '.join(missing)}; it takes {', '.join(names)}")
    arguments = {names[key]: _shape_value(key, value) for key, value in pairs.items() if key in names}
    return _with_common(shape.build(**arguments), pairs)


def _shape_value(key: str, value: str) -> float | int | list[float]:
    if key == "rates":
        rates = [_read_number(key, level) for level in value.split("/")]
        for rate in rates:
            _check_rate(key, rate)
        return rates
    return _read_whole(key, value) if key == "seed" else _read_number(key, value)


def _with_common(profile: LoadProfile, pairs: Mapping[str, str]) -> LoadProfile:
    factors = {key: _read_number(key, pairs[key]) for key in ("height", "time") if key in pairs}
    profile = profile.scaled(**factors)
    if "backlog" in pairs:
        profile = profile.with_backlog(_read_whole("backlog", pairs["backlog"]))
    return profile.ending(pairs["end"]) if "end" in pairs else profile


def _refuse_unknown(pairs: Mapping[str, str], known: Sequence[str], what: str) -> None:
    for key in pairs:
        if key not in known:
            raise InvalidProfileError(f"{what} has no part {key!r}; it takes {', '.join(known)}")


def _parse_file(rest: str, read_text: Callable[[str], str] | None) -> LoadProfile:
    # From the right, so that a path may hold commas and equal signs of its own.
    options: list[str] = []
    while "," in rest and rest.rpartition(",")[2].partition("=")[0].strip() in (*_COMMON, *_FILE_KEYS):
        rest, _, option = rest.rpartition(",")
        options.insert(0, option)
    path, pairs = rest.strip(), _pairs(",".join(options))
    if not path:
        raise InvalidProfileError("the path of the file is missing: write file:PATH")
    if read_text is None:
        raise InvalidProfileError("files cannot be read here; give the profile itself, as JSON or as a shape")
    profile = parse_table(
        read_text(path),
        rate_per_thread=_read_number("rate_per_thread", pairs.get("rate_per_thread", "1")),
        interpolation=Interpolation(_choice("interpolation", pairs.get("interpolation", "constant"), Interpolation)),
        gaps=pairs.get("gaps", "refuse"),
    )
    return _with_common(profile, pairs)


# -- tables in text files ----------------------------------------------------------------------------------------------


def parse_table(
    text: str,
    *,
    rate_per_thread: float = 1.0,
    interpolation: Interpolation = Interpolation.CONSTANT,
    gaps: str = "refuse",
) -> LoadProfile:
    r"""Read a table with the header ``second,rate`` or ``seconds,threads``; empty lines and ``#`` lines are skipped.

    In a table of rates all steps must be as long as the shortest, unless ``gaps`` is "hold": a missing line would
    otherwise pass for a rate that did not change.

    Examples
    --------
    >>> parse_table("second,rate\n0,100\n60,300\n").total_rows
    24000
    >>> parse_table("second,rate\n0,100\n60,-300\n")
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidProfileError: load profile: line 3: rate = '-300' is not allowed: a number from 0 to 1e+12
    """
    if gaps not in {"refuse", "hold"}:
        raise InvalidProfileError(f"load profile: gaps = {gaps!r} is not allowed: refuse or hold")
    numbered = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    lines = [(number, line) for number, line in numbered if line and not line.startswith("#")]
    if not lines:
        raise InvalidProfileError("load profile: the file is empty; it must begin with second,rate or seconds,threads")
    header = lines[0][1].lower().replace(" ", "").lstrip("\ufeff")
    if header not in {"second,rate", "seconds,threads"}:
        raise InvalidProfileError(
            f"load profile: line {lines[0][0]}: header {_short(lines[0][1])} is neither second,rate nor seconds,threads"
        )
    names = header.split(",")
    table = [(number, *_read_line(number, line, names)) for number, line in lines[1:]]
    if header == "seconds,threads":
        return LoadProfile.from_threads([(span, threads) for _, span, threads in table], rate_per_thread)
    _check_steps(table, gaps)
    return LoadProfile.from_rates([(second, rate) for _, second, rate in table], interpolation)


def _read_line(number: int, line: str, names: Sequence[str]) -> tuple[float, float]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(names):
        raise InvalidProfileError(f"load profile: line {number}: {_short(line)} must be {','.join(names)}")
    try:
        first, second = (_read_number(name, cell) for name, cell in zip(names, cells, strict=True))
        if names[0] == "seconds":
            _check_span("seconds", first, shown=cells[0])
        _check_rate(names[1], second, shown=cells[1])
    except InvalidProfileError as error:
        raise InvalidProfileError(
            f"load profile: line {number}: {str(error).removeprefix('load profile: ')}"
        ) from error
    return first, second


def _check_steps(table: Sequence[tuple[int, float, float]], gaps: str) -> None:
    steps = [(line, second - before, before) for (_, before, _), (line, second, _) in pairwise(table)]
    for line, step, before in steps:
        if step <= 0:
            raise InvalidProfileError(
                f"load profile: line {line}: second = {before + step:g} is not allowed: more than {before:g} before it"
            )
    shortest = min((step for _, step, _ in steps), default=0.0)
    for line, step, before in steps:
        if gaps == "refuse" and step > shortest * (1 + 1e-6):
            raise InvalidProfileError(
                f"load profile: line {line}: a gap of {step:g} seconds after second {before:g}, where lines are "
                f"{shortest:g} seconds apart: add the missing lines, or write gaps=hold to keep the rate over gaps"
            )


# -- checks ------------------------------------------------------------------------------------------------------------


def _array(values: Sequence[float]) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def _frozen(part: str, values: ArrayLike) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidProfileError(f"load profile: {part} = {_short(values)} is not a list of numbers") from error
    array.flags.writeable = False
    return array


def _check_grid(seconds: FloatArray, rates: FloatArray) -> None:
    if seconds.ndim != 1 or seconds.shape != rates.shape or not seconds.size:
        raise InvalidProfileError(
            f"load profile: {seconds.size} seconds with {rates.size} rates: give one rate for each second, at least one"
        )
    for part, values, high in (("second", seconds, MAX_SECONDS), ("rate", rates, MAX_RATE_ROWS_PER_S)):
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0) & (values <= high)))
        if bad.size:
            _refuse(f"{part} {bad[0]}", float(values[bad[0]]), f"a number from 0 to {high:g}")
    if seconds[0] != 0:
        _refuse("second 0", float(seconds[0]), "a profile starts at 0")
    falls = np.flatnonzero(np.diff(seconds) <= 0)
    if falls.size:
        _refuse(f"second {falls[0] + 1}", float(seconds[falls[0] + 1]), f"more than {seconds[falls[0]]:g} before it")


def _check_rate(part: str, value: float, *, shown: object = None) -> None:
    if not 0 <= value <= MAX_RATE_ROWS_PER_S:
        _refuse(part, value if shown is None else shown, f"a number from 0 to {MAX_RATE_ROWS_PER_S:g}")


def _check_span(part: str, value: float, *, shown: object = None) -> None:
    if not 0 < value <= MAX_SECONDS:
        _refuse(part, value if shown is None else shown, f"a number above 0 and up to {MAX_SECONDS:g}")


def _check_whole(part: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MAX_ROWS:
        _refuse(part, value, "a whole number from 0 up")


def _refuse(part: str, value: object, allowed: str) -> None:
    raise InvalidProfileError(f"load profile: {part} = {value!r} is not allowed: {allowed}")


def _choice(part: str, value: str, choices: type[StrEnum]) -> StrEnum:
    if value not in list(choices):
        _refuse(part, str(value), f"one of {', '.join(choices)}")
    return choices(value)


def _read_number(part: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise InvalidProfileError(f"load profile: {part} = {text!r} is not a number") from error
    if not math.isfinite(value):
        raise InvalidProfileError(f"load profile: {part} = {text!r} is not a finite number")
    return value


def _read_whole(part: str, text: str) -> int:
    value = _read_number(part, text)
    if value != math.floor(value) or abs(value) >= MAX_ROWS:
        _refuse(part, text, "a whole number")
    return int(value)


def _curve_grid(seconds: float, period_s: float) -> FloatArray:
    points = math.ceil(_POINTS_PER_CURVE * seconds / period_s)
    if points > _MAX_POINTS:
        _refuse("period", period_s, f"at least {_POINTS_PER_CURVE * seconds / _MAX_POINTS:g} for {seconds:g} seconds")
    step = period_s / _POINTS_PER_CURVE
    inner = step * np.arange(points)
    return np.append(inner[inner < seconds], seconds)


def _short(value: Any) -> str:  # noqa: ANN401 - whatever was given, to be shown
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
