"""Counts of guards, batch by batch, with plans that are made up."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

import pytest

from penstock.model.directive import Directive
from penstock.spark import guard_counts, internals
from penstock.spark.guard_counts import GuardCounts
from penstock.spark.guard_filters import MILLISECONDS, NOBODY
from penstock.spark.internals import CountedNode

if TYPE_CHECKING:
    from collections.abc import Callable

TOLD = Directive(1, 0.5, 0.1).to_array(answered=True)
NAME = "penstock.guard.1"


def plan_of(execution: str) -> CountedNode:
    """A guard without late rows; the plan that cannot be read raises."""
    if execution == "broken":
        raise ValueError("no such plan")
    offered = CountedNode("Filter", "Filter (SPARK_PARTITION_ID() >= 0)", 1)
    return CountedNode("Filter", f"Filter (({NAME}#4 > 0.0) AND (SPARK_PARTITION_ID() >= -2))", 2, (offered,))


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], GuardCounts]:
    """Counts of one guard, whose batches have a plan of that name."""

    def build(execution: str | None) -> GuardCounts:
        monkeypatch.setattr(guard_counts.internals, "stream_of", lambda *_: "stream")
        monkeypatch.setattr(internals, "execution_of_batch", lambda *_: execution)
        monkeypatch.setattr(internals, "counted_plan", plan_of)
        monkeypatch.setattr(internals, "places_of_filters", lambda _: {})
        monkeypatch.setattr(internals, "counted_rows", {1: 100, 2: 40}.__getitem__)
        found = GuardCounts()
        found.add(NAME, None)
        return found

    return build


def test_a_finished_batch_is_read_once_and_remembered(begun: Callable[[str | None], GuardCounts]) -> None:
    """Its plan is let go of with the first question, and the answer stays the same."""
    counts = begun("plan")
    counts.expect("run", 1, 1_000)
    assert counts.begin("query", "run", 1, TOLD) == [3.0, float(MILLISECONDS)]
    first = counts.reports("run", 1)
    assert first == {NAME: {"offered_rows": 100, "kept_rows": 40, "late_rows": 0, "kept_late_rows": 0}}
    counts.forget("run")
    assert counts.reports("run", 1) == first
    assert counts.reports("run", 2) == {}


def test_a_report_that_stays_away_is_read_before_it_is_lost(
    begun: Callable[[str | None], GuardCounts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the batch after next is planned, by a thread that nobody waits for; none of a query that is over."""
    counts, readers = begun("plan"), queue.SimpleQueue[str]()

    def noted(execution: str) -> CountedNode:
        readers.put(threading.current_thread().name)
        return plan_of(execution)

    monkeypatch.setattr(internals, "counted_plan", noted)
    for batch_id in (1, 2, 3):
        counts.expect("run", batch_id, 1_000)
        counts.begin("query", "run", batch_id, TOLD)
    assert readers.get(timeout=60.0) == "penstock-counts"
    counts.forget("run")
    assert [bool(counts.reports("run", batch_id)) for batch_id in (1, 2, 3)] == [True, False, False]


def test_places_of_filters_are_kept_until_others_are_there(
    begun: Callable[[str | None], GuardCounts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole plan is read for the first batch, and again when something else stands where the filters were."""
    counts, read = begun("plan"), []
    texts = {7: "Filter (SPARK_PARTITION_ID() >= 0)", 4: f"Filter (({NAME}#9 > 0.0) AND (SPARK_PARTITION_ID() >= -2))"}

    def noted(execution: str) -> CountedNode:
        read.append(execution)
        return plan_of(execution)

    monkeypatch.setattr(internals, "counted_plan", noted)
    monkeypatch.setattr(internals, "places_of_filters", lambda _: {1: 7, 2: 4})
    monkeypatch.setattr(
        internals, "filters_at", lambda _, places: {place: (texts[place], 10 * place) for place in places}
    )
    offered = []
    for batch_id in (1, 2, 3):
        counts.begin("query", "run", batch_id, TOLD)
        offered.append(counts.reports("run", batch_id)[NAME]["offered_rows"])
        if batch_id == 2:
            texts[4] = f"Filter (({NAME}0#9 > 0.0) AND (SPARK_PARTITION_ID() >= -2))"
    assert offered == [100, 70, 100]
    assert len(read) == 2


@pytest.mark.parametrize("execution", [None, "broken"])
def test_rows_tell_nothing_that_nobody_would_take(
    execution: str | None, begun: Callable[[str | None], GuardCounts]
) -> None:
    """Without a plan, or after one that could not be read, no row adds its arrival to a list that only grows."""
    counts = begun(execution)
    counts.begin("query", "run", 1, TOLD)
    assert counts.reports("run", 1) == {}
    assert counts.begin("query", "run", 2, TOLD)[0] == NOBODY
