"""What every registered shedding strategy must do, whatever its law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from penstock.control.shedding import (
    STRATEGIES,
    BaseLine,
    Deadline,
    Economic,
    FullKnowledge,
    LoadAware,
    Rows,
    Semantic,
    Shedder,
    StrawMan,
    Uniform,
)
from penstock.estimate.hashing import draw_hashes
from penstock.estimate.sketch import CostSketch

if TYPE_CHECKING:
    from collections.abc import Callable

HASHES = draw_hashes(np.random.default_rng(21), 4)
TAU_S = 0.004

MAKERS: dict[str, Callable[[float], Shedder]] = {
    "uniform": lambda minimum: Uniform(0.4, minimum_accuracy=minimum),
    "base_line": lambda minimum: BaseLine(0.6, minimum_accuracy=minimum),
    "straw_man": lambda minimum: StrawMan(TAU_S, mean_cost_s=0.005, minimum_accuracy=minimum),
    "full_knowledge": lambda minimum: FullKnowledge(TAU_S, minimum_accuracy=minimum),
    "las": lambda minimum: LoadAware(TAU_S, hashes=HASHES, minimum_accuracy=minimum),
    "economic": lambda minimum: Economic(TAU_S, hashes=HASHES, minimum_accuracy=minimum),
    "semantic": lambda minimum: Semantic(TAU_S, hashes=HASHES, minimum_accuracy=minimum),
    "deadline": lambda minimum: Deadline(5 * TAU_S, hashes=HASHES, minimum_accuracy=minimum),
}

every_strategy = pytest.mark.parametrize("name", sorted(STRATEGIES))


def _rows(count: int = 3000, *, seed: int = 0, begin_s: float = 0.0) -> Rows:
    """Rows of 1 to 9 ms, one every 2 ms: about 60 % too many."""
    generator = np.random.default_rng(seed)
    keys = generator.integers(0, 30, count).astype(np.uint64)
    return Rows(
        keys=keys,
        arrival_s=begin_s + 0.002 * np.arange(count),
        uniforms=generator.random(count),
        costs_s=0.001 * (1.0 + keys % 9),
        utility=1.0 + keys % np.uint64(3),
        age_s=0.01 * generator.random(count),
    )


def _shedder(name: str, minimum_accuracy: float = 0.0) -> Shedder:
    shedder = MAKERS[name](minimum_accuracy)
    rows = _rows(seed=99)
    sketch = CostSketch(HASHES, 55)
    assert rows.costs_s is not None
    sketch.update(rows.keys, rows.costs_s)
    shedder.learn(sketch.cells)
    return shedder


def test_every_registered_strategy_is_under_contract() -> None:
    """A strategy added to the registry without a maker here would not be checked."""
    assert set(MAKERS) == set(STRATEGIES)


@every_strategy
def test_names_agree_with_the_registry(name: str) -> None:
    """A shedder says the name that users write."""
    assert _shedder(name).name == name


@every_strategy
def test_sheds_under_overload(name: str) -> None:
    """The rows of this contract need shedding, so that what follows is not true for want of drops."""
    keep = _shedder(name).decide(_rows()).keep
    assert 0.1 < keep.mean() < 0.9


@every_strategy
def test_same_input_same_decision(name: str) -> None:
    """No hidden clock, no hidden random number."""
    first, second = _shedder(name).decide(_rows()), _shedder(name).decide(_rows())
    np.testing.assert_array_equal(first.keep, second.keep)
    np.testing.assert_array_equal(first.probability, second.probability)


@every_strategy
def test_rows_are_left_as_they_were(name: str) -> None:
    """Deciding changes none of the arrays that came in."""
    rows, untouched = _rows(), _rows()
    _shedder(name).decide(rows)
    for column in ("keys", "arrival_s", "uniforms", "costs_s", "utility", "age_s"):
        np.testing.assert_array_equal(getattr(rows, column), getattr(untouched, column))


@every_strategy
def test_learning_does_not_keep_the_callers_array(name: str) -> None:
    """The operator may go on counting in the array that it sent."""
    cells = np.ones((4, 55, 2))
    shedder, other = MAKERS[name](0.0), MAKERS[name](0.0)
    shedder.learn(cells)
    other.learn(cells.copy())
    cells *= 1000.0
    np.testing.assert_array_equal(shedder.decide(_rows()).keep, other.decide(_rows()).keep)


@every_strategy
def test_restored_strategy_decides_alike(name: str) -> None:
    """A snapshot carries all there is: a new shedder goes on exactly where the old one stood."""
    shedder = _shedder(name)
    shedder.decide(_rows(1000))
    snapshot = shedder.snapshot()
    rest = _rows(1000, seed=1, begin_s=2.0)
    expected = shedder.decide(rest)
    other = MAKERS[name](0.0)
    other.restore(snapshot)
    actual = other.decide(rest)
    np.testing.assert_array_equal(actual.keep, expected.keep)
    np.testing.assert_array_equal(actual.probability, expected.probability)
    assert actual.sync == expected.sync


@every_strategy
def test_snapshot_is_a_copy(name: str) -> None:
    """Deciding on after a snapshot does not change it."""
    shedder = _shedder(name)
    shedder.decide(_rows(500))
    snapshot = shedder.snapshot()
    before = {part: values.copy() for part, values in snapshot.items()}
    shedder.decide(_rows(500, seed=3, begin_s=1.0))
    for part, values in before.items():
        np.testing.assert_array_equal(snapshot[part], values)


@every_strategy
def test_probabilities_and_weights(name: str) -> None:
    """Probabilities lie above 0 and up to 1; each kept row weighs one over its own."""
    decision = _shedder(name).decide(_rows())
    assert decision.probability.min() > 0
    assert decision.probability.max() <= 1
    np.testing.assert_allclose(decision.weights * decision.probability[decision.keep], 1.0)
    assert decision.weights.size == decision.keep.sum()


@every_strategy
def test_rows_by_lot_are_those_below_their_probability(name: str) -> None:
    """Where rows are drawn, the draw is the number that came in; where not, the kept share is the probability."""
    rows = _rows()
    decision = _shedder(name).decide(rows)
    if decision.drawn:
        np.testing.assert_array_equal(decision.keep, rows.uniforms < decision.probability)
    else:
        assert decision.probability.mean() == pytest.approx(decision.keep.mean())


@every_strategy
@pytest.mark.parametrize("minimum_accuracy", [0.7, 0.95, 1.0])
def test_minimum_accuracy_holds_at_every_row(name: str, minimum_accuracy: float) -> None:
    """At no point has a larger share gone than the user allows, over batches too; without it more would have gone."""
    shedder = _shedder(name, minimum_accuracy)
    parts = [shedder.decide(_rows(700, seed=part, begin_s=1.4 * part)).keep for part in range(4)]
    kept = np.cumsum(np.concatenate(parts))
    assert np.all(kept >= minimum_accuracy * np.arange(1, kept.size + 1) - 1e-9)
    assert shedder.rows_kept == kept[-1]
    assert shedder.rows_offered == kept.size


@every_strategy
def test_no_rows_no_trouble(name: str) -> None:
    """An empty batch, as idle partitions have, is decided on without a warning."""
    decision = _shedder(name).decide(_rows(0))
    assert decision.keep.size == 0
    assert decision.weights.size == 0


@every_strategy
def test_foreign_snapshot_is_refused(name: str) -> None:
    """State of another strategy is told apart by its size instead of being misread."""
    with pytest.raises(ValueError, match="another strategy"):
        _shedder(name).restore({"state": np.zeros(77)})
