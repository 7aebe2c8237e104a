"""What guards hold whatever a scaler wishes and whatever is seen."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.scaling import Guarded, GuardSettings
from penstock.control.scaling.base import StatelessScaler
from penstock.control.scaling.partitions import idle_share, shuffle_partitions
from penstock.errors import InvalidSettingError
from penstock.model.executors import ExecutorBounds
from penstock.model.scaling import ScaleDecision, ScalingSignal
from penstock.research.hysteresis import Gains


class Whims(StatelessScaler):
    """Wishes whatever it is told to, one after the other."""

    name: ClassVar[str] = "whims"

    def __init__(self, wishes: list[int]) -> None:
        self._wishes = list(wishes)

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """The next wish, whatever is seen."""
        return ScaleDecision(self._wishes.pop(0), f"a whim at {signal.time_s}")


known = st.floats(0.0, 5_000.0)
shares = st.floats(0.0, 3.0)
steps = st.tuples(st.integers(-5, 60), known, shares, st.booleans())


def _run(
    walk: list[tuple[int, float, float, bool]], limits: GuardSettings
) -> list[tuple[ScalingSignal, ScaleDecision]]:
    """Every wish is carried out at once, as far as the guards let it."""
    scaler, size, seen = Guarded(Whims([wish for wish, *_ in walk]), limits), limits.bounds.min_executors, []
    for number, (_, rate, share, is_known) in enumerate(walk):
        signal = ScalingSignal(
            30.0 * number, size, size, *((rate, rate, 0.5, 30 * rate * share, share) if is_known else (None,) * 5)
        )
        decision = scaler.decide(signal)
        seen.append((signal, decision))
        size = decision.executors
    return seen


@given(st.lists(steps, min_size=1, max_size=60), st.integers(1, 4), st.integers(4, 30))
@settings(max_examples=80, deadline=None)
def test_bounds_hold(walk: list[tuple[int, float, float, bool]], least: int, most: int) -> None:
    """No decision is outside the bounds, and one that was cut says so."""
    for _, decision in _run(walk, GuardSettings(ExecutorBounds(least, most))):
        assert least <= decision.executors <= most
        if decision.wanted is not None:
            assert ";" in decision.reason


@given(st.lists(steps, min_size=1, max_size=60))
@settings(max_examples=80, deadline=None)
def test_nothing_is_removed_with_a_backlog_or_without_signals(walk: list[tuple[int, float, float, bool]]) -> None:
    """A step down is taken only when the queue is known and short."""
    for signal, decision in _run(walk, GuardSettings(ExecutorBounds(1, 40), backlog_ratio=0.5)):
        if decision.executors < signal.requested:
            assert signal.backlog_ratio is not None
            assert signal.backlog_ratio < 0.5
        if signal.backlog_ratio is None:
            assert decision.executors == signal.requested


@given(st.lists(steps, min_size=1, max_size=60), st.floats(0.0, 200.0), st.floats(0.0, 200.0))
@settings(max_examples=80, deadline=None)
def test_no_flapping_within_the_cooldown(
    walk: list[tuple[int, float, float, bool]], up_s: float, down_s: float
) -> None:
    """Between two changes lies the cooldown of the second one's direction."""
    limits = GuardSettings(ExecutorBounds(1, 40), cooldown_up_s=up_s, cooldown_down_s=down_s)
    changes = [(signal, decision) for signal, decision in _run(walk, limits) if decision.executors != signal.requested]
    for (before, _), (signal, decision) in pairwise(changes):
        wait_s = up_s if decision.executors > signal.requested else down_s
        assert signal.time_s - before.time_s >= wait_s


@given(st.lists(steps, min_size=1, max_size=60), st.floats(48.0, 400.0))
@settings(max_examples=60, deadline=None)
def test_the_budget_of_a_day_is_kept(walk: list[tuple[int, float, float, bool]], budget: float) -> None:
    """Executor-hours of a day stay within the budget, whatever is wished for."""
    limits = GuardSettings(ExecutorBounds(2, 40), budget_executor_hours=budget, cooldown_down_s=0.0, backlog_ratio=10.0)
    scaler, size, spent_h = Guarded(Whims([wish for wish, *_ in walk] * 30), limits), 2, 0.0
    # Decisions a quarter of an hour apart, so that a walk covers a good part of a day.
    for number in range(min(len(walk), 96)):
        decision = scaler.decide(ScalingSignal(900.0 * number, size, size, 1.0, 1.0, 0.5, 0.0, 0.0))
        size = decision.executors
        spent_h += size * 0.25
    assert spent_h <= budget + 1e-6


@given(st.integers(1, 200), st.integers(1, 200), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_hysteresis_arrives(current: int, target: int, up: float, down: float) -> None:
    """Whatever the gains, the size comes to the target, never past it, and never stalls one short."""
    gains = Gains(up, down)
    for _ in range(1_000):
        if current == target:
            break
        following = gains.step(current, target)
        assert following != current
        assert min(current, target) <= following <= max(current, target)
        current = following
    assert current == target


@given(st.dictionaries(st.integers(1, 12), st.floats(0.1, 1.0), min_size=1, max_size=5), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_partitions_feed_every_slot(sizes: dict[int, float], cores: int) -> None:
    """Every slot of the largest size has a partition, and a single size divides evenly."""
    partitions = shuffle_partitions(sizes, cores=cores)
    assert partitions >= max(sizes) * cores
    if len(sizes) == 1:
        assert idle_share(partitions, max(sizes) * cores) == 0.0


def test_a_budget_below_the_minimum_is_refused() -> None:
    """Bounds that nothing can keep are an error that says what would do."""
    with pytest.raises(InvalidSettingError, match="at least 48, which 2 executors take in a day"):
        GuardSettings(ExecutorBounds(2, 20), budget_executor_hours=40.0)
