"""The cost of a row, learned by key in two count-min sketches that share their hash functions.

``F[i, h_i(t)]`` counts the rows of key ``t`` and ``W[i, h_i(t)]`` adds up their execution times; the estimate is
``W / F`` of the cell with the smallest ``F``, the one least mixed with other keys. Both have ``ceil(log2(1 / delta))``
rows and ``ceil(e / epsilon)`` columns ("Load-aware shedding in stream processing systems", section III). The paper
prints 54 columns for an epsilon of 0.05; its formula, and the example in its section IV, give 55.

Beyond the paper: a cell that was never seen has no cost, so the mean of all rows stands in for it; and a cell with few
rows can be drawn towards that mean, ``(W + k * mean) / (F + k)``, as if ``k`` average rows had been seen before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidSettingError
from penstock.estimate.compiled import compiled
from penstock.estimate.hashing import column_of, draw_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS, COST = 0, 1
"""Places in the last axis of a sketch's cells: F and W side by side, so that an update touches one cache line."""


@compiled
def add_row(cells: NDArray[np.float64], hashes: NDArray[np.uint64], key: np.uint64, cost: float) -> None:
    """Count one row of a key and its execution time."""
    columns = np.uint64(cells.shape[1])
    for row in range(cells.shape[0]):
        column = column_of(key, hashes, row, columns)
        cells[row, column, ROWS] += 1.0
        cells[row, column, COST] += cost


@compiled
def add_row_fading(
    cells: NDArray[np.float64], hashes: NDArray[np.uint64], key: np.uint64, cost: float, memory_rows: float
) -> None:
    """Count one row in cells that remember ``memory_rows`` rows: beyond that the older ones fade as new ones come."""
    columns = np.uint64(cells.shape[1])
    for row in range(cells.shape[0]):
        column = column_of(key, hashes, row, columns)
        count = cells[row, column, ROWS] + 1.0
        fade = min(1.0, memory_rows / count)
        cells[row, column, ROWS] = count * fade
        cells[row, column, COST] = (cells[row, column, COST] + cost) * fade


@compiled
def add_rows(
    cells: NDArray[np.float64], hashes: NDArray[np.uint64], keys: NDArray[np.uint64], costs: NDArray[np.float64]
) -> None:
    """Count many rows."""
    for index in range(keys.size):
        add_row(cells, hashes, keys[index], costs[index])


@compiled
def mean_cost(cells: NDArray[np.float64]) -> float:
    """Mean execution time of all rows that the sketch has seen; not a number before the first."""
    count = 0.0
    total = 0.0
    for column in range(cells.shape[1]):
        count += cells[0, column, ROWS]
        total += cells[0, column, COST]
    return total / count if count > 0.0 else math.nan


@compiled
def cost_of(
    cells: NDArray[np.float64], hashes: NDArray[np.uint64], key: np.uint64, mean: float, prior_rows: float
) -> float:
    """Estimated execution time of a key: its least crowded cell, drawn to ``mean`` as by ``prior_rows`` rows."""
    columns = np.uint64(cells.shape[1])
    count = math.inf
    total = 0.0
    for row in range(cells.shape[0]):
        column = column_of(key, hashes, row, columns)
        # Both are read whether needed or not: which row is the least crowded cannot be foreseen, and a branch that
        # is guessed wrong takes longer than the read.
        rows, cost = cells[row, column, ROWS], cells[row, column, COST]
        fewer = rows < count
        count = rows if fewer else count
        total = cost if fewer else total
    if count <= 0.0:
        return mean
    return (total + prior_rows * mean) / (count + prior_rows) if prior_rows > 0.0 else total / count


@compiled
def costs_of(
    cells: NDArray[np.float64], hashes: NDArray[np.uint64], keys: NDArray[np.uint64], mean: float, prior_rows: float
) -> NDArray[np.float64]:
    """Estimated execution times of many keys."""
    result = np.empty(keys.size)
    for index in range(keys.size):
        result[index] = cost_of(cells, hashes, keys[index], mean, prior_rows)
    return result


