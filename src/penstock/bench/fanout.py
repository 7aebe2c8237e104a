"""A graph of queries on Kafka under more load than fits: weighted throughput of ACES, plain Spark and a min-flow chain.

All three get the same load on the same engine, one after another in rounds. Plain Spark reads what there is. ACES plans
targets (tier one) and limits what each query reads: the producer follows its fastest reader. The min-flow chain is the
same but for following the slowest one, as reliable delivery does.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.apps.session import local_session
from penstock.apps.stage_run import StageBatch, StageRun
from penstock.apps.stages import INPUT, StageGraph, StageStart, StageTopics
from penstock.control.graph_flow import FlowPolicy
from penstock.control.graph_governor import GraphGovernor
from penstock.errors import PenstockError
from penstock.estimate.service_rate import ServiceRate, fit_service_rate
from penstock.kafka import jars
from penstock.kafka.broker import running_cluster
from penstock.kafka.broker_config import ClusterSpec
from penstock.kafka.client import KafkaClient
from penstock.kafka.load import run_load
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model.profile import LoadProfile
from penstock.model.rows import PlainContent
from penstock.process.ports import free_port
from penstock.sim.two_states import TwoStates, fit_two_states

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

PLAIN, MIN_FLOW, ACES = "plain", "min_flow", "aces"
MODES = (PLAIN, MIN_FLOW, ACES)
_POLICIES = {MIN_FLOW: FlowPolicy.MIN, ACES: FlowPolicy.MAX}
_CORES = 2
# What is left to the engine's planning, the broker and the load itself, which run on the same cores.
_USABLE_SHARE = 0.9
_PARTITIONS = 2
_SMALL_ROWS, _LARGE_ROWS = 500, 3000
_CALIBRATION_S = 18.0
_CALIBRATIONS = 3
_ENOUGH_BATCHES = 2
_PLAN_PERIOD_S = 6.0
_SEND_LONGER_S = 3.0


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One stage in one run."""

    mode: str
    round: int
    stage: str
    weight: float
    rows_per_s: float
    batches: int
    batch_mean_s: float
    lag_end_rows: float

    def to_dict(self) -> dict[str, object]:
        """As one row of a table, units in the keys."""
        return {
            "mode": self.mode,
            "round": self.round,
            "stage": self.stage,
            "weight": self.weight,
            "rows_per_s": round(self.rows_per_s, 1),
            "batches": self.batches,
            "batch_mean_s": round(self.batch_mean_s, 3),
            "lag_end_rows": round(self.lag_end_rows),
        }


@dataclass(frozen=True, slots=True)
class Fanout:
    """All runs of all modes."""

    shape: str
    capacity_rows_per_s: float
    load_rows_per_s: float
    figures: tuple[StageFigures, ...]
    states: Mapping[str, TwoStates] = field(default_factory=dict)

    def weighted_rows_per_s(self, mode: str) -> list[float]:
        """Weighted throughput of a mode in each round."""
        rounds = sorted({each.round for each in self.figures})
        return [
            sum(each.weight * each.rows_per_s for each in self.figures if each.mode == mode and each.round == number)
            for number in rounds
        ]

    def gain_over(self, mode: str) -> float:
        """Gain of ACES over another mode, of the medians over rounds."""
        other = statistics.median(self.weighted_rows_per_s(mode))
        return statistics.median(self.weighted_rows_per_s(ACES)) / other - 1.0 if other > 0 else float("inf")

    @property
    def is_met(self) -> bool:
        """Whether ACES has the largest weighted throughput."""
        return all(self.gain_over(mode) > 0 for mode in MODES if mode != ACES)

    def to_dict(self) -> dict[str, object]:
        """As one JSON object."""
        return {
            "bench": "fanout",
            "shape": self.shape,
            "capacity_rows_per_s": round(self.capacity_rows_per_s, 1),
            "load_rows_per_s": round(self.load_rows_per_s, 1),
            "weighted_rows_per_s": {
                mode: [round(value, 1) for value in self.weighted_rows_per_s(mode)] for mode in MODES
            },
            "gain_over": {mode: round(self.gain_over(mode), 4) for mode in MODES if mode != ACES},
            "is_met": self.is_met,
            "states": {
                stage: {
                    "fast_ms": round(1000 * found.fast_s, 5),
                    "slow_ms": round(1000 * found.slow_s, 5),
                    "slow_share": round(found.slow_share, 3),
                    "burstiness_rows": round(found.burstiness_rows, 1),
                }
                for stage, found in self.states.items()
            },
            "rows": [each.to_dict() for each in self.figures],
        }


