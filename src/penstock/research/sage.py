"""The sizing experiment: every application of a fleet starts with a wrong size and is sized window by window."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.sizing.engine import PolicyEngine
from penstock.model.decision import Resize, ResizeDone
from penstock.model.sizing import Capacity, Resource
from penstock.research.sage_engine import SimulatedApplication
from penstock.research.sage_fleet import (
    GROWTH_BEGINS,
    GROWTH_ENDS,
    MOST_CORES_EACH,
    WINDOW_S,
    WINDOWS,
    draw_application,
    first_shape,
)
from penstock.research.sage_optimum import MOST_MEMORY_EACH_MB, cost_mb, find_optimum
from penstock.settings import SizingSettings
from penstock.sim.parallel import run_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.control.sizing.engine import Round
    from penstock.model.decision import Decision
    from penstock.model.sizing import EngineShape
    from penstock.research.sage_fleet import FleetApplication

_CHANGE_TAKES_WINDOWS = 1
"""A change of shape takes effect with the next window but one: executors start in 10 to 15 s."""


@dataclass(frozen=True, slots=True)
class SizedApplication:
    """What became of one application of the fleet."""

    name: str
    kind: str
    first: EngineShape
    last: EngineShape
    best: EngineShape
    actions: tuple[tuple[int, str], ...]
    """Window and policy of every action."""
    log: tuple[Decision, ...]
    lost_windows: int
    grows: bool
    has_service: bool
    is_faltering: tuple[bool, ...]
    cost_over_time: tuple[float, ...] = field(repr=False, default=())

    @property
    def excess(self) -> float:
        """Cost above the optimum, as a part of it; below zero for one that is smaller."""
        return cost_mb(self.last) / cost_mb(self.best) - 1.0

    def excess_of(self, resource: Resource) -> float:
        """The same of one resource."""
        return self.last.total(resource) / self.best.total(resource) - 1.0

    @property
    def minutes_to_size(self) -> float:
        """Stream minutes until the cost stays within 10 % of the optimum, up to any growth of the load."""
        return _minutes(self._outside(0, GROWTH_BEGINS if self.grows else WINDOWS))

    @property
    def minutes_to_last_action(self) -> float:
        """Stream minutes from the start to the last action before any growth of the load."""
        early = [window for window, _ in self.actions if window < GROWTH_BEGINS]
        return _minutes(max(early) + 1 + _CHANGE_TAKES_WINDOWS) if early else 0.0

    def _outside(self, begin: int, end: int) -> int:
        """Windows from the begin to the last one with a cost that is not within 10 % of the optimum."""
        outside = [window for window in range(begin, end) if abs(self.cost_over_time[window] - 1.0) > RIGHT_SIZE]
        return max(outside) + 1 - begin if outside else 0

    @property
    def minutes_after_growth(self) -> float | None:
        """Stream minutes from the end of the growth until the cost stays within 10 %; None without growth."""
        return _minutes(self._outside(GROWTH_ENDS, WINDOWS)) if self.grows else None

    @property
    def oscillations(self) -> int:
        """Steps up of a resource after a step down, while the load was the same."""
        down: set[str] = set()
        count = 0
        for window, policy in self.actions:
            resource = _RESOURCE_OF[policy]
            if policy in _DOWN:
                down.add(resource)
            elif resource in down and not (self.grows and window >= GROWTH_BEGINS):
                count += 1
        return count

    @property
    def ups_while_faltering(self) -> int:
        """Steps up of the parallelism while the remote service faltered."""
        return sum(policy == "P4" and self.is_faltering[window] for window, policy in self.actions)


RIGHT_SIZE = 0.10
IN_TIME_MINUTES = 10.0


def _minutes(windows: int) -> float:
    return windows * WINDOW_S / 60.0


_DOWN = {"P5", "P6", "P7", "P8"}
_RESOURCE_OF = {
    "P1": "heap", "P5": "heap", "P2": "memory", "P6": "memory", "P3": "cpu", "P7": "cpu", "P4": "parallelism",
    "P8": "parallelism",
}  # fmt: skip


def size_application(number: int, seed: int = 1, settings: SizingSettings | None = None) -> SizedApplication:
    """Run one application of the fleet for an hour of stream time, from a wrong size."""
    settings = settings or SizingSettings()
    application = draw_application(number, seed)
    begins_with = find_optimum(_before_growth(application), settings)
    best = find_optimum(application, settings, since=GROWTH_ENDS if application.grows else 0)
    first = first_shape(begins_with.shape, number, seed)
    simulated = SimulatedApplication(application, first)
    engine = PolicyEngine(settings, first)
    capacity = Capacity(host_cores=MOST_CORES_EACH, host_memory_mb=MOST_MEMORY_EACH_MB)
    actions: list[tuple[int, str]] = []
    log: list[Decision] = []
    costs: list[float] = []
    due: tuple[int, Round] | None = None
    for window in range(WINDOWS):
        if due is not None and window >= due[0]:
            _put_in_force(due[1], engine, simulated, log)
            due = None
        engine.observe(simulated.run_window(window))
        is_grown = application.grows and window >= GROWTH_BEGINS
        costs.append(cost_mb(simulated.shape) / (best if is_grown else begins_with).cost_mb)
        if due is not None:
            continue
        found = engine.judge(capacity)
        if found.decision is None or found.resized is None or found.resized.shape == engine.shape:
            continue
        log.append(_record(found, engine.shape, len(actions) + 1))
        actions.append((window, found.decision.policy))
        engine.begin(found.decision)
        due = window + 1 + _CHANGE_TAKES_WINDOWS, found
    return SizedApplication(
        application.name, application.kind, first, simulated.shape, best.shape, tuple(actions), tuple(log),
        simulated.lost, application.grows, application.has_service, tuple(map(bool, application.is_faltering)),
        tuple(costs),
    )  # fmt: skip


def _before_growth(application: FleetApplication) -> FleetApplication:
    end = GROWTH_BEGINS if application.grows else WINDOWS
    return replace(
        application, rows_per_s=application.rows_per_s[:end], cpu_s=application.cpu_s[:end],
        wait_s=application.wait_s[:end], is_faltering=application.is_faltering[:end],
    )  # fmt: skip


def _record(found: Round, shape: EngineShape, number: int) -> Resize:
    assert found.decision is not None
    assert found.resized is not None
    decision = found.decision
    return Resize(
        cause=decision.policy, reason=decision.reason, policy=decision.policy, resource=decision.resource.value,
        shape=found.resized.shape.to_dict(), previous_shape=shape.to_dict(), number=number,
        figures=dict(decision.figures), expected=dict(decision.expected), unplaced=found.resized.unplaced,
    )  # fmt: skip


def _put_in_force(found: Round, engine: PolicyEngine, simulated: SimulatedApplication, log: list[Decision]) -> None:
    assert found.resized is not None
    simulated.give(found.resized.shape)
    engine.end(found.resized.shape, is_done=True)
    number = sum(isinstance(each, Resize) for each in log)
    log.append(ResizeDone(cause=f"number {number}", reason="", number=number, is_done=True, way="simulated"))


@dataclass(frozen=True, slots=True)
class FleetResult:
    """The fleet, and what the experiment asks of it."""

    applications: tuple[SizedApplication, ...]

    def summary(self) -> dict[str, float | int]:
        """The figures by which the experiment is judged."""
        each = self.applications
        excess = np.array([app.excess for app in each])
        minutes = np.array([app.minutes_to_size for app in each])
        fleet = sum(cost_mb(app.last) for app in each) / sum(cost_mb(app.best) for app in each) - 1.0
        return {
            "applications": len(each),
            "fleet_excess_ratio": float(fleet),
            "mean_excess_ratio": float(excess.mean()),
            "largest_excess_ratio": float(excess.max()),
            "smallest_excess_ratio": float(excess.min()),
            "above_10_percent": int((excess > RIGHT_SIZE).sum()),
            "oscillations": sum(app.oscillations for app in each),
            "most_heap_downs": max(_count(app, "P5") for app in each),
            "most_memory_downs": max(_count(app, "P6") for app in each),
            "mean_minutes_to_size": float(minutes.mean()),
            "p95_minutes_to_size": float(np.quantile(minutes, 0.95)),
            "most_minutes_to_size": float(minutes.max()),
            "above_10_minutes": int((minutes > IN_TIME_MINUTES).sum()),
            "mean_minutes_to_last_action": float(np.mean([app.minutes_to_last_action for app in each])),
            "most_minutes_after_growth": max((app.minutes_after_growth or 0.0 for app in each), default=0.0),
            "parallelism_ups_while_faltering": sum(app.ups_while_faltering for app in each),
        }

    def actions_by_kind(self) -> dict[str, int]:
        """How many actions each policy made."""
        counts = Counter(policy for app in self.applications for _, policy in app.actions)
        return {policy: counts.get(policy, 0) for policy in _RESOURCE_OF}

    def rows_by_kind(self) -> list[dict[str, float | int | str]]:
        """Excess and time by the kind of service times."""
        rows: list[dict[str, float | int | str]] = []
        for kind in sorted({app.kind for app in self.applications}):
            own = [app for app in self.applications if app.kind == kind]
            rows.append(
                {
                    "service_times": kind,
                    "applications": len(own),
                    "mean_excess": float(np.mean([app.excess for app in own])),
                    "largest_excess": max(app.excess for app in own),
                    "heap_excess": float(np.mean([app.excess_of(Resource.HEAP) for app in own])),
                    "memory_excess": float(np.mean([app.excess_of(Resource.MEMORY) for app in own])),
                    "cores_excess": float(np.mean([app.excess_of(Resource.CPU) for app in own])),
                    "actions": float(np.mean([len(app.actions) for app in own])),
                    "minutes": float(np.mean([app.minutes_to_size for app in own])),
                }
            )
        return rows


def _count(application: SizedApplication, policy: str) -> int:
    return sum(made == policy for _, made in application.actions)


def size_fleet(
    applications: int = 200,
    *,
    seed: int = 1,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FleetResult:
    """Size all applications of a fleet, each for itself."""
    tasks = [(number, seed) for number in range(applications)]
    found = run_all(_size_one, tasks, processes=processes, progress=progress)
    return FleetResult(tuple(found))


def _size_one(task: tuple[int, int]) -> SizedApplication:
    return size_application(*task)
