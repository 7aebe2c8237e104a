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
from penstock.research.build_plant import Targets, build_plant
from penstock.research.elements import run_elements, source_priorities
from penstock.research.kernel import new_agenda
from penstock.research.las_summary import TWO_SIDED_95
from penstock.research.plant import Control, Plant, Policy, Tally, new_state, new_tally
from penstock.research.topology import TopologyShape, draw_topology
from penstock.sim.parallel import run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.model.graph import ElementGraph

    Row = dict[str, float | int | str | None]

POLICIES = (Policy.ACES, Policy.UDP, Policy.LOCK_STEP)
# Topics hold whatever comes; this many rows are more than any run brings.
TOPIC_ROWS = 16_384
# The most that the rows of a full buffer count for against tokens, in CPU seconds.
FULL_BUFFER_S = 10.0


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
        ``B`` of every element; ``b_0`` is half of it.
    burstiness_rows
        ``lambda_S``: mean time in a state, in units of the mean CPU time of a row. The paper gives no unit.
    clock
        What the states pass with.
    utility
        What tier one maximises. The logarithm leaves no element without CPU; the linear one starves many.
    allocation_error
        Standard deviation of the error made on each CPU target, as a share of it.
    target_share, low_share
        ``b_0`` as a share of the buffer, and the share below which a reader gets rows that others have no room for.
    row_s, share_gain
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
    utility: Utility = field(default_factory=lambda: Utility(UtilityKind.LOG))
    allocation_error: float = 0.0
    step_s: float = 0.01
    target_share: float = 0.5
    low_share: float = 0.0
    row_s: float = 0.2
    reader_weight: float = 1.0
    share_gain: float = 0.2
    debt_rows: float = 1.0
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
    fluid_rows_per_s: float
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
    ['aces', 'udp', 'lock_step']
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
    graph = draw_topology(experiment.shape, seed=job.seed)
    allocation = allocate(graph, experiment.utility)
    targets = _disturbed(allocation, experiment.allocation_error, job.seed)
    measures = {}
    for policy in job.policies:
        plant = _plant(graph, experiment, targets, policy)
        tally = simulate(plant, experiment, policy, seed=job.seed)
        measures[policy] = _measure(plant, tally, experiment, allocation.weighted_rows_per_s)
    return measures


def simulate(plant: Plant, experiment: AcesExperiment, policy: Policy, *, seed: int) -> Tally:
    """Run one policy; the same plant, experiment and seed give the same tally to the last bit."""
    gains = flow_gains(delay_steps=experiment.delay_steps, effort=experiment.effort)
    control = Control(
        policy=int(policy),
        buffer_rows=TOPIC_ROWS if policy is Policy.STATIC_LIMIT else experiment.buffer_rows,
        target_rows=_target_rows(experiment),
        low_rows=max(1.0, experiment.low_share * experiment.buffer_rows),
        # Over a large buffer rows would outweigh all tokens, and with them the targets.
        row_s=min(experiment.row_s, FULL_BUFFER_S / experiment.buffer_rows),
        reader_weight=experiment.reader_weight,
        share_gain=experiment.share_gain,
        debt_rows=experiment.debt_rows,
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
    tally = new_tally(plant.engine.size)
    agenda = new_agenda(source_priorities(plant))
    state = new_state(plant, control, seed)
    run_elements(plant, control, state, tally, agenda, experiment.duration_s)
    return tally


def _target_rows(experiment: AcesExperiment) -> float:
    """``b_0``: a share of the buffer, but enough rows to last until the next report has had its effect."""
    needed = (experiment.step_s + experiment.delay_s) / experiment.shape.fast_s
    return max(experiment.target_share * experiment.buffer_rows, min(float(experiment.buffer_rows), needed))


def _disturbed(allocation: Allocation, error: float, seed: int) -> Targets:
    """Targets with an error on the CPU of each element; the rates that tier one promised stay as they were."""
    generator = np.random.default_rng([seed, 7])
    factors = np.maximum(0.05, 1.0 + error * generator.standard_normal(len(allocation.cores)))
    cores = {
        name: value * float(factor) for (name, value), factor in zip(allocation.cores.items(), factors, strict=True)
    }
    return Targets(cores if error > 0 else dict(allocation.cores), dict(allocation.input_rows_per_s))


def _plant(graph: ElementGraph, experiment: AcesExperiment, targets: Targets, policy: Policy) -> Plant:
    state_time_s = experiment.burstiness_rows * experiment.shape.mean_row_s
    if policy in {Policy.BACKPRESSURE, Policy.STATIC_LIMIT}:
        targets = replace(targets, cores=dict.fromkeys(targets.cores, 1.0))
    return build_plant(graph, experiment.shape, targets, state_time_s=state_time_s)


def _measure(plant: Plant, tally: Tally, experiment: AcesExperiment, fluid_rows_per_s: float) -> AcesMeasures:
    counted_s = experiment.duration_s - experiment.warm_up_s
    rows = int(tally.put_out.sum())
    mean_s = float(tally.latency_s.sum()) / rows if rows else math.nan
    square_s2 = float(tally.latency_square_s2.sum()) / rows if rows else math.nan
    offered = float(plant.stream_rows_per_s.sum()) * counted_s
    return AcesMeasures(
        weighted_rows_per_s=float(plant.weight @ tally.put_out) / counted_s,
        fluid_rows_per_s=fluid_rows_per_s,
        latency_mean_s=mean_s,
        latency_std_s=math.sqrt(max(0.0, square_s2 - mean_s * mean_s)),
        lost_fraction=float(tally.lost.sum()) / max(1, int(tally.processed.sum())),
        refused_fraction=float(tally.refused.sum()) / offered,
        cpu_fraction=float(tally.busy_s.sum()) / counted_s / float(plant.cores.sum()),
    )


def _facts(experiment: AcesExperiment) -> Row:
    return {
        "elements": experiment.shape.elements,
        "nodes": experiment.shape.engines,
        "buffer_rows": experiment.buffer_rows,
        "burstiness_rows": experiment.burstiness_rows,
        "allocation_error": experiment.allocation_error,
    }


def _summary(policy: Policy, results: Sequence[dict[Policy, AcesMeasures]]) -> Row:
    own = [result[policy] for result in results]
    share = np.array([each.weighted_rows_per_s / each.fluid_rows_per_s for each in own])
    latency_ms = 1000.0 * np.array([each.latency_mean_s for each in own])
    throughput = np.array([each.weighted_rows_per_s for each in own])
    return {
        "policy": policy.name.lower(),
        "weighted_rows_per_s": float(throughput.mean()),
        "weighted_half_width_95_rows_per_s": _half_width(throughput),
        "fluid_fraction": float(share.mean()),
        "fluid_fraction_half_width_95": _half_width(share),
        "latency_mean_ms": float(latency_ms.mean()),
        "latency_half_width_95_ms": _half_width(latency_ms),
        "latency_std_ms": 1000.0 * float(np.mean([each.latency_std_s for each in own])),
        "lost_fraction": float(np.mean([each.lost_fraction for each in own])),
        "refused_fraction": float(np.mean([each.refused_fraction for each in own])),
        "cpu_fraction": float(np.mean([each.cpu_fraction for each in own])),
        "topologies": len(own),
    }


def _half_width(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    """Half of the 95 % interval of a mean over topologies; None for one topology, which says nothing of others."""
    if values.size < 2:  # noqa: PLR2004 - a spread needs two
        return None
    return float(TWO_SIDED_95 * values.std(ddof=1) / math.sqrt(values.size))
