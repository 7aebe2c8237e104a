"""The fast tier in virtual time, a few cases of what the benchmark runs in hundreds."""

from __future__ import annotations

import pytest

from penstock.bench.loops import (
    LoopCase,
    constant_cases,
    reading_cases,
    run_loop,
    run_loops,
    step_cases,
    summed_up,
)


@pytest.mark.parametrize("disturbance", ["none", "drift"])
@pytest.mark.parametrize("overhead_s", [0.2, 0.5, 1.3])
def test_a_step_is_held(overhead_s: float, disturbance: str) -> None:
    """Few of the kept rows are late, and what fits is kept, on a steady machine and on one that gets slower."""
    cases = [LoopCase(overhead_s, 0.05, load, disturbance, seed) for load in (1.5, 3.0, 5.0) for seed in range(2)]
    [figures] = summed_up(run_loops(cases, processes=1), ("disturbance",))
    assert figures["late_ratio_mean"] <= 0.02
    assert figures["kept_of_fitting_ratio_mean"] >= 0.93


@pytest.mark.parametrize("seed", range(3))
def test_overhead_is_not_taken_for_the_cost_of_rows(seed: int) -> None:
    """Where a batch takes two seconds whatever its size, governing a query does not cost it useful rows."""
    result = run_loop(LoopCase(2.2, 0.1, 1.5, seed=seed, calm_load=1.5))
    assert result.of_plain > 0.9


@pytest.mark.parametrize(("load", "seed"), [(0.8, 9), (1.0, 102), (1.5, 102)])
def test_an_unlucky_start_does_not_last(load: float, seed: int) -> None:
    """Where half of the goal is overhead, first batches that make it look like a cost of rows are soon corrected."""
    assert run_loop(LoopCase(2.5, 0.15, load, seed=seed, calm_load=load)).of_plain > 0.9


def test_a_neighbour_in_spells_does_not_take_control_away() -> None:
    """Most kept rows are in time, though a core is taken away and given back every few seconds."""
    found = run_loops([LoopCase(1.0, 0.05, 3.0, "spells", seed) for seed in range(3)], processes=1)
    assert max(result.late_ratio for result in found) < 0.1
    assert min(result.kept_of_fitting_ratio for result in found) > 0.8


def test_the_cases_are_those_that_the_tables_name() -> None:
    """Every combination, each with its seeds."""
    assert len(step_cases(2)) == 4 * 3 * 3 * 4 * 2
    assert len(reading_cases(2)) == 4 * 3 * 3 * 2
    assert {case.calm_load == case.load for case in constant_cases(1)} == {True}


@pytest.mark.parametrize("overhead_s", [0.7, 1.8, 2.5])
def test_a_run_that_does_the_same_as_plain_counts_the_same(overhead_s: float) -> None:
    """Of half of what fits nothing is dropped, and neither luck nor the last batch makes a difference."""
    assert run_loop(LoopCase(overhead_s, 0.05, 0.5, seed=3, calm_load=0.5)).of_plain == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize(("overhead_s", "load", "seed"), [(1.8, 1.5, 5), (2.2, 3.0, 5), (2.2, 3.0, 7), (2.5, 3.0, 7)])
def test_half_a_goal_of_overhead_does_not_cost_useful_rows(overhead_s: float, load: float, seed: int) -> None:
    """Runs in which overhead was long taken for the cost of rows have more rows in time than the query alone."""
    assert run_loop(LoopCase(overhead_s, 0.15, load, seed=seed, calm_load=load)).of_plain > 1.0


def test_rows_are_not_dropped_where_that_saves_nothing() -> None:
    """Where a row costs its reading and nothing else the query does about what it does alone."""
    cases = [LoopCase(2.0, 0.1, 1.5, seed=seed, calm_load=0.3, read_part=1.0) for seed in range(6)]
    [figures] = summed_up(run_loops(cases, processes=1), ("overhead_s",))
    assert figures["useful_of_plain_ratio_mean"] > 0.95
    assert figures["useful_of_plain_ratio_min"] > 0.85
    assert figures["kept_ratio_mean"] > 0.85


