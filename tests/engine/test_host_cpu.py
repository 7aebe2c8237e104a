"""Busy cores are split into those of the engine and those of others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from penstock.engine import host_cpu
from penstock.engine.host_cpu import CpuUse, HostCpu

if TYPE_CHECKING:
    from collections.abc import Callable


class Times(NamedTuple):
    """CPU times of one core as psutil gives them."""

    user: float
    idle: float


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def show(
        cores: list[tuple[float, float]],
        own: dict[tuple[int, float], float],
        waited: dict[tuple[int, int], int] | None = None,
    ) -> None:
        times = [Times(*core) for core in cores]
        fake: Any = SimpleNamespace(cpu_times=lambda **_: times)
        monkeypatch.setattr(host_cpu, "psutil", fake)
        monkeypatch.setattr(host_cpu, "_tree_s", lambda: own)
        monkeypatch.setattr(host_cpu, "_tree_waited_ns", lambda: waited)

    return show


def test_what_is_not_the_engines_own_is_foreign(seen: Callable[..., None]) -> None:
    """Of 1.5 busy cores on two, half a core is the engine's."""
    cpu = HostCpu([0, 1])
    seen([(10.0, 0.0), (5.0, 5.0), (0.0, 10.0)], {(1, 0.0): 3.0})
    assert cpu.look(100.0) is None
    seen([(20.0, 0.0), (10.0, 10.0), (10.0, 10.0)], {(1, 0.0): 6.0, (2, 1.0): 2.0})
    assert cpu.look(110.0) == CpuUse(busy_cores=1.5, foreign_cores=1.0)


def test_only_the_cores_of_the_engine_count(seen: Callable[..., None]) -> None:
    """What happens on cores that the engine is not pinned to is nobody's business."""
    cpu = HostCpu([1])
    seen([(0.0, 0.0), (0.0, 0.0)], {})
    cpu.look(0.0)
    seen([(10.0, 0.0), (2.0, 8.0)], {(1, 0.0): 5.0})
    assert cpu.look(10.0) == CpuUse(busy_cores=0.2, foreign_cores=0.0)


def test_two_looks_at_once_tell_nothing(seen: Callable[..., None]) -> None:
    """In too short a time nothing can be told."""
    cpu = HostCpu([0])
    seen([(0.0, 0.0)], {})
    cpu.look(0.0)
    assert cpu.look(0.01) is None


def test_how_long_threads_were_ready_and_had_no_core(seen: Callable[..., None]) -> None:
    """Waiting of threads counts from look to look; one that is new counts from the next look on."""
    cpu = HostCpu([0])
    seen([(0.0, 0.0)], {}, {(1, 1): 5_000_000_000})
    cpu.look(0.0)
    seen([(10.0, 0.0)], {(1, 0.0): 4.0}, {(1, 1): 6_000_000_000, (1, 2): 2_000_000_000})
    assert cpu.look(10.0) == CpuUse(busy_cores=1.0, foreign_cores=pytest.approx(0.6), waited_cores=pytest.approx(0.1))


def test_the_system_tells_how_long_threads_waited() -> None:
    """Linux has it for every thread of this process."""
    found = host_cpu._tree_waited_ns()
    assert found is None or all(waited >= 0 for waited in found.values())
