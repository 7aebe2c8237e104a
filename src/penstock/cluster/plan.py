"""What to do next so that an engine gets the executors that were decided on."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ClusterError


@dataclass(frozen=True, slots=True)
class Bounds:
    """How few and how many executors an engine may have, how many it starts with, and how many wait on standby.

    The maximum is of all executors, those on standby too: it is what may be paid for.
    """

    minimum: int = 1
    maximum: int = 4
    first: int = 1
    standby: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise ClusterError(f"executors from {self.minimum} to {self.maximum}: write 1 <= minimum <= maximum")
        if not self.minimum <= self.first <= self.maximum:
            raise ClusterError(f"first size {self.first}: from minimum {self.minimum} to maximum {self.maximum}")
        if not 0 <= self.standby < self.maximum:
            raise ClusterError(f"{self.standby} executors on standby: from 0 to one less than maximum {self.maximum}")


@dataclass(frozen=True, slots=True)
class Clamped:
    """A number of executors that may be asked for, and why it is not the one that was wanted (empty: it is)."""

    executors: int
    why: str = ""


def clamp(wanted: int, bounds: Bounds, available: int | None) -> Clamped:
    """Hold a target to the bounds and to what the cluster can give; None for ``available`` means that nobody knows.

    The minimum stays the target even where the cluster cannot give it: the request stands until it can.

    Examples
    --------
    >>> clamp(9, Bounds(1, 8), available=6)
    Clamped(executors=6, why='9 executors were wanted, but the cluster has room for 6')
    >>> clamp(9, Bounds(1, 8), available=None).why
    '9 executors were wanted, but 8 is the maximum'
    >>> clamp(0, Bounds(1, 8), available=6)
    Clamped(executors=1, why='0 executors were wanted, but 1 is the minimum')
    """
    most = bounds.maximum if available is None else max(bounds.minimum, min(bounds.maximum, available))
    if wanted < bounds.minimum:
        return Clamped(bounds.minimum, f"{wanted} executors were wanted, but {bounds.minimum} is the minimum")
    if wanted <= most:
        return Clamped(wanted)
    if most < bounds.maximum:
        return Clamped(most, f"{wanted} executors were wanted, but the cluster has room for {available}")
    return Clamped(most, f"{wanted} executors were wanted, but {most} is the maximum")


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor that is here to stay: how busy it is, and whether it waits on standby."""

    executor_id: str
    active_tasks: int = 0
    recent_task_s: float = 0.0
    is_standby: bool = False


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


def plan_step(executors: tuple[Executor, ...], target: int, bounds: Bounds) -> Step:
    """Compare what is there with what is wanted.

    Executors on standby are called before any new one is waited for. Of those too many, the least busy go: first to
    standby, where one is missing, else they are released. An executor that is new while enough serve becomes standby.

    Examples
    --------
    >>> busy, idle = Executor("1", active_tasks=1), Executor("2")
    >>> plan_step((busy, idle), target=1, bounds=Bounds(1, 4))
    Step(total=1, call=(), park=(), release=('2',))
    >>> plan_step((busy, idle), target=1, bounds=Bounds(1, 4, standby=1))
    Step(total=2, call=(), park=('2',), release=())
    >>> plan_step((busy, Executor("2", is_standby=True)), target=2, bounds=Bounds(1, 4, standby=1))
    Step(total=3, call=('2',), park=(), release=())
    """
    total = min(target + bounds.standby, bounds.maximum)
    serving = sorted((e for e in executors if not e.is_standby), key=_business)
    waiting = [e for e in executors if e.is_standby]
    missing = target - len(serving)
    if missing > 0:
        return Step(total, call=_ids(waiting[:missing]), release=_ids(waiting[missing:][total - target :]))
    surplus = serving[: len(serving) - target]
    places = max(0, total - target - len(waiting))
    too_many_waiting = waiting[total - target :]
    return Step(total, park=_ids(surplus[:places]), release=_ids([*too_many_waiting, *surplus[places:]]))


def _business(executor: Executor) -> tuple[int, float, int, str]:
    # Equally idle ones go newest first: an older one has more of the state and blocks that are in use.
    number = int(executor.executor_id) if executor.executor_id.isdigit() else 0
    return executor.active_tasks, executor.recent_task_s, -number, executor.executor_id


def _ids(executors: list[Executor]) -> tuple[str, ...]:
    return tuple(executor.executor_id for executor in executors)
