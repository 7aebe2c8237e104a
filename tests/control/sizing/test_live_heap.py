"""What was seen to live in the heap: when it is looked at, what follows from it, and that bursts change nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.control.sizing.engine import PolicyEngine
from penstock.control.sizing.live_heap import LiveHeap
from penstock.model.sizing import EngineShape, Resource, SizingDecision, UsageSignal
from penstock.settings import SizingSettings

SHAPE = EngineShape(executors=2, heap_mb=1024, overhead_mb=300, python_mb=220, cores=2)
LARGE = EngineShape(executors=2, heap_mb=4096, overhead_mb=512, python_mb=256, cores=2)
SETTINGS = SizingSettings()


def calm(time_s: float, **more: object) -> UsageSignal:
    """A window of an engine that has what it needs."""
    values: dict[str, object] = {
        "heap_used_mb": 800.0, "heap_committed_mb": 960.0, "gc_fraction": 0.03, "jvm_rss_mb": 1100.0,
        "python_rss_mb": 200.0, "off_heap_mb": 200.0, "cpu_fraction": 0.7, "busy_fraction": 0.72, "backlog_rows": 0.0,
        "arrival_rows_per_s": 100.0, "processed_rows_per_s": 100.0,
    }  # fmt: skip
    return UsageSignal(time_s, **(values | more))  # type: ignore[arg-type]


def engine(shape: EngineShape = SHAPE, **more: object) -> PolicyEngine:
    return PolicyEngine(SETTINGS, shape, **more)  # type: ignore[arg-type]


def feed(sizing: PolicyEngine, windows: int, **more: object) -> None:
    for window in range(windows):
        sizing.observe(calm(15.0 * window, **more))


def living(number: int, **more: object) -> UsageSignal:
    """A quiet window in which it was seen what lives."""
    seen = {
        "heap_live_mb": 190.0, "full_gc_s": 0.1, "aging_mb_per_s": 18.0, "heap_low_mb": 700.0, "gcs_per_s": 1.0,
        "young_gc_s": 0.01, "heap_taken_mb": 600.0,
    }  # fmt: skip
    return calm(15.0 * number, **(seen | more))


def test_what_was_seen_to_live_counts_before_any_sample() -> None:
    """The heap goes to what lives and the room of its collections, whatever samples full of garbage say."""
    sizing = engine(LARGE)
    for window in range(8):
        sizing.observe(living(window) if window % 2 else calm(15.0 * window, heap_low_mb=700.0))
    found = sizing.judge()
    assert found.decision is not None
    assert found.decision.policy == "P5"
    living_mb = LiveHeap(190.0, 190.0, 0.1, 0.01, 1.0, 600.0, 18.0)
    assert found.decision.total / 2 == pytest.approx(living_mb.heap_for(0.1 / 1.08))
    assert 350 < found.decision.total / 2 < 380
    assert found.decision.figures["heap_live_mb"] == 190.0
    sizing.begin(found.decision)
    assert found.resized is not None
    sizing.end(found.resized.shape, is_done=True)
    # Whoever has to enlarge the heap again goes by what was seen to live.
    assert len(sizing.usage.heap_looks) == 4


def test_a_heap_that_fills_fast_keeps_room_for_that() -> None:
    """Full collections of half a second, and 40 MB a second that grow old, need more room than a quiet heap does."""
    sizing = engine(LARGE)
    for window in range(8):
        sizing.observe(living(window, full_gc_s=0.5, aging_mb_per_s=40.0))
    found = sizing.judge()
    assert found.decision is not None
    assert found.decision.total / 2 == pytest.approx(
        LiveHeap(190.0, 190.0, 0.5, 0.01, 1.0, 600.0, 40.0).heap_for(0.1 / 1.08)
    )
    assert found.decision.total / 2 > 500


def test_a_step_down_waits_for_looks_that_have_begun_and_for_none_that_never_come() -> None:
    """One look of four is waited for, by memory too, but not for ever; without any the samples decide at once."""
    begun, never = engine(LARGE), engine(LARGE)
    for window in range(8):
        begun.observe(living(window) if window == 3 else calm(15.0 * window))
        never.observe(calm(15.0 * window))
    heap, memory = (verdict for verdict in begun.judge().verdicts if verdict.policy in {"P5", "P6"})
    assert heap.decision is None
    assert heap.reason == "what lives was seen 1 of 4 times"
    # Memory for a heap that is about to shrink would be left over: there is one step down of it.
    assert memory.decision is None
    assert memory.reason.endswith("the heap goes first")
    assert never.judge().decision is not None
    for window in range(8, 16):
        begun.observe(calm(15.0 * window))
    decision = begun.judge().decision
    assert decision is not None
    # A single look may have fallen anywhere.
    assert decision.total / 2 == pytest.approx(960 * 1.03, rel=0.01)


def test_looks_are_wanted_while_a_step_down_is_near_and_no_longer() -> None:
    """In the last of the windows watched, so many, not for a heap that the operator sizes, none after a step down."""
    sizing, by_hand = engine(LARGE), engine(hands_off={Resource.HEAP})
    wanted = []
    for window in range(8):
        wanted.append(sizing.wants_heap_look)
        assert not by_hand.wants_heap_look
        sizing.observe(living(window) if wanted[-1] else calm(15.0 * window))
        by_hand.observe(calm(15.0 * window))
    assert wanted == [False, False, False, True, True, True, True, False]
    found = sizing.judge()
    assert found.decision is not None
    sizing.begin(found.decision)
    assert not sizing.wants_heap_look
    assert found.resized is not None
    sizing.end(found.resized.shape, is_done=True)
    feed(sizing, 8)
    assert not sizing.wants_heap_look


def test_a_heap_that_stands_still_for_long_is_looked_at_twice_only() -> None:
    """Two looks of five seconds each are enough of a disturbance in two minutes."""
    sizing = engine(EngineShape(2, 40960, 512, 256, 2))
    feed(sizing, 3)
    for window in range(3, 5):
        assert sizing.wants_heap_look
        sizing.observe(living(window, full_gc_s=5.0))
    assert not sizing.wants_heap_look
    feed(sizing, 3)
    decision = sizing.judge().decision
    assert decision is not None
    assert decision.policy == "P5"


def test_what_lived_long_ago_is_looked_at_again() -> None:
    """After the half-life of what was seen, looks are forgotten."""
    sizing = engine()
    for window in range(4):
        sizing.observe(living(window))
    assert not sizing.wants_heap_look
    sizing.observe(calm(15.0 * 4 + SETTINGS.half_life_s))
    assert sizing.wants_heap_look


def test_a_heap_that_was_made_smaller_is_not_made_larger_for_a_burst() -> None:
    """Two windows above the limit are enough before a step down, eight after it, and two again where more rows come."""
    fresh, smaller, risen = engine(), engine(), engine()
    for sizing in (smaller, risen):
        feed(sizing, 2)
        sizing.begin(SizingDecision("P5", Resource.HEAP, 2 * 1000.0, ""))
        sizing.end(SHAPE, is_done=True)
    for window in range(7):
        for sizing in (fresh, smaller):
            sizing.observe(calm(60.0 + 15.0 * window, gc_fraction=0.2))
        risen.observe(calm(60.0 + 15.0 * window, gc_fraction=0.2, arrival_rows_per_s=130.0, processed_rows_per_s=130.0))
    decided = [sizing.judge().decision for sizing in (fresh, smaller, risen)]
    assert [each is not None and each.policy == "P1" for each in decided] == [True, False, True]
    smaller.observe(calm(165.0, gc_fraction=0.2))
    decision = smaller.judge().decision
    assert decision is not None
    assert decision.policy == "P1"


def test_a_heap_that_was_made_too_small_goes_back_to_what_was_enough_and_no_further() -> None:
    """However much time collections take, the heap before the step down was enough for this load."""
    sizing = engine(replace(SHAPE, heap_mb=1300))
    feed(sizing, 2)
    sizing.begin(SizingDecision("P5", Resource.HEAP, 2 * 1024.0, ""))
    sizing.end(SHAPE, is_done=True)
    feed(sizing, 8, gc_fraction=0.4)
    decision = sizing.judge().decision
    assert decision is not None
    assert decision.total == 2 * 1300
    sizing.begin(decision)
    sizing.end(replace(SHAPE, heap_mb=1300), is_done=True)
    feed(sizing, 8, gc_fraction=0.4, heap_used_mb=1200.0)
    again = sizing.judge().decision
    assert again is not None
    assert again.total == 2 * 2 * 1300


def test_both_directions_go_by_one_law() -> None:
    """At the heap that P5 came to, P1 is silent on what P5 foretold, and goes by the same law where it is more."""
    sizing = engine(replace(LARGE, executors=1))
    for window in range(8):
        sizing.observe(living(window))
    found = sizing.judge()
    assert found.decision is not None
    assert found.resized is not None
    sizing.begin(found.decision)
    sizing.end(found.resized.shape, is_done=True)
    small_mb = found.resized.shape.heap_mb
    law = LiveHeap(190.0, 190.0, 0.1, 0.01, 1.0, 600.0, 18.0)
    foretold = law.share(small_mb)
    feed(sizing, 8, heap_used_mb=0.9 * small_mb, gc_fraction=foretold)
    assert sizing.judge().verdicts[0].decision is None
    feed(sizing, 8, heap_used_mb=0.9 * small_mb, gc_fraction=2 * foretold)
    decision = sizing.judge().decision
    assert decision is not None
    assert decision.policy == "P1"
    assert decision.total == pytest.approx(law.heap_for(0.1 / 1.08 / 2))
    assert law.heap_for(0.1 / 1.08 / 2) < 1.3 * small_mb


def test_without_knowing_how_often_it_collects_nothing_follows_from_what_lives() -> None:
    """Looks that tell no pace of collections leave the decision to what Spark samples."""
    sizing = engine(LARGE)
    for window in range(8):
        sizing.observe(living(window, gcs_per_s=None, young_gc_s=None, heap_taken_mb=None, heap_low_mb=None))
    decision = sizing.judge().decision
    assert decision is not None
    assert decision.total / 2 == pytest.approx(960 * 1.03)


def test_more_heap_never_means_more_collections() -> None:
    """The time in collections falls with the heap, whatever was seen."""
    for law in (
        LiveHeap(178.0, 196.0, 0.085, 0.007, 0.95, 581.0, 18.5),
        LiveHeap(900.0, 940.0, 1.5, 0.02, 0.5, 4000.0, 20.0),
        LiveHeap(500.0, 900.0, 0.2, 0.3, 2.0, 1000.0, 0.0),
    ):
        shares = [law.share(heap_mb) for heap_mb in range(300, 6000, 20)]
        assert shares == sorted(shares, reverse=True)
        assert law.share(law.heap_for(0.05)) <= 0.05 + 1e-9
        assert law.heap_for(0.05) >= max(law.most_mb, law.live_mb * 10 / 9 * 1.5) - 1e-6


def test_two_looks_at_one_engine_come_to_the_same_heap() -> None:
    """Figures of one engine in heaps of 476 and 1,074 MB, whose smallest heap by search was 358 MB, agree."""
    small = LiveHeap(176.0, 195.8, 0.087, 0.0095, 0.96, 460.2, 12.5)
    large = LiveHeap(175.1, 193.2, 0.094, 0.0092, 0.93, 530.1, 9.9)
    found = [law.heap_for(0.1 / 1.08) for law in (small, large)]
    assert max(found) < 1.03 * min(found)
    assert all(0.97 * 358 < heap_mb < 1.1 * 358 for heap_mb in found)


def test_one_burst_of_collections_does_not_begin_the_watch_anew() -> None:
    """One window counts for nothing, two on end begin anew, and so does a single one in which an executor was lost."""
    sizing = engine()
    feed(sizing, 5)
    sizing.observe(calm(75.0, gc_fraction=0.3))
    assert sizing.usage.clean_windows == 5
    sizing.observe(calm(90.0, gc_fraction=0.3))
    assert sizing.usage.clean_windows == 0
    feed(sizing, 5)
    sizing.observe(calm(180.0, gc_fraction=0.3, lost_to_heap=1))
    assert sizing.usage.clean_windows == 0
