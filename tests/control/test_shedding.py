"""Shedding decisions: the paper's CHECK and its misprints, the queue, the laws of keep probability."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.control.shedding import (
    BaseLine,
    Constraint,
    Deadline,
    Economic,
    FullKnowledge,
    LoadAware,
    Rows,
    Semantic,
    StrawMan,
    Uniform,
)
from penstock.control.shedding.economic import delay_price
from penstock.control.shedding.queue import QUEUE_STATE_SIZE, keep_rows, keeps_row
from penstock.errors import InvalidSettingError
from penstock.estimate.hashing import draw_hashes
from penstock.estimate.sketch import CostSketch
from penstock.estimate.sketch_state import ShedderPhase, SyncReply
from penstock.research.queue import waits_of_kept
from penstock.sim.streams import StreamShape, draw_stream

HASHES = draw_hashes(np.random.default_rng(11), 4)
TAU_S = 0.0064


def _overload(count: int = 20_000, underprovision: float = 0.25) -> Rows:
    stream = draw_stream(StreamShape(rows=count), seed=5, run=0)
    return Rows(stream.keys, stream.arrivals_s(underprovision), stream.uniforms, costs_s=stream.costs_s)


def _costs(rows: Rows) -> np.ndarray:
    assert rows.costs_s is not None
    return rows.costs_s


def _mean_wait_s(rows: Rows, keep: np.ndarray) -> float:
    return float(np.nanmean(waits_of_kept(rows.arrival_s, _costs(rows), keep)))


def _printed_line_31(rows: Rows, threshold_s: float) -> np.ndarray:
    """Listing III.2 with CHECK as printed: ``Q / l > tau`` on what was kept so far."""
    keep = np.zeros(rows.keys.size, np.bool_)
    busy_until, total, count = 0.0, 0.0, 0
    for index, (arrival, cost) in enumerate(zip(rows.arrival_s, _costs(rows), strict=True)):
        wait = max(busy_until - arrival, 0.0)
        if count and total / count > threshold_s:
            continue
        keep[index] = True
        total, count = total + wait, count + 1
        busy_until = max(busy_until, arrival) + cost
    return keep


def _printed_line_18(rows: Rows, threshold_s: float) -> np.ndarray:
    """Listing III.2 with ``q = C - elapsed`` as printed, C being a plain sum, and CHECK put right."""
    keep = np.zeros(rows.keys.size, np.bool_)
    work, total, count = 0.0, 0.0, 0
    for index, (arrival, cost) in enumerate(zip(rows.arrival_s, _costs(rows), strict=True)):
        wait = work - arrival
        if (total + wait) / (count + 1) > threshold_s:
            continue
        keep[index] = True
        total, count, work = total + wait, count + 1, work + cost
    return keep


def test_printed_line_31_never_recovers() -> None:
    """As printed, one excess drops every later row: over 99 % go where a quarter is enough."""
    rows = _overload()
    printed = _printed_line_31(rows, TAU_S)
    last_kept = int(np.flatnonzero(printed)[-1])
    assert 1 - printed.mean() > 0.99
    assert last_kept < 200
    corrected = FullKnowledge(TAU_S).decide(rows).keep
    assert 0.24 < 1 - corrected.mean() < 0.27


def test_printed_line_18_gives_credit_for_idle_time() -> None:
    """After a quiet spell the printed estimate is seconds below zero, and a burst that needs shedding passes whole."""
    quiet = np.arange(1000) * 0.010
    burst = 10.0 + np.arange(2000) * 0.0005
    arrivals = np.concatenate([quiet, burst])
    rows = Rows(np.zeros(3000, np.uint64), arrivals, np.zeros(3000), costs_s=np.full(3000, 0.001))
    printed = _printed_line_18(rows, TAU_S)
    assert printed.all()
    assert _mean_wait_s(rows, printed) > 40 * TAU_S
    corrected = FullKnowledge(TAU_S).decide(rows).keep
    assert corrected[1000:].mean() < 0.75
    assert _mean_wait_s(rows, corrected) <= TAU_S * (1 + 1e-9)


def test_printed_line_18_misses_the_threshold_under_steady_overload() -> None:
    """Even without a quiet spell the printed credit makes Full Knowledge miss tau; corrected, it meets it exactly."""
    rows = _overload()
    assert _mean_wait_s(rows, _printed_line_18(rows, TAU_S)) > 1.5 * TAU_S
    assert _mean_wait_s(rows, FullKnowledge(TAU_S).decide(rows).keep) == pytest.approx(TAU_S, rel=0.01)


def test_average_holds_at_every_prefix() -> None:
    """AVG(tau) is a promise for every row of the stream, not for its end alone (Theorem 4.1)."""
    rows = _overload()
    waits = waits_of_kept(rows.arrival_s, _costs(rows), FullKnowledge(TAU_S).decide(rows).keep)
    kept = waits[~np.isnan(waits)]
    assert np.all(np.cumsum(kept) <= TAU_S * np.arange(1, kept.size + 1) * (1 + 1e-9))


def test_absolute_bounds_every_wait() -> None:
    """ABS(tau): no kept row waits longer than tau, and rows that would not are all kept."""
    rows = _overload()
    keep = FullKnowledge(TAU_S, constraint=Constraint.ABSOLUTE).decide(rows).keep
    waits = waits_of_kept(rows.arrival_s, _costs(rows), keep)
    assert np.nanmax(waits) <= TAU_S * (1 + 1e-9)
    assert np.nanmax(waits) > 0.95 * TAU_S


def test_window_bounds_the_mean_of_the_last_rows() -> None:
    """WINDOW(tau): the mean of any 100 kept rows in a row is at most tau."""
    rows = _overload()
    shedder = FullKnowledge(TAU_S, constraint=Constraint.WINDOW, window_rows=100)
    waits = waits_of_kept(rows.arrival_s, _costs(rows), shedder.decide(rows).keep)
    kept = waits[~np.isnan(waits)]
    means = np.convolve(kept, np.full(100, 0.01), mode="valid")
    assert means.max() <= TAU_S * (1 + 1e-6)
    assert means.max() > 0.9 * TAU_S


def test_forced_rows_do_not_stop_the_queue_for_ever() -> None:
    """After a minimum accuracy has pushed the mean far above tau, rows that wait little are still let in."""
    crowd = np.zeros(200)
    later = 5.0 + 0.01 * np.arange(200)
    rows = Rows(np.zeros(400, np.uint64), np.concatenate([crowd, later]), np.zeros(400), costs_s=np.full(400, 0.002))
    keep = FullKnowledge(0.001, minimum_accuracy=0.5).decide(rows).keep
    assert 100 <= keep[:200].sum() <= 101
    assert keep[200:].all()


def test_tighter_promise_costs_more_rows() -> None:
    """A tenth of tau empties the queue now and then, and the idle time has to be paid for in rows."""
    rows = _overload()
    drops = [1 - FullKnowledge(share * TAU_S).decide(rows).keep.mean() for share in (1.0, 0.3, 0.1)]
    assert drops[0] < drops[1] < drops[2]


def test_greedy_keeping_is_not_optimal() -> None:
    """Against Theorem 4.1: a shedder by moment that keeps the same promise, aiming a tenth lower, drops fewer rows."""
    rows = _overload()
    greedy, careful = FullKnowledge(TAU_S).decide(rows).keep, FullKnowledge(0.9 * TAU_S).decide(rows).keep
    waits = waits_of_kept(rows.arrival_s, _costs(rows), careful)
    kept = waits[~np.isnan(waits)]
    assert np.all(np.cumsum(kept) <= TAU_S * np.arange(1, kept.size + 1))
    assert careful.sum() > greedy.sum()


def test_load_aware_drops_nothing_before_it_has_learned() -> None:
    """Phase NOP keeps every row; a sketch moves it to SEND, the next kept row to RUN, once."""
    shedder = LoadAware(TAU_S, hashes=HASHES)
    rows = _overload(2000)
    assert shedder.decide(rows).keep.all()
    assert shedder.phase is ShedderPhase.NOP
    shedder.learn(_learned(rows))
    assert shedder.phase is ShedderPhase.SEND
    assert shedder.decide(rows).sync is not None
    assert shedder.phase is ShedderPhase.RUN
    assert shedder.decide(rows).sync is None


def _learned(rows: Rows) -> np.ndarray:
    sketch = CostSketch(HASHES, 55)
    sketch.update(rows.keys, _costs(rows))
    return sketch.cells


def test_question_holds_the_end_expected_of_the_first_kept_row() -> None:
    """C goes out as it stands after the first kept row: the row's begin plus its raised estimate."""
    rows = Rows(np.full(3, 7, np.uint64), np.array([2.0, 2.0, 2.0]), np.zeros(3), costs_s=np.full(3, 0.004))
    shedder = LoadAware(0.0, hashes=HASHES, constraint=Constraint.ABSOLUTE)
    shedder.learn(_learned(rows))
    decision = shedder.decide(rows)
    assert decision.keep.tolist() == [True, False, False]
    assert decision.sync is not None
    assert decision.sync.expected_end_s == pytest.approx(2.0 + 0.004 * 1.05)


