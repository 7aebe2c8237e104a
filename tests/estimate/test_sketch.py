"""The cost sketch: counts, estimates, merging, the snapshot test, and what the paper proves of it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidSettingError
from penstock.estimate.hashing import draw_hashes
from penstock.estimate.sketch import (
    COST,
    ROWS,
    CostSketch,
    add_row_fading,
    cost_of,
    relative_change,
    sketch_shape,
    write_ratios,
)
from penstock.estimate.sketch_theory import expected_estimates, tail_bound


def _sketch(seed: int = 1, rows: int = 4, columns: int = 55) -> CostSketch:
    return CostSketch(draw_hashes(np.random.default_rng(seed), rows), columns)


def _rows(count: int, seed: int = 0, keys: int = 40) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, keys, count).astype(np.uint64)
    return chosen, 0.001 * (1.0 + chosen.astype(np.float64))


def test_every_row_of_cells_counts_every_row() -> None:
    """Each hash function's cells add up to all rows and all execution time."""
    sketch = _sketch()
    keys, costs = _rows(500)
    sketch.update(keys, costs)
    np.testing.assert_allclose(sketch.cells[:, :, ROWS].sum(axis=1), 500)
    np.testing.assert_allclose(sketch.cells[:, :, COST].sum(axis=1), costs.sum())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.floats(1e-6, 10.0)), min_size=1, max_size=60))
def test_frequency_is_never_underestimated(rows: list[tuple[int, float]]) -> None:
    """The smallest cell of a key holds at least the rows of that key, and W / F lies between the extreme costs."""
    keys = np.array([key for key, _ in rows], dtype=np.uint64)
    costs = np.array([cost for _, cost in rows])
    sketch = _sketch(columns=7)
    sketch.update(keys, costs)
    estimates = sketch.costs_s(keys)
    assert estimates.min() >= costs.min() * (1 - 1e-12)
    assert estimates.max() <= costs.max() * (1 + 1e-12)


def test_estimate_is_exact_without_collisions() -> None:
    """With far more columns than keys the estimate is the mean execution time of the key itself."""
    sketch = _sketch(columns=16_384)
    keys, costs = _rows(400)
    sketch.update(keys, costs)
    np.testing.assert_allclose(sketch.costs_s(keys), costs)


def test_merging_partitions_equals_counting_together() -> None:
    """Two partitions' sketches added up are the sketch of all rows."""
    keys, costs = _rows(300)
    together, left, right = _sketch(), _sketch(), _sketch()
    together.update(keys, costs)
    left.update(keys[:100], costs[:100])
    right.update(keys[100:], costs[100:])
    left.merge(right.cells)
    np.testing.assert_allclose(left.cells, together.cells)


def test_merging_another_size_is_an_error() -> None:
    """Cells of another shape would be added to the wrong keys, or silently repeated."""
    with pytest.raises(ValueError, match=r"\(4, 1, 2\).*\(4, 55, 2\)"):
        _sketch().merge(np.zeros((4, 1, 2)))


def test_unseen_cell_costs_the_mean() -> None:
    """A key whose least crowded cell is empty is taken for an average row, not for a free one."""
    sketch = _sketch(columns=16_384)
    sketch.update(np.array([1, 2], np.uint64), np.array([0.002, 0.004]))
    assert sketch.costs_s(np.array([99], np.uint64))[0] == pytest.approx(0.003)


def test_empty_sketch_knows_no_cost() -> None:
    """Before the first row the mean is not a number rather than zero, which would let everything pass."""
    assert math.isnan(_sketch().mean_cost_s)


def test_few_rows_are_drawn_to_the_mean() -> None:
    """One row of 10 ms beside 99 of 1 ms counts for little against four prior rows, for much against none."""
    sketch = _sketch(columns=16_384)
    sketch.update(np.array([1] * 99 + [2], np.uint64), np.array([0.001] * 99 + [0.010]))
    mean = sketch.mean_cost_s
    key = np.array([2], np.uint64)
    assert sketch.costs_s(key)[0] == pytest.approx(0.010)
    assert sketch.costs_s(key, prior_rows=4.0)[0] == pytest.approx((0.010 + 4 * mean) / 5)


