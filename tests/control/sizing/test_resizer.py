"""The resizer: totals become executors that hosts can hold."""

from __future__ import annotations

import pytest

from penstock.control.sizing.resizer import resize
from penstock.model.sizing import Capacity, EngineShape, HostRoom, MemoryPart, Resource, SizingDecision

SHAPE = EngineShape(executors=2, heap_mb=1024, overhead_mb=384, cores=2)


def wanted(resource: Resource, total: float, **more: object) -> SizingDecision:
    return SizingDecision("P1", resource, total, "", **more)  # type: ignore[arg-type]


def test_the_papers_memory_example() -> None:
    """100 GB become 25 executors of 4 GB."""
    one = EngineShape(1, 3072, 1024)
    found = resize(one, wanted(Resource.MEMORY, 100 * 1024), Capacity(host_memory_mb=4096))
    assert (found.shape.executors, found.shape.memory_mb, found.unplaced) == (25, 4096, "")


def test_the_papers_thread_example() -> None:
    """2,000 threads become 125 executors of 16."""
    one = EngineShape(1, 3072, 1024, cores=16)
    found = resize(one, wanted(Resource.PARALLELISM, 2000), Capacity(host_cores=16))
    assert (found.shape.executors, found.shape.cores) == (125, 16)


def test_heap_stays_on_the_same_executors_where_they_may_grow() -> None:
    """Another heap is another heap for each, and nothing else changes."""
    found = resize(SHAPE, wanted(Resource.HEAP, 4096), Capacity())
    assert found.shape == EngineShape(2, 2048, 384, cores=2)


def test_cores_go_to_executors_as_they_are_until_the_host_is_full() -> None:
    """More cores are cores of the executors that are there; beyond the host there are more executors."""
    assert resize(SHAPE, wanted(Resource.CPU, 8), Capacity(host_cores=4)).shape.cores == 4
    beyond = resize(SHAPE, wanted(Resource.CPU, 12), Capacity(host_cores=4)).shape
    assert (beyond.executors * beyond.cores, beyond.cores <= 4) == (12, True)


def test_fewer_cores_never_make_more_executors_and_keep_the_shared_memory() -> None:
    """A step down of CPU has at most as many executors, with the same heap in all."""
    shape = EngineShape(10, 1000, 400, cores=4)
    found = resize(shape, wanted(Resource.CPU, 13), Capacity()).shape
    assert found.executors <= 10
    assert 13 <= found.total(Resource.CPU) <= 14
    assert found.total(Resource.HEAP) >= shape.total(Resource.HEAP)


@pytest.mark.parametrize(
    ("part", "overhead", "python"), [(MemoryPart.OVERHEAD, 640, 256), (MemoryPart.PYTHON, 384, 512)]
)
def test_memory_goes_to_the_part_that_grew(part: MemoryPart, overhead: int, python: int) -> None:
    """The heap and the other part stay what they are."""
    shape = EngineShape(1, 1024, 384, 256)
    found = resize(shape, wanted(Resource.MEMORY, 1024 + 640 + 256, part=part), Capacity()).shape
    assert (found.heap_mb, found.overhead_mb, found.python_mb) == (1024, overhead, python)


def test_fragments_do_not_add_up() -> None:
    """Four hosts with 1 GB free each hold no executor of 2 GB, although 4 GB are free."""
    hosts = tuple(HostRoom(4, 1024) for _ in range(4))
    found = resize(EngineShape(1, 1600, 448), wanted(Resource.PARALLELISM, 3), Capacity(hosts=hosts))
    assert found.shape == EngineShape(1, 1600, 448)
    assert "4,096 MB free, in pieces" in found.unplaced


def test_as_much_as_fits_is_placed_and_the_rest_is_told() -> None:
    """Of six executors four have room: four are taken, and the missing cores are in the sentence."""
    hosts = (HostRoom(2, 8192), HostRoom(1, 8192, own_executors=1))
    found = resize(EngineShape(1, 1024, 384), wanted(Resource.PARALLELISM, 6), Capacity(hosts=hosts))
    assert found.shape.executors == 4
    assert found.unplaced.endswith("2 cores not placed")


def test_new_executors_beside_the_old_ones_need_room_for_both() -> None:
    """What fits only in place of the old executors cannot take over while they are there."""
    tight = Capacity(hosts=(HostRoom(0, 600, own_executors=1),))
    roomy = Capacity(hosts=(HostRoom(2, 4096, own_executors=1),))
    decision = wanted(Resource.HEAP, 1500)
    shape = EngineShape(1, 1024, 384)
    assert resize(shape, decision, tight).fits_beside is False
    assert resize(shape, decision, roomy).fits_beside is True
    assert resize(shape, decision, tight).shape.heap_mb == 1500


def test_a_quota_holds() -> None:
    """No more executors than the quota of cores allows, and it is said."""
    found = resize(SHAPE, wanted(Resource.PARALLELISM, 20), Capacity(quota_cores=10))
    assert found.shape.executors == 5
    assert found.unplaced.startswith("the quota of 10 cores allows 5 of 10 executors")


def test_python_workers_without_a_limit_are_given_none() -> None:
    """More memory for them goes to the overhead they live off: a limit on what they map could end them at once."""
    shape = EngineShape(2, 1024, 384)
    wanted = SizingDecision("P2", Resource.MEMORY, 2 * 2048.0, "", part=MemoryPart.PYTHON)
    found = resize(shape, wanted, Capacity()).shape
    assert (found.heap_mb, found.overhead_mb, found.python_mb) == (1024, 1024, 0)


@pytest.mark.parametrize(("mapped_mb", "python_mb"), [(None, 2000), (1500.0, 1500), (2500.0, 2000)])
def test_the_limit_of_python_workers_is_lowered_only_to_what_they_map(mapped_mb: float | None, python_mb: int) -> None:
    """Little of what they map may be resident: without the figure the limit stays, whatever the memory could be."""
    shape = EngineShape(2, 1024, 384, python_mb=2000)
    wanted = SizingDecision("P6", Resource.MEMORY, 2 * 1600.0, "", python_mb=mapped_mb)
    found = resize(shape, wanted, Capacity()).shape
    assert found.python_mb == python_mb
    assert found.memory_mb < shape.memory_mb
