"""What a batch is asked to keep where a guard goes by utility, and where rows are old on arrival."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.control.keep_choice import choose_keep_ratio
from penstock.control.keep_ratio import KeepController
from penstock.control.planned_load import PlannedLoad
from penstock.control.priority import KeepBounds
from penstock.estimate.batch_time import BatchTimeModel
from penstock.model import BatchSignal, Goal, GuardSignal, QueryName, SourceSignal
from penstock.settings import SheddingSettings

QUERY = QueryName("clicks")
EVEN_UTILITIES = tuple(((place + 0.5) / 50, 20.0) for place in range(50))
RATE_ROWS_PER_S = 13_000.0
"""Rows cost 100 us: 1.3 times what fits."""


def model() -> BatchTimeModel:
    """Rows that cost 90 us to process and 10 us to read, known exactly."""
    found = BatchTimeModel()
    for read, kept in ((1_000, 1_000), (10_000, 10_000), (30_000, 3_000), (10_000, 1_000)) * 9:
        found.update(read, kept, 0.2 + read * 10e-6 + kept * 90e-6)
    return found


def controller() -> KeepController:
    """A goal of five seconds that leaves at least a twentieth."""
    return KeepController(QUERY, Goal(latency="5 seconds", minimum_accuracy=0.05), SheddingSettings())


def load(batch_id: int, seconds_waiting: float = 2.0) -> PlannedLoad:
    """A batch of all that has arrived in so many seconds, planned every two seconds."""
    rows = RATE_ROWS_PER_S * seconds_waiting
    return PlannedLoad(
        batch_id, 100.0 + 2 * batch_id, rows, rows, RATE_ROWS_PER_S, seconds_waiting, batch_s=2.0, tells_arrival=True
    )


def signal(batch_id: int, guard: GuardSignal, lag_rows: float = 0.0) -> BatchSignal:
    """A batch that left nothing behind, or so many rows."""
    source = SourceSignal(0, guard.offered_rows, float(guard.offered_rows), lag_rows=lag_rows)
    return BatchSignal(QUERY, batch_id, 100.0 + 2 * batch_id, 2.0, guard.offered_rows, (source,), guard=guard)


def kept_by_utility(requested: float, floor: float = 0.05) -> float:
    """What a guard keeps whose rows are worth anything from 0 to 1."""
    return sum(min(1.0, max(floor, requested * utility)) for utility, _ in EVEN_UTILITIES) / len(EVEN_UTILITIES)


def test_a_guard_with_a_utility_is_asked_for_more_than_one_and_does_not_flip() -> None:
    """At 1.3 times the capacity every batch keeps the same part from the first on, and none is told to keep all."""
    keep, cost = controller(), model()
    calm = GuardSignal(20_000, 20_000, 1.0, everything=True, utilities=EVEN_UTILITIES)
    keep.learn(signal(0, calm))
    wanted, kept = [], []
    for batch_id in range(1, 20):
        answer = keep.answer(load(batch_id, 2.6), batch_id, cost, late_ratio=0.015, is_rerun=False)
        assert not answer.everything
        part = kept_by_utility(answer.keep_ratio)
        wanted.append(answer.expected["kept_ratio"])
        kept.append(part)
        rows = round(RATE_ROWS_PER_S * 2.6)
        guard = GuardSignal(rows, round(rows * part), answer.keep_ratio, utilities=EVEN_UTILITIES)
        keep.learn(signal(batch_id, guard))
        assert keep.last_ratio == pytest.approx(part, abs=0.03)
    assert max(answered for answered in wanted) < 0.6
    assert kept == pytest.approx(wanted, abs=0.03)


def test_what_keeps_all_says_so() -> None:
    """A batch that fits keeps everything by its flag, and one that drops late rows only has none."""
    keep = controller()
    assert keep.answer(load(1, 0.5), 1, model(), late_ratio=0.015, is_rerun=False).everything
    assert not keep.answer(load(2, 3.5), 2, model(), late_ratio=0.015, is_rerun=False).everything


@pytest.mark.parametrize("waited_s", [1.0, 3.02])
def test_no_moment_is_told_where_no_more_rows_are_late_than_may_be(waited_s: float) -> None:
    """A batch of which no row, or one in two hundred, is late drops rows and calls none late: weights are all alike."""
    young = replace(load(2, 3.5), waited_s=waited_s)
    answer = controller().answer(young, 2, model(), late_ratio=0.015, is_rerun=False)
    assert answer.keep_ratio < 1.0
    assert answer.late_before_s is None
    assert controller().answer(load(2, 3.5), 2, model(), late_ratio=0.015, is_rerun=False).late_before_s is not None


@pytest.mark.parametrize("delay_s", [-2.0, 0.0, 3.0])
def test_age_counts_from_the_newest_arrival(delay_s: float) -> None:
    """A producer's clock that is 3 s behind, or 2 s ahead, moves the moment before which rows are late by just that."""
    cuts = []
    for offset_s in (0.0, delay_s):
        keep, cost = controller(), model()
        for batch_id in range(1, 4):
            keep.answer(load(batch_id, 0.5), batch_id, cost, late_ratio=0.015, is_rerun=False)
            newest_s = 100.0 + 2 * batch_id - offset_s
            keep.learn(signal(batch_id, GuardSignal(6_500, 6_500, 1.0, 90.0, newest_s, everything=True)))
        cuts.append(keep.answer(load(4, 3.5), 4, cost, late_ratio=0.015, is_rerun=False).late_before_s)
    assert None not in cuts
    assert cuts[0] - cuts[1] == pytest.approx(delay_s)  # type: ignore[operator]


