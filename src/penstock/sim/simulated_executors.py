"""Executors of the simulated engine: they start late, leave at the end of a batch, and are paid from request to end."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model import EngineView, Executor


@dataclass(frozen=True, slots=True)
class SimulatedExecutors:
    """What executors are like.

    Parameters
    ----------
    first
        How many serve at the start.
    cores_each
        Cores of an executor.
    start_s
        From asking for an executor to its first task.
    available
        Most executors that the cluster can give; None for no limit.
    """

    first: int = 1
    cores_each: float = 1.0
    start_s: float = 30.0
    available: int | None = None


@dataclass(slots=True)
class _Executor:
    executor_id: str
    asked_s: float
    ready_s: float
    leaves_s: float | None = None


class ExecutorPool:
    """Executors that serve, wait on standby, start or leave.

    Examples
    --------
    >>> pool = ExecutorPool(SimulatedExecutors(first=1, start_s=10.0))
    >>> pool.ask(3, 0, now_s=5.0, busy_until_s=7.0)
    >>> pool.serving(5.0), pool.serving(15.0), pool.requested
    (1, 3, 3)
    >>> pool.ask(1, 0, now_s=20.0, busy_until_s=24.0)
    >>> pool.serving(21.0), pool.paid_executor_s(30.0)
    (1, 68.0)
    """

    def __init__(self, kind: SimulatedExecutors) -> None:
        self.kind = kind
        self._count = 0
        self._staying: list[_Executor] = []
        self._leaving: list[_Executor] = []
        self._paid_s = 0.0
        self._target, self._standby = kind.first, 0
        self._view: EngineView | None = None
        self._view_until_s = -1.0
        for _ in range(kind.first):
            self._start(0.0, 0.0)

    @property
    def requested(self) -> int:
        """Executors that serve, wait or start."""
        return len(self._staying)

    @property
    def wanted(self) -> tuple[int, int]:
        """What was asked for last: executors to serve and on standby."""
        return self._target, self._standby

    def serving(self, now_s: float) -> int:
        """Executors that are given work."""
        return max(1, min(self._target, sum(one.ready_s <= now_s for one in self._staying)))

    def cores(self, now_s: float) -> float:
        """Cores that are given work."""
        return self.kind.cores_each * self.serving(now_s)

    def ask(self, executors: int, standby: int, *, now_s: float, busy_until_s: float) -> None:
        """Have so many serve and wait; those too many go, the ones that still start before all others.

        One that has work finishes it, and is paid until then.
        """
        self._target, self._standby = executors, standby
        total = executors + standby
        if self.kind.available is not None:
            total = min(total, self.kind.available)
        while len(self._staying) < total:
            self._start(now_s, now_s + self.kind.start_s)
        self._staying.sort(key=lambda one: one.ready_s)
        while len(self._staying) > total:
            gone = self._staying.pop()
            gone.leaves_s = now_s if gone.ready_s > now_s else max(now_s, busy_until_s)
            self._leaving.append(gone)
        self._view = None

    def paid_executor_s(self, now_s: float) -> float:
        """Executor seconds until now, from asking for an executor to its end."""
        self._forget_gone(now_s)
        open_s = sum(now_s - one.asked_s for one in (*self._staying, *self._leaving))
        return self._paid_s + open_s

    def view(self, now_s: float, busy_fraction: float | None) -> EngineView:
        """What is there at a moment; those that start are not there yet."""
        if self._view is None or now_s >= self._view_until_s:
            self._forget_gone(now_s)
            self._view = self._new_view(now_s)
            changes = [one.ready_s for one in self._staying if one.ready_s > now_s]
            changes += [one.leaves_s for one in self._leaving if one.leaves_s is not None]
            self._view_until_s = min(changes, default=float("inf"))
        view = self._view
        return EngineView(view.executors, view.available, busy_fraction, view.cores)

    def _new_view(self, now_s: float) -> EngineView:
        there = [one for one in self._staying if one.ready_s <= now_s]
        executors = [
            Executor(one.executor_id, one.ready_s, is_standby=place >= self._target) for place, one in enumerate(there)
        ]
        executors += [Executor(one.executor_id, one.ready_s, is_leaving=True) for one in self._leaving]
        return EngineView(tuple(executors), self.kind.available, None, self.cores(now_s))

    def _start(self, now_s: float, ready_s: float) -> None:
        self._count += 1
        self._staying.append(_Executor(str(self._count), now_s, ready_s))

    def _forget_gone(self, now_s: float) -> None:
        for one in self._leaving:
            if one.leaves_s is not None and one.leaves_s <= now_s:
                self._paid_s += one.leaves_s - one.asked_s
        self._leaving = [one for one in self._leaving if one.leaves_s is None or one.leaves_s > now_s]
