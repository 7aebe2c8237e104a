"""The graph simulator: exact repetition, conservation of rows, policies that do what they say, and its speed."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from penstock.control.allocation import allocate
from penstock.errors import InvalidSettingError
from penstock.research.aces import (
    LOCK_STEPS,
    POLICIES,
    AcesExperiment,
    AcesJob,
    StateClock,
    experiment_plant,
    plan_targets,
    real_graph,
    run_aces_job,
    run_aces_points,
    simulate,
)
from penstock.research.aces_checks import check_buffers, check_burstiness, check_equal
from penstock.research.aces_figures import ALL_POLICIES, AcesFigure, run_aces_figure
from penstock.research.element_policies import Policy
from penstock.research.equal_throughput import EqualJob, run_equal_job
from penstock.research.plant import Plant, Tally
from penstock.research.topology import TopologyShape, draw_topology

SMALL = AcesExperiment(TopologyShape(elements=40, engines=12), duration_s=12.0, warm_up_s=4.0)


def plant_of(experiment: AcesExperiment, seed: int = 1) -> Plant:
    graph = real_graph(experiment, seed)
    targets = plan_targets(allocate(graph, experiment.utility))
    return experiment_plant(graph, experiment, targets, Policy.ACES)


def content(tally: Tally) -> bytes:
    return b"".join(array.tobytes() for array in tally)


@pytest.mark.parametrize("policy", ALL_POLICIES, ids=lambda policy: policy.name)
def test_same_seed_gives_the_same_bytes(policy: Policy) -> None:
    """A run is a function of its seed, and another seed gives another run."""
    plant = plant_of(SMALL)
    first, again, other = (simulate(plant, SMALL, policy, seed=seed) for seed in (3, 3, 4))
    assert content(first) == content(again)
    assert content(first) != content(other)


@pytest.mark.parametrize("policy", ALL_POLICIES, ids=lambda policy: policy.name)
def test_no_core_is_used_twice(policy: Policy) -> None:
    """Elements of an engine together never use more than its cores, and something comes out."""
    plant = plant_of(SMALL)
    tally = simulate(plant, SMALL, policy, seed=1)
    busy_s = np.bincount(plant.engine, weights=tally.busy_s)
    counted_s = SMALL.duration_s - SMALL.warm_up_s
    # A row that began in the warm-up is counted in full when it ends.
    assert np.all(busy_s <= plant.cores * (counted_s + SMALL.shape.slow_s) + 1e-9)
    assert tally.put_out.sum() > 0


@pytest.mark.parametrize("policy", [*LOCK_STEPS, Policy.BACKPRESSURE, Policy.STATIC_LIMIT], ids=lambda each: each.name)
def test_lossless_policies_lose_nothing(policy: Policy) -> None:
    """Min-flow and topics without end lose no row that was taken in."""
    assert simulate(plant_of(SMALL), SMALL, policy, seed=1).lost.sum() == 0


def test_chain_loses_nothing_under_max_flow() -> None:
    """Where every stream has one reader, ACES loses no row that it took in; UDP does."""
    chain = replace(SMALL, shape=replace(SMALL.shape, ingress_share=0.2, egress_share=0.2, branching_share=0.0))
    plant = plant_of(chain)
    assert np.diff(plant.readers_of).max() == 1
    assert simulate(plant, chain, Policy.ACES, seed=1).lost.sum() == 0
    assert simulate(plant, chain, Policy.UDP, seed=1).lost.sum() > 0


def test_latency_of_a_calm_chain() -> None:
    """Far below capacity, a row takes at least the sum of its service times, and little more for those born with it."""
    shape = TopologyShape(elements=10, engines=10, layers=5, ingress_share=0.2, egress_share=0.2, branching_share=0.0,
                          fast_s=0.002, slow_s=0.002, load=0.05)  # fmt: skip
    calm = AcesExperiment(shape, duration_s=60.0, warm_up_s=5.0)
    tally = simulate(plant_of(calm), calm, Policy.UDP, seed=1)
    assert 0.010 <= tally.latency_s.sum() / tally.put_out.sum() < 0.020
    assert tally.lost.sum() == 0


def test_lost_reports_do_little_harm() -> None:
    """With half of all reports lost and the rest late by three steps, ACES keeps nine tenths of its throughput."""
    [good] = run_aces_points([SMALL], topologies=2, policies=[Policy.ACES])[0]
    worse = replace(SMALL, loss_share=0.5, delay_s=0.03)
    [bad] = run_aces_points([worse], topologies=2, policies=[Policy.ACES])[0]
    assert float(bad["weighted_rows_per_s"] or 0) > 0.9 * float(good["weighted_rows_per_s"] or 0)


def test_figures_have_a_row_for_each_point_and_policy() -> None:
    """Every figure's table is complete, and its claims can be read from it."""
    tiny = AcesExperiment(TopologyShape(elements=20, engines=6), duration_s=3.0, warm_up_s=1.0)
    buffers = run_aces_figure(AcesFigure.TRADE_OFF, tiny, topologies=2)
    bursts = run_aces_figure(AcesFigure.BURSTINESS, tiny, topologies=2)
    assert len(buffers) == 8 * len(POLICIES)
    assert len(bursts) == 6 * len(POLICIES)
    equal = run_aces_figure(AcesFigure.EQUAL, tiny, topologies=2)
    claims = [*check_buffers(buffers), *check_burstiness(bursts), *check_equal(equal)]
    assert {claim["is"] for claim in claims} <= {"yes", "no", "tie"}
    assert len(claims) == 7 + 5 + 1


