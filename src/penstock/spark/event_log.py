"""Spark's own event logs as windows of use: what an application did, without Penstock and after the fact."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import EventLogError
from penstock.model.executor_loss import Loss, kind_of_loss
from penstock.model.sizing import EngineShape, UsageSignal
from penstock.spark.collector import offset_distance, parse_timestamp_s
from penstock.spark.usage import default_overhead_mb, megabytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MEGABYTE = 1024 * 1024
_PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


@dataclass(frozen=True, slots=True)
class LoggedWindow:
    """One window of an application, and the shape that it had then."""

    signal: UsageSignal
    shape: EngineShape


@dataclass(frozen=True, slots=True)
class LoggedApplication:
    """What an event log tells of one application; ``missing`` names settings that would have told more."""

    name: str
    app_id: str
    windows: tuple[LoggedWindow, ...]
    missing: tuple[str, ...] = ()


def read_event_logs(path: Path, *, window_s: float) -> list[LoggedApplication]:
    """All applications of an event log, of a folder of rolled parts, or of a folder with many logs."""
    logs = _logs(path)
    if not logs:
        raise EventLogError(
            str(path), "there is no event log", "give the folder of spark.eventLog.dir, or one log in it"
        )
    return [application for log in logs if (application := _read(log, window_s)) is not None]


# -- files -------------------------------------------------------------------------------------------------------------


def _logs(path: Path) -> list[list[Path]]:
    """Parts of each log, in their order."""
    if path.is_file():
        return [[path]]
    if not path.is_dir():
        return []
    parts = sorted(path.glob("events_*"), key=_part_number)
    if parts:
        return [parts]
    files = [
        [each] for each in sorted(path.iterdir()) if each.is_file() and not each.name.startswith((".", "appstatus"))
    ]
    folders = [sorted(each.glob("events_*"), key=_part_number) for each in sorted(path.glob("eventlog_v2_*"))]
    return [*files, *(each for each in folders if each)]


def _part_number(path: Path) -> int:
    number = path.name.split("_")[1]
    return int(number) if number.isdigit() else 0


def _events(parts: list[Path]) -> Iterator[dict[str, Any]]:
    for part in parts:
        for number, line in enumerate(_lines(part), start=1):
            try:
                yield json.loads(line)
            except ValueError as error:
                # The last line of a log that is being written may be half there.
                if number == 1:
                    raise EventLogError(str(part), "is no event log of Spark", "give one that Spark wrote") from error
                return


def _lines(part: Path) -> Iterator[bytes]:
    codec = part.name.removesuffix(".inprogress").rpartition(".")[2]
    if codec in {"zstd", "zst"}:
        import pyarrow as pa  # noqa: PLC0415 - only compressed logs need it

        with pa.input_stream(str(part), compression="zstd") as stream:
            rest = b""
            while chunk := stream.read(1 << 20):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
            if rest:
                yield rest
        return
    if codec in {"lz4", "snappy", "lzf"}:
        remedy = "let Spark write zstd (spark.eventLog.compression.codec) or plain text (spark.eventLog.compress false)"
        raise EventLogError(str(part), f"is compressed with {codec}", remedy)
    with part.open("rb") as plain:
        yield from plain


# -- what they say -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Executor:
    cores: int
    profile_id: int
    begun_s: float
    ended_s: float | None = None
    metrics: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Window:
    """What happened within one window."""

    run_s: float = 0.0
    cpu_s: float = 0.0
    spilled: int = 0
    gc_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    gc_total_ms: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, dict[str, int]] = field(default_factory=dict)
    executors: dict[str, tuple[int, int]] = field(default_factory=dict)
    rows: float = 0.0
    arrived: float = 0.0
    has_batches: bool = False
    backlog: float | None = None
    state_bytes: int = 0
    lost: dict[Loss, int] = field(default_factory=lambda: dict.fromkeys(Loss, 0))


class _Reader:
    """Takes events in and sorts them into windows."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.name, self.app_id = "", ""
        self.conf: Mapping[str, str] = {}
        self.profiles: dict[int, dict[str, float]] = {}
        self.task_cpus = 1
        self.executors: dict[str, _Executor] = {}
        self.windows: dict[int, _Window] = defaultdict(_Window)
        self.begun_s: float | None = None
        self._lags: dict[str, float] = {}

    def take(self, event: Mapping[str, Any]) -> None:
        """One event."""
        kind = event.get("Event", "")
        handler = {
            "SparkListenerApplicationStart": self._on_application,
            "SparkListenerEnvironmentUpdate": self._on_environment,
            "SparkListenerResourceProfileAdded": self._on_profile,
            "SparkListenerExecutorAdded": self._on_added,
            "SparkListenerExecutorRemoved": self._on_removed,
            "SparkListenerTaskEnd": self._on_task,
            _PROGRESS: self._on_progress,
        }.get(kind)
        if handler is not None:
            handler(event)

    def _window(self, time_s: float) -> _Window:
        if self.begun_s is None:
            self.begun_s = time_s
        return self.windows[max(0, int((time_s - self.begun_s) // self.window_s))]

    def _on_application(self, event: Mapping[str, Any]) -> None:
        self.name, self.app_id = str(event.get("App Name", "")), str(event.get("App ID", ""))
        self.begun_s = event["Timestamp"] / 1000.0

    def _on_environment(self, event: Mapping[str, Any]) -> None:
        self.conf = event.get("Spark Properties", {})

    def _on_profile(self, event: Mapping[str, Any]) -> None:
        requests = event.get("Executor Resource Requests", {})
        self.profiles[int(event["Resource Profile Id"])] = {
            str(name): float(each["Amount"]) for name, each in requests.items()
        }
        cpus = event.get("Task Resource Requests", {}).get("cpus")
        if int(event["Resource Profile Id"]) == 0 and cpus:
            self.task_cpus = max(1, int(cpus["Amount"]))

    def _on_added(self, event: Mapping[str, Any]) -> None:
        info = event["Executor Info"]
        self.executors[event["Executor ID"]] = _Executor(
            int(info["Total Cores"]), int(info.get("Resource Profile Id", 0)), event["Timestamp"] / 1000.0
        )

    def _on_removed(self, event: Mapping[str, Any]) -> None:
        time_s = event["Timestamp"] / 1000.0
        executor = self.executors.get(event["Executor ID"])
        if executor is not None:
            executor.ended_s = time_s
        self._window(time_s).lost[kind_of_loss(str(event.get("Removed Reason", "")))] += 1

    def _on_task(self, event: Mapping[str, Any]) -> None:
        info, metrics = event["Task Info"], event.get("Task Metrics") or {}
        window, executor_id = self._window(info["Finish Time"] / 1000.0), info["Executor ID"]
        if executor_id not in self.executors:
            # In local mode the driver is its own executor, and no event adds it.
            cores = int(self.conf.get("spark.executor.cores", "1"))
            self.executors[executor_id] = _Executor(cores, 0, info["Launch Time"] / 1000.0)
        window.run_s += metrics.get("Executor Run Time", 0) / 1000.0
        window.cpu_s += metrics.get("Executor CPU Time", 0) / 1e9
        window.spilled += metrics.get("Disk Bytes Spilled", 0)
        window.gc_s[executor_id] = max(window.gc_s[executor_id], metrics.get("JVM GC Time", 0) / 1000.0)
        peaks = self.executors[executor_id].metrics
        for name, value in (event.get("Task Executor Metrics") or {}).items():
            peaks[name] = max(int(value), peaks.get(name, 0))
        window.metrics[executor_id] = dict(peaks)

    def _on_progress(self, event: Mapping[str, Any]) -> None:
        progress = event["progress"]
        duration_s = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000.0
        window = self._window(parse_timestamp_s(progress["timestamp"]) + duration_s)
        rows = sum(int(source["numInputRows"]) for source in progress["sources"])
        lag = _lag(progress["sources"])
        window.has_batches = True
        window.rows += rows
        window.state_bytes = sum(int(each["memoryUsedBytes"]) for each in progress.get("stateOperators") or [])
        before = self._lags.get(progress["id"])
        window.arrived += max(0.0, rows + (0.0 if lag is None or before is None else lag - before))
        if lag is not None:
            self._lags[progress["id"]] = lag
            window.backlog = sum(self._lags.values())

    # -- windows -----------------------------------------------------------------------------------------------------

    def result(self) -> tuple[LoggedWindow, ...]:
        """All windows in which executors served."""
        found = []
        gc_before: dict[str, int] = {}
        for number in sorted(self.windows):
            window = self.windows[number]
            end_s = (self.begun_s or 0.0) + (number + 1) * self.window_s
            serving = {
                key: one
                for key, one in self.executors.items()
                if one.begun_s < end_s and (one.ended_s is None or one.ended_s > end_s - self.window_s)
            }
            staying = {
                key: one for key, one in serving.items() if one.ended_s is None or one.ended_s > end_s
            } or serving
            if not staying:
                continue
            found.append(LoggedWindow(self._signal(window, staying, end_s, gc_before), self._shape(staying)))
        return tuple(found)

    def _signal(
        self, window: _Window, serving: Mapping[str, _Executor], end_s: float, gc_before: dict[str, int]
    ) -> UsageSignal:
        cores = sum(one.cores for one in serving.values())
        slots = max(1, cores // self.task_cpus)
        known = [metrics for key, metrics in window.metrics.items() if key in serving]
        totals = {key: metrics.get("TotalGCTime", 0) for key, metrics in window.metrics.items()}
        fresh = [total - gc_before[key] for key, total in totals.items() if key in gc_before]
        gc_before |= totals
        counts = ("MinorGCCount", "MajorGCCount", "ConcurrentGCCount")
        return UsageSignal(
            time_s=end_s,
            heap_used_mb=_most(known, "JVMHeapMemory"),
            gc_fraction=min(1.0, max(fresh) / 1000.0 / self.window_s) if fresh else None,
            gc_count=sum(metrics.get(name, 0) for metrics in known for name in counts),
            jvm_rss_mb=_most(known, "ProcessTreeJVMRSSMemory"),
            python_rss_mb=_most(known, "ProcessTreePythonRSSMemory"),
            python_vm_mb=_most(known, "ProcessTreePythonVMemory"),
            off_heap_mb=_most(known, "JVMOffHeapMemory"),
            cpu_fraction=min(1.0, window.cpu_s / (cores * self.window_s)),
            busy_fraction=min(1.0, window.run_s / (slots * self.window_s)),
            spilled_mb=window.spilled / _MEGABYTE,
            state_mb=window.state_bytes / _MEGABYTE,
            backlog_rows=window.backlog,
            arrival_rows_per_s=window.arrived / self.window_s if window.has_batches else None,
            processed_rows_per_s=window.rows / self.window_s if window.has_batches else None,
            lost_to_heap=window.lost[Loss.HEAP],
            lost_to_memory=window.lost[Loss.MEMORY],
        )

    def _shape(self, serving: Mapping[str, _Executor]) -> EngineShape:
        newest = max(serving.values(), key=lambda one: one.begun_s)
        asked = self.profiles.get(newest.profile_id, {})
        heap_mb = int(asked.get("memory", 0)) or megabytes(self.conf.get("spark.executor.memory", "1g"))
        overhead = self.conf.get("spark.executor.memoryOverhead")
        python = self.conf.get("spark.executor.pyspark.memory")
        return EngineShape(
            executors=len(serving),
            heap_mb=heap_mb,
            overhead_mb=int(asked.get("memoryOverhead", 0))
            or (default_overhead_mb(heap_mb) if overhead is None else megabytes(overhead)),
            python_mb=int(asked.get("pyspark.memory", 0)) or (0 if python is None else megabytes(python)),
            cores=newest.cores,
            task_cpus=self.task_cpus,
        )

    def missing(self) -> tuple[str, ...]:
        """Settings that would have told more."""
        told = []
        if not any("ProcessTreeJVMRSSMemory" in one.metrics and one.metrics["ProcessTreeJVMRSSMemory"]
                   for one in self.executors.values()):  # fmt: skip
            told.append("spark.executor.processTreeMetrics.enabled true: memory of the JVM and of Python workers")
        return tuple(told)


def _read(parts: list[Path], window_s: float) -> LoggedApplication | None:
    reader = _Reader(window_s)
    for event in _events(parts):
        reader.take(event)
    if not reader.app_id:
        return None
    return LoggedApplication(reader.name, reader.app_id, reader.result(), reader.missing())


def _lag(sources: list[Mapping[str, Any]]) -> float | None:
    """Rows that wait, by offsets that count them; None where a source's offsets do not."""
    total = 0.0
    for source in sources:
        end, latest = (_parsed(source.get(name)) for name in ("endOffset", "latestOffset"))
        waiting = None if latest is None else offset_distance(end, latest)
        if waiting is None or "RateStream" in str(source.get("description", "")):
            return None
        total += max(0.0, waiting)
    return total


def _parsed(offset: object) -> Any:  # noqa: ANN401 - whatever a source writes down
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None


def _most(known: list[dict[str, int]], name: str) -> float | None:
    values = [metrics[name] for metrics in known if metrics.get(name)]
    return max(values) / _MEGABYTE if values else None
