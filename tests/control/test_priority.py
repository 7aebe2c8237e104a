"""Who gives way on a shared engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.priority import EngineDemand, engine_keep_ratios
from penstock.model import QueryName

demands = st.lists(
    st.builds(
        EngineDemand,
        name=st.uuids().map(lambda value: QueryName(str(value))),
        priority=st.integers(1, 5),
        work=st.floats(0, 10, allow_subnormal=False),
        overhead=st.floats(0, 0.5),
        minimum_accuracy=st.floats(0, 1),
    ),
    max_size=6,
)


@given(demands, st.floats(0.1, 20))
def test_ratios_fit_or_everybody_is_at_the_minimum(found: list[EngineDemand], cores: float) -> None:
    """The work that is left fits onto the engine whenever the minima do, and no minimum is broken."""
    ratios = engine_keep_ratios(found, cores)
    used = sum(ratios[d.name] * d.work + d.overhead for d in found)
    least = sum(d.minimum_accuracy * d.work + d.overhead for d in found)
    assert used <= max(cores, least) + 1e-6
    assert all(ratios[d.name] >= d.minimum_accuracy - 1e-9 for d in found)


@given(demands, st.floats(0.1, 20))
def test_a_higher_priority_gives_way_only_after_all_lower_ones(found: list[EngineDemand], cores: float) -> None:
    """Whoever keeps less than all has nobody below it that could still give."""
    ratios = engine_keep_ratios(found, cores)
    for high in found:
        if ratios[high.name] < 1.0 - 1e-9:
            for low in found:
                if low.priority < high.priority and low.work > 0:
                    assert ratios[low.name] == pytest.approx(low.minimum_accuracy, abs=1e-6)


@given(demands, st.floats(0.1, 20))
def test_equal_priorities_give_the_same_part(found: list[EngineDemand], cores: float) -> None:
    """Within a priority everybody gives up the same part of what it may give up."""
    ratios = engine_keep_ratios(found, cores)
    for one in found:
        for other in found:
            if one.priority == other.priority and min(one.minimum_accuracy, other.minimum_accuracy) < 0.99:
                gaps = [(1 - ratios[d.name]) / max(1 - d.minimum_accuracy, 1e-12) for d in (one, other)]
                if max(one.minimum_accuracy, other.minimum_accuracy) < 0.99:
                    assert gaps[0] == pytest.approx(gaps[1], abs=1e-6)
