"""What to do next so that an application gets the executors that were decided on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.executors import Executor, ExecutorBounds


@dataclass(frozen=True, slots=True)
class Clamped:
    """A number of executors that may be asked for, and why it is not the one that was wanted (empty: it is).

    ``limit`` names what held it, whatever was wanted.
    """

    executors: int
    why: str = ""
    limit: str = ""


def clamp(wanted: int, bounds: ExecutorBounds, available: int | None) -> Clamped:
    """Hold a target to the bounds and to what the cluster can give; None for ``available`` means that nobody knows.

    The minimum stays the target even where the cluster cannot give it: the request stands until it can.

    Examples
    --------
    >>> from penstock.model.executors import ExecutorBounds
    >>> clamp(9, ExecutorBounds(1, 8), available=6)
    Clamped(executors=6, why='9 executors are wanted, and the cluster has room for 6', limit='room for 6')
    >>> clamp(9, ExecutorBounds(1, 8), available=None).why
    '9 exceeds max_executors = 8'
    >>> clamp(0, ExecutorBounds(1, 8), available=6)
    Clamped(executors=1, why='0 is below min_executors = 1', limit='min_executors = 1')
    """
    low, high = bounds.min_executors, bounds.max_executors
    possible = high if available is None else max(low, min(high, available))
    if wanted < low:
        limit = f"min_executors = {low}"
        return Clamped(low, f"{wanted} is below {limit}", limit)
    if wanted <= possible:
        return Clamped(wanted)
    if possible < high:
        limit = f"room for {available}"
        return Clamped(possible, f"{wanted} executors are wanted, and the cluster has {limit}", limit)
    limit = f"max_executors = {high}"
    return Clamped(high, f"{wanted} exceeds {limit}", limit)


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now; ``total`` is what the cluster's manager is to keep."""

    total: int
    call: tuple[str, ...] = ()
    park: tuple[str, ...] = ()
    release: tuple[str, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether every executor stays what it is."""
        return not (self.call or self.park or self.release)


def plan_step(executors: tuple[Executor, ...], target: int, *, standby: int = 0) -> Step:
    """Compare what is there with what is wanted: ``target`` executors that serve and ``standby`` that wait.

    Executors on standby are called before any new one is waited for. Of those too many, the least busy go: first to
    standby, where one is missing, else they are released. An executor that is new while enough serve becomes standby.
    One that leaves already is left alone.

    Examples
    --------
    >>> from penstock.model.executors import Executor
    >>> busy, idle = Executor("1", active_tasks=1), Executor("2")
    >>> plan_step((busy, idle), 1)
    Step(total=1, call=(), park=(), release=('2',))
    >>> plan_step((busy, idle), 1, standby=1)
    Step(total=2, call=(), park=('2',), release=())
    >>> plan_step((busy, Executor("2", is_standby=True)), 2, standby=1)
    Step(total=3, call=('2',), park=(), release=())
    """
    staying = [e for e in executors if not e.is_leaving]
    serving = sorted((e for e in staying if not e.is_standby), key=_business)
    waiting = [e for e in staying if e.is_standby]
    missing = target - len(serving)
    if missing > 0:
        return Step(target + standby, call=_ids(waiting[:missing]), release=_ids(waiting[missing:][standby:]))
    surplus = serving[: len(serving) - target]
    places = max(0, standby - len(waiting))
    return Step(target + standby, park=_ids(surplus[:places]), release=_ids([*waiting[standby:], *surplus[places:]]))


def _business(executor: Executor) -> tuple[int, float, int, str]:
    # Equally idle ones go newest first: an older one has more of the state and blocks that are in use.
    number = int(executor.executor_id) if executor.executor_id.isdigit() else 0
    return executor.active_tasks, executor.recent_task_s, -number, executor.executor_id


def _ids(executors: list[Executor]) -> tuple[str, ...]:
    return tuple(executor.executor_id for executor in executors)
