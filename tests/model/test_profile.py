"""Load profiles: exact counts and times, shapes, text form, tables and what they refuse."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from penstock.errors import InvalidProfileError
from penstock.model.profile import LoadProfile
from penstock.model.profile_checks import Interpolation, ProfileEnd
from penstock.model.profile_table import parse_table
from penstock.model.profile_text import parse_profile


def test_constant_rate_counts_and_times() -> None:
    """At 10 rows a second row k arrives at (k + 1) / 10 seconds, for ever."""
    profile = LoadProfile.constant(10)
    assert profile.arrival_s([0, 9, 28]).tolist() == [0.1, 1.0, 2.9]
    assert [profile.rows_by(second) for second in (-1, 0, 0.0999, 0.1, 2.9, 1000)] == [0, 0, 0, 1, 29, 10_000]
    assert profile.total_rows is None


def test_ramp_follows_the_square_root() -> None:
    """From 0 to 100 in 10 s, N(t) = 5 t^2, so row k arrives at sqrt((k + 1) / 5)."""
    profile = LoadProfile.ramp(0, 100, 10)
    offsets = np.arange(500)
    assert profile.total_rows == 500
    assert np.allclose(profile.arrival_s(offsets), np.sqrt((offsets + 1) / 5), rtol=1e-12)
    assert profile.arrival_s([499, 500]).tolist() == [10.0, np.inf]


def test_falling_ramp_brings_its_last_row_at_its_end() -> None:
    """A rate that falls to zero still delivers the whole integral."""
    profile = LoadProfile.ramp(100, 0, 10)
    assert profile.total_rows == profile.rows_by(10) == 500
    assert profile.rows_by(5) == 375


def test_step_changes_the_rate_at_its_second() -> None:
    """The new rate counts from the very second on."""
    profile = LoadProfile.step(1000, 9000, at_s=30, seconds=60)
    assert (profile.rate_at(29.999), profile.rate_at(30)) == (1000, 9000)
    assert [profile.rows_by(second) for second in (30, 31, 60, 99)] == [30_000, 39_000, 300_000, 300_000]


def test_sine_of_whole_periods_brings_its_mean() -> None:
    """Over whole periods the wave cancels; its extremes are at a quarter and three quarters."""
    profile = LoadProfile.sine(500, 300, period_s=60, seconds=120)
    assert profile.total_rows == 60_000
    assert profile.rate_at(15) == pytest.approx(800)
    assert profile.rate_at(45) == pytest.approx(200)


def test_gaussian_runs_from_zero_to_the_peak_to_zero() -> None:
    """The bell touches zero at both ends and is the same from both sides."""
    profile = LoadProfile.gaussian(1000, seconds=600)
    assert profile.rates[0] == profile.rates[-1] == 0
    assert profile.rate_at(300) == 1000
    assert profile.rate_at(200) == pytest.approx(profile.rate_at(400))
    narrow = LoadProfile.gaussian(1000, seconds=600, sigma_s=50)
    assert narrow.rate_at(200) < profile.rate_at(200)


def test_bursts_have_the_asked_stays_and_seed() -> None:
    """Mean stays come out as asked over a long time; the same seed gives the same bursts and another gives others."""
    profile = LoadProfile.bursts(100, 1000, mean_low_s=20, mean_high_s=5, seconds=200_000, seed=3)
    stays = np.diff(profile.seconds)
    assert stays[0::2].mean() == pytest.approx(20, rel=0.05)
    assert stays[1::2].mean() == pytest.approx(5, rel=0.05)
    assert set(profile.rates) == {100, 1000}
    assert profile.rates[0] == 100
    again, other = (
        LoadProfile.bursts(100, 1000, mean_low_s=20, mean_high_s=5, seconds=200_000, seed=s) for s in (3, 4)
    )
    assert again == profile
    assert other != profile


def test_backlog_is_there_at_time_zero() -> None:
    """Backlog rows arrive at 0 and count in the total; the profile's own rows follow."""
    profile = LoadProfile.constant(10, seconds=2).with_backlog(5)
    assert profile.arrival_s([0, 4, 5]).tolist() == [0.0, 0.0, 0.1]
    assert (profile.rows_by(-0.001), profile.rows_by(0), profile.total_rows) == (0, 5, 25)
    only_backlog = LoadProfile.constant(0).with_backlog(7)
    assert (only_backlog.total_rows, only_backlog.rows_by(1e6)) == (7, 7)


def test_ends_stop_hold_and_repeat() -> None:
    """After its end a profile brings nothing, the last rate, or itself again."""
    profile = LoadProfile.levels([10, 30], each_s=5)
    assert [profile.ending(end).rows_by(25) for end in ProfileEnd] == [200, 200 + 30 * 15, 450]
    assert [profile.ending(end).total_rows for end in ProfileEnd] == [200, None, None]
    assert [profile.ending(end).rate_at(12) for end in ProfileEnd] == [0, 30, 10]
    silent = LoadProfile.constant(0, seconds=5).ending("repeat")
    assert (silent.total_rows, silent.arrival_s([0])[0]) == (0, np.inf)


