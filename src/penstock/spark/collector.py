"""From Spark's progress reports to signals."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.model import BatchSignal, GuardSignal, LimitUnit, PlannedBatch, SourceSignal
from penstock.model.directive import RATIO_AT
from penstock.spark import internals
from penstock.spark.directive_task import told
from penstock.spark.guard_counts import counts
from penstock.spark.operator_report import reports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from penstock.model import QueryName
    from penstock.spark.internals import RunningBatch
    from penstock.spark.sources import LiveSource

GUARD_PREFIX = "penstock.guard"
REQUESTED = f"{GUARD_PREFIX}.requested"
"""Guards in the JVM report what they kept under their names; what the driver told them is added under this one."""
BY_CHANCE = ".by_chance"
"""In the name of a guard whose rows have no identity: a batch that runs again keeps other rows."""
UTILITY_BINS = "utilities"
_RUN_PHASE = "addBatch"
"""The phase that only the report of a batch has."""


class ProgressCollector:
    """Turns the progress reports of one query into signals.

    Lag is what a source has (``latestOffset``) beyond what the batch took (``endOffset``). Offsets are not always rows:
    Kafka counts transaction markers and compacted records too. So the ratio of rows to offsets is taken from the batch
    itself.
    """

    def __init__(self, spark: SparkSession, query: QueryName) -> None:
        self._spark = spark
        self._query = query
        self._rows_per_offset: dict[int, float] = {}
        self._rows_per_file: dict[int, float] = {}

    def signal(self, progress: Mapping[str, Any], sources: tuple[LiveSource, ...]) -> BatchSignal:
        """The signal of one finished batch from its progress as parsed JSON."""
        durations = progress["durationMs"]
        state = progress.get("stateOperators") or []
        return BatchSignal(
            query=self._query,
            batch_id=int(progress["batchId"]),
            started_s=parse_timestamp_s(progress["timestamp"]),
            duration_s=durations.get("triggerExecution", 0) / 1000.0,
            rows=sum(int(source["numInputRows"]) for source in progress["sources"]),
            sources=tuple(
                self._source_signal(index, report, sources[index] if index < len(sources) else None)
                for index, report in enumerate(progress["sources"])
            ),
            phases_s=tuple((name, value / 1000.0) for name, value in sorted(durations.items())),
            state_rows=sum(int(operator["numRowsTotal"]) for operator in state),
            state_bytes=sum(int(operator["memoryUsedBytes"]) for operator in state),
            guard=guard_signal(observed_metrics(progress)),
            partitions=stage_partitions(progress),
            output_rows=written_rows(progress),
        )

    def planned(self, batch: RunningBatch, sources: tuple[LiveSource, ...]) -> PlannedBatch | None:
        """What the batch that runs takes and leaves; None where the offsets of a source do not count rows."""
        found = []
        for index, (offsets, source) in enumerate(zip(batch.offsets, sources, strict=True)):
            start, end, latest = (_parsed(each) for each in (offsets.start, offsets.end, offsets.latest))
            taken, waiting = offset_distance(start, end), offset_distance(end, latest)
            if source.is_file_source or taken is None or waiting is None:
                return None
            ratio = self._rows_per_offset.get(index, 1.0)
            rows, lag_rows = round(taken * ratio), max(0.0, waiting) * ratio
            found.append(SourceSignal(index, rows, units=float(rows), lag_rows=lag_rows, lag_units=lag_rows))
        return PlannedBatch(batch.batch_id, batch.planned_s, tuple(found))

    def _source_signal(self, index: int, report: Mapping[str, Any], source: LiveSource | None) -> SourceSignal:
        rows = int(report["numInputRows"])
        if source is not None and source.is_file_source:
            return self._file_signal(index, rows, report, source)
        taken = offset_distance(report.get("startOffset"), report.get("endOffset"))
        if taken and rows:
            self._rows_per_offset[index] = rows / taken
        waiting = offset_distance(report.get("endOffset"), report.get("latestOffset"))
        lag_rows = None if waiting is None else max(0.0, waiting) * self._rows_per_offset.get(index, 1.0)
        return SourceSignal(index, rows, units=float(rows), lag_rows=lag_rows, lag_units=lag_rows)

    def _file_signal(self, index: int, rows: int, report: Mapping[str, Any], source: LiveSource) -> SourceSignal:
        java_source = internals.unwrapped(source.java_source)
        end = report.get("endOffset")
        log_offset = end.get("logOffset") if isinstance(end, dict) else None
        taken = None
        if rows and isinstance(log_offset, int) and end != report.get("startOffset"):
            taken = internals.files_of_batch(self._spark, java_source, log_offset)
        waiting = internals.files_waiting(java_source)
        if taken is not None and taken.files:
            self._rows_per_file[index] = rows / taken.files
        in_bytes = source.spec.unit is LimitUnit.BYTES
        units = None if taken is None else (taken.size_bytes if in_bytes else float(taken.files))
        lag_units = waiting.size_bytes if in_bytes else float(waiting.files)
        ratio = self._rows_per_file.get(index)
        lag_rows = 0.0 if waiting.files == 0 else (None if ratio is None else waiting.files * ratio)
        return SourceSignal(index, rows, units=units, lag_rows=lag_rows, lag_units=lag_units)


def observed_metrics(progress: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What the parts of a query report of a batch, with what its guards were told (:data:`REQUESTED`)."""
    run_id, batch_id = str(progress["runId"]), int(progress["batchId"])
    observed = dict(progress.get("observedMetrics") or {})
    if _RUN_PHASE in progress.get("durationMs", (_RUN_PHASE,)):
        # The report of a trigger without a batch has the number of the next one, which may be running by now.
        observed |= {**counts.reports(run_id, batch_id), **reports.reports(run_id, batch_id)}
    directive = told(run_id, batch_id)
    if directive is None:
        return observed
    if not any(name.startswith(GUARD_PREFIX) for name in observed):
        # A guard that asked and cannot be read: as if it had reported nothing, its batch would seem to keep every row.
        offered = sum(int(source["numInputRows"]) for source in progress.get("sources", ()))
        observed[f"{GUARD_PREFIX}.estimated"] = {
            "offered_rows": offered, "kept_rows": round(offered * directive[RATIO_AT]),
        }  # fmt: skip
    return {**observed, REQUESTED: {"directive": directive}}


