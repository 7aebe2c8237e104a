"""The benchmark of live sizes without an engine: the search, and what is counted of a case."""

from __future__ import annotations

from dataclasses import replace

from penstock.bench.size_result import (
    HeapTrial,
    SizedCase,
    SizeResult,
    SizingStep,
    next_heap,
    optimum,
    optimum_memory_mb,
)

NEEDED_MB = 291


def trial(heap_mb: int) -> HeapTrial:
    """A trial of an engine that needs so much."""
    return HeapTrial(heap_mb, (0.05, 0.04), 0.04, 1.0, 0, 0, 570.0, heap_mb >= NEEDED_MB, 30.0, 1.0)


def step(at_s: float, resource: str, *, is_up: bool, is_done: bool = True) -> SizingStep:
    """A change that took 20 s."""
    return SizingStep(at_s, "P1", resource, is_up, 400, 900, 20.0, is_done, "")


CASE = SizedCase(
    name="too large", first_heap_mb=900, last_heap_mb=330, last_memory_mb=660, optimum_heap_mb=300,
    optimum_memory_mb=600, steps=(), window_s=5.0, watched_s=300.0, gc_after=0.05, rows=10, counted_rows=10,
    offset_rows=10, runs=1, failed_tasks=0, load_average=3.0,
)  # fmt: skip


def test_the_search_ends_within_its_resolution_of_what_is_needed() -> None:
    """Every trial halves what is left, and the smallest heap that does is at most 5 % above the need."""
    trials: list[HeapTrial] = []
    while (heap_mb := next_heap(trials, 100, 900, 0.05)) is not None:
        trials.append(trial(heap_mb))
    best = optimum(trials)
    assert best is not None
    assert NEEDED_MB <= best.heap_mb <= 1.05 * NEEDED_MB
    assert len(trials) <= 8


def test_a_search_whose_largest_heap_fails_finds_nothing() -> None:
    """Larger ones are tried, twice; then there is nothing to halve, and no optimum is made up."""
    trials = [trial(100), trial(140), trial(196)]
    assert next_heap(trials[:1], 50, 100, 0.05) == 140
    assert next_heap(trials, 50, 100, 0.05) is None
    assert optimum(trials) is None


def test_steps_down_and_turns_are_counted_by_resource() -> None:
    """A step up of what was made smaller is a turn; one of another resource, or after a step that failed, is none."""
    case = replace(
        CASE,
        steps=(
            step(10.0, "heap", is_up=False, is_done=False), step(20.0, "heap", is_up=True),
            step(60.0, "heap", is_up=False), step(90.0, "memory", is_up=True), step(120.0, "heap", is_up=True),
            step(150.0, "memory", is_up=False),
        ),
    )  # fmt: skip
    assert (case.steps_down("heap"), case.steps_down("memory"), case.oscillations) == (1, 1, 1)


def test_time_to_the_right_size_is_told_for_windows_of_15_s_too() -> None:
    """Waiting takes three times as long with windows three times as long; changes take what they take."""
    case = replace(CASE, steps=(step(40.0, "heap", is_up=False),))
    assert case.right_size_s == 60.0
    assert case.right_size_at_15_s_windows_s == 20.0 + 3 * 40.0
    assert CASE.right_size_s == 0.0


def test_a_case_is_compared_with_the_optimum_of_its_run() -> None:
    """Sizes over the optimum, exactness, and the load of the machine are in the document."""
    best = trial(300)
    assert optimum_memory_mb(best, 0.95) == 600
    document = SizeResult((best,), 0.05, 0.95, (CASE, replace(CASE, counted_rows=9))).to_dict()
    first, second = document["rows"]
    assert (round(first["heap_over_optimum"], 3), round(first["memory_over_optimum"], 3)) == (0.1, 0.1)
    assert (first["is_exact"], second["is_exact"]) == (True, False)
    assert (document["optimum_heap_mb"], document["optimum_memory_mb"], document["load_average"]) == (300, 600, 3.0)
