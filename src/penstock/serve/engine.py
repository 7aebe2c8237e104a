"""One application as the service sees it: a name, a store to read, and whoever can change its goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model import Goal
    from penstock.store import Store


class Controls(Protocol):
    """Whoever governs the queries of an engine and takes wishes: ``Penstock`` itself, or an engine elsewhere."""

    @property
    def observe_only(self) -> bool:
        """Whether what is decided is not applied."""
        ...

    def set_goal(self, query: str, goal: Goal, *, asked_by: str = "user") -> None:
        """Ask something else of a query."""
        ...

    def set_observe_only(self, observe_only: bool, *, asked_by: str = "user") -> None:  # noqa: FBT001 - the one thing it says
        """Apply no decision from now on, or apply them again."""
        ...


@dataclass(frozen=True, slots=True)
class ServedEngine:
    """An engine that is shown.

    Parameters
    ----------
    name
        How it is called on pages and in metrics; unique within a service.
    store
        Read, never written.
    controls
        Who takes goals for it in this process; None for a finished run, or one that is governed elsewhere.
    find_address
        Tells where the application itself serves, when it runs in another process: wishes are forwarded there. Asked
        again and again, because it may start or end meanwhile.
    """

    name: str
    store: Store
    controls: Controls | None = None
    find_address: Callable[[], EngineAddress | None] | None = None

    @property
    def address(self) -> EngineAddress | None:
        """Where the application serves now."""
        return None if self.find_address is None else self.find_address()

    @property
    def can_change(self) -> bool:
        """Whether goals can be changed."""
        return self.controls is not None or self.address is not None


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an application in another process serves, and the file with its token."""

    url: str
    token_file: str
