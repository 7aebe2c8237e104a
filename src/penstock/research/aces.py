"""The experiments of the ACES paper: the same topologies and bursts under every policy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.allocation import Allocation, allocate
from penstock.control.lqr import flow_gains
from penstock.control.utility import Utility, UtilityKind
from penstock.errors import InvalidSettingError
from penstock.model.graph import ElementGraph
from penstock.research.build_plant import Targets, build_plant
from penstock.research.element_policies import Policy
from penstock.research.elements import run_elements, source_priorities
from penstock.research.kernel import new_agenda
from penstock.research.plant import Control, Plant, Tally, new_state, new_tally
from penstock.research.topology import TopologyShape, draw_topology
from penstock.research.two_state_rate import kept_state_rows_per_core_s
from penstock.sim.paired import half_width_95, paired_gain
from penstock.sim.parallel import run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Row = dict[str, float | int | str | None]

LOCK_STEPS = (
    Policy.LOCK_STEP,
    Policy.LOCK_STEP_SLEEPS_10MS,
    Policy.LOCK_STEP_SLEEPS_20MS,
    Policy.LOCK_STEP_BY_PRESSURE,
)
POLICIES = (Policy.ACES, Policy.ACES_AS_PUBLISHED, Policy.UDP, *LOCK_STEPS)
# Topics hold whatever comes; this many rows are more than any run brings.
TOPIC_ROWS = 16_384


class StateClock(StrEnum):
    """What the two states of an element pass with.

    With CPU time every row's cost is the element's own, whatever the policy, and ``h(c) = a c`` of tier one is exact.
    With the clock, an element that has nothing to do in its fast state has lost it.
    """

    CPU = "cpu"
    WALL = "wall"


@dataclass(frozen=True, slots=True)
class AcesExperiment:
    """One point of an experiment: all that is needed to repeat it.

    Parameters
    ----------
    buffer_rows
        ``B`` of every element.
    burstiness_rows
        ``lambda_S``: mean time in a state, in units of the mean CPU time of a row. The paper gives no unit.
    clock
        What the states pass with.
    keeps_state
        Whether a row costs what the state says in which it began. Else it is worked off at the speed of each state that
        it meets, so that the rates of fluid are exact at every burstiness.
    ingress_of_plan
        The most that is let in of each stream, as a multiple of what tier one planned to take of it; the rest is
        dropped before the graph. Targets do not know of it.
    utility
        What tier one maximises. The logarithm leaves no element without CPU; the linear one starves many.
    allocation_error
        Standard deviation of the error made on each CPU target, as a share of it.
    price_memory_s, share_gain
        See :class:`~penstock.research.plant.Control`.
    step_s, delay_steps, effort
        Control step of an engine, the delay that the flow law is made for, and its price of moving a rate.
    delay_s, loss_share
        Reports to feeders: how late they are and how many are lost.
    duration_s, warm_up_s
        Virtual time that is simulated, and the part at its beginning that is not counted: with buffers of 200 rows
        a graph takes half a minute to fill.
    """

    shape: TopologyShape = field(default_factory=TopologyShape)
    buffer_rows: int = 50
    burstiness_rows: float = 10.0
    clock: StateClock = StateClock.CPU
    keeps_state: bool = True
    ingress_of_plan: float = math.inf
    utility: Utility = field(default_factory=lambda: Utility(UtilityKind.LOG))
    allocation_error: float = 0.0
    step_s: float = 0.01
    price_memory_s: float = 1.0
    share_gain: float = 0.2
    delay_steps: int = 1
    effort: float = 4.0
    delay_s: float = 0.002
    loss_share: float = 0.0
    duration_s: float = 90.0
    warm_up_s: float = 30.0

    def __post_init__(self) -> None:
        if self.buffer_rows < 1:
            raise InvalidSettingError("buffer_rows", self.buffer_rows, "at least one row")
        if not self.burstiness_rows > 0:
            raise InvalidSettingError("burstiness", self.burstiness_rows, "above zero")
        if not 0 <= self.warm_up_s < self.duration_s:
            raise InvalidSettingError("duration", self.duration_s, f"longer than the warm-up of {self.warm_up_s} s")
        if not 0 <= self.loss_share < 1:
            raise InvalidSettingError("loss share", self.loss_share, "from 0 to below 1")


@dataclass(frozen=True, slots=True)
class AcesJob:
    """One topology of an experiment under all policies, as it travels to another process."""

    experiment: AcesExperiment
    policies: tuple[Policy, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class AcesMeasures:
    """One policy on one topology; losses and refusals are shares of the rows processed and offered."""

    weighted_rows_per_s: float
    log_optimum_rows_per_s: float
    linear_optimum_rows_per_s: float
    latency_mean_s: float
    latency_std_s: float
    lost_fraction: float
    refused_fraction: float
    cpu_fraction: float


def run_aces_points(
    experiments: Sequence[AcesExperiment],
    *,
    topologies: int,
    seed: int = 1,
    policies: Sequence[Policy] = POLICIES,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[list[Row]]:
    """Run several experiments over the same topologies; one row for each policy of each experiment.

    Examples
    --------
    >>> small = AcesExperiment(TopologyShape(elements=20, engines=5), duration_s=3.0, warm_up_s=1.0)
    >>> [rows] = run_aces_points([small], topologies=1)
    >>> [row["policy"] for row in rows]
    ['aces', 'aces_as_published', 'udp', 'lock_step', 'lock_step_sleeps_10ms', 'lock_step_sleeps_20ms', \
'lock_step_by_pressure']
    """
    if topologies < 1:
        raise InvalidSettingError("topologies", topologies, "at least one")
    jobs = [
        AcesJob(experiment, tuple(policies), seed + number)
        for experiment in experiments
        for number in range(topologies)
    ]
    results = run_all(run_aces_job, jobs, processes=processes, progress=progress)
    return [
        [
            {
                **_facts(experiment),
                **_summary(policy, results[place * topologies : (place + 1) * topologies]),
                "seed": seed,
            }
            for policy in policies
        ]
        for place, experiment in enumerate(experiments)
    ]


def run_aces_job(job: AcesJob) -> dict[Policy, AcesMeasures]:
    """Run every policy on one topology."""
    experiment = job.experiment
    graph = real_graph(experiment, job.seed)
    allocation = allocate(graph, experiment.utility)
    linear_rows_per_s = allocate(graph).weighted_rows_per_s
    targets = plan_targets(allocation, error=experiment.allocation_error, seed=job.seed)
    measures = {}
    for policy in job.policies:
        plant = experiment_plant(graph, experiment, targets, policy)
        tally = simulate(plant, experiment, policy, seed=job.seed)
        measures[policy] = _measure(plant, tally, experiment, allocation.weighted_rows_per_s, linear_rows_per_s)
    return measures


def real_graph(experiment: AcesExperiment, seed: int) -> ElementGraph:
    """A topology with the rates that its elements really have; what streams bring does not depend on burstiness."""
    shape = experiment.shape
    graph = draw_topology(shape, seed=seed)
    if not experiment.keeps_state:
        return graph
    state_time_s = experiment.burstiness_rows * shape.mean_row_s
    rate = kept_state_rows_per_core_s(shape.fast_s, shape.slow_s, shape.slow_share, state_time_s)
    elements = tuple(replace(element, rows_per_core_s=rate) for element in graph.elements)
    return ElementGraph(graph.engines, graph.streams, elements)


def simulate(
    plant: Plant,
    experiment: AcesExperiment,
    policy: Policy,
    *,
    seed: int,
    initial_rows: NDArray[np.int64] | None = None,
) -> Tally:
    """Run one policy from empty buffers or those given; the same arguments give the same tally to the last bit."""
    control = experiment_control(experiment, policy)
    tally = new_tally(plant.engine.size)
    agenda = new_agenda(source_priorities(plant))
    state = new_state(plant, control, seed, initial_rows=initial_rows)
    run_elements(plant, control, state, tally, agenda, experiment.duration_s)
    return tally


def experiment_control(experiment: AcesExperiment, policy: Policy) -> Control:
    """How a run under a policy is controlled."""
    rules = policy.rules
    gains = flow_gains(delay_steps=experiment.delay_steps, effort=experiment.effort)
    return Control(
        sending=int(rules.sending),
        ranking=int(rules.ranking),
        has_flow_control=rules.has_flow_control,
        has_static_limit=rules.has_static_limit,
        sleep_s=rules.sleep_s,
        keeps_state=experiment.keeps_state,
        buffer_rows=TOPIC_ROWS if rules.has_static_limit else experiment.buffer_rows,
        target_rows=_target_rows(experiment, rules.target_share),
        price_memory_s=experiment.price_memory_s,
        share_gain=experiment.share_gain,
        step_s=experiment.step_s,
        bucket_s=1.0,
        delay_s=experiment.delay_s,
        loss_share=experiment.loss_share,
        stale_after_s=100.0 * experiment.step_s,
        counts_cpu_time=experiment.clock is StateClock.CPU,
        warm_up_s=experiment.warm_up_s,
        lambdas=np.array(gains.lambdas),
        mus=np.array(gains.mus),
    )


def _target_rows(experiment: AcesExperiment, target_share: float) -> float:
    """``b_0``: a share of the buffer, but enough rows to last until the next report has had its effect."""
    needed = (experiment.step_s + experiment.delay_s) / experiment.shape.fast_s
    return max(target_share * experiment.buffer_rows, min(float(experiment.buffer_rows), needed))


def plan_targets(allocation: Allocation, *, error: float = 0.0, seed: int = 0) -> Targets:
    """Targets with an error on the CPU of each element; the rates that tier one promised stay as they were."""
    generator = np.random.default_rng([seed, 7])
    factors = np.maximum(0.05, 1.0 + error * generator.standard_normal(len(allocation.cores)))
    cores = {
        name: value * float(factor) for (name, value), factor in zip(allocation.cores.items(), factors, strict=True)
    }
    return Targets(cores if error > 0 else dict(allocation.cores), dict(allocation.input_rows_per_s))


def experiment_plant(graph: ElementGraph, experiment: AcesExperiment, targets: Targets, policy: Policy) -> Plant:
    """The arrays of a run under a policy."""
    state_time_s = experiment.burstiness_rows * experiment.shape.mean_row_s
    if not policy.rules.has_targets:
        targets = replace(targets, cores=dict.fromkeys(targets.cores, 1.0))
    plant = build_plant(graph, experiment.shape, targets, state_time_s=state_time_s)
    if math.isinf(experiment.ingress_of_plan):
        return plant
    whole = np.bincount(plant.stream_reader, plant.stream_rows_per_s, plant.engine.size)[plant.stream_reader]
    planned = plant.target_rows_per_s[plant.stream_reader] * plant.stream_rows_per_s / np.maximum(whole, 1e-12)
    return plant._replace(stream_rows_per_s=np.minimum(plant.stream_rows_per_s, experiment.ingress_of_plan * planned))


def _measure(
    plant: Plant, tally: Tally, experiment: AcesExperiment, log_rows_per_s: float, linear_rows_per_s: float
) -> AcesMeasures:
    counted_s = experiment.duration_s - experiment.warm_up_s
    rows = int(tally.put_out.sum())
    mean_s = float(tally.latency_s.sum()) / rows if rows else math.nan
    square_s2 = float(tally.latency_square_s2.sum()) / rows if rows else math.nan
    offered = float(plant.stream_rows_per_s.sum()) * counted_s
    return AcesMeasures(
        weighted_rows_per_s=float(plant.weight @ tally.put_out) / counted_s,
        log_optimum_rows_per_s=log_rows_per_s,
        linear_optimum_rows_per_s=linear_rows_per_s,
        latency_mean_s=mean_s,
        latency_std_s=math.sqrt(max(0.0, square_s2 - mean_s * mean_s)),
        lost_fraction=float(tally.lost.sum()) / max(1, int(tally.processed.sum())),
        refused_fraction=float(tally.refused.sum()) / offered,
        cpu_fraction=float(tally.busy_s.sum()) / counted_s / float(plant.cores.sum()),
    )


def _facts(experiment: AcesExperiment) -> Row:
    return {
        "clock": experiment.clock.value,
        "elements": experiment.shape.elements,
        "nodes": experiment.shape.engines,
        "buffer_rows": experiment.buffer_rows,
        "burstiness_rows": experiment.burstiness_rows,
        "allocation_error": experiment.allocation_error,
    }


def _summary(policy: Policy, results: Sequence[dict[Policy, AcesMeasures]]) -> Row:
    own = [result[policy] for result in results]
    throughput = [each.weighted_rows_per_s for each in own]
    of_log = [each.weighted_rows_per_s / each.log_optimum_rows_per_s for each in own]
    of_linear = [each.weighted_rows_per_s / each.linear_optimum_rows_per_s for each in own]
    latency_ms = [1000.0 * each.latency_mean_s for each in own]
    row: Row = {
        "policy": policy.value,
        "weighted_rows_per_s": float(np.mean(throughput)),
        "weighted_half_width_95_rows_per_s": half_width_95(throughput),
        "of_log_optimum": float(np.mean(of_log)),
        "of_log_optimum_half_width_95": half_width_95(of_log),
        "of_linear_optimum": float(np.mean(of_linear)),
        "latency_mean_ms": float(np.mean(latency_ms)),
        "latency_half_width_95_ms": half_width_95(latency_ms),
        "latency_std_ms": 1000.0 * float(np.mean([each.latency_std_s for each in own])),
        "lost_fraction": float(np.mean([each.lost_fraction for each in own])),
        "refused_fraction": float(np.mean([each.refused_fraction for each in own])),
        "cpu_fraction": float(np.mean([each.cpu_fraction for each in own])),
        "topologies": len(own),
    }
    if Policy.ACES in results[0] and min(throughput) > 0:
        of_aces = [result[Policy.ACES].weighted_rows_per_s for result in results]
        row["gain_of_aces"], row["gain_of_aces_half_width_95"] = paired_gain(of_aces, throughput)
    return row
