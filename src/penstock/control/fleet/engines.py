"""The engines of a fleet, each with a place that it keeps for ever, so that arrays over engines stay valid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.model.fleet import EngineKind, FleetEngine

if TYPE_CHECKING:
    from penstock.control.fleet.shape import Flags, Floats


_FOREIGN_NEWEST = 0.15
"""Weight of the newest report: a batch of some seconds is averaged over, and nearly all is believed after twenty."""


@dataclass(slots=True)
class KnownEngine:
    """An engine with the CPU in use on its cores that is not its queries'."""

    engine: FleetEngine
    is_there: bool = True
    foreign_cores: float = 0.0


class EngineBook:
    """Engines by name and place.

    Examples
    --------
    >>> book = EngineBook()
    >>> book.see(FleetEngine("east", cores=2.0)), book.see(FleetEngine("east", cores=2.0))
    (True, False)
    >>> book.lose("east"), book.names, book.is_there.tolist()
    (True, ['east'], [False])
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.place: dict[str, int] = {}
        self._known: list[KnownEngine] = []

    def see(self, engine: FleetEngine) -> bool:
        """An engine answers; gives whether it is new, or was lost, or has other cores than before."""
        place = self.place.get(engine.name)
        if place is None:
            self.place[engine.name] = len(self.names)
            self.names.append(engine.name)
            self._known.append(KnownEngine(engine))
            return True
        known = self._known[place]
        is_new = not known.is_there or known.engine.cores != engine.cores
        known.engine, known.is_there = engine, True
        return is_new

    def lose(self, name: str) -> bool:
        """An engine is gone; gives whether it was there."""
        place = self.place.get(name)
        if place is None or not self._known[place].is_there:
            return False
        self._known[place].is_there = False
        self._known[place].foreign_cores = 0.0
        return True

    def observe_host(self, name: str, foreign_cores: float) -> None:
        """Follow what is taken of an engine's cores by anything but tasks of its queries, its own driver included.

        Reports of an engine and of its queries are of different moments: what a batch takes looks foreign until it is
        done, and then less than nothing is. Only the average tells; nothing that a single report says is believed.
        """
        known = self._known[self.place[name]]
        known.foreign_cores += _FOREIGN_NEWEST * (foreign_cores - known.foreign_cores)

    @property
    def is_there(self) -> Flags:
        """Which engines answer."""
        return np.array([known.is_there for known in self._known], dtype=bool)

    @property
    def cores(self) -> Floats:
        """Cores of each engine, zero for one that is gone."""
        return np.array([known.engine.cores if known.is_there else 0.0 for known in self._known])

    @property
    def foreign_cores(self) -> Floats:
        """Cores that foreign processes keep busy."""
        return np.array([max(0.0, known.foreign_cores) for known in self._known])

    def snapshot(self) -> list[dict[str, Any]]:
        """All engines, as plain data."""
        return [
            {
                "name": known.engine.name,
                "cores": known.engine.cores,
                "kind": known.engine.kind.value,
                "is_there": known.is_there,
                "foreign_cores": known.foreign_cores,
            }
            for known in self._known
        ]

    @classmethod
    def restored(cls, snapshot: list[dict[str, Any]]) -> EngineBook:
        """The engines of a snapshot."""
        book = cls()
        for each in snapshot:
            book.see(FleetEngine(each["name"], each["cores"], EngineKind(each["kind"])))
            known = book._known[-1]
            known.is_there, known.foreign_cores = each["is_there"], each["foreign_cores"]
        return book