def test_fading_cells_follow_a_change() -> None:
    """A cell that remembers 8 rows has learned a tripled cost after 40 more rows; one that never forgets has not."""
    fading, constant = _sketch(), _sketch()
    key = np.uint64(5)
    for cost in [0.001] * 200 + [0.003] * 40:
        add_row_fading(fading.cells, fading.hashes, key, cost, 8.0)
        constant.update(np.array([key]), np.array([cost]))
    assert cost_of(fading.cells, fading.hashes, key, 0.0, 0.0) == pytest.approx(0.003, rel=0.01)
    assert cost_of(constant.cells, constant.hashes, key, 0.0, 0.0) < 0.0015
    assert fading.cells[0, :, ROWS].sum() == pytest.approx(8.0)


def test_snapshot_test_by_hand() -> None:
    """Eq. 1 on two cells: ratios of 2 and 4 that move to 3 and 4 have changed by one sixth."""
    cells = np.zeros((1, 2, 2))
    cells[0, :, ROWS], cells[0, :, COST] = [1.0, 2.0], [2.0, 8.0]
    ratios = np.zeros((1, 2))
    write_ratios(cells, ratios)
    assert relative_change(cells, ratios) == 0.0
    cells[0, 0] = [2.0, 6.0]
    assert relative_change(cells, ratios) == pytest.approx(1 / 6)


def test_sketch_that_was_empty_at_its_snapshot_is_not_stable() -> None:
    """A snapshot without rows cannot be agreed with."""
    assert relative_change(np.zeros((1, 2, 2)), np.zeros((1, 2))) == math.inf


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (-1.0, 0.1), (0.05, 0.0), (0.05, 1.0), (math.nan, 0.1)])
def test_impossible_accuracy_is_an_error(epsilon: float, delta: float) -> None:
    """Error bounds that no sketch can have are told apart by name."""
    with pytest.raises(InvalidSettingError, match=r"epsilon|delta"):
        sketch_shape(epsilon=epsilon, delta=delta)


@pytest.mark.parametrize("columns", [2, 3])
def test_theorem_4_2_by_enumeration(columns: int) -> None:
    """The printed mean equals the mean over all k**n hash functions of six keys, to rounding."""
    costs = np.array([1.0, 2.0, 4.0, 7.0, 7.5, 11.0])
    totals = np.zeros(costs.size)
    functions = list(itertools.product(range(columns), repeat=costs.size))
    for function in functions:
        placed = np.array(function)
        for key in range(costs.size):
            totals[key] += costs[placed == placed[key]].mean()
    np.testing.assert_allclose(totals / len(functions), expected_estimates(costs, columns), rtol=1e-12)


def test_theorem_4_2_holds_for_this_hash_family() -> None:
    """One row of the real sketch, over 2,000 draws of its hash function, has the mean that the theorem gives."""
    costs = np.repeat(np.arange(1.0, 9.0), 8)
    # The theorem takes hash values of all keys as independent; the family promises pairs. Keys that are themselves
    # hashes, as live ones are, make up for the difference; consecutive integers would not.
    keys = np.random.default_rng(17).integers(0, 2**64, costs.size, dtype=np.uint64)
    estimates = np.array([_estimates_of_one_row(seed, keys, costs) for seed in range(2000)])
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert np.all(np.abs(estimates.mean(axis=0) - expected_estimates(costs, 16)) < 4.5 * error)


def _estimates_of_one_row(seed: int, keys: np.ndarray, costs: np.ndarray) -> np.ndarray:
    sketch = _sketch(seed=seed, rows=1, columns=16)
    sketch.update(keys, costs)
    return sketch.costs_s(keys)


def test_numerical_example_of_section_4() -> None:
    """4,096 keys of 64 costs on 55 columns: means of 32.08 to 32.92, and at most 0.024 for ten rows to reach 48."""
    estimates = expected_estimates(np.repeat(np.arange(1.0, 65.0), 64), 55)
    assert round(float(estimates.min()), 2) == 32.08
    assert round(float(estimates.max()), 2) == 32.92
    assert tail_bound(33.0, 64 * 3 / 4, 10) == pytest.approx((11 / 16) ** 10)
    assert tail_bound(33.0, 64 * 3 / 4, 10) <= 0.024
