"""The load generator without a broker: what its records hold, what it counts, and files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import BrokerError, InvalidProfileError
from penstock.kafka.load import run_load
from penstock.kafka.load_records import json_records
from penstock.kafka.load_sinks import FileTarget
from penstock.kafka.load_tally import LoadTally
from penstock.model.key_table import parse_key_table
from penstock.model.profile import LoadProfile
from penstock.model.profile_table import parse_table
from penstock.model.rows import ClicksContent, PlainContent

OFFSETS = np.arange(1000, dtype=np.int64)
MOMENTS = 1_700_000_000_000_000 + OFFSETS


def test_plain_records_hold_what_the_content_draws() -> None:
    """Every record is one JSON object with the key and value of its offset, and goes under its key."""
    content = PlainContent(seed=3, keys=50, zipf=1.1)
    keys, values = json_records(content, OFFSETS, MOMENTS)
    records = [json.loads(value) for value in values]
    assert [record["offset"] for record in records] == OFFSETS.tolist()
    assert [record["timestamp_us"] for record in records] == MOMENTS.tolist()
    assert [record["key"] for record in records] == content.keys_of(OFFSETS).tolist() == [int(key) for key in keys]
    assert [record["value"] for record in records] == content.values_of(OFFSETS).tolist()


def test_click_records_hold_what_the_content_draws() -> None:
    """Addresses, users and events are those of the embedded source, and a user's records go to one partition."""
    content = ClicksContent(seed=3)
    keys, values = json_records(content, OFFSETS, MOMENTS)
    rows = content.columns(OFFSETS)
    records = [json.loads(value) for value in values]
    assert [record["ip"] for record in records] == content.ip_pool()[rows.ip].tolist()
    assert [record["userID"] for record in records] == content.user_pool()[rows.user].tolist()
    assert [record["eventType"] == "click" for record in records] == rows.is_click.tolist()
    assert [key.decode() for key in keys] == [record["userID"] for record in records]


def test_keys_follow_a_table() -> None:
    """Shares are those of the counts, and names may hold anything that JSON must escape."""
    content = parse_key_table('key,count\n# a comment\na "b", c,3\nd,1\n', seed=5)
    keys, values = json_records(content, np.arange(40_000, dtype=np.int64), np.arange(40_000, dtype=np.int64))
    names = [json.loads(value)["key"] for value in values]
    assert names == [key.decode() for key in keys]
    assert names.count('a "b", c') == pytest.approx(30_000, rel=0.02)
    assert set(names) == {'a "b", c', "d"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "header key,count"),
        ("key,count\n", "no keys"),
        ("key,count\na,1\na,2\n", "line 3: key 'a'"),
        ("key,count\na,x\n", "count = 'x'"),
        ("key,count\na,inf\n", "count = 'inf'"),
    ],
)
def test_a_bad_key_table_is_told_by_its_line(text: str, message: str) -> None:
    """In the words of the file."""
    with pytest.raises(InvalidProfileError, match=message):
        parse_key_table(text)


def test_lateness_is_counted_from_the_moment_a_row_was_due() -> None:
    """A row that waited a second is a second late, however fast it was sent in the end."""
    tally, other = LoadTally(), LoadTally()
    tally.add(10.001, np.full(99, 10.0))
    other.add(11.5, np.array([10.5]))
    tally.merge(other)
    assert (tally.rows, tally.late_ms(0.5), tally.late_ms(0.99), tally.late_ms(1.0)) == (100, 1.0, 1.0, 1000.0)
    assert tally.truth_lines() == ["second,rate", "10,99", "11,1"]


def test_the_truth_is_a_load_profile_again() -> None:
    """What was sent can be sent again from its own file, seconds without a row included."""
    tally = LoadTally(rows_by_second={100: 30, 102: 70})
    assert parse_table("\n".join(tally.truth_lines())).total_rows == 100


def test_a_load_into_files_is_complete_and_on_time(tmp_path: Path) -> None:
    """Two processes write every row of the profile once; the truth adds up to it."""
    profile = LoadProfile.constant(500, seconds=2)
    target = FileTarget(str(tmp_path))
    tally, began_s = run_load(profile, PlainContent(), target, processes=2, seconds=None, watch=lambda _: None)
    records = [json.loads(line) for path in tmp_path.glob("*.json") for line in path.read_text().splitlines()]
    assert sorted(record["offset"] for record in records) == list(range(1000))
    assert tally.rows == 1000
    assert tally.lost == 0
    first = min(record["timestamp_us"] for record in records)
    assert first == round((began_s + profile.arrival_s([0])[0]) * 1e6)


def test_a_profile_without_an_end_needs_seconds() -> None:
    """It is refused before a process is started."""
    target = FileTarget("/nowhere")
    with pytest.raises(BrokerError, match="never ends: say for how long with --seconds"):
        run_load(LoadProfile.constant(1), PlainContent(), target, processes=1, seconds=None, watch=lambda _: None)