def test_where_all_is_late_though_nothing_waits_late_rows_do_not_go_first() -> None:
    """A clock that is set back by a minute makes every row late once; the next batch counts from the new clock."""
    keep, cost = controller(), model()
    for batch_id, offset_s in ((1, 0.0), (2, 60.0)):
        answer = keep.answer(load(batch_id, 3.5), batch_id, cost, late_ratio=0.015, is_rerun=False)
        newest_s = 100.0 + 2 * batch_id - offset_s
        late_rows = 45_500 if batch_id == 2 else 0
        keep.learn(signal(batch_id, GuardSignal(45_500, 2_275, answer.keep_ratio, 40.0, newest_s, late_rows=late_rows)))
    answer = keep.answer(load(3, 3.5), 3, cost, late_ratio=0.015, is_rerun=False)
    assert answer.late_before_s is not None
    assert answer.late_before_s < 106.0 - 60.0


@pytest.mark.parametrize(("set_back_s", "behind_s"), [(3.0, 0.5), (60.0, 0.5), (3600.0, 30.0)])
def test_a_clock_that_is_set_back_is_followed_though_rows_wait(set_back_s: float, behind_s: float) -> None:
    """Under overload something always waits: a delay that this does not explain is believed after one batch."""
    moments = after_a_batch_that_is_all_late(delay_s=set_back_s, behind_s=behind_s)
    assert moments[1] == pytest.approx(moments[0] + 2.0 - set_back_s)


@pytest.mark.parametrize("behind_s", [3.0, 30.0])
def test_rows_that_are_late_because_they_waited_stay_late(behind_s: float) -> None:
    """No clock was set where a batch is old because of what waits behind it, even if that is reckoned as too little."""
    moments = after_a_batch_that_is_all_late(delay_s=0.8 * behind_s, behind_s=behind_s)
    assert moments[1] == pytest.approx(moments[0] + 2.0)


