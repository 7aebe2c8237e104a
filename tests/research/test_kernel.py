"""Events come in the order of time, priority and sequence."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.research.chance import exponential, poisson, uniform
from penstock.research.kernel import new_agenda, schedule, take_next


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=40))
def test_order_is_time_priority_sequence(events: list[tuple[int, int]]) -> None:
    """The heap gives sources back sorted by time, then priority, then the order in which they were scheduled."""
    agenda = new_agenda(np.array([priority for _, priority in events]))
    for source, (time, _) in enumerate(events):
        schedule(agenda, source, float(time))
    taken = [take_next(agenda) for _ in events]
    assert taken == sorted(range(len(events)), key=lambda source: (*events[source], source))
    assert take_next(agenda) == -1


def test_chances_have_their_means() -> None:
    """Uniform, exponential and Poisson numbers have the means they should, and sequences do not touch each other."""
    states = np.array([7, 8], np.uint64)
    assert abs(np.mean([uniform(states, 0) for _ in range(20_000)]) - 0.5) < 0.01
    assert abs(np.mean([exponential(states, 0, 3.0) for _ in range(20_000)]) - 3.0) < 0.1
    assert abs(np.mean([poisson(states, 0, 1.0) for _ in range(20_000)]) - 1.0) < 0.03
    assert states[1] == 8