def test_threads_table_is_seconds_times_threads() -> None:
    """500 threads for 10 s, 700 for 20 s, 600 for 10 s, each thread 2 rows a second."""
    profile = parse_table("seconds,threads\n10,500\n20,700\n10,600\n", rate_per_thread=2)
    assert [profile.rate_at(second) for second in (0, 10, 29, 30, 40)] == [1000, 1400, 1400, 1200, 0]
    assert profile.total_rows == 50_000


def test_rates_table_keeps_its_last_line_for_one_step() -> None:
    """Every line counts for one step, the last one too, and the first line is time zero; comments are skipped."""
    profile = parse_table("# from a log\nsecond, rate\n3600,100\n\n3660,300\n")
    assert (profile.duration_s, profile.total_rows) == (120, 24_000)
    smooth = parse_table("second,rate\n0,100\n60,300\n", interpolation=Interpolation.LINEAR)
    assert smooth.rate_at(30) == 200
    assert parse_table("second,rate\n0,7\n").total_rows == 7


def test_scaling_multiplies_rates_and_seconds() -> None:
    """Height scales rates, time scales seconds; the backlog stays."""
    profile = LoadProfile.ramp(0, 100, 10).with_backlog(3).scaled(height=3, time=2)
    assert (profile.duration_s, profile.rate_at(20 - 1e-12), profile.total_rows) == (20, pytest.approx(300), 3003)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("constant:rate=5000", LoadProfile.constant(5000)),
        ("constant: rate=5, seconds=2", LoadProfile.constant(5, 2)),
        ("ramp:from=0,to=10000,seconds=60", LoadProfile.ramp(0, 10_000, 60)),
        ("step:from=1000,to=9000,at=30,seconds=60", LoadProfile.step(1000, 9000, 30, 60)),
        ("levels:rates=1/2/3,each=10", LoadProfile.levels([1, 2, 3], 10)),
        ("sine:mean=50,amplitude=20,period=30,seconds=60", LoadProfile.sine(50, 20, 30, 60)),
        ("gaussian:peak=50,seconds=60,sigma=10", LoadProfile.gaussian(50, 60, 10)),
        (
            "bursts:low=1,high=9,mean_low_s=5,mean_high_s=2,seconds=60,seed=4",
            LoadProfile.bursts(1, 9, mean_low_s=5, mean_high_s=2, seconds=60, seed=4),
        ),
        (
            "ramp:from=0,to=10,seconds=6,height=2,time=3,end=repeat,backlog=9",
            LoadProfile.ramp(0, 20, 18).ending("repeat").with_backlog(9),
        ),
    ],
)
def test_text_form_gives_the_same_as_the_constructor(text: str, same: LoadProfile) -> None:
    """Each shape's text builds what its constructor builds, and survives JSON and pickling."""
    profile = parse_profile(text)
    assert profile == same
    assert parse_profile(profile.to_json()) == same
    assert pickle.loads(pickle.dumps(profile)) == same  # noqa: S301 - our own bytes


