"""What every controller can do.

A controller is built from its fixed description and, to go on where another left off, from that one's snapshot. It is
told of events and answers with actions. It has no clock, no randomness and no way to touch the world: the same
events give the same actions, live, in a test and in a simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from penstock.model import Action, BatchSignal

StateT_co = TypeVar("StateT_co", covariant=True)


class QueryController(Protocol[StateT_co]):
    """Decides about one query."""

    def on_start(self) -> list[Action]:
        """Decide what must be in place before the first batch is planned."""
        ...

    def on_batch(self, signal: BatchSignal) -> list[Action]:
        """Decide after a finished batch; an empty list means that all stays as it is."""
        ...

    def snapshot(self) -> StateT_co:
        """Everything the next decision depends on."""
        ...
