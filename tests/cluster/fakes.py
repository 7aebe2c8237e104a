"""An engine made of numbers: executors come some seconds after they are asked for and go some seconds after release."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.cluster.plan import Executor, Step
from penstock.cluster.policy import ScalingObservation, ScalingTarget
from penstock.cluster.pool import PoolView


@dataclass
class FakeCluster:
    """A pool in virtual time; ``clock`` is its clock."""

    room: int | None = 10
    start_s: float = 6.0
    release_s: float = 2.0
    now_s: float = 1000.0
    executors: dict[str, float] = field(default_factory=dict)
    standby: set[str] = field(default_factory=set)
    leaving: dict[str, float] = field(default_factory=dict)
    coming: list[float] = field(default_factory=list)
    busy: dict[str, int] = field(default_factory=dict)
    totals: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    next_id: int = 0

    def clock(self) -> float:
        """Its own time."""
        return self.now_s

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds
        for moment in [moment for moment in self.coming if moment <= self.now_s]:
            self.coming.remove(moment)
            self.join(moment)
        self.leaving = {one: moment for one, moment in self.leaving.items() if moment > self.now_s}

    def join(self, moment_s: float | None = None) -> None:
        """One more executor is registered."""
        self.executors[str(self.next_id)] = self.now_s if moment_s is None else moment_s
        self.next_id += 1

    def lose(self, executor_id: str) -> None:
        """As when a worker is killed: the manager starts another one by itself."""
        del self.executors[executor_id]
        self.coming.append(self.now_s + self.start_s)

    def look(self) -> PoolView:
        """As a pool looks."""
        executors = [Executor(one, self.busy.get(one, 0), is_standby=one in self.standby) for one in self.executors]
        added = {**self.executors, **dict.fromkeys(self.leaving, 0.0)}
        return PoolView(tuple(executors), added, frozenset(self.leaving))

    def available(self) -> int | None:
        """Room for so many in all."""
        return self.room

    def carry_out(self, step: Step) -> None:
        """Asked for now, there later."""
        self.totals.append(step.total)
        self.steps.append(step)
        for one in step.release:
            del self.executors[one]
            self.leaving[one] = self.now_s + self.release_s
        self.standby -= {*step.call, *step.release}
        self.standby |= set(step.park)
        missing = step.total - len(self.executors) - len(self.coming)
        if self.room is not None:
            missing = min(missing, self.room - len(self.executors) - len(self.coming))
        self.coming += [self.now_s + self.start_s] * missing


@dataclass
class Wish:
    """A policy that wants what the test says."""

    executors: int = 1
    seen: list[ScalingObservation] = field(default_factory=list)
    error: Exception | None = None

    def decide(self, observation: ScalingObservation) -> ScalingTarget:
        """The wish of the test."""
        self.seen.append(observation)
        if self.error is not None:
            raise self.error
        return ScalingTarget(self.executors, f"{self.executors} are wished for", cause="wish")
