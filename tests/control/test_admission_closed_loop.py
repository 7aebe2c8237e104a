"""Admission in a closed loop with a simulated engine, in virtual time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from closed_loops import QUERY, alone, decided
from penstock.model.decision import Hold, Infeasible, ReadLimit
from penstock.testing import SimulatedQuery, SimulatedRun

CAPACITY_ROWS_PER_S = (2.5 - 0.2) / 20e-6 / 2.5


def limits_after_each_batch(run: SimulatedRun, batches: int) -> list[float]:
    """Run batch by batch and tell the limit that was decided last after each."""
    limits = []
    for _ in range(batches):
        run.run_batches(QUERY, 1)
        limits.append(run.query(QUERY).next_limit_rows)
    return limits


def test_cold_start_on_a_huge_backlog_never_plans_a_batch_beyond_the_goal() -> None:
    """Five million rows wait; the first batch is small and no later one takes longer than the goal."""
    run = alone(SimulatedQuery(lambda _: 0.0, backlog_rows=5_000_000, noise=0.05)).run_batches(QUERY, 60)
    signals = run.signals(QUERY)
    assert signals[0].rows == 1000
    assert max(signal.duration_s for signal in signals[1:]) < 5.0
    assert signals[25].rows > 80_000
    assert run.query(QUERY).offered_rows == 5_000_000


def test_a_cold_start_grows_in_every_batch() -> None:
    """A report comes when the next batch is planned already: that one is counted, or every size would come twice."""
    run = alone(SimulatedQuery(lambda _: 0.0, backlog_rows=5_000_000, overhead_s=0.1)).run_batches(QUERY, 8)
    sizes = [signal.rows for signal in run.signals(QUERY)]
    assert sizes[:2] == [1000, 1000]
    assert all(later >= 1.5 * earlier for earlier, later in itertools.pairwise(sizes[1:6]))
    assert all(later <= 4 * earlier for earlier, later in itertools.pairwise(sizes[1:]))


@pytest.mark.parametrize("usual_batches", [2, 3, 4])
def test_a_report_that_overtakes_the_next_batch_makes_no_leap(usual_batches: int) -> None:
    """The limit that is decided then holds for the very next batch: it is not under way, or growth would be squared."""
    run = alone(SimulatedQuery(lambda _: 0.0, backlog_rows=5_000_000, overhead_s=0.1)).run_batches(QUERY, usual_batches)
    run.engine.run_until(run.signals(QUERY)[-1].finished_s + 0.05)
    run.engine.limit_delay_batches = 0  # from the report of the batch on that runs now
    sizes = [signal.rows for signal in run.run_batches(QUERY, 3).signals(QUERY)]
    largest = list(itertools.accumulate(sizes, max))
    assert all(rows <= 4 * before for rows, before in zip(sizes[1:], largest, strict=False))


@pytest.mark.parametrize("cost_s", [1e-6, 20e-6, 1e-3, 20e-3])
@pytest.mark.parametrize("overhead_s", [0.05, 0.5, 1.5])
def test_standing_backlog_settles_at_the_target_without_oscillation(cost_s: float, overhead_s: float) -> None:
    """Whatever a row costs, batches come to within 20 % of their target and the limit varies by less than 10 %."""
    run = alone(
        SimulatedQuery(lambda _: 0.0, overhead_s=overhead_s, cost_per_row_s=cost_s, backlog_rows=1e9, noise=0.06)
    )
    limits = np.array(limits_after_each_batch(run, 90)[-20:])
    durations = np.array([signal.duration_s for signal in run.signals(QUERY)[-20:]])
    assert abs(durations.mean() / 2.5 - 1) < 0.2
    assert limits.std() / limits.mean() < 0.10


def test_ninety_percent_load_keeps_the_lag_under_one_batch_and_cuts_nothing_that_fits() -> None:
    """Where all that waits fits into the target, all of it is read."""
    run = alone(SimulatedQuery(lambda _: 0.9 * CAPACITY_ROWS_PER_S, noise=0.03)).run_batches(QUERY, 40)
    run.engine.limit_delay_batches = 0
    fits = (2.5 - 0.2) / 20e-6
    for signal in run.run_batches(QUERY, 60).signals(QUERY)[40:]:
        assert signal.lag_rows is not None
        assert signal.lag_rows < fits
        waited = signal.rows + signal.lag_rows
        assert signal.lag_rows < 1 or waited > 0.8 * fits, "a batch was cut that would have fitted"


def test_a_cost_that_triples_is_followed_within_a_few_batches() -> None:
    """An abrupt change is learned anew, and batches return to the target."""
    query = SimulatedQuery(
        lambda _: 0.0, cost_per_row_s=lambda now: 20e-6 if now < 120 else 60e-6, backlog_rows=1e9, noise=0.03
    )
    signals = alone(query).run_batches(QUERY, 90).signals(QUERY)
    changed = next(index for index, signal in enumerate(signals) if signal.started_s >= 120)
    later = [signal.duration_s for signal in signals[changed + 6 : changed + 16]]
    assert max(later) < 1.35 * 2.5
    assert min(later) > 0.65 * 2.5


def test_overload_is_reported_once_and_its_end_once() -> None:
    """More rows than fit: one record with the missing capacity; when the load falls, one that it fits again."""
    query = SimulatedQuery(lambda now: (3.0 if now < 100 else 0.2) * CAPACITY_ROWS_PER_S)
    run = alone(query).run_batches(QUERY, 200)
    [infeasible] = run.decisions(Infeasible)
    assert infeasible.expected["missing_rows_per_s"] == pytest.approx(2 * CAPACITY_ROWS_PER_S, rel=0.3)
    assert len(run.decisions(Hold)) == 1


def test_an_overhead_beyond_the_goal_is_infeasible_but_work_goes_on() -> None:
    """A goal that the fixed part of a batch already breaks is reported, and rows still get through."""
    run = alone(SimulatedQuery(lambda _: 0.0, overhead_s=4.0, backlog_rows=1e8)).run_batches(QUERY, 60)
    assert any("before its first row" in decision.reason for decision in decided(run))
    assert run.signals(QUERY)[-1].rows > 0.2 * 2.5 / 20e-6


@pytest.mark.parametrize("seed", range(8))
def test_noise_does_not_keep_batches_small(seed: int) -> None:
    """On a busy engine most of a batch is overhead, and noise: the batches must grow to what fits all the same."""
    query = SimulatedQuery(lambda _: 0.0, overhead_s=1.3, cost_per_row_s=6e-6, backlog_rows=1e9, noise=0.25, seed=seed)
    signals = alone(query).run_batches(QUERY, 60).signals(QUERY)
    fits_rows = (2.5 - 1.3) / 6e-6
    assert np.mean([signal.rows for signal in signals[-15:]]) > 0.5 * fits_rows
    assert np.median([signal.duration_s for signal in signals[-15:]]) < 4.0


@pytest.mark.parametrize("noise", [0.05, 0.3])
@pytest.mark.parametrize(("overhead_s", "load"), [(2.2, 0.3), (1.6, 0.6), (0.9, 0.75)])
def test_a_query_that_keeps_up_on_its_own_still_does(overhead_s: float, load: float, noise: float) -> None:
    """An overhead that leaves no room within the goal: short batches would fall behind for ever, longer ones do not."""
    query = SimulatedQuery(lambda _: load / 20e-6, overhead_s=overhead_s, noise=noise)
    tail = alone(query, batch_share=0.4).run_batches(QUERY, 100).signals(QUERY)[-30:]
    alone_s = overhead_s / (1.0 - load)
    assert np.mean([signal.lag_rows for signal in tail]) < 2 * alone_s * load / 20e-6
    assert np.mean([signal.duration_s for signal in tail]) < 1.5 * alone_s


def test_an_overload_behind_a_large_overhead_is_worked_at() -> None:
    """Twice what fits, nothing may be dropped: most of the time goes into rows, not into the overhead of batches."""
    run = alone(SimulatedQuery(lambda _: 2.0 / 20e-6, overhead_s=2.2, noise=0.05), batch_share=0.4)
    tail = run.run_batches(QUERY, 80).signals(QUERY)[-20:]
    busy = sum(signal.rows for signal in tail) * 20e-6 / sum(signal.duration_s for signal in tail)
    assert busy > 0.65
    assert len(run.decisions(Infeasible)) >= 1


def test_a_limit_that_was_lost_is_applied_again() -> None:
    """The log says what is to be in force: the next cycle finds that it is not, and applies it."""
    run = alone(SimulatedQuery(lambda _: 0.0, backlog_rows=1e9)).run_batches(QUERY, 3)
    run.engine.drop_next_apply = True
    while run.engine.drop_next_apply:
        run.run_batches(QUERY, 1)
    recorded = run.decisions(ReadLimit)[-1].units
    assert run.query(QUERY).next_limit_rows != recorded
    run.loop.cycle()
    assert run.query(QUERY).next_limit_rows == recorded