def test_finding_out_that_dropping_saves_nothing_costs_little() -> None:
    """With an overhead of less than a third of the goal more is tried before it is known."""
    cases = [LoopCase(1.5, 0.1, 1.5, seed=seed, calm_load=0.3, read_part=1.0) for seed in range(12)]
    [figures] = summed_up(run_loops(cases, processes=1), ("overhead_s",))
    assert figures["useful_of_plain_ratio_mean"] > 0.85
    assert figures["useful_of_plain_ratio_min"] > 0.6
    assert figures["kept_ratio_mean"] > 0.8


@pytest.mark.parametrize(("noise", "load", "seed"), [(0.12, 3.0, 3), (0.3, 1.5, 2)])
def test_a_wrong_belief_is_not_for_ever(noise: float, load: float, seed: int) -> None:
    """Batches that an accident or bad luck made long do not have all rows kept and late for the rest of the run."""
    assert run_loop(LoopCase(1.0, noise, load, "accidents", seed)).late_ratio < 0.3


@pytest.mark.parametrize(("overhead_s", "load", "seed"), [(0.2, 5.0, 12), (1.0, 3.0, 0)])
def test_a_cut_that_met_an_accident_is_not_believed_for_ever(overhead_s: float, load: float, seed: int) -> None:
    """The first cut takes three times as long, as if dropping saved nothing; others tell."""
    assert run_loop(LoopCase(overhead_s, 0.12, load, "accidents", seed=seed)).late_ratio < 0.3


def test_two_accidents_in_a_row_leave_no_batch_whole_that_is_far_too_long() -> None:
    """While no batch seems to be in time, whole or cut, one of a minute's work is cut all the same."""
    assert run_loop(LoopCase(1.3, 0.05, 5.0, "accidents", seed=1)).late_ratio < 0.2


def test_a_reading_that_is_not_likely_does_not_make_most_rows_late() -> None:
    """Where batches scatter by a third, what rows cost stays open for long; by some of it all rows would be in time."""
    cases = [LoopCase(1.3, 0.3, load, "spells", seed) for load in (3.0, 5.0) for seed in range(6)]
    [figures] = summed_up(run_loops(cases, processes=1), ("overhead_s",))
    assert figures["late_ratio_mean"] < 0.11


def test_a_cut_that_met_a_spell_does_not_make_the_next_ones_longer() -> None:
    """What one cut tells of reading is not yet a reason for batches beyond what is in time."""
    found = run_loops([LoopCase(0.5, 0.12, 5.0, "spells", seed) for seed in range(6)], processes=1)
    assert max(result.p95_s for result in found) <= 5.0


def test_whole_batches_count_with_the_neighbours_that_came() -> None:
    """At half more than fits, between spells, batches that keep everything are no longer than cut ones may be."""
    found = run_loops([LoopCase(0.2, 0.05, 1.5, "spells", seed) for seed in (7, 12, 13)], processes=1)
    assert max(result.late_ratio for result in found) <= 0.04
    assert max(result.p95_s for result in found) <= 5.0


def test_with_costs_known_only_luck_makes_rows_late() -> None:
    """The law told the truth keeps what fits with few late rows, whatever the overhead, the scatter and the speed."""
    for overhead_s, noise, disturbance in ((0.2, 0.05, "none"), (1.0, 0.3, "none"), (0.5, 0.12, "spells")):
        result = run_loop(LoopCase(overhead_s, noise, 3.0, disturbance, seed=1))
        assert result.known_late_ratio <= 0.03
        assert 0.9 <= result.known_kept_of_fitting_ratio <= 1.05
        assert result.known_p95_s <= 5.0


def test_accidents_make_rows_late_even_with_costs_known() -> None:
    """The batch that meets one was planned before anybody could know."""
    results = run_loops([LoopCase(0.5, 0.05, 3.0, "accidents", seed) for seed in (0, 1)], processes=1)
    assert max(result.known_late_ratio for result in results) > 0.02
    assert min(result.known_useful_rows_per_s for result in results) > 0.0
