"""From progress reports to signals, on reports as Spark writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

import pytest

from penstock.model import LimitUnit, QueryName, SourceSpec
from penstock.spark import internals
from penstock.spark.collector import ProgressCollector, offset_distance, parse_progress
from penstock.spark.executors import ExecutorCollector
from penstock.spark.internals import ExecutorTotals, FileCount

NAME = QueryName("clicks")


def report(*sources: dict[str, Any], batch_id: int = 7, state: list[dict[str, int]] | None = None) -> str:
    """A progress report; offsets are JSON inside JSON where the source wrote text."""
    return json.dumps({
        "runId": "run-1",
        "batchId": batch_id,
        "timestamp": "2026-01-02T03:04:05.500Z",
        "durationMs": {"triggerExecution": 1500, "addBatch": 1200, "latestOffset": 20},
        "stateOperators": state or [],
        "sources": list(sources),
    })  # fmt: skip


def kafka(rows: int, start: int, end: int, latest: int | None) -> dict[str, Any]:
    """A report of a Kafka source with one partition."""
    return {
        "numInputRows": rows,
        "startOffset": {"clicks": {"0": start}},
        "endOffset": {"clicks": {"0": end}},
        "latestOffset": None if latest is None else {"clicks": {"0": latest}},
    }


def collector() -> ProgressCollector:
    return ProgressCollector(cast("Any", None), NAME)


def test_a_report_becomes_a_signal() -> None:
    """Times are in seconds, lag is what waits beyond the end, state is summed over operators."""
    state = [{"numRowsTotal": 5, "memoryUsedBytes": 100}, {"numRowsTotal": 7, "memoryUsedBytes": 50}]
    signal = collector().signal(parse_progress(report(kafka(100, 0, 100, 350), state=state)), ())
    assert (signal.batch_id, signal.rows, signal.duration_s) == (7, 100, 1.5)
    assert signal.finished_s == signal.started_s + 1.5 == 1767323047.0
    assert dict(signal.phases_s) == {"addBatch": 1.2, "latestOffset": 0.02, "triggerExecution": 1.5}
    assert signal.lag_rows == 250
    assert (signal.state_rows, signal.state_bytes) == (12, 150)


def test_offsets_that_are_not_rows_are_scaled() -> None:
    """Of a compacted topic with one row in four offsets, 400 offsets that wait are 100 rows; the ratio is kept."""
    source = collector()
    assert source.signal(parse_progress(report(kafka(25, 0, 100, 500))), ()).lag_rows == 100
    assert source.signal(parse_progress(report(kafka(0, 100, 100, 180))), ()).lag_rows == 20


def test_an_unknown_lag_stays_unknown() -> None:
    """A source that does not tell, or whose offsets are no numbers, has no lag; a first offset of None neither."""
    silent = collector().signal(parse_progress(report(kafka(10, 0, 10, None))), ())
    assert silent.lag_rows is None
    words = {"numInputRows": 1, "startOffset": None, "endOffset": "a", "latestOffset": "b"}
    assert collector().signal(parse_progress(report(words)), ()).lag_rows is None
    both = collector().signal(parse_progress(report(kafka(1, 0, 1, 5), words)), ())
    assert both.lag_rows is None
    assert both.sources[0].lag_rows == 4


def test_offsets_as_text_are_read() -> None:
    """Python sources report their offsets as text inside the report."""
    source = {"numInputRows": 3, "startOffset": '{"row": 5}', "endOffset": '{"row": 8}', "latestOffset": '{"row": 20}'}
    assert collector().signal(parse_progress(report(source)), ()).lag_rows == 12


def test_a_latest_offset_behind_the_end_is_no_lag() -> None:
    """A latest offset that was taken before the batch was planned must not give a lag below zero."""
    assert collector().signal(parse_progress(report(kafka(10, 0, 10, 8))), ()).lag_rows == 0


def test_a_batch_without_a_trigger_time_has_length_zero() -> None:
    """Reports between batches have no duration, and a rate without time is zero."""
    progress = parse_progress(report(kafka(10, 0, 10, 10)))
    del progress["durationMs"]["triggerExecution"]
    signal = collector().signal(progress, ())
    assert (signal.duration_s, signal.rows_per_s) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("start", "end", "distance"),
    [
        ({"t": {"0": 1}}, {"t": {"0": 4, "1": 6}}, 9.0),
        ({"t": {"0": 1, "1": 9}}, {"t": {"0": 4}}, 3.0),
        ({}, {"u": {"0": 2}}, 2.0),
        ("a", "a", 0.0),
        ("a", "b", None),
        (None, None, None),
        (True, 3, None),
        ({"row": 1, "name": "x"}, {"row": 5, "name": "x"}, 4.0),
        ({"row": 1, "name": "x"}, {"row": 5, "name": "y"}, None),
    ],
)
def test_distances_of_offsets(start: object, end: object, distance: float | None) -> None:
    """New partitions count from zero, gone ones not at all; what is no number must not change."""
    assert offset_distance(start, end) == distance


# -- files -------------------------------------------------------------------------------------------------------------


@dataclass
class FakeFileSource:
    """Stands for a live file source."""

    spec: SourceSpec
    java_source: object = None
    is_file_source: bool = True


@pytest.mark.parametrize(("unit", "units", "lag_units"), [(LimitUnit.FILES, 4, 10), (LimitUnit.BYTES, 4000, 9000)])
def test_files_are_counted_in_the_unit_of_their_limit(
    monkeypatch: pytest.MonkeyPatch, unit: LimitUnit, units: float, lag_units: float
) -> None:
    """What was read and what waits, in files or in bytes; the lag in rows by the rows of a file."""
    monkeypatch.setattr(internals, "unwrapped", lambda source: source)
    monkeypatch.setattr(internals, "files_of_batch", lambda *_: FileCount(4, 4000.0))
    monkeypatch.setattr(internals, "files_waiting", lambda _: FileCount(10, 9000.0))
    entry = {"numInputRows": 200, "startOffset": {"logOffset": 2}, "endOffset": {"logOffset": 3}, "latestOffset": None}
    source = FakeFileSource(SourceSpec(0, "files", unit))
    (signal,) = collector().signal(parse_progress(report(entry)), cast("Any", (source,))).sources
    assert (signal.units, signal.lag_units, signal.lag_rows) == (units, lag_units, 500)


def test_files_of_an_unknown_size_have_no_lag_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a file was read nobody knows its rows; when none waits the lag is zero all the same."""
    monkeypatch.setattr(internals, "unwrapped", lambda source: source)
    entry = {"numInputRows": 0, "startOffset": None, "endOffset": None, "latestOffset": None}
    source = FakeFileSource(SourceSpec(0, "files", LimitUnit.FILES))
    lags = []
    for waiting in (3, 0):
        monkeypatch.setattr(internals, "files_waiting", lambda _, count=waiting: FileCount(count, 0.0))
        lags.append(collector().signal(parse_progress(report(entry)), cast("Any", (source,))).lag_rows)
    assert lags == [None, 0.0]


