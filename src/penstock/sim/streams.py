"""The synthetic streams of the load-aware shedding paper, section V-A.

``m`` rows over ``n`` keys whose frequencies follow Zipf's law; ``w_n`` execution times at even distances, each given to
``n / w_n`` keys chosen at random. A stream is one such association of keys and times (the paper has 100) in one order
(50 for each association). Rows arrive at even distances: under-provisioning ``u`` means an input rate of
``capacity / (1 - u)``, so that dropping a share ``u`` of the rows just fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidSettingError
from penstock.estimate.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

ASSOCIATIONS = 100
"""Different associations of keys and execution times; further runs are other orders of these."""


@dataclass(frozen=True, slots=True)
class StreamShape:
    """What the streams of an experiment have in common; ``zipf`` 0 is the uniform distribution."""

    rows: int = 32_768
    keys: int = 4_096
    zipf: float = 1.0
    distinct_costs: int = 64
    smallest_cost_s: float = 0.0001
    largest_cost_s: float = 0.0064
    training_rows: int = 16_384

    def __post_init__(self) -> None:
        if self.rows < 1 or self.training_rows < 0:
            raise InvalidSettingError("rows", self.rows, "at least one row, and no negative number to train on")
        if self.distinct_costs < 1 or self.keys % self.distinct_costs != 0:
            raise InvalidSettingError("distinct costs", self.distinct_costs, f"a divisor of the {self.keys} keys")
        if not 0 < self.smallest_cost_s <= self.largest_cost_s:
            raise InvalidSettingError("largest cost", self.largest_cost_s, f"at least {self.smallest_cost_s} s")


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream, with a stretch of the same kind before it to train on and the numbers that random shedders draw."""

    keys: NDArray[np.uint64]
    costs_s: NDArray[np.float64]
    uniforms: NDArray[np.float64]
    training_keys: NDArray[np.uint64]
    training_costs_s: NDArray[np.float64]
    hash_seed: int

    @property
    def mean_cost_s(self) -> float:
        """Mean execution time of the stream's rows: the inverse of the capacity."""
        return float(self.costs_s.mean())

    def arrivals_s(self, underprovision: float) -> NDArray[np.float64]:
        """Even arrivals at ``capacity / (1 - underprovision)``."""
        return np.arange(self.keys.size, dtype=np.float64) * (self.mean_cost_s * (1.0 - underprovision))


def draw_stream(shape: StreamShape, *, seed: int, run: int) -> Stream:
    """Draw the stream of a run; the same seed and run give the same stream whoever asks.

    Examples
    --------
    >>> stream = draw_stream(StreamShape(rows=1000), seed=1, run=0)
    >>> stream.keys.size, round(1000 * stream.mean_cost_s, 2)
    (1000, 2.85)
    """
    association = run % ASSOCIATIONS
    costs_s = draw_costs_s(shape, np.random.default_rng([seed, association]))
    generator = np.random.default_rng([seed, association, 1 + run // ASSOCIATIONS])
    keys = draw_keys(shape, shape.rows + shape.training_rows, generator)
    values = costs_s[keys]
    return Stream(
        keys=keys[: shape.rows],
        costs_s=values[: shape.rows],
        uniforms=generator.random(shape.rows),
        training_keys=keys[shape.rows :],
        training_costs_s=values[shape.rows :],
        hash_seed=int(generator.integers(2**62)),
    )


def draw_costs_s(shape: StreamShape, generator: np.random.Generator) -> NDArray[np.float64]:
    """Execution time of each key: every one of the distinct times for equally many keys."""
    distinct = np.linspace(shape.smallest_cost_s, shape.largest_cost_s, shape.distinct_costs)
    return generator.permutation(np.repeat(distinct, shape.keys // shape.distinct_costs))


def draw_keys(shape: StreamShape, count: int, generator: np.random.Generator) -> NDArray[np.uint64]:
    """Keys 0, 1, ... drawn with frequencies proportional to ``1 / (key + 1)**zipf``."""
    chances = np.arange(1, shape.keys + 1, dtype=np.float64) ** -shape.zipf
    cumulated = np.cumsum(chances)
    return _look_up(generator.random(count) * cumulated[-1], cumulated)


@compiled
def _look_up(points: NDArray[np.float64], cumulated: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Binary search of many points, started from a table of evenly spaced guesses."""
    buckets = 4 * cumulated.size
    width = cumulated[-1] / buckets
    first = np.searchsorted(cumulated, np.arange(buckets) * width, side="right")
    keys = np.empty(points.size, np.uint64)
    for index in range(points.size):
        key = first[min(int(points[index] / width), buckets - 1)]
        while key > 0 and cumulated[key - 1] > points[index]:
            key -= 1
        while key < cumulated.size - 1 and cumulated[key] <= points[index]:
            key += 1
        keys[index] = key
    return keys
