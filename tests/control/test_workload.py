"""What the batches of a query tell of its load: cycles, shed rows, long batches, idle queries."""

from __future__ import annotations

import pytest

from penstock.control.workload import IDLE, QueryWorkload, Workload, sum_of
from penstock.model import BatchSignal, GuardSignal, QueryName, SourceSignal


def batch(batch_id: int, rows: int = 1_600, kept: int = 1_600, lag_rows: float | None = 0.0) -> BatchSignal:
    """A batch every 2 s that took 1.5 s."""
    source = SourceSignal(0, rows, float(rows), lag_rows)
    guard = GuardSignal(rows, kept, kept / rows if rows else 1.0)
    return BatchSignal(QueryName("q"), batch_id, 10.0 + 2.0 * batch_id, 1.5, rows, (source,), guard=guard)


def after(*batches: BatchSignal) -> QueryWorkload:
    workload = QueryWorkload()
    for each in batches:
        workload.observe_batch(each)
    return workload


def test_shed_rows_are_no_work() -> None:
    """A query that drops three rows in four works off a quarter of what arrives."""
    now = after(*[batch(number, kept=400) for number in range(8)]).at(24.0, arrival_rows_per_s=800.0)
    assert now is not None
    assert (now.processed_rows_per_s, now.shed_rows_per_s, now.busy_share) == (200.0, 600.0, 0.75)
    assert now.measured_from_s == 22.0


def test_what_waits_counts_before_a_long_batch_is_over() -> None:
    """A batch that takes long says nothing until it ends; rows go on arriving all the same, until that is stale."""
    workload = after(*[batch(number, lag_rows=100.0) for number in range(3)])
    assert workload.at(44.0, arrival_rows_per_s=800.0).backlog_rows == pytest.approx(24_100.0)  # type: ignore[union-attr]
    assert workload.at(44.0, arrival_rows_per_s=None).backlog_rows is None  # type: ignore[union-attr]
    assert workload.at(500.0, arrival_rows_per_s=800.0) == Workload()


def test_an_idle_query_is_a_load_of_zero() -> None:
    """Only after its quiet time, only where it says so, and not while rows are known to wait."""
    workload = after(*[batch(number) for number in range(3)])
    assert workload.at(22.0, arrival_rows_per_s=800.0, idle=True) == IDLE
    assert workload.at(18.0, arrival_rows_per_s=800.0, idle=True) != IDLE
    assert workload.at(22.0, arrival_rows_per_s=800.0) != IDLE
    assert after(batch(0), batch(1, lag_rows=5.0)).at(22.0, arrival_rows_per_s=800.0, idle=True) != IDLE


def test_a_gap_and_a_repeated_report_tell_no_rate() -> None:
    """Rows of a batch over the time of several would be too few."""
    workload = after(batch(0), batch(0), batch(3))
    assert workload.at(17.0, arrival_rows_per_s=1.0).processed_rows_per_s is None  # type: ignore[union-attr]
    workload.observe_batch(batch(4))
    assert workload.at(19.0, arrival_rows_per_s=1.0).processed_rows_per_s == 800.0  # type: ignore[union-attr]
    workload.observe_batch(batch(1))
    assert workload.at(12.0, arrival_rows_per_s=1.0).processed_rows_per_s is None  # type: ignore[union-attr]


def test_a_query_without_a_batch_is_left_out_and_an_unknown_one_is_not() -> None:
    """A query that starts does not stop the scaling of the others; one that tells nothing any more does."""
    known = Workload(100.0, 5.0, 1.0, 90.0, 0.5, 20.0, 0.0, 9.0)
    assert QueryWorkload().at(1.0, arrival_rows_per_s=None) is None
    assert sum_of([known, None]) == known
    assert sum_of([known, Workload()]).arrival_rows_per_s is None
    assert sum_of([]) == Workload()
    assert sum_of([known, IDLE]).measured_from_s == 9.0


def test_a_snapshot_goes_on_alike() -> None:
    """The state is all there is."""
    one = after(batch(0), batch(1))
    other = QueryWorkload(one.snapshot())
    for each in (one, other):
        each.observe_batch(batch(2))
    assert one.at(16.0, arrival_rows_per_s=3.0) == other.at(16.0, arrival_rows_per_s=3.0)
