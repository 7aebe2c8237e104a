"""The dashboard, API and metrics of a fleet, served by its control process over what engines report (ADR 27)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.model import Mode, QueryName
from penstock.serve.engine import ServedEngine
from penstock.serve.service import Service, address_file, announce
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from penstock.fleet.loop import FleetLoop
    from penstock.model import Goal
    from penstock.settings import DashboardSettings

_BESIDE = "beside the store"


@dataclass(frozen=True, slots=True)
class FleetWishes:
    """Takes wishes of pages for a fleet: goals reach its logic and the engines, on record with who asked."""

    loop: FleetLoop

    @property
    def observe_only(self) -> bool:
        """Whether queries are neither moved nor held to anything."""
        return self.loop.mode is Mode.OBSERVE

    def set_goal(self, query: str, goal: Goal, *, asked_by: str = "user") -> None:
        """Ask something else of a query, wherever it runs."""
        self.loop.set_goal(QueryName(query), goal, asked_by)

    def set_observe_only(self, observe_only: bool, *, asked_by: str = "user") -> None:  # noqa: FBT001 - as pages ask
        """Decide only, or act again."""
        self.loop.set_observe_only(observe_only, asked_by=asked_by)


class FleetPage:
    """Serves a fleet while its control process runs.

    Parameters
    ----------
    name
        How the fleet is called on pages and in metrics.
    loop
        Whose queries are shown, and who takes wishes.
    store
        File of the fleet's store; read through a connection of its own, so that pages hold up no decision.
    settings
        Where it listens; port 0 is any that is free.
    """

    def __init__(self, name: str, loop: FleetLoop, store: Path, settings: DashboardSettings) -> None:
        self._reader = SqliteStore(store, read_only=True)
        told = settings.token_file
        token = store.with_name(f"{store.name}.token") if told == _BESIDE else Path(told).expanduser()
        engine = ServedEngine(name, self._reader, controls=FleetWishes(loop))
        self.service = Service([engine], token_file=token, host=settings.host, port=settings.port)

    def start(self) -> None:
        """Answer, and tell others beside the store where."""
        self.service.start()
        announce(self._reader.path, self.service)

    def stop(self) -> None:
        """Answer no more."""
        with suppress(OSError):
            address_file(self._reader.path).unlink()
        self.service.stop()
        self._reader.close()
