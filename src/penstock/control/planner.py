"""When the targets of a graph are computed anew: the clockwork of tier one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.allocation import Allocation, allocate
from penstock.errors import InfeasibleError, InvalidSettingError

if TYPE_CHECKING:
    from penstock.control.utility import Utility
    from penstock.model.graph import ElementGraph

DEFAULT_PERIOD_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Targets in force.

    Parameters
    ----------
    cause
        Why they were looked at: ``"deployment of ..."``, ``"departure of ..."`` or ``"period"``; None where they were
        not.
    infeasible
        What no longer fits, with the ways out, where the targets before it had to stay for that reason.
    """

    allocation: Allocation
    cause: str | None
    infeasible: InfeasibleError | None = None


@dataclass(frozen=True, slots=True)
class PlannerState:
    """What the next plan depends on."""

    allocation: Allocation | None = None
    planned_s: float = 0.0


class AllocationPlanner:
    """Solves tier one on deployment, on departure and periodically, each time from the targets before.

    Section I of "Adaptive control of extreme-scale stream processing systems": "performed when PEs are deployed or
    terminate and periodically, to support changing workload and resource availability".

    A graph whose minima stop fitting while it runs keeps its last targets: stopping what runs would help nobody. One
    that does not fit when elements are deployed is refused with :class:`~penstock.errors.InfeasibleError`.

    Examples
    --------
    >>> from penstock.model.graph import Element, ElementGraph, Engine, InputStream
    >>> count = Element("count", "east", ("clicks",), 40.0, weight=1.0)
    >>> graph = ElementGraph((Engine("east"),), (InputStream("clicks", 30.0),), (count,))
    >>> planner = AllocationPlanner(period_s=60.0)
    >>> planner.plan(graph, now_s=0.0).cause
    'deployment of count'
    >>> planner.plan(graph, now_s=30.0).cause is None, planner.plan(graph, now_s=60.0).cause
    (True, 'period')
    """

    def __init__(
        self, utility: Utility | None = None, *, period_s: float = DEFAULT_PERIOD_S, state: PlannerState | None = None
    ) -> None:
        if not period_s > 0:
            raise InvalidSettingError("period_s", period_s, "seconds above zero")
        self._utility = utility
        self._period_s = period_s
        state = state or PlannerState()
        self._allocation = state.allocation
        self._planned_s = state.planned_s

    def snapshot(self) -> PlannerState:
        """The targets in force and when they were planned."""
        return PlannerState(self._allocation, self._planned_s)

    def plan(self, graph: ElementGraph, *, now_s: float, cause: str | None = None) -> Plan:
        """The targets for a graph as it is now; planned in any case where a cause is given."""
        before = self._allocation
        cause = cause or self.due(graph, now_s=now_s)
        if before is not None and cause is None:
            return Plan(before, None)
        infeasible = None
        try:
            self._allocation = allocate(graph, self._utility, before=before)
        except InfeasibleError as error:
            if before is None or cause != "period":
                raise
            infeasible = error
        self._planned_s = now_s
        assert self._allocation is not None
        return Plan(self._allocation, cause, infeasible)

    def due(self, graph: ElementGraph, *, now_s: float) -> str | None:
        """Why it is time to plan, or None where it is not."""
        names = [element.name for element in graph.elements]
        known = list(self._allocation.cores) if self._allocation is not None else []
        if new := [name for name in names if name not in known]:
            return f"deployment of {', '.join(new)}"
        if gone := [name for name in known if name not in names]:
            return f"departure of {', '.join(gone)}"
        return "period" if now_s - self._planned_s >= self._period_s else None
