"""Rows from offsets: the same every time, spread as asked, and counted exactly."""

from __future__ import annotations

import re
import uuid
from collections import Counter

import numpy as np
import pytest

from penstock.errors import InvalidSettingError
from penstock.model.rows import ClicksContent, PlainContent, row_hash, unit_interval

SMALL = ClicksContent(seed=5, users=40, fraud_share=0.3, fan_out=10)


def test_hash_depends_on_offset_seed_and_column_only() -> None:
    """A row's bits do not depend on which other rows are asked for, and differ by seed and column."""
    whole = row_hash(np.arange(1000), seed=1, column=2)
    assert np.array_equal(row_hash(np.arange(300, 400), seed=1, column=2), whole[300:400])
    assert len(np.unique(whole)) == 1000
    assert not np.any(row_hash(np.arange(1000), seed=2, column=2) == whole)
    assert not np.any(row_hash(np.arange(1000), seed=1, column=3) == whole)


def test_hash_is_that_of_splitmix64() -> None:
    """Vectorised bits agree with the published algorithm worked through in plain integers."""
    mask = (1 << 64) - 1

    def finish(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    golden = 0x9E3779B97F4A7C15
    stream = finish((finish((9 + golden) & mask) + 4 * golden + golden) & mask)
    expected = [finish((offset * golden + stream) & mask) for offset in (0, 1, 10**12)]
    assert row_hash(np.array([0, 1, 10**12]), seed=9, column=4).tolist() == expected


def test_unit_interval_is_even() -> None:
    """Hashes fall evenly: each tenth of the interval holds a tenth of 200,000 draws within 2 %."""
    draws = unit_interval(row_hash(np.arange(200_000), seed=11, column=1))
    counts, _ = np.histogram(draws, bins=10, range=(0, 1))
    assert counts.min() > 19_600
    assert counts.max() < 20_400


def test_keys_are_uniform_or_zipf() -> None:
    """Without skew all keys are equally frequent; with alpha 1 key k has a share of 1 / (k + 1) of the first's."""
    flat = PlainContent(seed=1, keys=10).key_counts(0, 100_000)
    assert np.all(np.abs(flat - 10_000) < 500)
    skewed = PlainContent(seed=1, keys=100, zipf=1.0).key_counts(0, 500_000)
    harmonic = sum(1 / (key + 1) for key in range(100))
    expected = 500_000 / harmonic / np.arange(1, 101)
    assert np.allclose(skewed, expected, rtol=0.12)
    assert skewed.sum() == 500_000


def test_key_counts_are_those_of_the_rows() -> None:
    """The truth about a stretch agrees with counting its rows one by one."""
    content = PlainContent(seed=3, keys=7, zipf=0.5)
    counted = Counter(content.keys_of(np.arange(100, 1100)).tolist())
    assert content.key_counts(100, 1100).tolist() == [counted[key] for key in range(7)]
    values = content.values_of(np.arange(1000))
    assert 0 <= values.min() < values.max() < 1


def test_pools_hold_different_addresses_and_users() -> None:
    """No two places share an IP address or a user id, and the texts have the right form."""
    content = ClicksContent(seed=8)
    ips, users = content.ip_pool(), content.user_pool()
    assert len(set(ips)) == content.ip_count
    assert len(set(users)) == content.user_count
    assert all(re.fullmatch(r"\d+\.\d+\.\d+\.\d+", ip) and max(map(int, ip.split("."))) < 256 for ip in ips)
    assert all(str(uuid.UUID(user)) == user and uuid.UUID(user).version == 4 for user in users[:100])


def test_click_truth_is_that_of_the_rows() -> None:
    """Every count of the truth agrees with counting the rows one by one in plain Python."""
    columns = SMALL.columns(np.arange(500, 2500))
    rows = list(zip(columns.ip.tolist(), columns.user.tolist(), columns.is_click.tolist(), strict=True))
    truth = SMALL.truth(500, 2500)
    per_ip, per_user = Counter(ip for ip, _, _ in rows), Counter(user for _, user, _ in rows)
    clicks = Counter(user for _, user, click in rows if click)
    pairs = {(ip, user) for ip, user, _ in rows}
    assert truth.rows_per_ip.tolist() == [per_ip[ip] for ip in range(SMALL.ip_count)]
    assert truth.rows_per_user.tolist() == [per_user[user] for user in range(SMALL.user_count)]
    assert truth.clicks_per_user.tolist() == [clicks[user] for user in range(SMALL.user_count)]
    assert truth.displays_per_user.tolist() == [per_user[user] - clicks[user] for user in range(SMALL.user_count)]
    assert truth.users_per_ip.tolist() == [sum(ip == seen for seen, _ in pairs) for ip in range(SMALL.ip_count)]
    assert truth.ips_per_user.tolist() == [sum(user == seen for _, seen in pairs) for user in range(SMALL.user_count)]
    assert (truth.rows, truth.clicks) == (2000, sum(clicks.values()))


def test_truths_of_neighbouring_stretches_add_up() -> None:
    """Rows and clicks of two stretches are those of both together, also across the inner chunk of a million rows."""
    content = ClicksContent(seed=2, users=100)
    whole, left, right = content.truth(0, 1_100_000), content.truth(0, 700_000), content.truth(700_000, 1_100_000)
    assert np.array_equal(whole.rows_per_user, left.rows_per_user + right.rows_per_user)
    assert np.array_equal(whole.clicks_per_user, left.clicks_per_user + right.clicks_per_user)
    assert np.array_equal(whole.rows_per_ip, left.rows_per_ip + right.rows_per_ip)


def test_the_three_patterns_stand_out() -> None:
    """The fraudsters named are exactly those with many users, many addresses, and a high share of clicks."""
    content = ClicksContent(seed=4)
    truth = content.truth(0, 300_000)
    ips, users = content.ip_pool(), content.user_pool()
    assert sorted(ips[truth.users_per_ip > 10]) == sorted(content.fraudulent_ips())
    assert sorted(users[truth.ips_per_user > 10]) == sorted(content.fraudulent_users())
    often = (truth.rows_per_user > 100) & (truth.clicks_per_user > 0.5 * truth.rows_per_user)
    assert sorted(users[often]) == sorted(content.fraudulent_clickers())
    fraud_rows = truth.rows_per_user[content.users :].sum()
    assert fraud_rows == pytest.approx(0.03 * 300_000, rel=0.05)
    honest_clicks = truth.clicks_per_user[: content.users].sum() / truth.rows_per_user[: content.users].sum()
    assert honest_clicks == pytest.approx(0.05, rel=0.05)


def test_no_fraud_where_none_is_asked_for() -> None:
    """At a share of zero all rows are honest; at a share of one none is."""
    assert ClicksContent(fraud_share=0.0).truth(0, 10_000).rows_per_user[20_000:].sum() == 0
    assert ClicksContent(fraud_share=1.0).truth(0, 10_000).rows_per_user[:20_000].sum() == 0


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (PlainContent, {"keys": 0}, "'keys' = 0 is not allowed: a whole number from 1"),
        (
            PlainContent,
            {"keys": 10**8, "zipf": 1.0},
            "'keys' = 100000000 is not allowed: a whole number from 1 to 10000000",
        ),
        (PlainContent, {"zipf": float("nan")}, "'zipf' = nan is not allowed: a number from 0 to 10"),
        (PlainContent, {"seed": 1.5}, "'seed' = 1.5 is not allowed: a whole number"),
        (ClicksContent, {"users": 1}, "'users' = 1 is not allowed: a whole number from 2"),
        (ClicksContent, {"fraud_share": 1.1}, "'fraud_share' = 1.1 is not allowed: a number from 0 to 1"),
        (ClicksContent, {"fan_out": 0}, "'fan_out' = 0 is not allowed"),
    ],
)
def test_bad_parameters_are_refused(kind: type, values: dict[str, float], message: str) -> None:
    """A refusal names the parameter, its value and what is allowed."""
    with pytest.raises(InvalidSettingError) as refusal:
        kind(**values)
    assert message in str(refusal.value)