def guard_signal(observed: Mapping[str, Mapping[str, Any]]) -> GuardSignal | None:
    """What all guards of a query report together; None for a query without one, or a batch without rows.

    Examples
    --------
    >>> rows, requested = {"offered_rows": 10, "kept_rows": 4}, {"directive": [0.5, 0.1, -1e15, 1.0, 0.0, -1e15]}
    >>> guard = guard_signal({"penstock.guard.1": rows, "penstock.guard.requested": requested})
    >>> guard.kept_ratio, guard.keep_ratio, guard.answered
    (0.4, 0.5, True)
    >>> operator = {"offered_rows": 10.0, "kept_rows": 8.0, "offered_work": 30.0, "kept_work": 15.0}
    >>> guard_signal({"penstock.guard.operator.1": operator}).processed_ratio
    0.5
    >>> late = {"offered_rows": 10, "kept_rows": 4, "late_rows": 4, "kept_late_rows": 1}
    >>> guard_signal({"penstock.guard.1": late, "penstock.guard.requested": requested}).on_time_ratio
    0.5
    """
    guards = guard_reports(observed)
    if not guards:
        return None
    offered = sum(int(values["offered_rows"]) for values in guards)
    oldest, newest = (
        [float(values[end]) for values in guards if values.get(end) is not None] for end in ("oldest_s", "newest_s")
    )
    return GuardSignal(
        offered_rows=offered,
        kept_rows=sum(int(values["kept_rows"]) for values in guards),
        keep_ratio=max(float(values["keep_ratio"]) for values in guards),
        oldest_arrival_s=min(oldest, default=None),
        newest_arrival_s=max(newest, default=None),
        work_ratio=_work_ratio(guards),
        late_rows=sum(int(values.get("late_rows") or 0) for values in guards),
        on_time_ratio=_on_time_ratio(guards),
        answered=all(values["answered"] for values in guards),
        everything=all(values["everything"] for values in guards),
        utilities=tuple((each["x"], each["y"]) for values in guards for each in values.get(UTILITY_BINS) or ()),
    )