def test_gains_are_paired() -> None:
    """The gain over a policy is the mean of gains on each topology, not the gain of the means."""
    [rows] = run_aces_points([SMALL], topologies=2, policies=[Policy.ACES, Policy.UDP])
    results = [run_aces_job(AcesJob(SMALL, (Policy.ACES, Policy.UDP), seed)) for seed in (1, 2)]
    gains = [each[Policy.ACES].weighted_rows_per_s / each[Policy.UDP].weighted_rows_per_s - 1.0 for each in results]
    assert rows[1]["gain_of_aces"] == pytest.approx(np.mean(gains))
    assert rows[0]["gain_of_aces"] == 0.0


@pytest.mark.parametrize(("clock", "buffer_rows"), [(StateClock.CPU, 5), (StateClock.CPU, 50), (StateClock.WALL, 5)])
def test_aces_is_above_its_rivals(clock: StateClock, buffer_rows: int) -> None:
    """With either clock, ACES has more weighted rows than as published, UDP and every Lock-Step (three topologies)."""
    point = replace(SMALL, clock=clock, buffer_rows=buffer_rows, duration_s=30.0, warm_up_s=10.0)
    [rows] = run_aces_points([point], topologies=3, policies=POLICIES)
    assert all(float(row["gain_of_aces"] or 0.0) > 0.0 for row in rows[1:])


def test_equal_throughput_limits_the_ingress() -> None:
    """ACES is let in less until it has what its rival has, and its rows are then younger than without a limit."""
    point = replace(SMALL, buffer_rows=5)
    both = run_aces_job(AcesJob(point, (Policy.ACES, Policy.UDP), 1))
    found = run_equal_job(EqualJob(point, Policy.UDP, 1))
    assert both[Policy.ACES].weighted_rows_per_s > 1.05 * both[Policy.UDP].weighted_rows_per_s
    assert 1.0 <= found.aces.weighted_rows_per_s / found.rival.weighted_rows_per_s < 1.05
    assert found.aces.latency_mean_s < both[Policy.ACES].latency_mean_s


def test_a_sleeping_lock_step_loses_to_one_that_is_woken() -> None:
    """In a chain with buffers of one row, looking for room every 20 ms costs throughput."""
    shape = replace(SMALL.shape, ingress_share=0.2, egress_share=0.2, branching_share=0.0, engines=40)
    point = replace(SMALL, shape=shape, buffer_rows=1)
    found = run_aces_job(AcesJob(point, (Policy.LOCK_STEP, Policy.LOCK_STEP_SLEEPS_20MS), 1))
    assert found[Policy.LOCK_STEP_SLEEPS_20MS].weighted_rows_per_s < 0.9 * found[Policy.LOCK_STEP].weighted_rows_per_s


@pytest.mark.parametrize("burstiness", [1.0, 5.0])
@pytest.mark.parametrize("keeps_state", [True, False])
def test_real_rates_are_those_planned_with(burstiness: float, keeps_state: bool) -> None:  # noqa: FBT001 - a parameter
    """An element with a core of its own and more rows than it can take does what tier one reckons with."""
    shape = TopologyShape(elements=10, engines=10, layers=5, ingress_share=0.2, egress_share=0.2, branching_share=0.0,
                          load=3.0)  # fmt: skip
    point = AcesExperiment(shape, burstiness_rows=burstiness, keeps_state=keeps_state, duration_s=400.0)
    graph, plant = real_graph(point, 1), plant_of(point)
    tally = simulate(plant, point, Policy.UDP, seed=1)
    [*ingress] = range(2)
    counted_s = point.duration_s - point.warm_up_s
    for index in ingress:
        assert tally.processed[index] / counted_s == pytest.approx(graph.elements[index].rows_per_core_s, rel=0.03)


def test_settings_without_meaning_are_refused() -> None:
    """A buffer of nothing, a warm-up longer than the run and no topologies are told by name."""
    with pytest.raises(InvalidSettingError, match="buffer_rows"):
        AcesExperiment(buffer_rows=0)
    with pytest.raises(InvalidSettingError, match="duration"):
        AcesExperiment(duration_s=1.0, warm_up_s=2.0)
    with pytest.raises(InvalidSettingError, match="topologies"):
        run_aces_points([SMALL], topologies=0)


@pytest.mark.parametrize("seed", range(5))
def test_topologies_keep_their_parameters(seed: int) -> None:
    """Fan-out, fan-in and the share of branching elements are those asked for, and engines are loaded evenly."""
    graph = draw_topology(TopologyShape(), seed=seed)
    readers, feeders = [len(each) for each in graph.readers], [len(each) for each in graph.feeders]
    assert set(readers) == {0, 1, 2, 3, 4}
    assert max(feeders) <= 3
    branching = sum(out > 1 or into > 1 for out, into in zip(readers, feeders, strict=True))
    assert branching == 40
    loads = np.bincount([graph.engine_index[element.engine] for element in graph.elements])
    assert set(loads) == {2, 3}
    assert draw_topology(TopologyShape(), seed=seed) == graph


@pytest.mark.slow
def test_speed() -> None:
    """On the 200-element graph a core simulates at least a million row events a second."""
    experiment = AcesExperiment(duration_s=20.0, warm_up_s=5.0)
    plant = plant_of(experiment)
    simulate(plant, replace(experiment, duration_s=6.0), Policy.ACES, seed=1)
    rates = []
    for _ in range(3):
        started_s = time.perf_counter()
        tally = simulate(plant, experiment, Policy.ACES, seed=1)
        rates.append(int(tally.events[0]) / (time.perf_counter() - started_s))
    assert max(rates) >= 1_000_000