def test_answer_moves_the_queue() -> None:
    """An operator that is a second late leaves no room for rows that would otherwise fit."""
    rows = Rows(np.full(2, 7, np.uint64), np.array([0.0, 0.1]), np.zeros(2), costs_s=np.full(2, 0.004))
    shedder = LoadAware(0.01, hashes=HASHES, constraint=Constraint.ABSOLUTE)
    shedder.learn(_learned(rows))
    assert shedder.decide(rows).keep.all()
    shedder.correct(SyncReply(late_s=1.0))
    later = Rows(rows.keys, rows.arrival_s + 0.2, rows.uniforms)
    assert not shedder.decide(later).keep.any()


def test_load_aware_raises_estimates_by_epsilon() -> None:
    """The factor 1 + epsilon makes it drop more than Full Knowledge when its estimates are exact."""
    rows = Rows(np.zeros(5000, np.uint64), 0.003 * np.arange(5000), np.zeros(5000), costs_s=np.full(5000, 0.004))
    shedder = LoadAware(TAU_S, hashes=HASHES)
    shedder.learn(_learned(rows))
    exact = 1 - FullKnowledge(TAU_S).decide(rows).keep.mean()
    assert exact == pytest.approx(0.25, abs=0.01)
    assert 1 - shedder.decide(rows).keep.mean() == pytest.approx(1 - 0.75 / 1.05, abs=0.01)


