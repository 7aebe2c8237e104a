"""Sizes on real Spark: event logs, a heap that thrashes, one that overflows, Python that grows, and restarts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from live.helpers import show
from penstock.cluster.standalone import running_cluster
from penstock.cluster.standalone_config import StandaloneSpec
from penstock.model import ActionKind
from penstock.spark.event_log import read_event_logs

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]

HERE = Path(__file__).parent


def test_a_real_event_log_is_sized(run: Callable[..., object], tmp_path: Path) -> None:
    """Spark's own log of a small run tells rows, heap, memory and work, and every policy has its say."""
    logs = tmp_path / "logs"
    logs.mkdir()
    command = [sys.executable, str(HERE / "driver_event_log.py"), str(logs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    truth = json.loads(done.stdout.splitlines()[-1])
    window_s = 2.0
    (found,) = read_event_logs(logs, window_s=window_s)
    assert found.name == "event-log"
    seen = [window.signal for window in found.windows]
    rows = sum(each.processed_rows_per_s or 0.0 for each in seen) * window_s
    assert rows == pytest.approx(truth["rows"])
    assert max(each.heap_used_mb or 0.0 for each in seen) > 20
    assert max(each.jvm_rss_mb or 0.0 for each in seen) > 100
    assert any((each.cpu_fraction or 0.0) > 0 for each in seen)
    assert found.windows[-1].shape.executors == 1
    outcome = run("size", "--event-log", str(logs), "--json")
    document = json.loads(outcome.out)  # type: ignore[attr-defined]
    assert [row["policy"] for row in document["rows"][0]["rows"]] == [f"P{number}" for number in range(1, 9)]


@pytest.mark.slow
def test_a_heap_that_thrashes_grows_without_a_restart(run: Callable[..., object]) -> None:
    """Real garbage collection is taken for heap pressure, not for a lack of CPU; one change ends it; every row counts.

    Executors with more heap rehearse, take over the running query and its state, and the old one leaves without a
    failed task. How long batches take is shown and not asserted: `make test` asserts no times.
    """
    outcome = run("bench", "reshape", "--only", "reshape", "--json")
    (part,) = json.loads(outcome.out)["rows"]  # type: ignore[attr-defined]
    assert (part["way"], part["policy"], part["runs"]) == ("reshape", "P1", 1)
    assert part["heap_after_mb"] > part["heap_before_mb"]
    assert part["is_exact"]
    assert part["failed_tasks"] == 0
    assert part["gc_before"] > 0.1 > part["gc_after"]
    assert "times the heap" in part["verdicts"]["P1"]
    assert "computes" in part["verdicts"]["P3"]
    kinds = {action["kind"] for action in part["actions"]}
    assert ActionKind.FAULT.value not in kinds
    decided = [action for action in part["actions"] if action["kind"] == ActionKind.RESIZE.value]
    assert {action["details"]["resource"] for action in decided} == {"heap"}
    show(
        f"heap {part['heap_before_mb']} to {part['heap_after_mb']} MB in {part['took_s']:.1f} s, collections "
        f"{part['gc_before']:.0%} to {part['gc_after']:.0%} of the time, longest batch {part['longest_batch_s']:.1f} s "
        f"of usually {part['usual_batch_s']:.1f} s"
    )


@pytest.mark.slow
def test_a_python_worker_that_grows_is_told_apart_from_the_heap(tmp_path: Path) -> None:
    """Python workers that hold on to memory are recommended more beside the heap, and the heap is left as it is."""
    result = run_driver("driver_sizing.py", tmp_path, "python")
    decided = [action for action in result["actions"] if action["kind"] == ActionKind.RESIZE.value]
    assert decided, result["verdicts"]
    shape, before = decided[0]["details"]["shape"], decided[0]["details"]["previous_shape"]
    assert decided[0]["details"]["policy"] == "P2"
    assert "Python workers have outgrown their part" in decided[0]["reason"]
    assert shape["heap_mb"] == before["heap_mb"]
    assert shape["overhead_mb"] > before["overhead_mb"]
    # A limit on what workers map, where they had none, would end them.
    assert shape["python_mb"] == before["python_mb"] == 0
    show(decided[0]["reason"])


@pytest.mark.slow
def test_an_executor_that_runs_out_of_heap_is_seen_and_nothing_is_lost(tmp_path: Path) -> None:
    """Its end is put down to the heap and not to memory beside it; the batch is repeated and every row counts once."""
    result = run_driver("driver_sizing.py", tmp_path, "heap")
    decided = [action for action in result["actions"] if action["kind"] == ActionKind.RESIZE.value]
    assert decided, result["verdicts"]
    assert decided[0]["details"]["policy"] == "P1"
    assert decided[0]["reason"].startswith("1 executor ran out of heap: 2.00 times the heap")
    assert result["counted_rows"] == result["offset_rows"] > 0
    show(decided[0]["reason"])


@pytest.mark.slow
def test_an_application_is_started_again_for_another_shape(tmp_path: Path) -> None:
    """A restart gives another heap and state partitions; one that fails twice ends as before; no row is lost."""
    checkpoint = tmp_path / "application"
    checkpoint.mkdir()
    result = run_driver("driver_restart.py", tmp_path, str(checkpoint))
    grown, refused = result["outcomes"]
    assert grown["details"]["is_done"]
    assert grown["details"]["way"] == "restart"
    assert grown["details"]["downtime_s"] > 0
    assert not refused["details"]["is_done"]
    assert "no batch of counts was over within 30 s" in refused["reason"]
    assert "back to 1 executor of 1 core, heap 640 MB" in refused["reason"]
    assert result["heaps"] == ["640m", "640m"]
    assert result["runs"] == 3
    # State began with one partition; it is given two for its one slot.
    assert result["partitions"] == 2
    assert result["counted_rows"] == result["offset_rows"] > 0
    show(f"downtime {grown['details']['downtime_s']:.1f} s; {refused['reason']}")


def run_driver(name: str, directory: Path, *arguments: str) -> dict[str, Any]:
    """What a driver on a small Standalone cluster prints at the end."""
    spec = StandaloneSpec(directory / "spark", workers=1, cores=1, memory="2g")
    with running_cluster(spec, timeout_s=600) as cluster:
        command = [sys.executable, str(HERE / name), str(cluster.spec.directory), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-9000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
