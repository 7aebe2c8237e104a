"""The shapes of load profiles: from a few numbers to a table of rates.

Each function checks its arguments by the names that the text form gives them and returns a :class:`Curve`, from which
:class:`~penstock.model.profile.LoadProfile` is made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from penstock.errors import InvalidProfileError
from penstock.model.profile_checks import Interpolation, ProfileEnd, array, check_rate, check_span, refuse
from penstock.model.rows import row_hash, unit_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.profile_checks import FloatArray

_POINTS_PER_CURVE: Final = 200
_MAX_POINTS: Final = 1_000_000


class Curve(NamedTuple):
    """The first fields of a profile, in its order."""

    seconds: FloatArray
    rates: FloatArray
    interpolation: Interpolation = Interpolation.CONSTANT
    end: ProfileEnd = ProfileEnd.STOP


def constant(rate: float, seconds: float | None) -> Curve:
    """One rate, for ever where no seconds are given."""
    check_rate("rate", rate)
    if seconds is None:
        return Curve(array([0]), array([rate]), end=ProfileEnd.HOLD)
    check_span("seconds", seconds)
    return Curve(array([0, seconds]), array([rate, rate]))


def ramp(from_rate: float, to_rate: float, seconds: float) -> Curve:
    """A straight line from one rate to another."""
    check_rate("from", from_rate)
    check_rate("to", to_rate)
    check_span("seconds", seconds)
    return Curve(array([0, seconds]), array([from_rate, to_rate]), Interpolation.LINEAR)


def step(from_rate: float, to_rate: float, at_s: float, seconds: float) -> Curve:
    """One rate up to a moment, another one from there on."""
    check_rate("from", from_rate)
    check_rate("to", to_rate)
    check_span("at", at_s)
    check_span("seconds", seconds)
    if at_s >= seconds:
        raise InvalidProfileError(f"load profile: at = {at_s:g} is not allowed: less than seconds = {seconds:g}")
    return Curve(array([0, at_s, seconds]), array([from_rate, to_rate, to_rate]))


def levels(rates: Sequence[float], each_s: float) -> Curve:
    """Several rates after one another, each for the same time."""
    check_span("each", each_s)
    return from_threads([(each_s, rate) for rate in rates], rate_per_thread=1.0)


def sine(mean_rate: float, amplitude_rate: float, period_s: float, seconds: float) -> Curve:
    """A wave around a mean, as straight lines between 200 points a period."""
    check_rate("mean", mean_rate)
    check_rate("amplitude", amplitude_rate)
    check_span("period", period_s)
    check_span("seconds", seconds)
    if amplitude_rate > mean_rate:
        raise InvalidProfileError(
            f"load profile: amplitude = {amplitude_rate:g} is not allowed: from 0 to the mean, {mean_rate:g}, "
            "because rates cannot be negative"
        )
    grid = _curve_grid(seconds, period_s)
    rates = mean_rate + amplitude_rate * np.sin(2 * np.pi * grid / period_s)
    return Curve(grid, np.maximum(rates, 0.0), Interpolation.LINEAR)


def gaussian(peak_rate: float, seconds: float, sigma_s: float | None) -> Curve:
    """A bell that is lowered by its height at the ends and stretched back to the peak, so that it touches zero."""
    check_rate("peak", peak_rate)
    check_span("seconds", seconds)
    sigma = seconds / 6 if sigma_s is None else sigma_s
    check_span("sigma", sigma)
    grid = np.linspace(0.0, seconds, _POINTS_PER_CURVE + 1)
    bell = np.exp(-(((grid - seconds / 2) / sigma) ** 2) / 2)
    if bell[0] > 1 - 1e-9:
        raise InvalidProfileError(f"load profile: sigma = {sigma:g} is not allowed: at most about seconds, {seconds:g}")
    return Curve(grid, peak_rate * (bell - bell[0]) / (1 - bell[0]), Interpolation.LINEAR)


def bursts(
    low_rate: float, high_rate: float, *, mean_low_s: float, mean_high_s: float, seconds: float, seed: int
) -> Curve:
    """Two rates in turn, low first, each for an exponentially distributed time."""
    check_rate("low", low_rate)
    check_rate("high", high_rate)
    check_span("mean_low_s", mean_low_s)
    check_span("mean_high_s", mean_high_s)
    check_span("seconds", seconds)
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
    return Curve(array([*starts, seconds]), array([*rates, rates[-1]]))


def from_rates(table: Sequence[tuple[float, float]], interpolation: Interpolation) -> Curve:
    """Pairs of second and rate; the first second counts as 0, and the last rate holds for one more step."""
    if not table:
        raise InvalidProfileError("load profile: the table of seconds and rates is empty: give at least one line")
    seconds, rates = (array(column) for column in zip(*table, strict=True))
    last_step = seconds[-1] - seconds[-2] if len(seconds) > 1 else 1.0
    grid = np.append(seconds, seconds[-1] + last_step) - seconds[0]
    return Curve(grid, np.append(rates, rates[-1]), interpolation)


def from_threads(table: Sequence[tuple[float, float]], rate_per_thread: float) -> Curve:
    """Pairs of how many seconds and how many threads."""
    if not table:
        raise InvalidProfileError("load profile: the table of seconds and threads is empty: give at least one line")
    check_rate("rate_per_thread", rate_per_thread)
    spans, threads = (array(column) for column in zip(*table, strict=True))
    grid = np.concatenate(([0.0], np.cumsum(spans)))
    return Curve(grid, np.append(threads, threads[-1]) * rate_per_thread)


def _curve_grid(seconds: float, period_s: float) -> FloatArray:
    points = math.ceil(_POINTS_PER_CURVE * seconds / period_s)
    if points > _MAX_POINTS:
        refuse("period", period_s, f"at least {_POINTS_PER_CURVE * seconds / _MAX_POINTS:g} for {seconds:g} seconds")
    grid_step = period_s / _POINTS_PER_CURVE
    inner = grid_step * np.arange(points)
    return np.append(inner[inner < seconds], seconds)
