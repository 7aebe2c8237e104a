"""An engine whose control side is not heard any more."""

from __future__ import annotations

from typing import Any

from penstock.engine.lease import Lease
from penstock.engine.run import _Engine
from penstock.fleet_declaration import EngineDeclaration


class FakeHost:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.released = self.looks = 0

    def release_bounds(self) -> None:
        """Count."""
        self.released += 1

    def look(self) -> None:
        """Count."""
        self.looks += 1


def test_bounds_end_with_the_word_of_whoever_set_them() -> None:
    """Queries that are held to bounds are let go when nobody asks any more, and not before; they run on."""
    now_s = 0.0
    lease = Lease(0.0, lambda: now_s)
    host: Any = FakeHost()
    engine = _Engine(EngineDeclaration("left"), host, lease, hold_s=15.0)
    now_s = 14.0
    engine.look()
    assert lease.renew()
    now_s = 28.0
    engine.look()
    assert host.released == 0
    now_s = 30.0
    engine.look()
    assert (host.released, host.looks) == (1, 3)
    assert not lease.is_over
