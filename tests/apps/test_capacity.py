"""Finding the limit whose batches are as long as wanted."""

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.apps.capacity import find_capacity
from penstock.apps.measure import BatchRecord


def batches_of(overhead_s: float, row_s: float, asked: list[int]):  # noqa: ANN201 - a function as Spark would be
    """Batches of a pipeline with that overhead and cost; every limit that is tried is noted."""

    def run(limit_rows: int, count: int) -> list[BatchRecord]:
        asked.append(limit_rows)
        length_s = overhead_s + row_s * limit_rows
        return [
            BatchRecord(i, i * limit_rows, (i + 1) * limit_rows, limit_rows, i * length_s, length_s)
            for i in range(count)
        ]

    return run


def test_the_limit_is_found_and_held_to_the_target() -> None:
    """Half a second of overhead and 10 us a row: 175,000 rows take 2.25 s."""
    asked: list[int] = []
    found = find_capacity(batches_of(0.5, 10e-6, asked), target_s=2.25, first_rows=20_000)
    assert found.limit_rows == pytest.approx(175_000, rel=0.1)
    assert found.batch_s == pytest.approx(2.25, rel=0.07)
    assert found.rows_per_s == pytest.approx(found.limit_rows / found.batch_s)
    assert all(new <= 4 * old for old, new in pairwise(asked))


def test_an_overhead_beyond_the_target_ends_in_the_smallest_limit() -> None:
    """Nothing fits: the trials end all the same, and the limit stays at least one row."""
    found = find_capacity(batches_of(5.0, 1.0, []), target_s=1.0, first_rows=3)
    assert found.limit_rows >= 1
    assert found.batch_s > 1.0


def test_the_measured_batches_are_those_of_the_limit_that_was_found() -> None:
    """The last word is a run of its own, as long as asked for."""
    found = find_capacity(batches_of(0.2, 1e-4, []), target_s=1.0, first_rows=1000, measured_batches=12)
    assert len(found.batches) == 12
    assert {batch.rows for batch in found.batches} == {found.limit_rows}


def test_an_engine_that_becomes_faster_is_measured_again() -> None:
    """Rows cost a third after the first trial: the limit grows until batches are as long as wanted again."""
    asked: list[int] = []
    slow, fast = batches_of(0.2, 3e-4, asked), batches_of(0.2, 1e-4, asked)

    def run(limit_rows: int, count: int) -> list[BatchRecord]:
        return (slow if not asked else fast)(limit_rows, count)

    found = find_capacity(run, target_s=1.0, first_rows=2500, measured_batches=12)
    assert found.batch_s == pytest.approx(1.0, rel=0.14)
    assert found.limit_rows == pytest.approx(8000, rel=0.2)