def after_a_batch_that_is_all_late(*, delay_s: float, behind_s: float) -> list[float]:
    """Moments before which rows are late: of a batch whose rows all are, with rows behind it, and of the next one.

    Its newest row is as old as the rows behind it say, and by a delay more; before, no delay was seen.
    """
    keep, cost, moments = controller(), model(), []
    for batch_id in (1, 2, 3):
        waiting = load(batch_id, 3.5)
        lag_rows = behind_s * RATE_ROWS_PER_S if batch_id > 1 else 0.0
        planned = replace(waiting, waiting_rows=waiting.rows + lag_rows)
        moment_s = keep.answer(planned, batch_id, cost, late_ratio=0.015, is_rerun=False).late_before_s
        assert moment_s is not None
        moments.append(moment_s)
        is_late = batch_id == 2
        newest_s = planned.planned_s - (behind_s + delay_s if is_late else 0.0)
        rows = round(planned.rows)
        guard = GuardSignal(rows, rows // 8, 0.3, newest_s - 1.0, newest_s, late_rows=rows if is_late else 0)
        keep.learn(signal(batch_id, guard, lag_rows))
    return moments[1:]


def test_until_executors_come_a_batch_leaves_what_the_floor_can_make_good() -> None:
    """Where not even half of what arrives can be done, a batch that is in time itself is cut to its floor at once."""
    rate = 20_000.0
    load = PlannedLoad(1, 100.0, rate, rate, rate, 1.0, batch_s=2.4, tells_arrival=True, relief_s=8.0)
    numbers = {"latency_s": 5.0, "keep_floor": 0.5, "late_ratio": 0.015}
    assert choose_keep_ratio(model(), replace(load, relief_s=0.0), **numbers).ratio == 1.0
    assert choose_keep_ratio(model(), load, **numbers).ratio == 0.5
    some = choose_keep_ratio(model(), replace(load, relief_s=3.0), **numbers).ratio
    assert 0.5 < some <= 1.0


def test_rows_that_have_waited_for_long_shorten_their_batch() -> None:
    """A batch no longer than is wanted is cut where its rows waited for so long that they would be late with it."""
    calm = PlannedLoad(1, 100.0, 20_000.0, 20_000.0, 6_000.0, 3.3, batch_s=2.4, tells_arrival=True, relief_s=8.0)
    choice = choose_keep_ratio(model(), calm, latency_s=5.0, keep_floor=0.5, late_ratio=0.015)
    assert choice.ratio < 1.0
    assert choice.predicted_s + 3.3 <= 5.0 * 1.02


def test_without_a_latency_goal_a_query_keeps_what_others_leave_it() -> None:
    """A query with no goal of its own keeps to the bounds of whoever plans for all engines, and all when let go."""
    keep = KeepController(QUERY, Goal(minimum_accuracy=0.3), SheddingSettings())
    assert keep.answer(None, 1, model(), late_ratio=0.015, is_rerun=False).everything
    keep.set_keep_bounds(KeepBounds(0.0, 0.6))
    held = keep.answer(None, 2, model(), late_ratio=0.015, is_rerun=False)
    assert (held.keep_ratio, held.everything) == (pytest.approx(0.6), False)
    keep.set_keep_bounds(KeepBounds(0.0, 0.1))
    assert keep.answer(None, 3, model(), late_ratio=0.015, is_rerun=False).expected["kept_ratio"] == pytest.approx(0.3)
    rerun = keep.answer(None, 4, model(), late_ratio=0.015, is_rerun=True)
    assert not rerun.everything  # what an earlier run was told stands
    keep.set_keep_bounds(KeepBounds())
    assert keep.answer(None, 5, model(), late_ratio=0.015, is_rerun=False).everything


@pytest.mark.parametrize("rows", [10_000.0, 40_000.0, 120_000.0])
def test_a_plan_in_rows_is_kept_whatever_a_batch_reads(rows: float) -> None:
    """A batch that reads less than arrives, or what waited meanwhile, keeps as many rows as it was given."""
    keep = controller()
    keep.set_keep_bounds(KeepBounds(most_rows=8_000.0))
    planned = PlannedLoad(1, 100.0, rows, rows, 20_000.0, 1.0, batch_s=2.4, tells_arrival=True)
    answer = keep.answer(planned, 1, model(), late_ratio=0.015, is_rerun=False)
    assert answer.expected["kept_ratio"] * rows == pytest.approx(8_000.0)
    assert "gives it 8,000" in answer.reason


def test_a_plan_in_rows_is_kept_before_costs_are_known_and_late_rows_go_first() -> None:
    """After two batches nothing is known of batch times; of rows that waited for long, the young ones stay even so."""
    keep, unknown = controller(), BatchTimeModel()
    keep.set_keep_bounds(KeepBounds(most_rows=8_000.0))
    planned = PlannedLoad(1, 100.0, 100_000.0, 100_000.0, 20_000.0, 5.0, batch_s=2.4, tells_arrival=True)
    answer = keep.answer(planned, 1, unknown, late_ratio=0.015, is_rerun=False)
    assert answer.late_before_s is not None
    assert 95.0 < answer.late_before_s < 100.0
    assert answer.expected["kept_ratio"] > 8_000.0 / 100_000.0