def bench_fanout(
    graph: StageGraph,
    *,
    load: float,
    seconds: float,
    settle_s: float,
    rounds: int,
    batch_s: float,
    say: Callable[[str], None],
) -> Fanout:
    """Measure what rows cost, then run all modes in turn at a multiple of what all stages could do together."""
    with tempfile.TemporaryDirectory(prefix="penstock-fanout-") as scratch:
        place = Path(scratch)
        spec = ClusterSpec(place / "cluster", port=free_port())
        with (
            running_cluster(spec) as cluster,
            local_session("penstock bench fanout", memory="1g", jars=jars()) as spark,
        ):
            bench = _Bench(graph, spark, KafkaClient(cluster.bootstrap), place, batch_s, say)
            rates, states = bench.calibrate()
            fixed = sum(rate.idle_rows_per_s / rate.rows_per_core_s for rate in rates.values())
            row_s = sum(1.0 / rate.rows_per_core_s for rate in rates.values())
            capacity = max(0.1, _USABLE_SHARE * _CORES - fixed) / row_s
            say(f"all stages together: {capacity:,.0f} rows/s; load {load * capacity:,.0f} rows/s")
            figures: list[StageFigures] = []
            for number in range(1, rounds + 1):
                for mode in MODES:
                    batches, from_s = bench.run(f"{mode}-{number}", mode, rates, load * capacity, settle_s, seconds)
                    figures += [
                        stage_figures(mode, number, stage.name, stage.weight or 0.0, batches, from_s)
                        for stage in graph.stages
                    ]
                    weighted = sum(each.weight * each.rows_per_s for each in figures[-len(graph.stages) :])
                    say(f"round {number}, {mode}: {weighted:,.0f} weighted rows/s")
        return Fanout(graph.name, capacity, load * capacity, tuple(figures), states)


@dataclass(frozen=True, slots=True)
class _Bench:
    graph: StageGraph
    spark: SparkSession
    client: KafkaClient
    place: Path
    batch_s: float
    say: Callable[[str], None]

    def calibrate(self) -> tuple[dict[str, ServiceRate], dict[str, TwoStates]]:
        """What every stage does with so many cores while all of them run, and the states for the simulator.

        Small batches and large ones: only both together tell the fixed cost of a batch from the cost of its rows.
        """
        names = [stage.name for stage in self.graph.stages]
        small: list[StageBatch] = []
        for attempt in range(1, _CALIBRATIONS + 1):
            # The first batches of a session compile for seconds: on a busy machine a second run finds it warm.
            small = self._calibration_run(f"calibration-{attempt}", _SMALL_ROWS)
            if all(len(later_half(name, small)) >= _ENOUGH_BATCHES for name in names):
                break
            self.say(f"calibration {attempt}: too few batches to tell what rows cost")
        large = self._calibration_run("calibration-large", _LARGE_ROWS)
        used = {name: [*later_half(name, small), *later_half(name, large)] for name in names}
        rates = {name: service_rate(name, own, batch_s=self.batch_s) for name, own in used.items()}
        return rates, {name: states_of(name, large) for name in names if len(later_half(name, large)) > 1}

    def _calibration_run(self, name: str, rows: int) -> list[StageBatch]:
        first = dict.fromkeys((stage.name for stage in self.graph.stages), rows)
        return self._run(name, rows / self.batch_s, _CALIBRATION_S, first, None)

    def run(
        self,
        name: str,
        mode: str,
        rates: dict[str, ServiceRate],
        load_rows_per_s: float,
        settle_s: float,
        seconds: float,
    ) -> tuple[list[StageBatch], float]:
        """One run of a mode; gives its batches and the moment from which they count."""
        governor, first = None, None
        if mode in _POLICIES:
            graph = self.graph.elements(rates, offered_rows_per_s=load_rows_per_s, cores=_USABLE_SHARE * _CORES)
            governor = GraphGovernor(
                graph, batch_s=self.batch_s, period_s=_PLAN_PERIOD_S, now_s=time.time(), policy=_POLICIES[mode]
            )
            first = {stage.name: governor.first_limit(stage.name) for stage in self.graph.stages}
        began_s = time.time()
        return self._run(name, load_rows_per_s, settle_s + seconds, first, governor), began_s + settle_s

    def _run(
        self, name: str, rate: float, seconds: float, first: dict[str, int] | None, governor: GraphGovernor | None
    ) -> list[StageBatch]:
        topics = StageTopics(self.client.bootstrap, name)
        for topic in (INPUT, *(stage.name for stage in self.graph.stages)):
            self.client.create_topic(topics.of(topic), _PARTITIONS)
        profile = LoadProfile.constant(rate, seconds=seconds + _SEND_LONGER_S)
        target = KafkaTarget(self.client.bootstrap, topics.of(INPUT))
        sender = threading.Thread(
            target=run_load,
            args=(profile, PlainContent(), target),
            kwargs={"processes": 1, "seconds": None, "watch": lambda _: None},
        )
        sender.start()
        try:
            start = StageStart(self.place / name, self.batch_s, first)
            return StageRun(self.spark, self.graph, topics, start, governor).run(seconds)
        finally:
            sender.join()


