"""Sizes on real Spark: event logs of a real run, and another heap for a running query."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from live.helpers import show
from penstock.cluster.standalone import running_cluster
from penstock.cluster.standalone_config import StandaloneSpec
from penstock.model import ActionKind
from penstock.spark.event_log import read_event_logs

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

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
def test_a_heap_three_times_too_small_grows_without_a_restart(run: Callable[..., object]) -> None:
    """Real garbage collection is taken for heap pressure; executors with more heap take over; every row counts once."""
    outcome = run("bench", "reshape", "--only", "reshape", "--json")
    (part,) = json.loads(outcome.out)["rows"]  # type: ignore[attr-defined]
    assert (part["way"], part["policy"], part["runs"]) == ("reshape", "P1", 1)
    assert part["heap_after_mb"] > part["heap_before_mb"]
    assert part["is_exact"]
    kinds = {action["kind"] for action in part["actions"]}
    assert ActionKind.FAULT.value not in kinds
    decided = [action for action in part["actions"] if action["kind"] == ActionKind.RESIZE.value]
    assert {action["details"]["resource"] for action in decided} == {"heap"}
    show(
        f"heap {part['heap_before_mb']} to {part['heap_after_mb']} MB in {part['took_s']:.1f} s, longest batch "
        f"{part['longest_batch_s']:.1f} s of usually {part['usual_batch_s']:.1f} s"
    )


@pytest.mark.slow
def test_a_python_worker_that_grows_is_told_apart_from_the_heap(tmp_path: Path) -> None:
    """Python workers that hold on to memory are recommended memory of their own, and the heap is left as it is."""
    with running_cluster(StandaloneSpec(tmp_path / "spark", workers=1, cores=1, memory="2g"), timeout_s=600) as cluster:
        command = [sys.executable, str(HERE / "driver_sizing.py"), str(cluster.spec.directory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    decided = [action for action in result["actions"] if action["kind"] == ActionKind.RESIZE.value]
    assert decided, result["verdicts"]
    shape, before = decided[0]["details"]["shape"], decided[0]["details"]["previous_shape"]
    assert decided[0]["details"]["policy"] == "P2"
    assert "Python workers have outgrown their part" in decided[0]["reason"]
    assert shape["heap_mb"] == before["heap_mb"]
    assert shape["python_mb"] > before["python_mb"]
    show(decided[0]["reason"])