def test_batches_decide_like_one_stream() -> None:
    """A stream cut into batches is decided on as if it came whole."""
    rows = _overload(5000)
    whole = FullKnowledge(TAU_S).decide(rows).keep
    shedder = FullKnowledge(TAU_S)
    parts = [shedder.decide(_slice(rows, begin, begin + 700)).keep for begin in range(0, 5000, 700)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def _slice(rows: Rows, begin: int, end: int) -> Rows:
    part = slice(begin, end)
    return Rows(rows.keys[part], rows.arrival_s[part], rows.uniforms[part], costs_s=_costs(rows)[part])


def test_straw_man_cannot_tell_rows_apart() -> None:
    """With the mean for every row it drops the right number and misses the threshold by far."""
    rows = _overload()
    keep = StrawMan(TAU_S, mean_cost_s=float(_costs(rows).mean())).decide(rows).keep
    assert 1 - keep.mean() == pytest.approx(0.25, abs=0.005)
    assert _mean_wait_s(rows, keep) > 3 * TAU_S


@pytest.mark.parametrize(("underprovision", "dropped"), [(0.25, 0.25), (0.9, 0.9), (0.0, 0.0), (-0.1, 0.0)])
def test_base_line_drops_the_excess(underprovision: float, dropped: float) -> None:
    """The share of under-provisioning goes, and nothing when there is room."""
    keep = BaseLine(underprovision).decide(_overload()).keep
    assert 1 - keep.mean() == pytest.approx(dropped, abs=0.01)


def test_economic_law_is_utility_over_root_of_cost() -> None:
    """In a long queue, without thrift, probabilities of uncapped rows go with one over the root of the cost."""
    costs = np.tile([0.002, 0.008], 4000)
    rows = Rows(
        np.zeros(8000, np.uint64), 0.001 * np.arange(8000), np.random.default_rng(2).random(8000), costs_s=costs
    )
    probability = Economic(1.0, exact_costs=True, thrift=0.0, gain=0.01).decide(rows).probability[-1000:]
    assert probability.max() < 1
    assert probability[0::2].mean() / probability[1::2].mean() == pytest.approx(2.0, rel=0.02)


def test_semantic_law_is_proportional_to_utility() -> None:
    """In a long queue, without thrift, a row worth three times as much stays three times as often."""
    utility = np.tile([1.0, 3.0], 4000)
    uniforms = np.random.default_rng(2).random(8000)
    rows = Rows(
        np.zeros(8000, np.uint64), 0.001 * np.arange(8000), uniforms, costs_s=np.full(8000, 0.005), utility=utility
    )
    probability = Semantic(1.0, exact_costs=True, thrift=0.0, gain=0.01).decide(rows).probability[-1000:]
    assert probability.max() < 1
    assert probability[1::2].mean() / probability[0::2].mean() == pytest.approx(3.0, rel=0.02)


def test_only_ratios_of_utility_count() -> None:
    """Utilities in cents or in euros give the same decisions."""
    rows = _overload(3000)
    worth = 1.0 + rows.keys.astype(np.float64)
    keeps = [
        Semantic(TAU_S, exact_costs=True).decide(_with_utility(rows, scale * worth)).keep for scale in (1.0, 100.0)
    ]
    np.testing.assert_array_equal(keeps[0], keeps[1])


def _with_utility(rows: Rows, utility: np.ndarray) -> Rows:
    return Rows(rows.keys, rows.arrival_s, rows.uniforms, costs_s=rows.costs_s, utility=utility)


def test_row_that_delays_nobody_is_free() -> None:
    """A row that is done before the next one arrives has no price, and the price grows with queue and cost."""
    assert delay_price(0.0, 0.001, 0.002) == 0.0
    assert delay_price(0.002, 0.003, 0.002) < delay_price(0.004, 0.003, 0.002) < delay_price(0.004, 0.005, 0.002)


def test_economic_keeps_everything_when_there_is_room() -> None:
    """At half the capacity no queue forms and no row goes."""
    assert Economic(TAU_S, exact_costs=True).decide(_overload(underprovision=-1.0)).keep.mean() > 0.999


def test_economic_meets_the_threshold_with_fewer_drops() -> None:
    """At exact costs it keeps tau and drops less than three quarters of what Full Knowledge drops."""
    rows = _overload()
    decision = Economic(TAU_S, exact_costs=True).decide(rows)
    assert _mean_wait_s(rows, decision.keep) <= TAU_S
    assert (1 - decision.keep.mean()) < 0.75 * (1 - FullKnowledge(TAU_S).decide(rows).keep.mean())


def test_weighted_counts_are_unbiased() -> None:
    """Over 200 draws the weighted count of the dearest rows is right within four standard errors."""
    rows = _overload(4000)
    dear = _costs(rows) > 0.005
    ratios = []
    for seed in range(200):
        numbers = np.random.default_rng(seed).random(rows.keys.size)
        drawn = Rows(rows.keys, rows.arrival_s, numbers, costs_s=rows.costs_s)
        decision = Economic(TAU_S, exact_costs=True).decide(drawn)
        ratios.append(decision.weights[dear[decision.keep]].sum() / dear.sum())
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert np.mean(ratios) == pytest.approx(1.0, abs=4 * error)
    assert error < 0.01


def test_measured_waits_take_over_from_estimated_ones() -> None:
    """Told that rows really wait three times tau, the economic shedder becomes stricter than its estimates make it."""
    rows = _overload(4000)
    plain, told = Economic(TAU_S, exact_costs=True), Economic(TAU_S, exact_costs=True)
    for begin in range(0, 4000, 500):
        plain.decide(_slice(rows, begin, begin + 500))
        told.decide(_slice(rows, begin, begin + 500))
        told.observe_waits(np.full(400, 3 * TAU_S))
    assert told.rows_kept < 0.8 * plain.rows_kept


def test_deadline_drops_the_late_first() -> None:
    """Rows that cannot be done in time go; the time they would have taken goes to rows that can."""
    ages = np.tile([0.0, 2.0], 50)
    rows = Rows(np.full(100, 7, np.uint64), np.zeros(100), np.zeros(100), costs_s=np.full(100, 0.02), age_s=ages)
    shedder = Deadline(1.0, hashes=HASHES, epsilon=0.05)
    shedder.learn(_learned(rows))
    keep = shedder.decide(rows).keep
    assert not keep[1::2].any()
    assert keep[0::2].sum() == int(1.0 / (0.02 * 1.05))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Uniform(0.0), "keep fraction"),
        (lambda: Uniform(0.5, minimum_accuracy=1.5), "minimum accuracy"),
        (lambda: FullKnowledge(-1.0), "threshold"),
        (lambda: FullKnowledge(float("nan")), "threshold"),
        (lambda: FullKnowledge(1.0, window_rows=0), "window rows"),
        (lambda: Economic(0.0, exact_costs=True), "threshold"),
        (lambda: Economic(1.0), "hashes"),
        (lambda: Economic(1.0, exact_costs=True, smallest_probability=0.0), "smallest probability"),
        (lambda: Economic(1.0, exact_costs=True, gain=0.5), "gain"),
    ],
)
def test_settings_that_cannot_work_are_errors(make: object, complaint: str) -> None:
    """The error names the setting and what it may be."""
    assert callable(make)
    with pytest.raises(InvalidSettingError, match=complaint):
        make()


