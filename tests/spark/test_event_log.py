"""Spark's event logs become windows of use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import EventLogError
from penstock.report.sizing import judge_windows
from penstock.settings import SizingSettings
from penstock.spark.event_log import read_event_logs

MB = 1024 * 1024


def events(windows: int = 10, *, gc_ms: int = 3000, heap_mb: int = 480, end: str = "") -> list[dict[str, Any]]:
    """What Spark writes of one executor of 512 MB that runs a task in every window of 15 s."""
    start = 1_700_000_000_000
    found: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.2.0"},
        {
            "Event": "SparkListenerResourceProfileAdded", "Resource Profile Id": 0,
            "Executor Resource Requests": {"memory": {"Amount": 512}, "cores": {"Amount": 2}},
            "Task Resource Requests": {"cpus": {"Amount": 1.0}},
        },
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.executor.memory": "512m"}},
        {"Event": "SparkListenerApplicationStart", "App Name": "clicks", "App ID": "app-1", "Timestamp": start},
        {
            "Event": "SparkListenerExecutorAdded", "Timestamp": start, "Executor ID": "0",
            "Executor Info": {"Total Cores": 2, "Resource Profile Id": 0},
        },
    ]  # fmt: skip
    for window in range(windows):
        time_ms = start + 15_000 * window + 10_000
        found.append(
            {
                "Event": "SparkListenerTaskEnd",
                "Task Info": {"Executor ID": "0", "Launch Time": time_ms - 9000, "Finish Time": time_ms},
                "Task Executor Metrics": {
                    "JVMHeapMemory": heap_mb * MB, "JVMOffHeapMemory": 90 * MB, "ProcessTreeJVMRSSMemory": 640 * MB,
                    "ProcessTreePythonRSSMemory": 100 * MB, "TotalGCTime": gc_ms * (window + 1), "MinorGCCount": window,
                },
                "Task Metrics": {
                    "Executor Run Time": 9000, "Executor CPU Time": 6_000_000_000, "JVM GC Time": gc_ms,
                    "Disk Bytes Spilled": 2 * MB,
                },
            }
        )  # fmt: skip
        found.append(
            {
                "Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
                "progress": {
                    "id": "q", "runId": "r", "batchId": window, "timestamp": "2023-11-14T22:13:20.000Z",
                    "durationMs": {"triggerExecution": 15_000 * window + 9_000},
                    "stateOperators": [{"memoryUsedBytes": 5 * MB, "numRowsTotal": 1}],
                    "sources": [
                        {"description": "KafkaV2", "numInputRows": 1500, "endOffset": {"t": {"0": 1500 * (window + 1)}},
                         "latestOffset": {"t": {"0": 1500 * (window + 1) + 300 * (window + 1)}}}
                    ],
                },
            }
        )  # fmt: skip
    if end:
        found.append(
            {"Event": "SparkListenerExecutorRemoved", "Timestamp": start + 15_000 * windows - 1000, "Executor ID": "0",
             "Removed Reason": end}
        )  # fmt: skip
    return found


def write(path: Path, content: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(event)}\n" for event in content))
    return path


def test_windows_have_what_the_log_tells(tmp_path: Path) -> None:
    """Heap, memory, GC, CPU, spills, state, rows and backlog of every window, and the shape."""
    (found,) = read_event_logs(write(tmp_path / "app-1", events()), window_s=15.0)
    assert (found.name, found.app_id, len(found.windows)) == ("clicks", "app-1", 10)
    last = found.windows[-1]
    assert (last.shape.executors, last.shape.heap_mb, last.shape.overhead_mb, last.shape.cores) == (1, 512, 384, 2)
    seen = last.signal
    assert (seen.heap_used_mb, seen.jvm_rss_mb, seen.python_rss_mb) == (480, 640, 100)
    assert seen.gc_fraction == pytest.approx(0.2)
    assert seen.cpu_fraction == pytest.approx(6 / 30)
    assert seen.busy_fraction == pytest.approx(9 / 30)
    assert (seen.spilled_mb, seen.state_mb, seen.backlog_rows) == (2, 5, 3000)
    assert seen.processed_rows_per_s == pytest.approx(100)
    assert seen.arrival_rows_per_s == pytest.approx(120)
    assert found.missing == ()


def test_garbage_collection_in_the_log_is_told_as_heap_pressure(tmp_path: Path) -> None:
    """An application that spent a fifth of its time in collections is recommended more heap."""
    (found,) = read_event_logs(write(tmp_path / "app-1", events()), window_s=15.0)
    report = judge_windows("clicks", ((one.signal, one.shape) for one in found.windows), SizingSettings())
    assert report.round is not None
    assert report.round.decision is not None
    assert report.round.decision.policy == "P1"
    assert report.wanted is not None
    assert report.wanted.heap_mb == 1024


def test_an_executor_that_ran_out_of_heap_is_counted(tmp_path: Path) -> None:
    """Spark's exit code 52 is want of heap, 137 want of memory."""
    (heap,) = read_event_logs(write(tmp_path / "a", events(end="Command exited with code 52")), window_s=15.0)
    (memory,) = read_event_logs(write(tmp_path / "b", events(end="Command exited with code 137")), window_s=15.0)
    assert sum(one.signal.lost_to_heap for one in heap.windows) == 1
    assert sum(one.signal.lost_to_memory for one in memory.windows) == 1


