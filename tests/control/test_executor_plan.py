"""Plans as properties: they lead where they should and never past it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.control.executor_plan import clamp, plan_step
from penstock.model import Executor, ExecutorBounds


@st.composite
def situations(draw: st.DrawFn) -> tuple[tuple[Executor, ...], int, int]:
    executors = draw(
        st.lists(
            st.builds(
                Executor,
                st.just(""),
                active_tasks=st.integers(0, 3),
                recent_task_s=st.floats(0, 9),
                is_standby=st.booleans(),
                is_leaving=st.booleans(),
            ),
            max_size=9,
        )
    )
    named = tuple(replace(e, executor_id=str(n)) for n, e in enumerate(executors))
    return named, draw(st.integers(1, 8)), draw(st.integers(0, 7))


@given(situations())
def test_a_step_leads_to_the_target_and_the_next_is_quiet(situation: tuple[tuple[Executor, ...], int, int]) -> None:
    """After a step no more serve than wanted, standby is what it may be, and a second step moves nobody back."""
    executors, target, standby = situation
    step = plan_step(executors, target, standby=standby)
    assert step.total == target + standby
    after = []
    for executor in executors:
        if executor.executor_id not in step.release and not executor.is_leaving:
            one = executor.executor_id
            waits = one in step.park or (executor.is_standby and one not in step.call)
            after.append(replace(executor, is_standby=waits))
    serving = [e for e in after if not e.is_standby]
    assert len(serving) <= target
    assert len(after) <= step.total
    assert not (len(serving) < target and len(after) > len(serving))
    assert plan_step(tuple(after), target, standby=standby).is_quiet


@given(situations())
def test_whoever_stays_is_as_busy_as_whoever_goes(situation: tuple[tuple[Executor, ...], int, int]) -> None:
    """Of the executors that serve, none goes while a less busy one stays."""
    executors, target, standby = situation
    step = plan_step(executors, target, standby=standby)
    staying_or_not = [e for e in executors if not e.is_standby and not e.is_leaving]
    serving = {e.executor_id: (e.active_tasks, e.recent_task_s) for e in staying_or_not}
    going = [load for one, load in serving.items() if one in {*step.release, *step.park}]
    staying = [load for one, load in serving.items() if one not in {*step.release, *step.park}]
    assert max(going, default=(0, 0.0)) <= min(staying, default=(99, 0.0))


@given(st.integers(-5, 20), st.integers(0, 12) | st.none())
def test_a_clamped_number_is_within_bounds_and_explained(wanted: int, available: int | None) -> None:
    """Whatever differs from the wish has its reason in words."""
    bounds = ExecutorBounds(2, 9)
    held = clamp(wanted, bounds, available)
    assert 2 <= held.executors <= 9
    assert bool(held.why) == (held.executors != wanted)
    if available is not None:
        assert held.executors <= max(2, available)
