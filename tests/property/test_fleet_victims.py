"""Who leaves an engine that is short of CPU, and why Algorithm 2 cannot be as it is printed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from penstock.control.fleet.victims import choose_victims

ROUNDING = 1e-6
tasks = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 60).map(lambda each: each / 50)), min_size=1, max_size=8)
needs = st.integers(1, 200).map(lambda each: each / 50)


def printed_algorithm_2(priority: np.ndarray, cores: np.ndarray, needed: float) -> np.ndarray:
    """Algorithm 2 line by line as it is printed, ``priorities(tm)`` in descending order as it is defined."""
    rel, candidates = 0.0, []
    for level in sorted(set(priority.tolist()), reverse=True):
        if needed - rel > 0:
            candidates += np.flatnonzero(priority == level).tolist()
            rel += float(cores[priority == level].sum())
    failed = np.zeros(priority.size, dtype=bool)
    for task in sorted(candidates, key=lambda each: (-priority[each], -cores[each])):
        if rel - cores[task] >= needed:
            rel -= cores[task]
        else:
            failed[task] = True
            needed -= cores[task]
    return failed


def _releases_enough(priority: np.ndarray, cores: np.ndarray, needed: float, leaves: np.ndarray) -> bool:
    return bool(cores[leaves].sum() >= min(needed, cores.sum()) - ROUNDING)


def _spares_high_priorities(priority: np.ndarray, cores: np.ndarray, needed: float, leaves: np.ndarray) -> bool:
    top = priority[leaves].max()
    return bool(cores[priority < top].sum() < needed - ROUNDING)


def test_the_printed_algorithm_2_fails() -> None:
    """As printed it releases too little, and it moves the most important first; corrected it does neither."""
    alike, sizes = np.array([1, 1]), np.array([0.6, 0.6])
    assert sizes[printed_algorithm_2(alike, sizes, 1.0)].sum() == pytest.approx(0.6)
    assert sizes[choose_victims(alike, sizes, 1.0)].sum() == pytest.approx(1.2)
    ranked, sizes = np.array([9, 1]), np.array([0.6, 0.6])
    assert printed_algorithm_2(ranked, sizes, 0.5).tolist() == [True, False]
    assert choose_victims(ranked, sizes, 0.5).tolist() == [False, True]


@pytest.mark.parametrize("holds", [_releases_enough, _spares_high_priorities])
def test_the_printed_algorithm_2_fails_the_properties_below(
    holds: Callable[[np.ndarray, np.ndarray, float, np.ndarray], bool],
) -> None:
    """Chance finds a case in which the printed algorithm breaks each of the properties that the corrected one keeps."""

    def breaks(case: tuple[list[tuple[int, float]], float]) -> bool:
        priority, cores = (np.array(column) for column in zip(*case[0], strict=True))
        leaves = printed_algorithm_2(priority, cores, case[1])
        return leaves.any() and not holds(priority, cores, case[1], leaves)

    assert find(st.tuples(tasks, needs), breaks)


@settings(max_examples=300, deadline=None)
@given(drawn=tasks, needed=needs)
def test_enough_is_released_by_those_who_matter_least(drawn: list[tuple[int, float]], needed: float) -> None:
    """What leaves suffices where all together do, and a priority is touched only where all below do not suffice."""
    priority, cores = (np.array(column) for column in zip(*drawn, strict=True))
    leaves = choose_victims(priority, cores, needed)
    assert _releases_enough(priority, cores, needed, leaves)
    assert _spares_high_priorities(priority, cores, needed, leaves)


@settings(max_examples=300, deadline=None)
@given(drawn=tasks, needed=needs)
def test_none_leaves_without_need(drawn: list[tuple[int, float]], needed: float) -> None:
    """Without any one of those that leave it would not be enough: there is no smaller set within theirs."""
    priority, cores = (np.array(column) for column in zip(*drawn, strict=True))
    leaves = choose_victims(priority, cores, needed)
    if cores.sum() >= needed:
        released = cores[leaves].sum()
        assert all(released - cores[each] < needed + ROUNDING for each in np.flatnonzero(leaves))


@settings(max_examples=200, deadline=None)
@given(drawn=tasks, needed=needs)
def test_the_smallest_leave(drawn: list[tuple[int, float]], needed: float) -> None:
    """Of the highest priority that is touched, no set that would do has a smaller largest member."""
    priority, cores = (np.array(column) for column in zip(*drawn, strict=True))
    leaves = choose_victims(priority, cores, needed)
    if cores.sum() < needed:
        return
    top = priority[leaves].max()
    largest = cores[leaves & (priority == top)].max()
    candidates = np.flatnonzero(priority <= top)
    for size in range(1, candidates.size + 1):
        for chosen in combinations(candidates, size):
            members = np.array(chosen)
            of_top = members[priority[members] == top]
            if cores[members].sum() >= needed + ROUNDING and of_top.size:
                assert cores[of_top].max() >= largest - ROUNDING
