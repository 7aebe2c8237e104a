"""Rows made from their offsets: the same offset and seed give the same row, on any machine and after any restart.

A row is drawn by hashing, not by a random generator, because a generator would have to be wound forward to the offset
at which a restarted query goes on. The hash is the finaliser of splitmix64 (Steele, Lea, Flood, "Fast splittable
pseudorandom number generators", 2014) over ``offset * golden ratio + stream``, with one stream per seed and column::

    z = offset * 0x9E3779B97F4A7C15 + stream(seed, column)
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9
    z = (z ^ z >> 27) * 0x94D049BB133111EB
    hash = z ^ z >> 31
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]
    HashArray = NDArray[np.uint64]

_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB
_MASK_64: Final = (1 << 64) - 1
_KEY, _VALUE, _ROLE, _WHO, _CLICK, _UUID_HIGH, _UUID_LOW, _IP = range(1, 9)
_TRUTH_CHUNK_ROWS: Final = 1_000_000
MAX_KEYS: Final = 1 << 53
MAX_ZIPF_KEYS: Final = 10_000_000
MAX_POOL: Final = 1_000_000


def row_hash(offsets: IntArray, seed: int, column: int) -> HashArray:
    """64 mixed bits for each offset; distinct offsets of one seed and column give distinct hashes.

    Examples
    --------
    >>> [hex(h) for h in row_hash(np.array([0, 1]), seed=7, column=1).tolist()]
    ['0xc3c1714b8ae64228', '0x2b00ded9d5a6f2ec']
    """
    z = offsets.astype(np.uint64)
    z *= np.uint64(_GOLDEN)
    z += np.uint64(_finish(_finish(seed & _MASK_64) + column * _GOLDEN))
    z ^= z >> np.uint64(30)
    z *= np.uint64(_MIX_1)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_MIX_2)
    z ^= z >> np.uint64(31)
    return z


def unit_interval(hashes: HashArray) -> NDArray[np.float64]:
    """Numbers from 0 up to but not including 1, of 53 bits each.

    Examples
    --------
    >>> unit_interval(np.array([0, 1 << 63], dtype=np.uint64)).tolist()
    [0.0, 0.5]
    """
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _finish(z: int) -> int:
    """Mix one Python integer the way :func:`row_hash` mixes an array; numpy scalars would warn of overflow."""
    z = (z + _GOLDEN) & _MASK_64
    z = ((z ^ z >> 30) * _MIX_1) & _MASK_64
    z = ((z ^ z >> 27) * _MIX_2) & _MASK_64
    return z ^ z >> 31


def _whole(key: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidSettingError(key, value, f"a whole number from {low} to {high}")


def _number(key: str, value: object, low: float, high: float) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not low <= float(value) <= high:  # type: ignore[arg-type]
        raise InvalidSettingError(key, value, f"a number from {low:g} to {high:g}")


@dataclass(frozen=True, slots=True)
class PlainContent:
    """A key and a value.

    Key k of n is drawn with a share proportional to ``1 / (k + 1) ** zipf``; at ``zipf = 0`` all keys are equally
    frequent. Values are uniform from 0 to 1.

    Examples
    --------
    >>> content = PlainContent(keys=4, zipf=1.0)
    >>> np.bincount(content.keys_of(np.arange(25_000))).tolist()
    [11916, 6059, 4027, 2998]
    """

    seed: int = 0
    keys: int = 1000
    zipf: float = 0.0

    def __post_init__(self) -> None:
        _whole("seed", self.seed, -(2**63), 2**63 - 1)
        _number("zipf", self.zipf, 0, 10)
        # The inverse of a skewed distribution is a table with a cell per key.
        _whole("keys", self.keys, 1, MAX_ZIPF_KEYS if self.zipf else MAX_KEYS)

    def keys_of(self, offsets: IntArray) -> IntArray:
        """Key of each row."""
        hashes = row_hash(offsets, self.seed, _KEY)
        if not self.zipf:
            return (hashes % np.uint64(self.keys)).astype(np.int64)
        places = np.searchsorted(_zipf_cumulative(self.keys, self.zipf), unit_interval(hashes), side="right")
        return places.astype(np.int64, copy=False)

    def values_of(self, offsets: IntArray) -> NDArray[np.float64]:
        """Value of each row."""
        return unit_interval(row_hash(offsets, self.seed, _VALUE))

    def key_counts(self, first: int, end: int) -> IntArray:
        """How many of the rows from ``first`` up to but not including ``end`` have each key."""
        counts = np.zeros(self.keys, dtype=np.int64)
        for offsets in _chunks(first, end):
            counts += np.bincount(self.keys_of(offsets), minlength=self.keys)
        return counts


@lru_cache(maxsize=4)
def _zipf_cumulative(keys: int, zipf: float) -> NDArray[np.float64]:
    """Upper end of each key's part of the unit interval; the last one is 1 exactly, so that no draw falls outside."""
    cumulative = np.cumsum(1.0 / np.arange(1, keys + 1, dtype=np.float64) ** zipf)
    cumulative /= cumulative[-1]
    return cumulative


