"""What is learned of arrivals from batches that are done and from those that run."""

from __future__ import annotations

from penstock.control.limits import SourceLimits
from penstock.model import BatchSignal, LimitUnit, PlannedBatch, QueryName, QuerySpec, SourceSignal, SourceSpec

QUERY = QueryName("clicks")


def limits() -> SourceLimits:
    """Of a query with one source."""
    return SourceLimits(QuerySpec(QUERY, (SourceSpec(0, "topic", LimitUnit.ROWS),)), 0.03, enforced=True)


def source(rows: int, lag_rows: float) -> SourceSignal:
    """What a batch takes and leaves."""
    return SourceSignal(0, rows, float(rows), lag_rows)


def batch(batch_id: int, started_s: float, read: SourceSignal) -> BatchSignal:
    """A batch of two seconds."""
    return BatchSignal(QUERY, batch_id, started_s, 2.0, read.rows, (read,))


def test_a_batch_that_runs_tells_of_arrivals_before_it_is_done() -> None:
    """1,000 rows came in the two seconds of the finished batch."""
    known = limits()
    known.learn(batch(7, 100.0, source(500, 0.0)))
    known.learn_planned(PlannedBatch(8, 102.0, (source(400, 600.0),)))
    assert known.arrival_rows_per_s == 500.0


def test_a_batch_is_learned_once() -> None:
    """Its report, with the same rows, changes nothing."""
    known = limits()
    running = source(400, 600.0)
    known.learn(batch(7, 100.0, source(500, 0.0)))
    known.learn_planned(PlannedBatch(8, 102.0, (running,)))
    before = known.snapshot()[0].arrival
    known.learn(batch(8, 102.0, running))
    assert known.snapshot()[0].arrival == before


def test_a_clock_that_is_set_back_does_not_end_learning() -> None:
    """From the second batch by the new clock on, arrivals are those by the new clock."""
    known = limits()
    known.learn(batch(7, 5_000.0, source(500, 0.0)))
    known.learn(batch(8, 100.0, source(500, 0.0)))
    known.learn(batch(9, 102.0, source(3_000, 0.0)))
    assert known.arrival_rows_per_s == 1_500.0
