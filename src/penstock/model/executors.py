"""Executors of an engine: how many there may be, and which are there."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import InvalidSettingError


@dataclass(frozen=True, slots=True)
class ExecutorBounds:
    """How few and how many executors an engine may have, how many it starts with, and how many wait on standby.

    The maximum is of all executors, those on standby too: it is what may be paid for. ``first_executors`` is the
    minimum where it is not given.

    Examples
    --------
    >>> ExecutorBounds(min_executors=2, max_executors=8).first
    2
    >>> ExecutorBounds(min_executors=3, max_executors=2)
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidSettingError: setting 'executors' = '3 to 2' is not allowed: 1 <= minimum <= maximum
    """

    min_executors: int = 1
    max_executors: int = 4
    first_executors: int | None = None
    standby: int = 0

    def __post_init__(self) -> None:
        low, high = self.min_executors, self.max_executors
        if not 1 <= low <= high:
            raise InvalidSettingError("executors", f"{low} to {high}", "1 <= minimum <= maximum")
        if not low <= self.first <= high:
            raise InvalidSettingError("executors.first", self.first, f"from minimum {low} to maximum {high}")
        if not 0 <= self.standby < high:
            raise InvalidSettingError("executors.standby", self.standby, f"from 0 to one less than maximum {high}")

    @property
    def first(self) -> int:
        """Executors that the engine starts with."""
        return self.min_executors if self.first_executors is None else self.first_executors

    def total(self, serving: int) -> int:
        """Executors to be asked for in all, so that so many serve and the standby waits."""
        return min(serving + self.standby, self.max_executors)


@dataclass(frozen=True, slots=True)
class Executor:
    """One registered executor: since when, how busy, and whether it waits on standby or finishes its last tasks."""

    executor_id: str
    added_s: float = 0.0
    active_tasks: int = 0
    recent_task_s: float = 0.0
    is_standby: bool = False
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class EngineView:
    """What is there at one moment.

    Parameters
    ----------
    executors
        All that are registered.
    available
        Most executors that the cluster could give, those that are there included; None where nobody knows.
    busy_fraction
        Share of the time that the cores of the serving executors were busy since the view before; None where unknown.
    cores
        Cores over all executors that are given work.
    """

    executors: tuple[Executor, ...] = ()
    available: int | None = None
    busy_fraction: float | None = None
    cores: float = 1.0

    @property
    def serving(self) -> tuple[str, ...]:
        """Ids of executors that are given work."""
        return tuple(e.executor_id for e in self.executors if not e.is_standby and not e.is_leaving)

    @property
    def standby(self) -> tuple[str, ...]:
        """Ids of executors that wait."""
        return tuple(e.executor_id for e in self.executors if e.is_standby and not e.is_leaving)

    @property
    def leaving(self) -> tuple[str, ...]:
        """Ids of executors that finish their last tasks."""
        return tuple(e.executor_id for e in self.executors if e.is_leaving)
