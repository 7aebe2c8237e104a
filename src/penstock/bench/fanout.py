"""A graph of queries on Kafka under more load than fits: weighted throughput of ACES, plain Spark and a min-flow chain.

All three get the same load on the same engine, one after another in rounds, every other one backwards. Plain Spark
reads what there is. ACES plans targets (tier one) and limits what each query reads: the producer follows its fastest
reader. The min-flow chain has the same control, but its producer follows its slowest reader, as reliable delivery does,
and its targets are one pace for all.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.apps.session import local_session
from penstock.bench.fanout_calibration import Calibration, calibrate
from penstock.bench.fanout_figures import ACES, MIN_FLOW, MODES, Fanout, StageFigures, stage_figures
from penstock.bench.fanout_runs import GraphRun, GraphRuns
from penstock.control.graph_flow import FlowPolicy
from penstock.control.graph_governor import GraphGovernor
from penstock.kafka import jars
from penstock.kafka.broker import running_cluster
from penstock.kafka.broker_config import ClusterSpec
from penstock.kafka.client import KafkaClient
from penstock.process.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.apps.stages import StageGraph

_POLICIES = {MIN_FLOW: FlowPolicy.MIN, ACES: FlowPolicy.MAX}
_CORES = 2
# What is left to the engine's planning, the broker and the load itself, which run on the same cores.
_USABLE_SHARE = 0.9
_PLAN_PERIOD_S = 6.0


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
    """Find what all queries can do together, then run all modes in turn at a multiple of it."""
    with tempfile.TemporaryDirectory(prefix="penstock-fanout-") as scratch:
        place = Path(scratch)
        spec = ClusterSpec(place / "cluster", port=free_port())
        with (
            running_cluster(spec) as cluster,
            local_session("penstock bench fanout", memory="1g", jars=jars(), heartbeat_s=1) as spark,
        ):
            runs = GraphRuns(graph, spark, KafkaClient(cluster.bootstrap), place, batch_s)
            found = calibrate(runs, say)
            load_rows_per_s = load * found.capacity_rows_per_s
            say(f"all queries together: {found.capacity_rows_per_s:,.0f} rows/s; load {load_rows_per_s:,.0f} rows/s")
            figures: list[StageFigures] = []
            for number in range(1, rounds + 1):
                # Every other round backwards: an engine that still gets faster favours whoever comes last.
                for mode in MODES[:: 1 if number % 2 else -1]:
                    run = _run(runs, f"{mode}-{number}", mode, found, load_rows_per_s, settle_s, seconds)
                    own = [
                        stage_figures(mode, number, stage.name, stage.weight or 0.0, run, load_rows_per_s)
                        for stage in graph.stages
                    ]
                    figures += own
                    weighted = sum(each.weight * each.rows_per_s for each in own)
                    stages = ", ".join(f"{each.stage} {each.rows_per_s:,.0f}" for each in own)
                    say(f"round {number}, {mode}: {weighted:,.0f} weighted rows/s ({stages} rows/s)")
        return Fanout(graph.name, found.capacity_rows_per_s, load_rows_per_s, tuple(figures), found.states)


def _run(
    runs: GraphRuns,
    name: str,
    mode: str,
    found: Calibration,
    load_rows_per_s: float,
    settle_s: float,
    seconds: float,
) -> GraphRun:
    if mode not in _POLICIES:
        return runs.on_load(name, load_rows_per_s, settle_s, seconds)
    elements = runs.graph.elements(found.rates, offered_rows_per_s=load_rows_per_s, cores=_USABLE_SHARE * _CORES)
    governor = GraphGovernor(
        elements, batch_s=runs.batch_s, period_s=_PLAN_PERIOD_S, now_s=time.time(), policy=_POLICIES[mode]
    )
    first_rows = {stage.name: governor.first_limit(stage.name) for stage in runs.graph.stages}
    return runs.on_load(name, load_rows_per_s, settle_s, seconds, first_rows, governor)
