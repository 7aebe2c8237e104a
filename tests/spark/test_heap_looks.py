"""Looks at what lives in the heap: when they are made, what they tell, and what if they cannot be made."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from patience import PATIENCE_S
from penstock.model.sizing import EngineShape, UsageSignal
from penstock.settings import SizingSettings
from penstock.spark import heap_looks, sizing_plant
from penstock.spark.heap_looks import HeapLook, HeapLooks, look_of
from penstock.spark.internals import Ability, Collected, LivingHeap
from penstock.spark.sizing_plant import SizingPlant

MB = 1024 * 1024


def heap(number: int, at_s: float, live_mb: float, *, old_mb: float = 0.0, collected_s: float = 0.2) -> LivingHeap:
    return LivingHeap(str(number), at_s, int(live_mb * MB), int(old_mb * MB), collected_s)


def test_the_pace_of_collections_is_told_without_those_that_were_asked_for() -> None:
    """Counts and times between two looks; a full one in between means that growth was seen for a part of the time."""
    first = LivingHeap(
        "0", 10.0, 180 * MB, 300 * MB, 0.1, 190 * MB, 580 * MB, Collected(50, 3, 0.5, 0.4), Collected(50, 4, 0.5, 0.5)
    )
    second = replace(
        first, at_s=20.0, old_before_bytes=260 * MB, before=Collected(60, 4, 0.6, 0.5), after=Collected(60, 5, 0.6, 0.6)
    )
    look = look_of([first], [second])
    assert (look.gcs_per_s, look.taken_mb, look.aging_mb_per_s) == (1.0, 580.0, 8.0)
    assert look.young_gc_s == pytest.approx(0.01)
    between = replace(second, before=Collected(60, 5, 0.6, 0.6))
    assert look_of([first], [between]).aging_mb_per_s == pytest.approx(2 * (260 - 190) / 10)


class World:
    """Executors that run tasks or do not, and answer or do not."""

    def __init__(self) -> None:
        self.answers: list[list[LivingHeap] | Exception] = []
        self.is_running, self.asked, self.cancelled = True, 0, 0
        context = SimpleNamespace(setJobGroup=lambda *_, **__: None, cancelJobGroup=self.cancel)
        self.spark: Any = SimpleNamespace(sparkContext=context)

    def cancel(self, _: str) -> None:
        """A job that waits for too long."""
        self.cancelled += 1

    def living_heaps(self, _: object) -> list[LivingHeap]:
        """What the next job gives."""
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Spark's side of it, without waiting."""
    made = World()
    members = {
        "heap_question": lambda _: "question",
        "living_heaps": made.living_heaps,
        "has_running_tasks": lambda _: made.is_running,
    }
    monkeypatch.setattr(heap_looks, "internals", SimpleNamespace(**members))
    monkeypatch.setattr(heap_looks, "_LOOK_EVERY_S", (0.001, 0.002))
    return made


def look(looks: HeapLooks) -> HeapLook | None:
    """One look from begin to end."""
    looks.begin()
    await_that(lambda: not looks.is_busy)
    return looks.take()