def service_rate(stage: str, batches: Sequence[StageBatch], *, batch_s: float) -> ServiceRate:
    """What a stage does with so many cores, from batches of different size: ``a c - b``.

    Examples
    --------
    Half a second of a core for every batch and a hundredth for every row, in batches of two seconds:

    >>> sizes = (100, 400, 100, 400)
    >>> done = [StageBatch("fast", 0.0, 1.0, rows, 0.0, 0.5 + rows / 100, None) for rows in sizes]
    >>> rate = service_rate("fast", done, batch_s=2.0)
    >>> round(rate.rows_per_core_s, 3), round(rate.idle_rows_per_s, 3)
    (100.0, 25.0)
    """
    own = [batch for batch in batches if batch.stage == stage]
    found = fit_service_rate([batch.core_s / batch_s for batch in own], [batch.rows / batch_s for batch in own])
    if found is None:
        raise PenstockError(
            f"stage {stage!r} finished no batch while its cost was measured: the machine is too busy, or too slow"
        )
    return found


def later_half(stage: str, batches: Sequence[StageBatch]) -> list[StageBatch]:
    """The later half of a stage's batches whose cost is known: the first ones warm up."""
    own = [batch for batch in batches if batch.stage == stage and batch.core_s > 0]
    return own[len(own) // 2 :]


def states_of(stage: str, batches: Sequence[StageBatch]) -> TwoStates:
    """The two states of a stage, with which ``penstock experiment aces`` can repeat its bursts."""
    later = later_half(stage, batches)
    costs_s = [batch.core_s / batch.rows for batch in later]
    return fit_two_states(costs_s, statistics.fmean(batch.rows for batch in later))


def stage_figures(
    mode: str, number: int, stage: str, weight: float, batches: Sequence[StageBatch], from_s: float
) -> StageFigures:
    """Figures of a stage over the batches that began after a moment.

    Rows of all but the last batch over the time from the first to the last beginning: a batch that was not finished in
    time, such as a large one of plain Spark, neither counts nor takes time.

    Examples
    --------
    >>> done = [StageBatch("fast", 10.0 + 2 * number, 1.5, 100, 7.0, 0.5, None) for number in range(4)]
    >>> figures = stage_figures("aces", 1, "fast", 5.0, done, 11.0)
    >>> figures.rows_per_s, figures.batches, figures.lag_end_rows
    (50.0, 3, 7.0)
    """
    own = [batch for batch in batches if batch.stage == stage and batch.started_s >= from_s]
    rate = 0.0
    if len(own) > 1:
        rate = sum(batch.rows for batch in own[:-1]) / (own[-1].started_s - own[0].started_s)
    elif own:
        rate = own[0].rows / own[0].duration_s
    return StageFigures(
        mode=mode,
        round=number,
        stage=stage,
        weight=weight,
        rows_per_s=rate,
        batches=len(own),
        batch_mean_s=statistics.fmean(batch.duration_s for batch in own) if own else 0.0,
        lag_end_rows=own[-1].lag_rows if own else 0.0,
    )
