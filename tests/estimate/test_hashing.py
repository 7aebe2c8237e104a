"""The hash family: 2-universal over the draw, the same everywhere, all 64 bits of a key count."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.estimate.hashing import columns_of, draw_hashes

KEYS = np.array([0, 1, 2, 3, 2**31, 2**32 - 1, 2**32, 2**33 + 5, 2**63, 2**64 - 1], dtype=np.uint64)


@pytest.mark.parametrize("columns", [1, 2, 55, 272, 16_384])
def test_columns_stay_in_range(columns: int) -> None:
    """Every key falls into a column that exists."""
    chosen = columns_of(KEYS, draw_hashes(np.random.default_rng(0), 1), 0, columns)
    assert chosen.min() >= 0
    assert chosen.max() < columns


@pytest.mark.parametrize(("first", "second"), [(0, 1), (7, 4096), (5, 2**32 + 5), (2**63, 2**64 - 1)])
def test_two_keys_meet_no_more_often_than_chance(first: int, second: int) -> None:
    """Over 20,000 draws of the hash function a pair collides in 1 of 55 cases, within four standard errors."""
    draws, columns = 20_000, 55
    hashes = draw_hashes(np.random.default_rng(42), draws)
    pair = np.array([first, second], dtype=np.uint64)
    met = 0
    for draw in range(draws):
        left, right = columns_of(pair, hashes, draw, columns)
        met += left == right
    chance = 1 / columns
    assert met / draws <= chance + 4 * np.sqrt(chance * (1 - chance) / draws)


def test_columns_match_big_integer_arithmetic() -> None:
    """The compiled 64-bit arithmetic wraps exactly as the formula says, not as floating point would."""
    hashes = draw_hashes(np.random.default_rng(3), 2)
    chosen = columns_of(KEYS, hashes, 1, 55)
    a, b, d = (int(value) for value in hashes[1])
    for key, column in zip(KEYS.tolist(), chosen.tolist(), strict=True):
        product = ((a + (key >> 32)) % 2**64 * ((b + (key & 0xFFFFFFFF)) % 2**64) + d) % 2**64
        assert column == ((product >> 32) * 55) >> 32


def test_columns_are_filled_evenly() -> None:
    """Consecutive keys, as ids come, spread over the columns without a crowded one."""
    keys = np.arange(55_000, dtype=np.uint64)
    chosen = columns_of(keys, draw_hashes(np.random.default_rng(9), 1), 0, 55)
    counts = np.bincount(chosen, minlength=55)
    assert counts.min() > 500
    assert counts.max() < 2000
