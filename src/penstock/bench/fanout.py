"""A graph of queries on Kafka under more load than fits: weighted rows that are young enough, ACES against rivals.

All modes get the same load on the same engine, one after another in rounds, every other one backwards. Plain Spark
reads what there is. Plain Spark with a static limit has the best ``maxOffsetsPerTrigger`` that was found before, among
multiples of what the engine can do. ACES is the same queries with guards after their sources and one call more,
:func:`penstock.attach` with the application as a user declares it, goals included. The min-flow chain has the same
control, but its producer follows its slowest reader, as reliable delivery does, and its targets are one pace for all
(setting ``graph.policy``). Nothing is calibrated for either of them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.apps.session import local_session
from penstock.bench.fanout_capacity import find_capacity
from penstock.bench.fanout_figures import ACES, MIN_FLOW, MODES, STATIC, Fanout, StageFigures, stage_figures
from penstock.bench.fanout_runs import GraphRuns
from penstock.kafka import jars
from penstock.kafka.broker import running_cluster
from penstock.kafka.broker_config import ClusterSpec
from penstock.kafka.client import KafkaClient
from penstock.process.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.apps.stages import StageGraph
    from penstock.bench.fanout_runs import GraphRun

_POLICIES = {MIN_FLOW: "min", ACES: "max"}
_PLAN_EVERY_S = 6.0
# Static limits that are tried, as multiples of the rows that all queries can do together between two triggers.
STATIC_SHARES = (0.5, 1.0, 2.0)


def bench_fanout(
    graph: StageGraph,
    *,
    load: float,
    seconds: float,
    settle_s: float,
    rounds: int,
    batch_s: float,
    goal_s: float,
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
            runs = GraphRuns(graph, spark, KafkaClient(cluster.bootstrap), place, batch_s, goal_s)
            found = find_capacity(runs, say)
            load_rows_per_s = load * found.rows_per_s
            say(f"all queries together: {found.rows_per_s:,.0f} rows/s; load {load_rows_per_s:,.0f} rows/s")
            static_rows = best_static_limit(runs, found.rows_per_s, load_rows_per_s, settle_s, seconds, say)
            say(
                f"rows of every run count for {seconds:g} s from {settle_s:g} s after its last query has started; "
                f"{rounds * len(MODES)} runs to come"
            )
            figures: list[StageFigures] = []
            for number in range(1, rounds + 1):
                # Every other round backwards: an engine that still gets faster favours whoever comes last.
                for mode in MODES[:: 1 if number % 2 else -1]:
                    run = runs.on_load(
                        f"{mode}-{number}",
                        load_rows_per_s,
                        settle_s,
                        seconds,
                        mode_settings(mode, batch_s),
                        static_rows if mode == STATIC else None,
                    )
                    own = figures_of(runs, run, mode, number)
                    figures += own
                    done = len(figures) // len(own)
                    say(f"run {done} of {rounds * len(MODES)}, round {number}, {mode}: {progress(own, goal_s)}")
        return Fanout(
            graph.name,
            goal_s,
            found.rows_per_s,
            load_rows_per_s,
            static_rows,
            tuple(figures),
            found.states,
            settle_s=settle_s,
            seconds=seconds,
        )


def progress(figures: Sequence[StageFigures], goal_s: float) -> str:
    """One run in a line: weighted young rows, and of each stage its young rows and the age of the oldest.

    Examples
    --------
    >>> progress([StageFigures("aces", 1, "fast", 5.0, 80.0, 70.0, 3, 1.0, 9.04, 0.5, 31.0, 2.5)], 20.0)
    '350 weighted rows/s within 20 s (fast 70, oldest 9.0 s); counted from 31.0 s after the load; load average 2.5'
    """
    stages = ", ".join(
        f"{each.stage} {each.young_rows_per_s:,.0f}"
        + ("" if each.oldest_age_s is None else f", oldest {each.oldest_age_s:.1f} s")
        for each in figures
    )
    average = figures[0].load_average
    return (
        f"{weighted(figures):,.0f} weighted rows/s within {goal_s:g} s ({stages}); "
        f"counted from {figures[0].counted_after_s:.1f} s after the load"
        + ("" if average is None else f"; load average {average:.1f}")
    )


def best_static_limit(
    runs: GraphRuns,
    capacity_rows_per_s: float,
    load_rows_per_s: float,
    settle_s: float,
    seconds: float,
    say: Callable[[str], None],
) -> int:
    """The limit of Spark's own, the same for every query, with which plain Spark has most weighted young rows."""
    found: dict[int, float] = {}
    for share in STATIC_SHARES:
        rows = max(1, round(share * capacity_rows_per_s * runs.batch_s))
        run = runs.on_load(f"static-{share:g}", load_rows_per_s, settle_s, seconds, None, rows)
        found[rows] = weighted(figures_of(runs, run, STATIC, 0))
        say(f"static limit of {rows:,} rows a batch: {found[rows]:,.0f} weighted rows/s within {runs.goal_s:g} s")
    return max(found, key=lambda rows: found[rows])


def figures_of(runs: GraphRuns, run: GraphRun, mode: str, number: int) -> list[StageFigures]:
    """Figures of all stages of a run."""
    return [
        stage_figures(mode, number, stage.name, stage.weight or 0.0, run, runs.goal_s) for stage in runs.graph.stages
    ]


def weighted(figures: Sequence[StageFigures]) -> float:
    """Weighted rows a second that were out within the goal."""
    return sum(each.weight * each.young_rows_per_s for each in figures)


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
