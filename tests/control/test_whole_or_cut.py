"""Batches that are cut or kept whole, by the rows that are out in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.control.keep_choice import choose_keep_ratio
from penstock.control.planned_load import PlannedLoad, RowGoal
from penstock.control.whole_or_cut import InTimeRates
from penstock.estimate.batch_costs import CostBeliefs
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
    return PlannedLoad(7, 100.0, rows, rows, rows_per_s, waited_s, batch_s=batch_s, tells_arrival=True)


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


def test_what_is_open_counts_for_as_much_as_it_is_likely() -> None:
    """Whole batches of one size leave open what a cut would save: more of them are late, and the next one is cut."""
    model = BatchTimeModel()
    for _ in range(12):
        model.update(200_000, 200_000, 4.4)
    late = planned(46_000.0, 4.4, batch_s=2.4)
    assert choose_keep_ratio(model, late, may_doubt=False, **GOAL).ratio < 1.0


@pytest.mark.parametrize(("likely", "is_whole"), [(0.35, False), (0.8, True)])
def test_whole_batches_must_be_likely_to_be_in_time(likely: float, *, is_whole: bool) -> None:
    """At five times the load a reading of one in three, by which all of it would be in time, does not decide."""
    readings = ((likely, 1.0 - likely), (2.6, 0.4), (0.0, 0.0), (1e-9, 20e-6))
    load, goal = planned(250_000.0, 2.4), RowGoal(5.0, 0.05, 0.015, 0.05)
    rates = InTimeRates(load, goal, CostBeliefs(*(np.array(each) for each in readings)))
    assert (rates.whole() > rates.cut()) is is_whole
    # By the mean of the rates it would: that is what either way has if its reading is the right one.
    apart = [CostBeliefs(np.ones(1), *(np.array(each[at : at + 1]) for each in readings[1:])) for at in (0, 1)]
    of_whole, of_cut = InTimeRates(load, goal, apart[0]).whole(), InTimeRates(load, goal, apart[1]).cut()
    assert likely * of_whole > (1.0 - likely) * of_cut


@pytest.mark.parametrize(("overhead_s", "is_cut"), [(2.3, False), (0.3, True)])
def test_whole_batches_stay_where_overhead_is_what_they_take(overhead_s: float, *, is_cut: bool) -> None:
    """Batches of 2.7 s that hold 30,000 rows: cut where rows are most of that, and kept whole where overhead is."""
    row_s = (2.7 - overhead_s) / 30_000
    model = learned(overhead_s, read_s=0.03 * row_s, work_s=0.97 * row_s)
    load = planned(30_000 / 2.7 * (1.0 if overhead_s > 2.0 else 1.3), 2.7)
    assert (choose_keep_ratio(model, load, may_doubt=False, **GOAL).ratio < 1.0) is is_cut


def test_a_longer_cut_is_made_where_a_short_one_has_no_room() -> None:
    """With an overhead of half the goal, batches that leave hardly a row late have next to no room for rows."""
    model = learned(2.3, read_s=0.5e-6, work_s=19.5e-6)
    choice = choose_keep_ratio(model, planned(150_000.0, 3.4), may_doubt=False, **GOAL)
    assert choice.predicted_s > 3.0
    assert choice.late_rows > 0