# -- executors ---------------------------------------------------------------------------------------------------------


def test_executors_are_told_by_what_they_did_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy and collecting shares are of all cores and of the time between two looks; the first look has none."""
    looks = iter([
        [ExecutorTotals("1", 2, 10.0, 1.0, 100)],
        [ExecutorTotals("1", 2, 22.0, 2.0, 150), ExecutorTotals("2", 2, 3.0, 0.0, None)],
        [ExecutorTotals("1", 2, 4.0, 0.0, 120)],
    ])  # fmt: skip
    monkeypatch.setattr(internals, "executor_totals", lambda _: next(looks))
    monkeypatch.setattr(internals, "executor_heap_max_bytes", lambda _: 1000)
    executors = ExecutorCollector(cast("Any", None), every_s=5.0)
    (first,) = executors.signals(100.0)
    assert (first.busy_fraction, first.gc_fraction, first.heap_peak_bytes) == (None, None, 100)
    assert executors.signals(104.9) == []
    known, new = executors.signals(110.0)
    assert (known.busy_fraction, known.gc_fraction, known.heap_max_bytes) == (0.6, 0.05, 1000)
    assert (new.busy_fraction, new.heap_peak_bytes) == (None, None)
    (restarted,) = executors.signals(116.0)
    assert restarted.busy_fraction == 0.0, "an executor that started anew under an old id did not work backwards"