def test_file_form_passes_path_and_options_on() -> None:
    """A path may hold commas and equal signs; the options behind it apply to the table."""
    seen: list[str] = []

    def read(path: str) -> str:
        seen.append(path)
        return "seconds,threads\n10,5\n"

    profile = parse_profile("file:a,b=c/load.csv,rate_per_thread=4,end=hold,height=2", read_text=read)
    assert seen == ["a,b=c/load.csv"]
    assert (profile.rate_at(3), profile.end) == (40, ProfileEnd.HOLD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("square:rate=1", "no shape 'square'; known shapes: constant, ramp, step"),
        ("", "no shape ''"),
        ("constant", "lacks rate"),
        ("constant:rate=-5", "rate = -5.0 is not allowed: a number from 0"),
        ("constant:rate=nan", "rate = 'nan' is not a finite number"),
        ("constant:rate=fast", "rate = 'fast' is not a number"),
        ("constant:rate=5,seconds=0", "seconds = 0.0 is not allowed: a number above 0"),
        ("constant:rate=5,speed=1", "no part 'speed'; it takes rate, seconds, end, backlog, height, time"),
        ("constant:rate=5,rate=6", "'rate' is given twice"),
        ("constant:rate", "part 'rate' is not of the form key=value"),
        ("constant:rate=5,end=never", "end = 'never' is not allowed: one of stop, hold, repeat"),
        ("constant:rate=5,end=repeat", "without seconds to repeat"),
        ("constant:rate=5,backlog=1.5", "backlog = '1.5' is not allowed: a whole number"),
        ("constant:rate=5,backlog=-1", "backlog = -1 is not allowed: a whole number from 0 up"),
        ("constant:rate=5,height=0", "height = 0.0 is not allowed"),
        ("step:from=1,to=2,at=60,seconds=60", "at = 60 is not allowed: less than seconds = 60"),
        ("sine:mean=5,amplitude=6,period=1,seconds=2", "amplitude = 6 is not allowed"),
        ("sine:mean=5,amplitude=1,period=0.001,seconds=1e6", "period = 0.001 is not allowed: at least 200"),
        ("gaussian:peak=5,seconds=1,sigma=1e6", "sigma = 1e+06 is not allowed"),
        ("levels:rates=5/-1,each=3", "rates = -1.0 is not allowed"),
        ("ramp:from=1e12,to=1e12,seconds=1e6", "more than can be counted"),
        ("file:", "the path of the file is missing"),
        ("file:load.csv", "files cannot be read here"),
        ('{"seconds": [0]', "not valid JSON"),
        ('{"seconds": [0], "speed": [1]}', "JSON takes the keys"),
        ('{"seconds": [0, 1], "rates": [1]}', "2 seconds with 1 rates"),
        ('{"seconds": [0, 1], "rates": [1, "x"]}', "is not a list of numbers"),
        ('{"seconds": [1, 2], "rates": [1, 1]}', "a profile starts at 0"),
        ('{"seconds": [0, 2, 2], "rates": [1, 1, 1]}', "second 2 = 2.0 is not allowed: more than 2 before it"),
        ('{"seconds": [0, 1], "rates": [1, NaN]}', "rate 1 = nan is not allowed"),
    ],
)
def test_bad_text_is_refused_with_the_part_and_what_is_allowed(text: str, message: str) -> None:
    """Every refusal names the part, its value and what would do."""
    with pytest.raises(InvalidProfileError) as refusal:
        parse_profile(text)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("second,rate\n", "table of seconds and rates is empty"),
        ("seconds,threads\n", "table of seconds and threads is empty"),
        ("time,load\n0,1\n", "line 1: header 'time,load' is neither second,rate nor seconds,threads"),
        ("second,rate\n0,1\n1,-2\n", "line 3: rate = '-2' is not allowed"),
        ("second,rate\n0,1\n1,nan\n", "line 3: rate = 'nan' is not a finite number"),
        ("second,rate\n0,1\none,2\n", "line 3: second = 'one' is not a number"),
        ("second,rate\n0,1,5\n", "line 2: '0,1,5' must be second,rate"),
        ("second,rate\n0,1\n\n1,2\n1,3\n", "line 5: second = 1 is not allowed: more than 1 before it"),
        ("second,rate\n0,1\n1,2\n3,3\n", "line 4: a gap of 2 seconds after second 1, where lines are 1 seconds apart"),
        ("seconds,threads\n10,5\n0,5\n", "line 3: seconds = '0' is not allowed"),
        ("seconds,threads\n10,-5\n", "line 2: threads = '-5' is not allowed"),
    ],
)
def test_bad_table_is_refused_with_its_line(table: str, message: str) -> None:
    """A mistake in a table is reported with the number of its line in the file."""
    with pytest.raises(InvalidProfileError) as refusal:
        parse_profile("file:load.csv", read_text=lambda _: table)
    assert message in str(refusal.value)
    assert "file:load.csv" in str(refusal.value)


def test_gaps_may_be_held() -> None:
    """With gaps=hold a missing line keeps the rate before it; any other word is refused."""
    profile = parse_profile("file:x,gaps=hold", read_text=lambda _: "second,rate\n0,1\n1,2\n3,3\n")
    assert [profile.rate_at(second) for second in (0, 1, 2, 3)] == [1, 2, 2, 3]
    with pytest.raises(InvalidProfileError, match="gaps = 'skip' is not allowed: refuse or hold"):
        parse_profile("file:x,gaps=skip", read_text=lambda _: "second,rate\n0,1\n")


def test_profiles_cannot_be_changed_or_asked_nonsense() -> None:
    """The tables are read-only; negative offsets and endless moments are errors."""
    profile = LoadProfile.constant(5, 2)
    with pytest.raises(ValueError, match="read-only"):
        profile.rates[0] = 7
    with pytest.raises(ValueError, match="offsets start at 0"):
        profile.arrival_s([3, -1])
    with pytest.raises(ValueError, match="finite moment"):
        profile.rows_by(float("nan"))


def test_json_is_plain_and_complete() -> None:
    """The JSON holds every field under a name of its own."""
    tree = json.loads(LoadProfile.step(1, 2, 3, 4).with_backlog(6).to_json())
    assert tree == {
        "seconds": [0, 3, 4], "rates": [1, 2, 2], "interpolation": "constant", "end": "stop", "backlog_rows": 6,
    }  # fmt: skip
