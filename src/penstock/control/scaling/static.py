"""Static peak: as many executors as the highest load needs, always."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.control.scaling.base import StatelessScaler
from penstock.model.scaling import ScaleDecision, ScalingSignal, towards

if TYPE_CHECKING:
    from collections.abc import Sequence


class StaticPeak(StatelessScaler):
    """What most streams run with today: sized once, for the worst hour, and paid for all day.

    Examples
    --------
    >>> StaticPeak(8).decide(ScalingSignal(0.0, 2, 2, 10.0, 10.0, 0.1, 0.0, 0.0)).executors
    8
    """

    name: ClassVar[str] = "static"

    def __init__(self, executors: int) -> None:
        self.executors = executors

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """The same number, whatever is seen."""
        return towards(signal, self.executors, f"always {self.executors}")


class Schedule(StatelessScaler):
    """Numbers of executors that were fixed beforehand, one for each step of time.

    Examples
    --------
    >>> plan = Schedule([1, 1, 3, 2], step_s=60.0)
    >>> [plan.at(time_s) for time_s in (0.0, 119.0, 120.0, 999.0)]
    [1, 1, 3, 2]
    """

    name: ClassVar[str] = "clairvoyant"

    def __init__(self, executors: Sequence[int], *, step_s: float) -> None:
        self._executors = tuple(int(count) for count in executors)
        self._step_s = step_s

    def at(self, time_s: float) -> int:
        """The number for a moment; behind the end the last one holds."""
        return self._executors[min(int(time_s // self._step_s), len(self._executors) - 1)]

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """What the plan says."""
        return towards(signal, self.at(signal.time_s), "the load to come is known")