def guard_reports(observed: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What each guard or operator that saw rows reports of a batch, with what was asked of it."""
    named = {name: values for name, values in observed.items() if name.startswith(GUARD_PREFIX)}
    directive = named.pop(REQUESTED, {}).get("directive")
    # What follows in the array is history, for results and not for the report.
    keep_ratio, _, _, answered, everything, *_ = directive or (1.0, 0.0, 0.0, 1.0, 1.0)
    requested = {"keep_ratio": keep_ratio, "answered": answered, "everything": everything}
    # An operator says itself what was asked of it; of a guard it is said once for all.
    return [{**requested, **values} for values in named.values() if values["offered_rows"]]


def _on_time_ratio(guards: list[Mapping[str, Any]]) -> float | None:
    """Part of the work of rows that could be in time which was kept; None where there were none."""
    offered = kept = 0.0
    for values in guards:
        unit = "work" if values.get("offered_work") else "rows"
        offered += values[f"offered_{unit}"] - (values.get(f"late_{unit}") or 0)
        kept += values[f"kept_{unit}"] - (values.get(f"kept_late_{unit}") or 0)
    return kept / offered if offered > 0 else None


def _work_ratio(guards: list[Mapping[str, Any]]) -> float | None:
    """Part of the work that was kept, mean over all guards by their rows; None where no operator reports any."""
    if not any(values.get("offered_work") for values in guards):
        return None
    shares = [
        (
            values["kept_work"] / values["offered_work"] if values.get("offered_work") else values["kept_rows"] / rows,
            rows,
        )
        for values in guards
        for rows in [int(values["offered_rows"])]
    ]
    return float(sum(share * rows for share, rows in shares) / sum(rows for _, rows in shares))


def written_rows(progress: Mapping[str, Any]) -> int | None:
    """Rows that the sink of a batch wrote; None for a sink that does not count them, which reports -1.

    Examples
    --------
    >>> written_rows({"sink": {"numOutputRows": 7}}), written_rows({"sink": {"numOutputRows": -1}}), written_rows({})
    (7, None, None)
    """
    rows = int((progress.get("sink") or {}).get("numOutputRows", -1))
    return rows if rows >= 0 else None


def parse_progress(text: str) -> dict[str, Any]:
    """Progress as plain data; offsets that Spark wraps as text inside the JSON are parsed too."""
    progress: dict[str, Any] = json.loads(text)
    for source in progress["sources"]:
        for key in ("startOffset", "endOffset", "latestOffset"):
            source[key] = _parsed(source.get(key))
    return progress


def _parsed(offset: object) -> object:
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return offset


def parse_timestamp_s(text: str) -> float:
    """Seconds since the epoch of Spark's ISO timestamps.

    Examples
    --------
    >>> parse_timestamp_s("2026-01-02T03:04:05.678Z")
    1767323045.678
    """
    return datetime.fromisoformat(text).timestamp()


def offset_distance(start: object, end: object) -> float | None:
    """How far apart two offsets are: the sum over all whole numbers inside them; None where that means nothing.

    Examples
    --------
    >>> offset_distance({"clicks": {"0": 10, "1": 20}}, {"clicks": {"0": 15, "1": 20, "2": 7}})
    12.0
    >>> offset_distance({"row": 5, "epoch_ms": 99}, {"row": 8, "epoch_ms": 99})
    3.0
    >>> offset_distance(None, {"row": 8}) is None
    True
    """
    if isinstance(end, dict) and isinstance(start, dict):
        # A partition that is new at the end began at zero; one that is gone has nothing left to read.
        distances = [offset_distance(start.get(key, _zeros_like(value)), value) for key, value in end.items()]
        return None if any(distance is None for distance in distances) else sum(d for d in distances if d is not None)
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in (start, end))
    if whole:
        return float(end - start)  # type: ignore[operator]
    return 0.0 if start == end and start is not None else None


def stage_partitions(progress: Mapping[str, Any]) -> int | None:
    """The most tasks that a stage of a batch has: partitions of a Kafka source, or of state; None where none tells.

    Examples
    --------
    >>> kafka = {"endOffset": {"clicks": {"0": 10, "1": 20}, "views": {"0": 5}}}
    >>> stage_partitions({"sources": [kafka], "stateOperators": [{"numShufflePartitions": 4}]})
    4
    >>> stage_partitions({"sources": [kafka]}), stage_partitions({"sources": [{"endOffset": {"row": 8}}]})
    (3, None)
    """
    counts = []
    for source in progress["sources"]:
        topics = source.get("endOffset")
        if not isinstance(topics, dict) or not all(isinstance(parts, dict) for parts in topics.values()):
            return None
        counts.append(sum(len(parts) for parts in topics.values()))
    counts += [int(state.get("numShufflePartitions") or 0) for state in progress.get("stateOperators") or []]
    return max(counts, default=0) or None


def _zeros_like(value: object) -> object:
    return {key: _zeros_like(inner) for key, inner in value.items()} if isinstance(value, dict) else 0
