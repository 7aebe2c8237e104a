"""A graph of queries on Kafka under more load than fits: weighted throughput of ACES, plain Spark and a min-flow chain.

All three get the same load on the same engine, one after another in rounds, every other one backwards. Plain Spark
reads what there is. ACES is the same queries with one call more, :func:`penstock.attach` with the application as a user
declares it: Penstock plans targets (tier one) and limits what each query reads, and the producer follows its fastest
reader. The min-flow chain has the same control, but its producer follows its slowest reader, as reliable delivery does,
and its targets are one pace for all (setting ``graph.policy``). Nothing is calibrated for either of them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.apps.session import local_session
from penstock.bench.fanout_capacity import find_capacity
from penstock.bench.fanout_figures import ACES, MIN_FLOW, MODES, Fanout, StageFigures, stage_figures
from penstock.bench.fanout_runs import GraphRuns
from penstock.kafka import jars
from penstock.kafka.broker import running_cluster
from penstock.kafka.broker_config import ClusterSpec
from penstock.kafka.client import KafkaClient
from penstock.process.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.apps.stages import StageGraph

_POLICIES = {MIN_FLOW: "min", ACES: "max"}
_PLAN_EVERY_S = 6.0


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
            found = find_capacity(runs, say)
            load_rows_per_s = load * found.rows_per_s
            say(f"all queries together: {found.rows_per_s:,.0f} rows/s; load {load_rows_per_s:,.0f} rows/s")
            figures: list[StageFigures] = []
            for number in range(1, rounds + 1):
                # Every other round backwards: an engine that still gets faster favours whoever comes last.
                for mode in MODES[:: 1 if number % 2 else -1]:
                    settings = mode_settings(mode, batch_s)
                    run = runs.on_load(f"{mode}-{number}", load_rows_per_s, settle_s, seconds, settings)
                    own = [
                        stage_figures(mode, number, stage.name, stage.weight or 0.0, run, load_rows_per_s)
                        for stage in graph.stages
                    ]
                    figures += own
                    weighted = sum(each.weight * each.rows_per_s for each in own)
                    stages = ", ".join(f"{each.stage} {each.rows_per_s:,.0f}" for each in own)
                    say(f"round {number}, {mode}: {weighted:,.0f} weighted rows/s ({stages} rows/s)")
        return Fanout(graph.name, found.rows_per_s, load_rows_per_s, tuple(figures), found.states)


def mode_settings(mode: str, batch_s: float) -> dict[str, object] | None:
    """Settings to attach with in a mode; None for plain Spark.

    Examples
    --------
    >>> mode_settings("min_flow", 3.0)
    {'graph.policy': 'min', 'graph.batch_s': 3.0, 'graph.plan_every_s': 6.0}
    >>> mode_settings("plain", 3.0) is None
    True
    """
    if mode not in _POLICIES:
        return None
    return {"graph.policy": _POLICIES[mode], "graph.batch_s": batch_s, "graph.plan_every_s": _PLAN_EVERY_S}