@compiled
def write_ratios(cells: NDArray[np.float64], ratios: NDArray[np.float64]) -> None:
    """Take the snapshot ``S = W / F``; a cell without rows counts as zero."""
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            count = cells[row, column, ROWS]
            ratios[row, column] = cells[row, column, COST] / count if count > 0.0 else 0.0


@compiled
def relative_change(cells: NDArray[np.float64], ratios: NDArray[np.float64]) -> float:
    """Eq. 1 of the paper: how far ``W / F`` has moved from a snapshot, as a share of the snapshot's sum."""
    moved = 0.0
    total = 0.0
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            count = cells[row, column, ROWS]
            ratio = cells[row, column, COST] / count if count > 0.0 else 0.0
            moved += abs(ratios[row, column] - ratio)
            total += ratios[row, column]
    return moved / total if total > 0.0 else math.inf


class CostSketch:
    """Execution time per key, in memory that does not grow with the number of keys.

    Parameters
    ----------
    hashes
        Coefficients of the hash functions, one row each (:func:`penstock.estimate.hashing.draw_hashes`).
    columns
        Cells per hash function.

    Examples
    --------
    >>> sketch = CostSketch.for_accuracy(epsilon=0.05, delta=0.1, generator=np.random.default_rng(1))
    >>> sketch.cells.shape
    (4, 55, 2)
    >>> keys = np.array([7, 7, 9], dtype=np.uint64)
    >>> sketch.update(keys, np.array([0.002, 0.004, 0.0005]))
    >>> sketch.costs_s(keys).round(6).tolist()
    [0.003, 0.003, 0.0005]
    >>> sketch.costs_s(keys, prior_rows=2.0).round(6).tolist()
    [0.002583, 0.002583, 0.001611]
    """

    def __init__(self, hashes: NDArray[np.uint64], columns: int) -> None:
        if columns < 1:
            raise InvalidSettingError("sketch columns", columns, "at least one column")
        self.hashes = hashes
        self.cells = np.zeros((hashes.shape[0], columns, 2))

    @classmethod
    def for_accuracy(cls, *, epsilon: float, delta: float, generator: np.random.Generator) -> CostSketch:
        """Give an empty sketch of the size that the error bounds ask for."""
        rows, columns = sketch_shape(epsilon=epsilon, delta=delta)
        return cls(draw_hashes(generator, rows), columns)

    def update(self, keys: NDArray[np.uint64], costs_s: NDArray[np.float64]) -> None:
        """Count rows and their execution times."""
        if keys.shape != costs_s.shape:
            raise ValueError(f"{keys.size} keys but {costs_s.size} execution times: give one time for each key")
        add_rows(self.cells, self.hashes, keys, costs_s)

    def merge(self, cells: NDArray[np.float64]) -> None:
        """Add what another sketch with the same hash functions has counted, such as another partition's."""
        if cells.shape != self.cells.shape:
            raise ValueError(f"cannot add a sketch of shape {cells.shape} to one of shape {self.cells.shape}")
        self.cells += cells

    @property
    def mean_cost_s(self) -> float:
        """Mean execution time of all rows counted; not a number before the first."""
        return float(mean_cost(self.cells))

    def costs_s(self, keys: NDArray[np.uint64], *, prior_rows: float = 0.0) -> NDArray[np.float64]:
        """Estimated execution time of each key."""
        return costs_of(self.cells, self.hashes, keys, self.mean_cost_s, prior_rows)


def sketch_shape(*, epsilon: float, delta: float) -> tuple[int, int]:
    """Rows and columns of a count-min sketch for an error share ``epsilon`` with chance ``delta``.

    Examples
    --------
    >>> sketch_shape(epsilon=0.05, delta=0.1)
    (4, 55)
    >>> sketch_shape(epsilon=0.70, delta=0.25)
    (2, 4)
    """
    if not 0 < epsilon <= math.e:
        raise InvalidSettingError("epsilon", epsilon, "a share above 0 and up to e")
    if not 0 < delta < 1:
        raise InvalidSettingError("delta", delta, "a probability between 0 and 1, both excluded")
    return math.ceil(math.log2(1.0 / delta)), math.ceil(math.e / epsilon)
