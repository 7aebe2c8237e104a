"""The time of a batch as a line: what alike samples do not tell is not believed."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.estimate.performance_line import PerformanceLine, lowest_within


def _line(rows: np.ndarray, seed: int, *, scatter: float = 0.03) -> PerformanceLine:
    noise = np.random.default_rng(seed).normal(1.0, scatter, rows.size)
    line = PerformanceLine()
    for step, (count, factor) in enumerate(zip(rows, noise, strict=True)):
        line.add(15.0 * step, float(count), float((0.5 + 0.001 * count) * factor))
    return line


@pytest.mark.parametrize("count", [3, 10, 12, 40])
def test_batches_that_are_alike_do_not_become_overhead(count: int) -> None:
    """Rows that differ by four in a thousand tell nothing of overhead: of 200 starts, none takes a third for it."""
    worst = 0.0
    for seed in range(200):
        rows = np.random.default_rng(1_000 + seed).normal(4_180.0, 17.0, count)
        found = _line(rows, seed).fit()
        assert found is not None
        worst = max(worst, found.overhead_s / found.batch_s(4_180.0))
    assert worst < 1.0 / 3.0


def test_overhead_is_found_where_sizes_differ() -> None:
    """Batches of very different sizes show their half second, less what their scatter leaves open."""
    found = _line(np.linspace(200.0, 4_000.0, 200), 1).fit()
    assert found is not None
    assert 0.4 < found.overhead_s <= 0.55


def test_the_lowest_stays_within_its_range() -> None:
    """Far below nothing it is nothing, far beyond the bound it is the bound, and it rises with the guess."""
    found = [lowest_within(guess, 0.1, most=5.0, deviations=1.64) for guess in (-3.0, -0.2, 0.5, 2.0, 4.9, 7.0)]
    assert found == sorted(found)
    assert found[0] == 0.0
    assert found[-1] == 5.0
    assert lowest_within(2.0, 0.0, most=5.0, deviations=1.64) == 2.0