def await_that(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def test_a_look_tells_the_fullest_executor_and_how_fast_its_old_generation_fills() -> None:
    """Each figure is the largest; what grew is told only of an executor that was seen before."""
    before = [heap(0, 100.0, 200.0), heap(1, 100.0, 100.0)]
    now = [heap(1, 110.0, 120.0, old_mb=180.0), heap(2, 110.0, 150.0, old_mb=900.0, collected_s=0.5)]
    found = look_of(before, now)
    assert (found.live_mb, found.full_gc_s, found.aging_mb_per_s) == (150.0, 0.5, 8.0)
    assert found.collected_s == {"1": 0.2, "2": 0.5}
    assert look_of([], now).aging_mb_per_s is None


def test_a_natural_collection_between_two_looks_is_no_negative_growth() -> None:
    """An old generation that holds less than lived before has grown by nothing."""
    assert look_of([heap(0, 1.0, 200.0)], [heap(0, 9.0, 190.0, old_mb=195.0)]).aging_mb_per_s == 0.0


def test_looks_follow_each_other_and_are_told_once(world: World) -> None:
    """The second one knows the first; what was taken is gone."""
    world.answers = [[heap(0, 1.0, 200.0)], [heap(0, 11.0, 190.0, old_mb=260.0)]]
    looks = HeapLooks(world.spark, within_s=PATIENCE_S)
    first = look(looks)
    second = look(looks)
    assert first is not None
    assert first.aging_mb_per_s is None
    assert second is not None
    assert second.aging_mb_per_s == 6.0
    assert looks.take() is None


def test_an_engine_without_running_tasks_is_not_looked_at(world: World) -> None:
    """Between two batches nothing is held on to that a heap has to have room for: no garbage is collected then."""
    world.is_running = False
    assert look(HeapLooks(world.spark, within_s=0.02)) is None
    assert world.asked == 0


def test_looks_that_fail_are_given_up_and_disturb_nobody(world: World) -> None:
    """Three in a row are enough; one that nobody answered is none; one that works counts anew."""
    failing = RuntimeError("no such method")
    world.answers = [failing, failing, [heap(0, 1.0, 90.0)], [], failing, failing, failing, [heap(0, 2.0, 90.0)]]
    looks = HeapLooks(world.spark, within_s=PATIENCE_S)
    found = [look(looks) for _ in range(8)]
    assert [each is not None for each in found] == [False, False, True, False, False, False, False, False]
    assert world.asked == 7


def test_nothing_is_asked_after_the_end(world: World) -> None:
    """Who lets go of the session looks at nothing any more."""
    looks = HeapLooks(world.spark, within_s=PATIENCE_S)
    looks.close()
    assert look(looks) is None
    assert world.asked == 0


class Windows:
    """Windows that end when the test says so."""

    def __init__(self, *_: object) -> None:
        self.is_over = False
        self.looks: list[HeapLook] = []

    def signal(self, _: float) -> UsageSignal | None:
        """The window, where it is over."""
        is_over, self.is_over = self.is_over, False
        return UsageSignal(1.0) if is_over else None

    def on_look(self, found: HeapLook) -> None:
        """What was seen."""
        self.looks.append(found)


def plant(world: World, monkeypatch: pytest.MonkeyPatch, *missing: Ability, wants: bool = True) -> SizingPlant:
    monkeypatch.setattr(sizing_plant, "UsageCollector", Windows)
    monkeypatch.setattr(sizing_plant, "engine_shape", lambda _: EngineShape(1, 512, 384))
    monkeypatch.setattr(sizing_plant, "find_master_page", lambda _: None)
    context = world.spark.sparkContext
    context.getConf, context.master = lambda: SimpleNamespace(get=lambda _: None), "local[2]"
    return SizingPlant(
        world.spark, SizingSettings(mode="apply"), missing, run_ids=list, keep=lambda _: None,
        wants_heap_look=lambda: wants,
    )  # fmt: skip


def test_there_is_one_look_in_a_window_and_only_where_it_is_wanted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logic sees what the last look told before there is another; without its wish nothing is collected."""
    world.answers = [[heap(0, 1.0, 90.0)], [heap(0, 2.0, 95.0)]]
    sizing = plant(world, monkeypatch)
    windows: Any = sizing.usage
    for number in (1, 2):
        for _ in range(5):
            assert sizing.observe() is None
            await_that(lambda: not sizing._looks.is_busy)  # type: ignore[union-attr]
        assert world.asked == number
        windows.is_over = True
        assert sizing.observe() is not None
    assert [each.live_mb for each in windows.looks] == [90.0, 95.0]
    unwanted = plant(world, monkeypatch, wants=False)
    assert unwanted.observe() is None
    sizing.close()


def test_a_spark_that_cannot_be_asked_is_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the private members windows tell what they told before."""
    sizing = plant(world, monkeypatch, Ability.LIVE_HEAP)
    assert sizing.observe() is None
    windows: Any = sizing.usage
    windows.is_over = True
    assert sizing.observe() is not None
    assert world.asked == 0
    sizing.close()


def test_what_was_seen_of_executors_that_leave_is_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that ends while executors are being changed tells nothing of those to come."""
    world.answers = [[heap(0, 1.0, 90.0)]]
    sizing = plant(world, monkeypatch)
    assert sizing.observe() is None
    await_that(lambda: not sizing._looks.is_busy)  # type: ignore[union-attr]
    busy = SimpleNamespace(is_busy=True)
    reshaper, sizing._reshaper = sizing._reshaper, busy  # type: ignore[assignment]
    assert sizing.observe() is None
    sizing._reshaper = reshaper
    windows: Any = sizing.usage
    windows.is_over = True
    sizing.observe()
    assert windows.looks == []
