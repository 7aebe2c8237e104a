"""Sizing policies, one by one and in their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.control.sizing.base import SizingContext
from penstock.control.sizing.engine import PolicyEngine, is_clean
from penstock.control.sizing.policies import POLICIES
from penstock.control.sizing.usage import Usage
from penstock.model.sizing import Capacity, EngineShape, MemoryPart, Resource, UsageSignal
from penstock.settings import SizingSettings

SHAPE = EngineShape(executors=2, heap_mb=1024, overhead_mb=300, python_mb=220, cores=2)
SETTINGS = SizingSettings()


def calm(time_s: float, **more: object) -> UsageSignal:
    """A window of an engine that has what it needs."""
    values: dict[str, object] = {
        "heap_used_mb": 800.0, "heap_committed_mb": 960.0, "gc_fraction": 0.03, "gc_count": 5, "jvm_rss_mb": 1100.0,
        "python_rss_mb": 200.0, "off_heap_mb": 200.0, "cpu_fraction": 0.7, "busy_fraction": 0.72, "backlog_rows": 0.0,
        "arrival_rows_per_s": 100.0, "processed_rows_per_s": 100.0,
    }  # fmt: skip
    return UsageSignal(time_s, **(values | more))  # type: ignore[arg-type]


def engine(shape: EngineShape = SHAPE, **more: object) -> PolicyEngine:
    return PolicyEngine(SETTINGS, shape, **more)  # type: ignore[arg-type]


def feed(sizing: PolicyEngine, windows: int, **more: object) -> None:
    for window in range(windows):
        sizing.observe(calm(15.0 * window, **more))


def test_policies_are_asked_memory_before_cpu_before_parallelism_and_up_before_down() -> None:
    """The order is that of the paper."""
    assert [policy.name for policy in POLICIES] == [f"P{number}" for number in range(1, 9)]
    assert [policy.resource for policy in POLICIES[:4]] == list(Resource)
    assert [policy.is_up for policy in POLICIES] == [True] * 4 + [False] * 4


def test_an_engine_that_has_what_it_needs_is_left_alone() -> None:
    """No policy decides anything about an engine within all limits."""
    sizing = engine()
    feed(sizing, 20)
    found = sizing.judge()
    assert found.decision is None
    assert len(found.verdicts) == 8


def test_garbage_collection_is_heap_pressure_and_not_lack_of_cpu() -> None:
    """An engine that collects garbage all the time gets heap, although its cores are all busy and rows wait."""
    sizing = engine()
    for window in range(6):
        sizing.observe(
            calm(15.0 * window, gc_fraction=0.4, cpu_fraction=0.98, busy_fraction=1.0, backlog_rows=1000.0 * window,
                 processed_rows_per_s=60.0)
        )  # fmt: skip
    found = sizing.judge()
    assert found.decision is not None
    assert found.decision.policy == "P1"
    assert found.resized is not None
    assert found.resized.shape.heap_mb == 2048
    assert [verdict.decision is not None for verdict in found.verdicts][2]


def test_a_jvm_that_collects_before_it_takes_its_heap_is_not_given_more() -> None:
    """Collections of a JVM that begins with little are no want of heap; with the heap in use they are."""
    sizing = engine(EngineShape(2, 4096, 512, 256, 2))
    feed(sizing, 3, gc_fraction=0.3)
    found = sizing.judge()
    assert found.decision is None
    assert found.verdicts[0].reason.endswith("with 800 of 4,096 MB ever used: not for want of it")
    feed(sizing, 1, gc_fraction=0.3, heap_used_mb=2800.0)
    decision = sizing.judge().decision
    assert decision is not None
    assert decision.policy == "P1"


def test_a_python_worker_that_grows_is_told_apart_from_the_jvm() -> None:
    """Memory goes to Python workers where they are the ones above their part, and the heap stays."""
    sizing = engine()
    feed(sizing, 1, jvm_rss_mb=1000.0, python_rss_mb=700.0)
    found = sizing.judge()
    assert found.decision is not None
    assert (found.decision.policy, found.decision.part) == ("P2", MemoryPart.PYTHON)
    assert found.resized is not None
    shape = found.resized.shape
    assert (shape.heap_mb, shape.overhead_mb) == (SHAPE.heap_mb, SHAPE.overhead_mb)
    assert shape.python_mb > SHAPE.python_mb


def test_native_memory_of_the_jvm_goes_to_the_overhead() -> None:
    """Memory goes to the overhead where the JVM is the one above its part."""
    sizing = engine()
    feed(sizing, 1, jvm_rss_mb=1620.0, python_rss_mb=10.0)
    found = sizing.judge()
    assert found.resized is not None
    shape = found.resized.shape
    assert shape.overhead_mb > SHAPE.overhead_mb
    assert shape.python_mb == SHAPE.python_mb


def test_a_single_window_above_a_limit_is_no_reason_for_more_heap_or_cores() -> None:
    """One pause is not pressure."""
    sizing = engine()
    feed(sizing, 6)
    sizing.observe(calm(90.0, gc_fraction=0.3, cpu_fraction=0.99))
    assert sizing.judge().decision is None


def test_work_on_a_backlog_does_not_look_like_load() -> None:
    """Cores that are all busy because they catch up need no company: the rows that come would fit."""
    sizing = engine()
    for window in range(6):
        sizing.observe(
            calm(15.0 * window, cpu_fraction=1.0, busy_fraction=1.0, processed_rows_per_s=140.0, gc_fraction=0.12,
                 backlog_rows=9000.0 - 600.0 * window)
        )  # fmt: skip
    assert sizing.judge().decision is None


def test_heap_goes_down_in_one_step_and_not_below_the_peak() -> None:
    """The step down goes to committed heap plus margin at once, and there is no second one."""
    sizing = engine(EngineShape(2, 4096, 512, 256, 2))
    feed(sizing, 8)
    found = sizing.judge()
    assert found.decision is not None
    assert found.decision.policy == "P5"
    assert found.resized is not None
    assert found.resized.shape.heap_mb == pytest.approx(960 * 1.03, abs=2)
    sizing.begin(found.decision)
    sizing.end(found.resized.shape, is_done=True)
    feed(sizing, 20, heap_used_mb=300.0, heap_committed_mb=400.0)
    later = sizing.judge()
    heap = next(verdict for verdict in later.verdicts if verdict.policy == "P5")
    assert heap.decision is None
    assert "already" in heap.reason


def test_a_heap_full_of_garbage_goes_down_to_what_lives_and_the_room_that_collections_need() -> None:
    """What lives is known: it counts, with 3 of at most 10 % of the time in collections, and not what was committed."""
    sizing = engine(EngineShape(2, 4096, 512, 256, 2))
    feed(sizing, 8, heap_low_mb=400.0)
    found = sizing.judge()
    assert found.decision is not None
    assert found.decision.policy == "P5"
    assert found.decision.figures["heap_low_mb"] == 400.0
    assert found.decision.total / 2 == pytest.approx((400 + 400 * 0.3) * 1.5 * 1.03, rel=0.01)
    assert found.decision.reason.startswith("400 MB live and collections, of 400 MB each, take 3.0 % of the time")


def test_what_lives_is_the_higher_of_two_lows_and_unknown_where_one_is() -> None:
    """State that grows is low in the older windows only; samples of one half of the windows alone tell nothing."""
    grown, half = engine(), engine()
    for window in range(8):
        grown.observe(calm(15.0 * window, heap_low_mb=300.0 + 50.0 * window))
        half.observe(calm(15.0 * window, heap_low_mb=300.0 if window < 4 else None))
    assert grown.usage.low("heap_low_mb", 8) == 500.0
    assert half.usage.low("heap_low_mb", 8) is None


def test_a_heap_whose_collections_need_more_than_was_committed_stays_at_the_committed_one() -> None:
    """The rule by what lives only ever saves more: where it would want more, the committed heap stands."""
    sizing = engine(EngineShape(2, 4096, 512, 256, 2))
    feed(sizing, 8, heap_low_mb=790.0)
    found = sizing.judge()
    assert found.decision is not None
    assert found.decision.total / 2 == pytest.approx(960 * 1.03)


def test_memory_goes_down_beside_a_heap_near_its_limit_and_leaves_room_for_all_of_it() -> None:
    """Collections above their limit in half of all windows say nothing of what there is beside the heap."""
    sizing = engine(EngineShape(1, 1024, 2048, 0, 2), hands_off=(Resource.HEAP,))
    for window in range(12):
        near = 0.13 if window % 4 > 1 else 0.08
        sizing.observe(calm(15.0 * window, gc_fraction=near, python_rss_mb=0.0, off_heap_mb=200.0 + 5.0 * (window % 4)))
    assert sizing.usage.clean_windows < 8
    found = sizing.judge()
    assert found.decision is not None
    assert found.decision.policy == "P6"
    assert found.decision.total == pytest.approx((1024 + 215) * 1.03 / SETTINGS.memory_limit, rel=0.01)


def test_memory_stays_while_more_than_collections_is_short() -> None:
    """An engine that falls behind has not shown yet what it needs."""
    sizing = engine(EngineShape(1, 1024, 2048, 0, 2))
    feed(sizing, 12, processed_rows_per_s=50.0)
    memory = next(verdict for verdict in sizing.judge().verdicts if verdict.policy == "P6")
    assert memory.decision is None
    assert memory.reason == "0 of 8 quiet windows watched"


def test_executors_that_are_added_share_the_memory_of_the_state() -> None:
    """Twice the executors have half of the state each: heap and memory beside it go down in the same change."""
    sizing = engine(EngineShape(2, 1024, 600, 220, 2))
    for window in range(6):
        sizing.observe(calm(15.0 * window, busy_fraction=0.99))
    found = sizing.judge()
    assert found.decision is not None
    assert found.decision.policy == "P4"
    assert found.resized is not None
    shape = found.resized.shape
    assert (shape.executors, shape.cores, shape.python_mb) == (3, 2, 220)
    assert 2 / 3 * 960 < shape.heap_mb < 960
    assert shape.memory_mb < 1024 + 600 + 220
    # What is resident then has to lie within the limit, the whole heap counted.
    assert (shape.heap_mb + 128 + 72 * 2 / 3 + 200) <= SETTINGS.memory_limit * shape.memory_mb


def test_executors_whose_use_is_unknown_keep_what_each_has() -> None:
    """Nothing is made smaller on a guess."""
    shape = EngineShape(2, 1024, 600, 220, 2)
    sizing = engine(shape)
    for window in range(6):
        sizing.observe(UsageSignal(15.0 * window, busy_fraction=0.99, cpu_fraction=0.5))
    found = sizing.judge()
    assert found.resized is not None
    assert found.resized.shape == replace(shape, executors=3)


def test_a_load_that_has_fallen_allows_a_second_step_down() -> None:
    """What was sized for a load may be sized again for half of it."""
    sizing = engine(EngineShape(2, 4096, 512, 256, 2))
    feed(sizing, 8, arrival_rows_per_s=1000.0, processed_rows_per_s=1000.0)
    found = sizing.judge()
    assert found.decision is not None
    assert found.resized is not None
    sizing.begin(found.decision)
    sizing.end(found.resized.shape, is_done=True)
    sizing.usage = Usage(3600.0)
    feed(sizing, 20, heap_used_mb=300.0, heap_committed_mb=400.0)
    later = next(verdict for verdict in sizing.judge().verdicts if verdict.policy == "P5")
    assert later.decision is not None


def test_rows_that_had_waited_at_the_start_are_no_load_that_falls() -> None:
    """Windows that work off what had waited make the load look high at first: no second step down comes of that."""
    sizing = engine(EngineShape(2, 4096, 512, 256, 2))
    feed(sizing, 2, arrival_rows_per_s=200.0, processed_rows_per_s=200.0)
    feed(sizing, 7)
    found = sizing.judge()
    assert found.decision is not None
    assert found.resized is not None
    sizing.begin(found.decision)
    sizing.end(found.resized.shape, is_done=True)
    feed(sizing, 40, heap_used_mb=300.0, heap_committed_mb=400.0)
    heap = next(verdict for verdict in sizing.judge().verdicts if verdict.policy == "P5")
    assert "already" in heap.reason


def test_nothing_is_decided_while_an_action_is_in_flight_and_its_effect_is_compared() -> None:
    """Windows during an action count for nothing; two windows later what was expected is compared with what is."""
    sizing = engine()
    feed(sizing, 2, gc_fraction=0.4)
    found = sizing.judge()
    assert found.decision is not None
    assert found.resized is not None
    sizing.begin(found.decision)
    assert sizing.observe(calm(45.0)) is None
    sizing.end(found.resized.shape, is_done=True)
    assert sizing.observe(calm(60.0, gc_fraction=0.05)) is None
    effect = sizing.observe(calm(75.0, gc_fraction=0.05))
    assert effect is not None
    assert effect.seen == {"gc_fraction": 0.05}
    assert effect.is_as_expected


def test_missing_figures_argue_against_acting() -> None:
    """Where nothing is known nothing is decided, and every policy says what is missing."""
    sizing = engine()
    for window in range(20):
        sizing.observe(UsageSignal(15.0 * window))
    found = sizing.judge()
    assert found.decision is None
    assert all("not known" in verdict.reason or "known for" in verdict.reason for verdict in found.verdicts)


def test_what_the_operator_sizes_is_left_to_the_operator_and_said() -> None:
    """A resource that is sized by hand is not decided about, whatever is seen."""
    sizing = engine(hands_off={Resource.HEAP})
    feed(sizing, 3, gc_fraction=0.4)
    first = sizing.judge().verdicts[0]
    assert first.decision is None
    assert first.reason == "heap is sized by the operator"


def test_a_shape_that_nobody_decided_is_taken_over_from_whoever_changed_it() -> None:
    """Somebody gives the executors another heap: heap is the operator's from then on, all else is not."""
    sizing = engine()
    changed = sizing.take_by_hand(EngineShape(2, 1500, 300, 220, 2))
    assert changed == (Resource.HEAP,)
    assert sizing.shape.heap_mb == 1500
    assert sizing.hands_off == {Resource.HEAP}