def test_missing_columns_are_named() -> None:
    """A strategy that needs more than the rows bring says what is missing."""
    rows = Rows(np.zeros(2, np.uint64), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="'full_knowledge' needs 'costs_s'"):
        FullKnowledge(1.0).decide(rows)
    with pytest.raises(ValueError, match="uniforms has 1 values for 2 keys"):
        Rows(np.zeros(2, np.uint64), np.zeros(2), np.zeros(1))


def test_negative_utility_is_an_error() -> None:
    """A row worth less than nothing has no keep probability."""
    rows = Rows(np.zeros(2, np.uint64), np.zeros(2), np.zeros(2), costs_s=np.ones(2), utility=np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="utility"):
        Semantic(1.0, exact_costs=True).decide(rows)


@pytest.mark.parametrize("constraint", list(Constraint))
@pytest.mark.parametrize("minimum", [0.0, 0.6])
def test_many_rows_at_once_are_decided_as_one_by_one(constraint: Constraint, minimum: float) -> None:
    """The fast loop over a batch keeps the rows, and leaves the state, of the decision row by row."""
    generator = np.random.default_rng(1)
    arrivals, costs = np.cumsum(generator.exponential(0.004, 2000)), generator.exponential(0.005, 2000)
    states, windows = np.zeros((2, QUEUE_STATE_SIZE)), np.zeros((2, 64))
    many = keep_rows(arrivals, costs, 0.0064, int(constraint), minimum, states[0], windows[0])
    single = [
        keeps_row(arrival, cost, 0.0064, int(constraint), minimum, states[1], windows[1])
        for arrival, cost in zip(arrivals, costs, strict=True)
    ]
    assert many.tolist() == single
    assert states[0] == pytest.approx(states[1])
