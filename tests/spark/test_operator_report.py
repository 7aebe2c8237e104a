"""What tasks of an operator report: every row counts once, each batch by itself, and nothing grows for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.spark import collector
from penstock.spark.collector import guard_reports, observed_metrics
from penstock.spark.operator_report import REPORT_FIELDS, OperatorReports, ReportSum, TaskReports

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

NAME = "penstock.guard.operator.1"


class Sums:
    """Stands in for an accumulator in the driver, which adds up what tasks send."""

    def __init__(self) -> None:
        self.value: TaskReports = {}

    def task(
        self, offered: int, *, run: str = "run", batch: int = 4, stage: int = 9, partition: int = 0, attempt: int = 20
    ) -> None:
        """A task is done."""
        figures: list[float | None] = [0.0] * len(REPORT_FIELDS)
        figures[REPORT_FIELDS.index("offered_rows")] = float(offered)
        found: TaskReports = {run: {batch: {stage: {partition: (attempt, [tuple(figures)])}}}}
        self.value = ReportSum().addInPlace(self.value, found)


def reports_of(sums: Sums) -> OperatorReports:
    """The driver's side, with one operator."""
    reports = OperatorReports()
    reports.add(NAME, cast("Accumulator[Any]", sums))
    return reports


def offered(reports: OperatorReports, batch: int = 4, run: str = "run") -> float | None:
    """Rows that the operator was offered in a batch; None where it reports nothing."""
    found = reports.reports(run, batch).get(NAME)
    return None if found is None else found["offered_rows"]


def test_partitions_add_up_and_a_task_that_runs_again_counts_once() -> None:
    """A stage whose files are lost runs again, and the newest attempt at a partition is the one that counts."""
    sums = Sums()
    for partition, rows, attempt in ((0, 10, 20), (1, 20, 21), (0, 12, 25), (1, 99, 19)):
        sums.task(rows, partition=partition, attempt=attempt)
    assert offered(reports_of(sums)) == 32


def test_a_task_that_reads_several_partitions_reports_all_of_them() -> None:
    """Behind ``coalesce`` the function runs once for each partition that a task reads, and the last may be empty."""
    sums = Sums()
    for rows in (10, 20, 0):
        sums.task(rows, partition=0, attempt=20)
    assert offered(reports_of(sums)) == 30


def test_a_frame_that_is_read_twice_counts_once() -> None:
    """Both copies see the same rows; of one Spark may need only some."""
    sums = Sums()
    sums.task(10, stage=12)
    sums.task(10, stage=9)
    sums.task(20, stage=9, partition=1)
    assert offered(reports_of(sums)) == 30


def test_stages_that_run_other_partitions_count_together() -> None:
    """A frame that is kept after a look at its first partition runs the function over the others in a later stage."""
    sums = Sums()
    sums.task(10, stage=9)
    sums.task(20, stage=12, partition=1)
    sums.task(30, stage=12, partition=2)
    assert offered(reports_of(sums)) == 60


def test_batches_are_told_apart_and_read_any_number_of_times() -> None:
    """Whoever asks again gets the same, though the tasks' own reports are let go of."""
    sums = Sums()
    sums.task(10, batch=4)
    sums.task(50, batch=5)
    sums.task(70, batch=5, run="other")
    reports = reports_of(sums)
    assert [offered(reports), offered(reports), offered(reports, 5), offered(reports, 6)] == [10, 10, 50, None]
    assert offered(reports, 5, "other") == 70
    assert not any(sums.value.values())


def test_batches_that_nobody_reads_make_room_for_newer_ones_of_their_query() -> None:
    """A query that nobody observes neither fills the driver's memory nor pushes out another's long batch."""
    sums = Sums()
    sums.task(7, run="long", batch=1)
    for batch in range(1000):
        sums.task(10, batch=batch)
    sums.task(8, run="long", batch=1, partition=1)
    assert sum(len(batches) for batches in sums.value.values()) < 100
    reports = reports_of(sums)
    assert [offered(reports, 999), offered(reports, 0), offered(reports, 1, "long")] == [10, None, 15]
    for run in range(5000):
        sums.task(10, run=str(run))
    assert len(sums.value) < 1000


def test_what_a_task_sends_begins_with_nothing() -> None:
    """Each task adds to a dictionary of its own, not to one that was sent along."""
    zero = ReportSum().zero({"run": {}})
    assert zero == {}
    assert ReportSum().zero({}) is not zero


def test_a_report_without_a_batch_takes_nothing_of_the_batch_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trigger that found nothing has the number of the next batch, of which some tasks may be done already."""
    sums = Sums()
    sums.task(10)
    monkeypatch.setattr(collector, "reports", reports_of(sums))
    progress = {"runId": "run", "batchId": 4, "sources": [], "durationMs": {"latestOffset": 2}}
    assert guard_reports(observed_metrics(progress)) == []
    sums.task(20, partition=1)
    done = {**progress, "durationMs": {"latestOffset": 2, "addBatch": 30}}
    assert [each["offered_rows"] for each in guard_reports(observed_metrics(done))] == [30]