def test_rolled_and_compressed_logs_are_read(tmp_path: Path) -> None:
    """A folder of rolled parts, compressed with zstd as Spark does, is one application."""
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "appstatus_app-1").touch()
    content = events()
    for number, part in enumerate((content[:9], content[9:]), start=1):
        text = "".join(f"{json.dumps(event)}\n" for event in part).encode()
        with pa.output_stream(str(folder / f"events_{number}_app-1.zstd"), compression="zstd") as stream:
            stream.write(text)
    for place in (folder, tmp_path):
        (found,) = read_event_logs(place, window_s=15.0)
        assert len(found.windows) == 10


def test_a_log_that_is_being_written_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    """Half a line at the end is not an error."""
    path = write(tmp_path / "app-1.inprogress", events())
    path.write_text(path.read_text() + '{"Event": "SparkLis')
    (found,) = read_event_logs(path, window_s=15.0)
    assert len(found.windows) == 10


@pytest.mark.parametrize(
    ("name", "said"),
    [("none", "there is no event log"), ("text", "is no event log of Spark"), ("app.lz4", "is compressed with lz4")],
)
def test_what_cannot_be_read_is_an_error_with_a_remedy(tmp_path: Path, name: str, said: str) -> None:
    """A path without a log, a file that is none, and a codec that is not read are named."""
    if name != "none":
        (tmp_path / name).write_text("hello\n")
    with pytest.raises(EventLogError, match=said):
        read_event_logs(tmp_path / name, window_s=15.0)


def test_the_command_recommends_from_an_event_log(run: Callable[..., object], tmp_path: Path) -> None:
    """``penstock size --event-log`` shows the shape, all policies and the metrics, and as JSON the same."""
    path = str(write(tmp_path / "app-1", events()))
    text = run("size", "--event-log", path)
    assert text.code == 0  # type: ignore[attr-defined]
    assert "heap 1,024 MB" in text.out  # type: ignore[attr-defined]
    for policy in range(1, 9):
        assert f"P{policy}" in text.out  # type: ignore[attr-defined]
    document = json.loads(run("size", "--event-log", path, "--json").out)  # type: ignore[attr-defined]
    assert document["rows"][0]["wanted"]["heap_mb"] == 1024
    assert [row["policy"] for row in document["rows"][0]["rows"]] == [f"P{number}" for number in range(1, 9)]


def test_an_event_log_has_no_history_and_cannot_be_changed(run: Callable[..., object], tmp_path: Path) -> None:
    """``--history`` and ``--apply`` are for applications that are attached."""
    path = str(write(tmp_path / "app-1", events()))
    assert run("size", "--event-log", path, "--apply").code == 2  # type: ignore[attr-defined]
