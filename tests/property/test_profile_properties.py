"""What holds for every load profile."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.model.profile import LoadProfile
from penstock.model.profile_checks import Interpolation, ProfileEnd
from penstock.model.profile_text import parse_profile

RATES = st.one_of(st.just(0.0), st.floats(0.001, 5000), st.integers(0, 5000).map(float))
SPANS = st.one_of(st.floats(0.01, 300), st.integers(1, 60).map(float))
MOMENTS = st.floats(-10, 2000)


@st.composite
def profiles(draw: st.DrawFn, ends: tuple[ProfileEnd, ...] = tuple(ProfileEnd)) -> LoadProfile:
    spans = draw(st.lists(SPANS, min_size=1, max_size=8))
    rates = draw(st.lists(RATES, min_size=len(spans) + 1, max_size=len(spans) + 1))
    return LoadProfile(
        np.concatenate(([0.0], np.cumsum(spans))),
        np.array(rates),
        draw(st.sampled_from(Interpolation)),
        draw(st.sampled_from(ends)),
        draw(st.sampled_from([0, 0, 1, 1000])),
    )


@given(profiles(), MOMENTS, MOMENTS)
def test_rows_never_become_fewer(profile: LoadProfile, first_s: float, second_s: float) -> None:
    """A later moment has at least as many rows."""
    early, late = sorted((first_s, second_s))
    assert profile.rows_by(early) <= profile.rows_by(late)


@given(profiles(), MOMENTS)
def test_rows_by_counts_exactly_the_arrived(profile: LoadProfile, moment_s: float) -> None:
    """The last row counted has arrived and the next one has not."""
    rows = profile.rows_by(moment_s)
    if rows:
        assert profile.arrival_s([rows - 1])[0] <= moment_s
    assert profile.arrival_s([rows])[0] > moment_s


@given(profiles(), st.integers(0, 10**7))
def test_a_row_is_counted_from_its_arrival_on(profile: LoadProfile, offset: int) -> None:
    """At its arrival a row is counted, and just before it is not."""
    arrival_s = float(profile.arrival_s([offset])[0])
    if math.isinf(arrival_s):
        assert profile.total_rows is not None
        assert offset >= profile.total_rows
        return
    assert profile.rows_by(arrival_s) >= offset + 1
    assert profile.rows_by(math.nextafter(arrival_s, -math.inf)) <= offset


@given(profiles(), st.integers(0, 10**6))
def test_arrivals_are_in_order_and_rows_independent_of_their_neighbours(profile: LoadProfile, first: int) -> None:
    """Arrival times never fall, and asking for many gives the same as asking for one."""
    offsets = np.arange(first, first + 200)
    arrivals = profile.arrival_s(offsets)
    assert np.all(arrivals[1:] >= arrivals[:-1])
    assert arrivals[57] == profile.arrival_s([offsets[57]])[0]


@given(profiles(ends=(ProfileEnd.STOP,)))
def test_the_total_arrives_by_the_end(profile: LoadProfile) -> None:
    """A profile that stops has brought all its rows at its end, and no more ever."""
    assert profile.rows_by(profile.duration_s) == profile.total_rows
    assert profile.rows_by(profile.duration_s * 10) == profile.total_rows
    assert profile.rate_at(profile.duration_s) == 0


@given(profiles(ends=(ProfileEnd.HOLD,)), st.integers(1, 1000))
def test_hold_goes_on_at_the_last_rate(profile: LoadProfile, more_s: int) -> None:
    """After the end so many rows more arrive as the last rate says, give or take one for rounding down."""
    grown = profile.rows_by(profile.duration_s + more_s) - profile.rows_by(profile.duration_s)
    assert abs(grown - profile.rates[-1] * more_s) <= 1.001
    assert profile.rate_at(profile.duration_s + more_s) == profile.rates[-1]


@given(profiles(ends=(ProfileEnd.REPEAT,)), st.integers(1, 20), st.floats(0, 1))
def test_repeat_brings_the_same_again(profile: LoadProfile, cycles: int, part: float) -> None:
    """A repeated profile's count is whole cycles plus the part of the present one, give or take one."""
    moment_s = part * profile.duration_s
    once = profile.ending(ProfileEnd.STOP).cumulative_rows([moment_s, profile.duration_s])
    rows = profile.rows_by(cycles * profile.duration_s + moment_s) - profile.backlog_rows
    assert abs(rows - (cycles * once[1] + once[0])) <= 1.001 + 1e-6 * max(profile.rates)


@given(profiles(ends=(ProfileEnd.STOP,)), st.sampled_from([0.125, 0.5, 2.0, 16.0]))
def test_stretching_and_lowering_conserve_the_total(profile: LoadProfile, factor: float) -> None:
    """Twice as long at half the height is the same number of rows, each arriving at twice its time."""
    scaled = profile.scaled(time=factor, height=1 / factor)
    assert scaled.total_rows == profile.total_rows
    offsets = np.arange(min(profile.total_rows or 0, 50))
    assert np.allclose(scaled.arrival_s(offsets), profile.arrival_s(offsets) * factor, rtol=1e-9)


@given(profiles())
def test_json_keeps_everything(profile: LoadProfile) -> None:
    """A profile read from its own JSON is the same profile."""
    again = parse_profile(profile.to_json())
    assert again == profile
    assert hash(again) == hash(profile)


@given(profiles(), MOMENTS)
def test_the_rate_is_the_slope_of_the_count(profile: LoadProfile, moment_s: float) -> None:
    """Between grid points the count grows by the rate times the time."""
    start_s = abs(moment_s)
    end_s = start_s + 1e-4
    cycle_s = start_s % profile.duration_s if profile.end is ProfileEnd.REPEAT else start_s
    assume(np.min(np.abs(profile.seconds - cycle_s)) > 1e-3)
    grown = float(profile.cumulative_rows(end_s) - profile.cumulative_rows(start_s))
    mean_rate = (profile.rate_at(start_s) + profile.rate_at(end_s)) / 2
    assert math.isclose(grown, mean_rate * 1e-4, rel_tol=1e-3, abs_tol=1e-5)
