"""What every scaler is: signals in, numbers of executors with reasons out.

A scaler reads no clock: the time comes with the signal. Its state is one frozen value, so that a snapshot is the state
itself, and a scaler that is built from it goes on exactly where the other one stood.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from penstock.model.scaling import ScaleDecision, ScalingSignal


class Scaler(ABC):
    """A policy with its state."""

    name: ClassVar[str]
    fill: float = 1.0
    """Share of what an executor can do that the policy plans with."""

    @abstractmethod
    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample, and remember what the next decision depends on."""

    @abstractmethod
    def snapshot(self) -> Any:  # noqa: ANN401 - every scaler has a state of its own kind
        """Give all that is needed to decide on from here; deciding on does not change it."""

    @abstractmethod
    def restore(self, snapshot: Any) -> None:  # noqa: ANN401 - see snapshot
        """Decide on from a snapshot of a scaler of the same kind."""

    def remembered(self) -> dict[str, Any] | None:
        """What is worth keeping over a restart, as plain data for a file; None where there is nothing."""
        return None

    def recall(self, learned: dict[str, Any]) -> None:  # noqa: B027 - most learn nothing
        """Begin with what an earlier run learned."""


class StatelessScaler(Scaler):
    """A policy whose every decision depends on one signal alone."""

    def snapshot(self) -> Any:  # noqa: ANN401 - see Scaler
        """Nothing to remember."""
        return None

    def restore(self, snapshot: Any) -> None:  # noqa: ANN401 - see Scaler
        """Nothing to go on from."""
        if snapshot is not None:
            raise ValueError(f"scaler {self.name!r} keeps no state; the snapshot was taken from another one")
