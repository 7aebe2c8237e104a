"""Ids of workers: recycled, never given twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.worker_ids import WorkerIds
from penstock.errors import ClusterError


@given(st.integers(1, 6), st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.sets(st.integers(1, 6)))))
def test_ids_stay_within_the_maximum_and_used_ones_stay(maximum: int, calls: list[tuple[bool, int, set[int]]]) -> None:
    """Ids are recycled between 1 and the maximum; one in use is never removed, one allocated never given again."""
    ids = WorkerIds(maximum)
    for is_add, number, used in calls:
        before = set(ids.allocated)
        if is_add:
            added = ids.add(number)
            assert len(added) == min(number, maximum - len(before))
            assert before.isdisjoint(added)
            assert set(ids.allocated) == before | set(added) <= set(range(1, maximum + 1))
        else:
            removed = ids.remove(used, number)
            idle = before - used
            assert len(removed) == max(0, len(idle) - number)
            assert set(removed) <= idle
            assert set(ids.allocated) == before - set(removed)


def test_ids_that_mean_nothing_are_refused() -> None:
    """Numbers below zero and ids that never were."""
    for wrong in (lambda: WorkerIds(0), lambda: WorkerIds(2, [3]), lambda: WorkerIds(2).add(-1)):
        with pytest.raises(ClusterError):
            wrong()
    with pytest.raises(ClusterError, match="free -1"):
        WorkerIds(2).remove([], -1)
