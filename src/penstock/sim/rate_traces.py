"""Load traces as rows per second of simulated time, scaled to the engine that is simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidProfileError
from penstock.model.profile_checks import Interpolation
from penstock.model.profile_table import parse_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from penstock.sim.calibration import Calibration

_SUFFIXES = (".csv", ".csv.gz")


@dataclass(frozen=True, slots=True)
class RateTrace:
    """A load by name: rows that arrive in each second."""

    name: str
    rates: NDArray[np.float64]

    @property
    def hours(self) -> float:
        """Length."""
        return self.rates.size / 3600.0


def find_traces(paths: Iterable[Path]) -> list[Path]:
    """Files as they are given, and the traces of every directory in the order of their names."""
    found: list[Path] = []
    for path in paths:
        inside = [entry for entry in sorted(path.iterdir()) if entry.name.endswith(_SUFFIXES)] if path.is_dir() else []
        if path.is_dir() and not inside:
            raise InvalidProfileError(f"directory {str(path)!r} has no trace: put files named *.csv or *.csv.gz there")
        found += inside or [path]
    return found


def trace_rates(name: str, text: str, *, gaps: str = "refuse", hours: float | None = None) -> RateTrace:
    r"""Read a table ``second,rate`` as rates of every second.

    Between the lines of a table with steps above one second the rate runs straight, over gaps too where ``gaps`` is
    "hold". A table of seconds is taken as it stands.

    Examples
    --------
    >>> trace_rates("seconds", "second,rate\n0,5\n1,7\n2,6\n").rates.tolist()
    [5.0, 7.0, 6.0]
    >>> minutes = trace_rates("minutes", "second,rate\n0,1000\n60,3000\n120,3000\n")
    >>> minutes.rates.size, round(minutes.rates[25:35].mean())
    (180, 2000)
    """
    profile = parse_table(text, interpolation=Interpolation.LINEAR, gaps=gaps)
    duration_s = profile.duration_s if hours is None else min(profile.duration_s, 3600.0 * hours)
    seconds = int(duration_s)
    if seconds < 1:
        raise InvalidProfileError(f"trace {name!r} lasts {duration_s:g} seconds: at least one is needed")
    step_s = float(np.min(np.diff(profile.seconds))) if profile.seconds.size > 1 else 1.0
    if step_s <= 1.0:
        return RateTrace(name, profile.rates_at(np.arange(seconds, dtype=np.float64)))
    return RateTrace(name, profile.rates_at(np.arange(seconds) + 0.5))


def window_means(rates: NDArray[np.float64], seconds: int) -> NDArray[np.float64]:
    """Mean rate of each full window, the rest at the end as one more.

    Examples
    --------
    >>> window_means(np.array([1.0, 3.0, 5.0, 7.0, 8.0]), 2).tolist()
    [2.0, 6.0, 8.0]
    """
    starts = np.arange(0, rates.size, seconds)
    lengths = np.minimum(seconds, rates.size - starts)
    return np.asarray(np.add.reduceat(rates, starts) / lengths)


def scaled_to(
    trace: RateTrace, calibration: Calibration, *, peak_executors: int, window_s: int, seed: int = 0
) -> RateTrace:
    """Scale a trace so that its highest window needs so many executors; whole rows, drawn where the trace is coarse.

    A trace of 0.2 requests a second is a shape, not a load: it is replayed as if it were as large as the engine.
    """
    peak = _peak(trace, window_s)
    height = 0.999 * peak_executors * calibration.rows_per_s * calibration.sustainable_share / peak
    return _drawn(trace, height, seed)


def as_recorded(trace: RateTrace, *, seed: int = 0) -> RateTrace:
    """A trace as the load that it is: whole rows, drawn around the recorded rates.

    Examples
    --------
    >>> float(as_recorded(RateTrace("own", np.full(4_000, 250.0))).rates.mean().round())
    250.0
    """
    _peak(trace, 1)
    return _drawn(trace, 1.0, seed)


def _peak(trace: RateTrace, window_s: int) -> float:
    peak = float(window_means(trace.rates, window_s).max())
    if peak <= 0:
        raise InvalidProfileError(f"trace {trace.name!r} has no load at all: its rates are all 0")
    return peak


def _drawn(trace: RateTrace, height: float, seed: int) -> RateTrace:
    drawn = np.random.default_rng(seed).poisson(trace.rates * height)
    return RateTrace(trace.name, drawn.astype(np.float64))
