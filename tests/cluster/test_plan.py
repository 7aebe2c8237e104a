"""Plans and ids as properties: they lead where they should and never past it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.plan import Bounds, Executor, clamp, plan_step
from penstock.cluster.worker_ids import WorkerIds
from penstock.errors import ClusterError
from penstock.estimate.service_time import ServiceTime, ServiceTimeState


@st.composite
def situations(draw: st.DrawFn) -> tuple[tuple[Executor, ...], int, Bounds]:
    maximum = draw(st.integers(1, 8))
    minimum = draw(st.integers(1, maximum))
    bounds = Bounds(minimum, maximum, minimum, draw(st.integers(0, maximum - 1)))
    executors = draw(
        st.lists(
            st.builds(Executor, st.just(""), st.integers(0, 3), st.floats(0, 9), is_standby=st.booleans()), max_size=9
        )
    )
    named = tuple(Executor(str(n), e.active_tasks, e.recent_task_s, e.is_standby) for n, e in enumerate(executors))
    return named, draw(st.integers(minimum, maximum)), bounds


@given(situations())
def test_a_step_leads_to_the_target_and_the_next_is_quiet(situation: tuple[tuple[Executor, ...], int, Bounds]) -> None:
    """After a step no more serve than wanted, standby is what it may be, and a second step moves nobody back."""
    executors, target, bounds = situation
    step = plan_step(executors, target, bounds)
    assert step.total == min(target + bounds.standby, bounds.maximum)
    after = []
    for executor in executors:
        if executor.executor_id not in step.release:
            one = executor.executor_id
            waits = one in step.park or (executor.is_standby and one not in step.call)
            after.append(Executor(one, executor.active_tasks, executor.recent_task_s, waits))
    serving = [e for e in after if not e.is_standby]
    assert len(serving) <= target
    assert len(after) <= step.total
    assert not (len(serving) < target and len(after) > len(serving))
    assert plan_step(tuple(after), target, bounds).is_quiet


@given(situations())
def test_whoever_stays_is_as_busy_as_whoever_goes(situation: tuple[tuple[Executor, ...], int, Bounds]) -> None:
    """Of the executors that serve, none goes while a less busy one stays."""
    executors, target, bounds = situation
    step = plan_step(executors, target, bounds)
    serving = {e.executor_id: (e.active_tasks, e.recent_task_s) for e in executors if not e.is_standby}
    going = [load for one, load in serving.items() if one in {*step.release, *step.park}]
    staying = [load for one, load in serving.items() if one not in {*step.release, *step.park}]
    assert max(going, default=(0, 0.0)) <= min(staying, default=(99, 0.0))


@given(st.integers(-5, 20), st.integers(0, 12) | st.none())
def test_a_clamped_number_is_within_bounds_and_explained(wanted: int, available: int | None) -> None:
    """Whatever differs from the wish has its reason in words."""
    bounds = Bounds(2, 9, 2)
    held = clamp(wanted, bounds, available)
    assert 2 <= held.executors <= 9
    assert bool(held.why) == (held.executors != wanted)
    if available is not None:
        assert held.executors <= max(2, available)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"minimum": 0}, "1 <= minimum <= maximum"),
        ({"minimum": 5, "maximum": 4}, "from 5 to 4"),
        ({"first": 9}, "first size 9"),
        ({"standby": 4}, "4 executors on standby"),
    ],
)
def test_bounds_that_mean_nothing_are_refused(values: dict[str, int], message: str) -> None:
    """With the number that is wrong."""
    with pytest.raises(ClusterError, match=message):
        Bounds(**values)


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


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_lie_between_what_was_seen(seconds: list[float], probability: float) -> None:
    """Within the window's smallest and largest, and the same again from a snapshot."""
    learned = ServiceTime(window=10)
    for value in seconds:
        learned.observe(value)
    found = learned.quantile_s(probability)
    assert found is not None
    assert min(seconds[-10:]) - 1e-6 <= found <= max(seconds[-10:]) + 1e-6
    assert ServiceTime(10, learned.snapshot()).quantile_s(probability) == found


def test_what_is_no_time_is_not_learned() -> None:
    """Neither NaN nor infinity nor a time before the request."""
    learned = ServiceTime(4, ServiceTimeState((3.0,)))
    for nothing in (float("nan"), float("inf"), -1.0):
        learned.observe(nothing)
    assert learned.snapshot().observed_s == (3.0,)
    with pytest.raises(ValueError, match="window 0"):
        ServiceTime(0)
