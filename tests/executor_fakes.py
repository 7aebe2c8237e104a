"""A cluster made of numbers: executors come some seconds after they are asked for and go some seconds after release."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.control.executor_plan import Step, plan_step
from penstock.control.scaling.base import StatelessScaler
from penstock.control.scaling_tier import ScalingTier, ScalingTierState
from penstock.control.workload import Workload
from penstock.model import EngineView, Executor, ExecutorBounds, ExecutorsDeclaration
from penstock.model.decision import Decision, Executors
from penstock.model.scaling import ScaleDecision, ScalingSignal

LOAD = Workload(400.0, 0.0, 1.0, 400.0, 0.5, 600.0, 0.0)


@dataclass(frozen=True)
class Numbers:
    """Settings of scaling; a sample is over with every observation unless a test says otherwise."""

    interval_s: float = 0.0
    start_s: float = 30.0
    down_every_s: float = 60.0
    warm_up_s: float = 0.0
    down_after_s: float = 0.0
    quantile: float = 0.99
    memory_s: float = 1_800.0
    utilisation: float = 0.8
    rows_for_each: float = 5_500.0
    bound_by_partitions: bool = True


@dataclass
class FakeCluster:
    """Executors in virtual time."""

    room: int | None = 10
    start_s: float = 6.0
    release_s: float = 2.0
    now_s: float = 1000.0
    executors: dict[str, float] = field(default_factory=dict)
    standby: set[str] = field(default_factory=set)
    leaving: dict[str, float] = field(default_factory=dict)
    coming: list[float] = field(default_factory=list)
    busy: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    next_id: int = 0

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

    def observe(self) -> EngineView:
        """As a plant observes."""
        staying = [
            Executor(one, added_s, self.busy.get(one, 0), is_standby=one in self.standby)
            for one, added_s in self.executors.items()
        ]
        leaving = [Executor(one, 0.0, is_leaving=True) for one in self.leaving]
        return EngineView((*staying, *leaving), self.room)

    def apply(self, decision: Executors, view: EngineView) -> None:
        """Asked for now, there later."""
        step = plan_step(view.executors, decision.executors, standby=decision.standby)
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


class Wish(StatelessScaler):
    """A policy that wants what the test says."""

    name: ClassVar[str] = "wish"

    def __init__(self, executors: int = 1) -> None:
        self.executors = executors
        self.seen: list[ScalingSignal] = []
        self.error: Exception | None = None

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """The wish of the test."""
        self.seen.append(signal)
        if self.error is not None:
            raise self.error
        return ScaleDecision(self.executors, f"{self.executors} are wished for")


class Rig:
    """A tier on a cluster, what it is told of the load, and everything that it decided."""

    def __init__(
        self,
        bounds: ExecutorBounds | None = None,
        cluster: FakeCluster | None = None,
        *,
        policy: str | None = None,
        numbers: Numbers | None = None,
        load: Workload = LOAD,
        state: ScalingTierState | None = None,
        **options: Any,
    ) -> None:
        self.bounds = bounds or ExecutorBounds(1, 6)
        self.cluster, self.load = cluster or FakeCluster(), load
        self.wish = Wish(self.bounds.first)
        self.is_acting = options.get("is_acting", True)
        self.tier = ScalingTier(
            ExecutorsDeclaration(self.bounds, policy or "proactive"),
            numbers or Numbers(),
            goal_s=10.0,
            state=state,
            scaler=self.wish if policy is None else None,
            **options,
        )
        self.log: list[tuple[float, Decision]] = []

    def step(self) -> list[Decision]:
        """One cycle."""
        view = self.cluster.observe()
        told = self.tier.observe(view, self.load, self.cluster.now_s)
        self.log += [(self.cluster.now_s, decision) for decision in told]
        if self.is_acting and self.tier.decision is not None:
            self.cluster.apply(self.tier.decision, view)
        return told

    def run(self, seconds: int, wish: int | None = None) -> None:
        """So many cycles, a second apart."""
        self.wish.executors = self.wish.executors if wish is None else wish
        for _ in range(seconds):
            self.step()
            self.cluster.wait(1.0)

    def of(self, *kinds: type[Decision]) -> list[Any]:
        """Decisions of some kinds."""
        return [decision for _, decision in self.log if isinstance(decision, kinds)]


def started(executors: int = 1, bounds: ExecutorBounds | None = None, **options: Any) -> Rig:
    """A rig whose first executors are there."""
    rig = Rig(bounds, **options)
    for _ in range(executors):
        rig.cluster.join()
    rig.run(1)
    return rig
