"""Windows of use from what Spark keeps of executors, jobs and batches."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.model import BatchSignal, QueryName, SourceSignal
from penstock.model.executor_loss import Loss, kind_of_loss
from penstock.spark import usage
from penstock.spark.heap_looks import HeapLook
from penstock.spark.internals import ExecutorUsage, JobWork
from penstock.spark.usage import UsageCollector

MB = 1024 * 1024
CLICKS = QueryName("clicks")


def executor(number: int, *, gc_ms: int, task_s: float, heap_mb: int = 400, ended: str = "") -> ExecutorUsage:
    metrics = {
        "JVMHeapMemory": heap_mb * MB, "ProcessTreeJVMRSSMemory": 600 * MB, "ProcessTreePythonRSSMemory": 90 * MB,
        "JVMOffHeapMemory": 80 * MB, "TotalGCTime": gc_ms, "MinorGCCount": 7,
    }  # fmt: skip
    return ExecutorUsage(str(number), 0, 2, task_s, 0.0, is_active=not ended, ended=ended, metrics=metrics)


def batch(number: int, rows: int, lag_rows: float | None) -> BatchSignal:
    source = SourceSignal(0, rows, None, lag_rows)
    return BatchSignal(CLICKS, number, 10.0 * number, 5.0, rows, (source,), state_bytes=3 * MB)


class Spark:
    """What the status store would tell."""

    def __init__(self) -> None:
        self.executors: list[ExecutorUsage] = []
        self.work = JobWork(0.0, 0.0, 0, -1)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    """A status store in memory."""
    fake = Spark()
    members = {
        "executor_usage": lambda _: fake.executors, "task_cpus": lambda _: 1, "job_work": lambda *_: fake.work,
    }  # fmt: skip
    monkeypatch.setattr(usage, "internals", SimpleNamespace(**members))
    return fake


def test_a_window_is_what_happened_within_it(spark: Spark) -> None:
    """Collections, task time, CPU, spills and rows of the window; peaks of memory; the fullest executor counts."""
    windows = UsageCollector(spark, 15.0, lambda: ["run"])  # type: ignore[arg-type]
    spark.executors = [executor(0, gc_ms=1000, task_s=100.0), executor(1, gc_ms=500, task_s=50.0, heap_mb=450)]
    windows.on_batch(batch(0, 500, 100.0))
    assert windows.signal(100.0) is None
    assert windows.signal(105.0) is None
    spark.executors = [executor(0, gc_ms=4000, task_s=110.0), executor(1, gc_ms=600, task_s=65.0, heap_mb=450)]
    spark.work = JobWork(12.0, 25.0, 4 * MB, 3, heap_low_bytes=180 * MB)
    windows.on_batch(batch(1, 1000, 400.0))
    seen = windows.signal(115.0)
    assert seen is not None
    assert seen.gc_fraction == pytest.approx(0.2)
    assert seen.busy_fraction == pytest.approx(25 / 60)
    assert seen.cpu_fraction == pytest.approx(12 / 60)
    assert (seen.heap_used_mb, seen.jvm_rss_mb, seen.python_rss_mb, seen.gc_count) == (450, 600, 90, 14)
    assert seen.heap_low_mb == 180
    assert (seen.spilled_mb, seen.state_mb, seen.backlog_rows) == (4, 3, 400)
    assert seen.processed_rows_per_s == pytest.approx(100)
    assert seen.arrival_rows_per_s == pytest.approx(130)


def test_an_executor_is_lost_once_and_for_its_reason(spark: Spark) -> None:
    """One that ran out of heap counts in one window, one that was let go in none."""
    windows = UsageCollector(spark, 15.0)  # type: ignore[arg-type]
    windows.signal(0.0)
    spark.executors = [
        executor(0, gc_ms=0, task_s=0.0, ended="Command exited with code 52"),
        executor(1, gc_ms=0, task_s=0.0, ended="Executor decommission: released by Penstock"),
        executor(2, gc_ms=0, task_s=0.0, ended="Command exited with code 137"),
        executor(3, gc_ms=0, task_s=0.0),
    ]
    first, second = windows.signal(15.0), windows.signal(30.0)
    assert first is not None
    assert second is not None
    assert (first.lost_to_heap, first.lost_to_memory) == (1, 1)
    assert (second.lost_to_heap, second.lost_to_memory) == (0, 0)


def test_an_executor_of_the_shape_before_says_nothing_of_the_present_one(spark: Spark) -> None:
    """One that runs out of heap while larger ones take over is no reason for still more; where none is left it is."""
    windows, alone = (UsageCollector(spark, 15.0) for _ in range(2))  # type: ignore[arg-type]
    windows.signal(0.0)
    alone.signal(0.0)
    small = executor(0, gc_ms=0, task_s=0.0, ended="Command exited with code 52")
    spark.executors = [small, replace(executor(1, gc_ms=0, task_s=0.0), profile_id=1)]
    seen = windows.signal(15.0)
    spark.executors = [small]
    left = alone.signal(15.0)
    assert seen is not None
    assert left is not None
    assert (seen.lost_to_heap, left.lost_to_heap) == (0, 1)


def test_time_in_collections_that_were_asked_for_is_left_out(spark: Spark) -> None:
    """A look tells what lives, and its own collection is no pressure, also where a heartbeat tells of it later."""
    windows = UsageCollector(spark, 10.0)  # type: ignore[arg-type]
    spark.executors = [executor(0, gc_ms=1000, task_s=0.0)]
    windows.signal(0.0)
    windows.on_look(HeapLook(190.0, 0.5, 6.0, {"0": 0.5}))
    spark.executors = [executor(0, gc_ms=1300, task_s=0.0)]
    first = windows.signal(10.0)
    spark.executors = [executor(0, gc_ms=1900, task_s=0.0)]
    second = windows.signal(20.0)
    assert first is not None
    assert second is not None
    assert (first.heap_live_mb, first.full_gc_s, first.aging_mb_per_s) == (190.0, 0.5, 6.0)
    assert second.heap_live_mb is None
    assert first.gc_fraction == pytest.approx(0.0)
    assert second.gc_fraction == pytest.approx(0.04)


def test_what_nobody_tells_is_unknown(spark: Spark) -> None:
    """Without batches there are no rates, without a source that tells no backlog, without metrics no memory."""
    windows = UsageCollector(spark, 15.0)  # type: ignore[arg-type]
    windows.signal(0.0)
    spark.executors = [ExecutorUsage("0", 0, 2, 0.0, 0.0, is_active=True)]
    windows.on_batch(batch(0, 10, None))
    seen = windows.signal(15.0)
    assert seen is not None
    assert (seen.heap_used_mb, seen.jvm_rss_mb, seen.gc_fraction) == (None, None, None)
    assert (seen.arrival_rows_per_s, seen.processed_rows_per_s, seen.backlog_rows) == (None, None, None)


def test_a_service_that_fails_to_answer_is_left_out(spark: Spark) -> None:
    """A function that raises, or knows nothing, leaves the window without that figure."""
    windows = UsageCollector(spark, 15.0)  # type: ignore[arg-type]
    windows.services.update(kv=lambda: 0.02, broken=lambda: 1 / 0, silent=lambda: None)
    windows.signal(0.0)
    seen = windows.signal(15.0)
    assert seen is not None
    assert seen.services == {"kv": 0.02}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Command exited with code 52", Loss.HEAP),
        ("java.lang.OutOfMemoryError: Java heap space", Loss.HEAP),
        ("Command exited with code 137", Loss.MEMORY),
        ("The executor with id 3 exited with exit code 137(SIGKILL, possible container OOM).", Loss.MEMORY),
        ("Command exited with code 1", Loss.OTHER),
        ("worker lost", Loss.OTHER),
    ],
)
def test_losses_are_told_apart(reason: str, kind: Loss) -> None:
    """Heap, memory and all else, by Spark's own words."""
    assert kind_of_loss(reason) is kind