def test_a_resource_that_failed_is_not_tried_again() -> None:
    """After two failures the resource is left as it is, with the reason."""
    sizing = engine()
    sizing.block(Resource.HEAP, "executors with more heap did not start twice")
    feed(sizing, 3, gc_fraction=0.4)
    assert sizing.judge().verdicts[0].reason == "executors with more heap did not start twice"


def test_what_has_no_room_is_decided_and_told() -> None:
    """A cluster that is full keeps the shape, and the round says what could not be placed."""
    sizing = engine()
    feed(sizing, 3, gc_fraction=0.4)
    found = sizing.judge(Capacity(quota_memory_mb=4000))
    assert found.resized is not None
    assert found.resized.shape == SHAPE
    assert "the quota of 4,000 MB allows" in found.resized.unplaced


def test_a_window_that_catches_up_for_more_than_a_window_is_not_quiet() -> None:
    """Sizes are not made smaller by windows in which rows wait."""
    assert is_clean(calm(0.0), SHAPE, SETTINGS)
    assert not is_clean(calm(0.0, backlog_rows=2000.0), SHAPE, SETTINGS)
    assert not is_clean(calm(0.0, lost_to_memory=1), SHAPE, SETTINGS)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_every_policy_gives_figures_and_no_decision_without_windows(policy: object) -> None:
    """A policy that is asked before anything was seen says so."""
    context = SizingContext(SHAPE, Usage(3600.0), SETTINGS)
    verdict = policy.judge(context)  # type: ignore[attr-defined]
    assert verdict.decision is None
    assert verdict.reason
