"""Batches that are cut or kept whole, by the rows that are out in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.control.keep_choice import choose_keep_ratio
from penstock.control.planned_load import PlannedLoad
from penstock.estimate.batch_time import BatchTimeModel

GOAL = {"latency_s": 5.0, "keep_floor": 0.05, "late_ratio": 0.015}


def learned(overhead_s: float, read_s: float, work_s: float) -> BatchTimeModel:
    """A model that has seen batches of many sizes, whole and cut."""
    model = BatchTimeModel()
    for read, kept in ((1_000, 1_000), (20_000, 20_000), (90_000, 9_000), (60_000, 60_000)) * 9:
        model.update(read, kept, overhead_s + read_s * read + work_s * kept)
    return model


def planned(rows_per_s: float, waited_s: float, *, batch_s: float = 2.4) -> PlannedLoad:
    """A batch of all that came in so long."""
    rows = rows_per_s * waited_s
    return PlannedLoad(
        7, 100.0, rows, rows, rows_per_s, waited_s, batch_s=batch_s, tells_arrival=True, in_time_s=batch_s
    )


def test_rows_are_dropped_where_that_makes_room() -> None:
    """Three times what fits, of rows that cost little to read, is cut."""
    model = learned(0.2, read_s=1e-6, work_s=19e-6)
    assert choose_keep_ratio(model, planned(150_000.0, 2.4), **GOAL).ratio < 0.5


@pytest.mark.parametrize("rows_per_s", [30_000.0, 150_000.0])
def test_everything_stays_where_reading_is_what_costs(rows_per_s: float) -> None:
    """Whether whole batches keep up or nothing can, rows whose reading is all of their cost are not dropped."""
    model = learned(1.0, read_s=20e-6, work_s=1e-9)
    late = planned(rows_per_s, 4.0, batch_s=5.0)
    assert choose_keep_ratio(model, late, may_doubt=False, **GOAL).ratio == 1.0


def test_what_saves_time_is_dropped_though_no_row_is_in_time() -> None:
    """Where not even the floor can be done, it still keeps a query from falling behind as fast."""
    model = learned(0.2, read_s=20e-6, work_s=20e-6)
    behind = replace(planned(150_000.0, 2.0), waiting_rows=3_000_000.0, waited_s=20.0)
    assert choose_keep_ratio(model, behind, **GOAL).ratio < 0.2


def test_a_cut_is_tried_where_whole_batches_may_be_the_worse_way_and_not_twice_in_a_row() -> None:
    """Whole batches of one size leave open what a cut would save; one that is late asks, the next one waits."""
    model = BatchTimeModel()
    for _ in range(12):
        model.update(200_000, 200_000, 4.4)
    late = planned(45_000.0, 4.4, batch_s=2.4)
    tried = choose_keep_ratio(model, late, **GOAL)
    assert tried.is_doubtful
    assert tried.ratio < 1.0
    assert not choose_keep_ratio(model, late, may_doubt=False, **GOAL).is_doubtful
