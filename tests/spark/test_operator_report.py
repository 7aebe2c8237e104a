"""What tasks of an operator report: every task counts once, each batch by itself, and nothing grows for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock.spark.operator_report import REPORT_FIELDS, OperatorReports, ReportSum, TaskReports

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

NAME = "penstock.guard.operator.1"


class Sums:
    """Stands in for an accumulator in the driver, which adds up what tasks send."""

    def __init__(self) -> None:
        self.value: TaskReports = {}

    def task(self, offered: int, *, batch: int = 4, stage: int = 9, partition: int = 0) -> None:
        """A task is done; it has its own dictionary, which must stay what it is."""
        figures: list[float | None] = [0.0] * len(REPORT_FIELDS)
        figures[REPORT_FIELDS.index("offered_rows")] = float(offered)
        found: TaskReports = {("run", batch): {stage: {partition: tuple(figures)}}}
        self.value = ReportSum().addInPlace(self.value, found)


def reports_of(sums: Sums) -> OperatorReports:
    """The driver's side, with one operator."""
    reports = OperatorReports()
    reports.add(NAME, cast("Accumulator[Any]", sums))
    return reports


def offered(reports: OperatorReports, batch: int = 4) -> float | None:
    """Rows that the operator was offered in a batch; None where it reports nothing."""
    found = reports.reports("run", batch).get(NAME)
    return None if found is None else found["offered_rows"]


def test_partitions_add_up_and_a_task_that_runs_again_counts_once() -> None:
    """A stage whose files are lost runs again, and says the same of the same partitions."""
    sums = Sums()
    for partition, rows in ((0, 10), (1, 20), (0, 10)):
        sums.task(rows, partition=partition)
    assert offered(reports_of(sums)) == 30


def test_a_frame_that_is_read_twice_counts_once() -> None:
    """Both copies see the same rows; of one Spark may need only some."""
    sums = Sums()
    sums.task(10, stage=9)
    sums.task(20, stage=9, partition=1)
    sums.task(10, stage=12)
    assert offered(reports_of(sums)) == 30


def test_batches_are_told_apart_and_read_any_number_of_times() -> None:
    """Whoever asks again gets the same, though the tasks' own reports are let go of."""
    sums = Sums()
    sums.task(10, batch=4)
    sums.task(50, batch=5)
    reports = reports_of(sums)
    assert [offered(reports), offered(reports), offered(reports, 5), offered(reports, 6)] == [10, 10, 50, None]
    assert sums.value == {}


def test_batches_that_nobody_reads_make_room() -> None:
    """A query that nobody observes must not fill the driver's memory."""
    sums = Sums()
    for batch in range(1000):
        sums.task(10, batch=batch)
    assert len(sums.value) < 100
    assert offered(reports_of(sums), 999) == 10
    assert offered(reports_of(sums), 0) is None


def test_what_a_task_sends_begins_with_nothing() -> None:
    """Each task adds to a dictionary of its own, not to one that was sent along."""
    zero = ReportSum().zero({("run", 1): {}})
    assert zero == {}
    assert ReportSum().zero({}) is not zero
