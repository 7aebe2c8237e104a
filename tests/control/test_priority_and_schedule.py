"""Who gives way on a shared engine, and which batch keeps which share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.priority import EngineDemand, engine_shares
from penstock.control.schedule import KeepSchedule
from penstock.errors import InvalidGoalError
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
def test_shares_fit_or_everybody_is_at_the_minimum(found: list[EngineDemand], cores: float) -> None:
    """The work that is left fits onto the engine whenever the minima do, and no minimum is broken."""
    shares = engine_shares(found, cores)
    used = sum(shares[d.name] * d.work + d.overhead for d in found)
    least = sum(d.minimum_accuracy * d.work + d.overhead for d in found)
    assert used <= max(cores, least) + 1e-6
    assert all(shares[d.name] >= d.minimum_accuracy - 1e-9 for d in found)


@given(demands, st.floats(0.1, 20))
def test_a_higher_priority_gives_way_only_after_all_lower_ones(found: list[EngineDemand], cores: float) -> None:
    """Whoever keeps less than all has nobody below it that could still give."""
    shares = engine_shares(found, cores)
    for high in found:
        if shares[high.name] < 1.0 - 1e-9:
            for low in found:
                if low.priority < high.priority and low.work > 0:
                    assert shares[low.name] == pytest.approx(low.minimum_accuracy, abs=1e-6)


@given(demands, st.floats(0.1, 20))
def test_equal_priorities_give_the_same_part(found: list[EngineDemand], cores: float) -> None:
    """Within a priority everybody gives up the same part of what it may give up."""
    shares = engine_shares(found, cores)
    for one in found:
        for other in found:
            if one.priority == other.priority and min(one.minimum_accuracy, other.minimum_accuracy) < 0.99:
                gaps = [(1 - shares[d.name]) / max(1 - d.minimum_accuracy, 1e-12) for d in (one, other)]
                if max(one.minimum_accuracy, other.minimum_accuracy) < 0.99:
                    assert gaps[0] == pytest.approx(gaps[1], abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 200), st.floats(0.001, 1.0)), max_size=30))
def test_a_schedule_survives_its_text_form(entries: list[tuple[int, float]]) -> None:
    """What the tasks read is what was decided, to the last bit."""
    schedule = KeepSchedule()
    for from_batch, fraction in entries:
        schedule = schedule.with_entry(from_batch, fraction)
    assert KeepSchedule.from_text(schedule.to_text()) == schedule


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0.001, 1.0)), max_size=20), st.integers(0, 60))
def test_a_new_entry_changes_no_earlier_batch(entries: list[tuple[int, float]], from_batch: int) -> None:
    """Batches before the entry keep the share that they had."""
    schedule = KeepSchedule()
    for batch_id, fraction in entries:
        schedule = schedule.with_entry(batch_id, fraction)
    changed = schedule.with_entry(from_batch, 0.123)
    assert all(changed.fraction_at(b) == schedule.fraction_at(b) for b in range(from_batch))
    assert changed.fraction_at(from_batch) == 0.123


@pytest.mark.parametrize("fraction", [0.0, -0.5, float("nan"), float("inf")])
def test_a_share_of_nothing_is_refused(fraction: float) -> None:
    """A row kept with probability zero has no weight."""
    with pytest.raises(InvalidGoalError, match="above zero"):
        KeepSchedule().with_entry(3, fraction)
