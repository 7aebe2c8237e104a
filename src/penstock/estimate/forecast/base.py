"""What every forecaster is: values at moments in, values at later moments out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar


class Forecaster(ABC):
    """A guess at the load to come. It reads no clock: moments come with the values."""

    name: ClassVar[str]

    @abstractmethod
    def update(self, time_s: float, value: float) -> None:
        """Learn a value; times rise."""

    @abstractmethod
    def predict(self, ahead_s: float) -> float | None:
        """The value expected so many seconds after the last one learned; None while nothing can be said."""

    @abstractmethod
    def snapshot(self) -> Any:  # noqa: ANN401 - every forecaster has a state of its own kind
        """Give all that is needed to go on from here; learning on does not change it."""

    @abstractmethod
    def restore(self, snapshot: Any) -> None:  # noqa: ANN401 - see snapshot
        """Go on from a snapshot of a forecaster of the same kind."""
