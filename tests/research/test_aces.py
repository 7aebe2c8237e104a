"""The graph simulator: exact repetition, conservation of rows, policies that do what they say, and its speed."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from penstock.control.allocation import allocate
from penstock.errors import InvalidSettingError
from penstock.research.aces import AcesExperiment, run_aces_points, simulate
from penstock.research.aces_checks import check_buffers, check_burstiness, latency_ratios
from penstock.research.aces_figures import ALL_POLICIES, AcesFigure, run_aces_figure
from penstock.research.build_plant import Targets, build_plant
from penstock.research.plant import Plant, Policy, Tally
from penstock.research.topology import TopologyShape, draw_topology

SMALL = AcesExperiment(TopologyShape(elements=40, engines=12), duration_s=12.0, warm_up_s=4.0)


def plant_of(experiment: AcesExperiment, seed: int = 1) -> Plant:
    graph = draw_topology(experiment.shape, seed=seed)
    found = allocate(graph, experiment.utility)
    state_time_s = experiment.burstiness_rows * experiment.shape.mean_row_s
    return build_plant(graph, experiment.shape, Targets(found.cores, found.input_rows_per_s), state_time_s=state_time_s)


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


@pytest.mark.parametrize(
    "policy", [Policy.LOCK_STEP, Policy.BACKPRESSURE, Policy.STATIC_LIMIT], ids=lambda policy: policy.name
)
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
    assert len(buffers) == 8 * 3
    assert len(bursts) == 6 * 3
    claims = [*check_buffers(buffers), *check_burstiness(bursts)]
    assert {claim["is"] for claim in claims} <= {"yes", "no"}
    assert len(claims) == 10
    assert all(ratio > 0 for ratio in latency_ratios(buffers))


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
    assert max(readers) <= 4
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