class ClickColumns(NamedTuple):
    """Rows as places in the pools of IP addresses and users, and whether each is a click."""

    ip: IntArray
    user: IntArray
    is_click: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClicksContent:
    """Displays of and clicks on advertisements, with three kinds of fraud among them.

    The records and the patterns of fraud are those of the click-fraud application of "Supporting elasticity in Flink":
    an IP address with many users (1), a user with many IP addresses (2), a user who clicks nearly every time (3). A
    share ``fraud_share`` of all rows is fraud, a third of it of each pattern. Two honest users share an IP address.

    Parameters
    ----------
    users
        Honest users.
    click_share, fraud_click_share
        Share of clicks among the rows of everybody, and of the users of pattern 3.
    fraud_share
        Share of rows that are fraud.
    fraud_ips, fraud_users, fraud_clickers
        How many fraudsters there are of patterns 1, 2 and 3.
    fan_out
        Users of each fraudulent IP address, and IP addresses of each user of pattern 2.

    Examples
    --------
    >>> content = ClicksContent(seed=1)
    >>> row = content.columns(np.array([42]))
    >>> print(content.ip_pool()[row.ip[0]], content.user_pool()[row.user[0]], row.is_click[0])
    19.218.180.143 6ac90718-9b09-4d4b-a0f0-19eca877dd4c False
    """

    seed: int = 0
    users: int = 20_000
    click_share: float = 0.05
    fraud_share: float = 0.03
    fraud_ips: int = 5
    fraud_users: int = 5
    fraud_clickers: int = 5
    fan_out: int = 400
    fraud_click_share: float = 0.9

    def __post_init__(self) -> None:
        _whole("seed", self.seed, -(2**63), 2**63 - 1)
        _whole("users", self.users, 2, MAX_POOL)
        for name in ("fraud_ips", "fraud_users", "fraud_clickers"):
            _whole(name, getattr(self, name), 1, 1000)
        _whole("fan_out", self.fan_out, 1, 1000)
        for name in ("click_share", "fraud_share", "fraud_click_share"):
            _number(name, getattr(self, name), 0, 1)

    # The pools, in order. Users: honest, those behind the IPs of pattern 1, those of pattern 2, those of pattern 3.
    # IPs: homes of the honest, those of pattern 1, those of the users of pattern 2, homes of the users of pattern 3.

    @property
    def user_count(self) -> int:
        """How many different users there can be."""
        return self._first_clicker + self.fraud_clickers

    @property
    def ip_count(self) -> int:
        """How many different IP addresses there can be."""
        return self._first_clicker_ip + self.fraud_clickers

    @property
    def _first_fraud_user(self) -> int:
        return self.users + self.fraud_ips * self.fan_out

    @property
    def _first_clicker(self) -> int:
        return self._first_fraud_user + self.fraud_users

    @property
    def _first_fraud_ip(self) -> int:
        return (self.users + 1) // 2

    @property
    def _first_hopper_ip(self) -> int:
        return self._first_fraud_ip + self.fraud_ips

    @property
    def _first_clicker_ip(self) -> int:
        return self._first_hopper_ip + self.fraud_users * self.fan_out

    def columns(self, offsets: IntArray) -> ClickColumns:
        """Draw the rows at these offsets."""
        role = unit_interval(row_hash(offsets, self.seed, _ROLE))
        who = row_hash(offsets, self.seed, _WHO)
        user = (who % np.uint64(self.users)).astype(np.int64)
        ip = user >> 1
        fraud = np.flatnonzero(role < self.fraud_share)
        clickers = self._overwrite_with_fraud(fraud, role, who, user, ip)
        chance = unit_interval(row_hash(offsets, self.seed, _CLICK))
        is_click = chance < self.click_share
        is_click[clickers] = chance[clickers] < self.fraud_click_share
        return ClickColumns(ip, user, is_click)

    def _overwrite_with_fraud(
        self, fraud: IntArray, role: NDArray[np.float64], who: HashArray, user: IntArray, ip: IntArray
    ) -> IntArray:
        """Put fraudsters into the rows ``fraud``; gives the rows of pattern 3, whose share of clicks is another."""
        third_of_fraud = self.fraud_share / 3
        first = fraud[role[fraud] < third_of_fraud]
        second = fraud[(role[fraud] >= third_of_fraud) & (role[fraud] < 2 * third_of_fraud)]
        third: IntArray = fraud[role[fraud] >= 2 * third_of_fraud]

        place = _pick(who[first], self.fraud_ips)
        ip[first] = self._first_fraud_ip + place
        user[first] = self.users + place * self.fan_out + _pick(who[first] >> np.uint64(32), self.fan_out)

        place = _pick(who[second], self.fraud_users)
        user[second] = self._first_fraud_user + place
        ip[second] = self._first_hopper_ip + place * self.fan_out + _pick(who[second] >> np.uint64(32), self.fan_out)

        place = _pick(who[third], self.fraud_clickers)
        user[third] = self._first_clicker + place
        ip[third] = self._first_clicker_ip + place
        return third

    def ip_pool(self) -> NDArray[np.str_]:
        """Every IP address that can occur, as dotted quads; all are different."""
        return _ip_pool(self.seed, self.ip_count)

    def user_pool(self) -> NDArray[np.str_]:
        """Every user id that can occur, in the form of a UUID; all are different."""
        return _user_pool(self.seed, self.user_count)

    def fraudulent_ips(self) -> list[str]:
        """IP addresses with many users (pattern 1)."""
        return [str(text) for text in self.ip_pool()[self._first_fraud_ip : self._first_hopper_ip]]

    def fraudulent_users(self) -> list[str]:
        """Users with many IP addresses (pattern 2)."""
        return [str(text) for text in self.user_pool()[self._first_fraud_user : self._first_clicker]]

    def fraudulent_clickers(self) -> list[str]:
        """Users who click nearly every time (pattern 3)."""
        return [str(text) for text in self.user_pool()[self._first_clicker :]]

    def truth(self, first: int, end: int) -> ClickTruth:
        """Count exactly what the rows from ``first`` up to but not including ``end`` hold."""
        ips = np.zeros(self.ip_count, dtype=np.int64)
        users, clicks = np.zeros((2, self.user_count), dtype=np.int64)
        pairs = np.empty(0, dtype=np.int64)
        for offsets in _chunks(first, end):
            rows = self.columns(offsets)
            ips += np.bincount(rows.ip, minlength=self.ip_count)
            users += np.bincount(rows.user, minlength=self.user_count)
            clicks += np.bincount(rows.user[rows.is_click], minlength=self.user_count)
            pairs = np.union1d(pairs, rows.ip * self.user_count + rows.user)
        return ClickTruth(
            rows_per_ip=ips,
            rows_per_user=users,
            clicks_per_user=clicks,
            users_per_ip=np.bincount(pairs // self.user_count, minlength=self.ip_count),
            ips_per_user=np.bincount(pairs % self.user_count, minlength=self.user_count),
        )


@dataclass(frozen=True, slots=True)
class ClickTruth:
    """Exact counts of a stretch of rows, each array in the order of the pool it counts.

    ``users_per_ip`` and ``ips_per_user`` count different users and different addresses.
    """

    rows_per_ip: IntArray
    rows_per_user: IntArray
    clicks_per_user: IntArray
    users_per_ip: IntArray
    ips_per_user: IntArray

    @property
    def displays_per_user(self) -> IntArray:
        """Rows of each user that are not clicks."""
        return self.rows_per_user - self.clicks_per_user

    @property
    def rows(self) -> int:
        """All rows."""
        return int(self.rows_per_user.sum())

    @property
    def clicks(self) -> int:
        """All clicks."""
        return int(self.clicks_per_user.sum())


def content_parameters(kind: type[PlainContent | ClicksContent]) -> dict[str, type[int | float]]:
    """Names and types of what can be set about a content.

    Examples
    --------
    >>> content_parameters(PlainContent)
    {'seed': <class 'int'>, 'keys': <class 'int'>, 'zipf': <class 'float'>}
    """
    return {field.name: float if isinstance(field.default, float) else int for field in fields(kind)}


def _pick(hashes: HashArray, among: int) -> IntArray:
    # The low half only: the caller takes its second choice from the high half.
    return ((hashes & np.uint64(0xFFFFFFFF)) % np.uint64(among)).astype(np.int64)


def _chunks(first: int, end: int) -> Iterator[IntArray]:
    for start in range(first, end, _TRUTH_CHUNK_ROWS):
        yield np.arange(start, min(start + _TRUTH_CHUNK_ROWS, end), dtype=np.int64)


@lru_cache(maxsize=4)
def _ip_pool(seed: int, count: int) -> NDArray[np.str_]:
    """Mix the place into 32 bits by steps that can be undone, so that no two places share an address."""
    x = np.arange(count, dtype=np.uint32)
    x ^= np.uint32(_finish((seed & _MASK_64) + _IP) & 0xFFFFFFFF)
    for factor in (0x7FEB352D, 0x846CA68B):
        x ^= x >> np.uint32(16)
        x *= np.uint32(factor)
        x ^= x >> np.uint32(15)
    octets = x.astype("<u4").view(np.uint8).reshape(-1, 4)
    pool = np.array([f"{a}.{b}.{c}.{d}" for a, b, c, d in octets.tolist()])
    pool.flags.writeable = False
    return pool


@lru_cache(maxsize=4)
def _user_pool(seed: int, count: int) -> NDArray[np.str_]:
    """UUIDs of version 4, variant 1: 122 mixed bits and the six that say so."""
    places = np.arange(count, dtype=np.int64)
    high, low = (row_hash(places, seed, column).tolist() for column in (_UUID_HIGH, _UUID_LOW))
    pool = np.array([_uuid_text(*bits) for bits in zip(high, low, strict=True)])
    pool.flags.writeable = False
    return pool


def _uuid_text(high: int, low: int) -> str:
    a, b = f"{high:016x}", f"{low & 0x3FFF_FFFF_FFFF_FFFF | 1 << 63:016x}"
    return f"{a[:8]}-{a[8:12]}-4{a[13:]}-{b[:4]}-{b[4:]}"
