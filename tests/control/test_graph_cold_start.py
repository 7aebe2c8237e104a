"""A graph of queries with guards from a cold start: dear first batches, scatter, reports and limits that come late."""

from __future__ import annotations

import functools
import statistics

import pytest

from penstock.control.allocation import allocate
from penstock.model import Application, Goal, QueryDeclaration, QueryName
from penstock.model.decision import KeepRatio, ReadLimit
from penstock.model.graph import Element, ElementGraph, Engine, InputStream
from penstock.settings import Settings
from penstock.testing import SimulatedQuery, SimulatedRun, simulate

BATCH_S, GOAL_S, CORES = 3.0, 20.0, 2.0
BATCH_CORE_S = 0.15
ROW_CORE_S = {"parse": 40e-6, "fast": 30e-6, "medium": 90e-6, "slow": 230e-6}
WEIGHTS = {"fast": 5.0, "medium": 2.0, "slow": 1.0}
FLOOR = 0.02
LOAD_ROWS_PER_S = 16_000.0
# When starts are judged: they have had their time, and rows that came in the first seconds are too old by then.
FROM_S, UNTIL_S = 30.0, 60.0
SEEDS = range(1, 9)
OPTIMUM = allocate(
    ElementGraph(
        (Engine("east", CORES),),
        (InputStream("rows", LOAD_ROWS_PER_S),),
        tuple(
            Element(
                name,
                "east",
                ("rows" if name == "parse" else "parse",),
                1.0 / row_core_s,
                BATCH_CORE_S / BATCH_S / row_core_s,
                weight=WEIGHTS.get(name),
                minimum_accuracy=FLOOR if name in WEIGHTS else 0.0,
            )
            for name, row_core_s in ROW_CORE_S.items()
        ),
    )
).weighted_rows_per_s


@functools.cache
def cold_start(seed: int, load_rows_per_s: float = LOAD_ROWS_PER_S) -> SimulatedRun:
    """One producer and three readers; first batches four times as dear, and limits in force a batch late."""
    queries, declared = {}, {}
    for place, (name, row_core_s) in enumerate(ROW_CORE_S.items()):
        is_producer = name == "parse"
        writes = ("parsed",) if is_producer else ()
        goal_s = GOAL_S / 2 if is_producer else GOAL_S
        goal = Goal(latency=goal_s, weight=WEIGHTS.get(name, 1.0), minimum_accuracy=FLOOR)
        declared[QueryName(name)] = QueryDeclaration(goal, ("input" if is_producer else "parsed",), writes)
        queries[name] = SimulatedQuery(
            (lambda _: load_rows_per_s) if is_producer else "parsed",
            overhead_s=0.3, commit_s=0.3, cost_per_row_s=row_core_s, read_part=0.1, task_overhead_core_s=BATCH_CORE_S,
            warm_up=3.0, warm_up_left=0.75, noise=0.25, accident_ratio=0.02, seed=1_000 * seed + place,
            trigger_interval_s=BATCH_S, writes=writes, has_guard=True,
        )  # fmt: skip
    run = simulate(
        Application(declared),
        queries,
        cores=CORES,
        core_reports_late_every=3,
        settings=Settings().with_values({"graph.batch_s": BATCH_S, "graph.plan_every_s": 6.0}),
    )
    return run.run_until(UNTIL_S)


def oldest_s(run: SimulatedRun, name: str) -> float:
    """Age of the oldest row that a query kept, when it was out of its last batches.

    A batch that met an accident takes three times as long, and its rows are older for that, not for the cold start.
    """
    batches = run.query(name).since(FROM_S)
    usual_s = statistics.median(batch.signal.duration_s for batch in batches)
    ages_s = [
        batch.signal.finished_s - arrived_s
        for batch in batches
        if batch.signal.duration_s < 2.0 * usual_s
        for first, end, part in (
            (batch.first_row, batch.cut_row, batch.late_part),
            (batch.cut_row, batch.end_row, batch.on_time_part),
        )
        for arrived_s, rows in run.query(name).source.between(first, end)
        if part * rows >= 1.0
    ]
    return max(ages_s)


def weighted_young_rows_per_s(run: SimulatedRun) -> float:
    """Rows of all results that were out within the goal, by their worth."""
    return sum(
        weight * sum(batch.kept_rows - batch.late_kept_rows for batch in run.query(name).since(FROM_S))
        for name, weight in WEIGHTS.items()
    ) / (UNTIL_S - FROM_S)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cold_start_finds_its_rates(seed: int) -> None:
    """Whatever the scatter of the first batches, half a minute later a good part of the optimum is done."""
    assert weighted_young_rows_per_s(cold_start(seed)) >= 0.25 * OPTIMUM


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_waited_through_a_cold_start_are_shed(seed: int) -> None:
    """No reader works off what came while nothing was known: what it keeps, its producer's part included, is young."""
    run = cold_start(seed)
    for name in WEIGHTS:
        assert oldest_s(run, "parse") + oldest_s(run, name) <= GOAL_S


@pytest.mark.parametrize("seed", SEEDS)
def test_the_ingress_soon_reads_all_that_waits(seed: int) -> None:
    """A producer whose batches drop what is too much is not held to some times its largest batch for long."""
    late = [batch for batch in cold_start(seed).query("parse").batches if batch.signal.started_s >= FROM_S]
    assert late
    assert all((batch.signal.lag_rows or 0.0) <= BATCH_S * LOAD_ROWS_PER_S for batch in late)


def test_a_batch_keeps_what_the_plan_gives_it_whatever_it_reads() -> None:
    """Batches of different size under one plan keep as many rows, not as large a part."""
    run = cold_start(1)
    limits = [limit.units for limit in run.decisions(ReadLimit, "parse")]
    assert max(limits) > 20 * min(limits)
    told = {answer.batch_id: answer for answer in run.decisions(KeepRatio, "parse")}
    large_rows = 2 * LOAD_ROWS_PER_S * BATCH_S
    early = [batch for batch in run.query("parse").batches if batch.signal.started_s < FROM_S]
    early = [batch for batch in early if batch.signal.rows > large_rows]
    assert early
    for batch in early:
        assert told[batch.signal.batch_id].late_before_s is not None
        assert batch.kept_rows < 0.2 * batch.signal.rows


def test_a_cold_start_that_fits_drops_nothing() -> None:
    """Optimism and haste are for overload: a load that fits is kept whole from the first row on."""
    run = cold_start(1, 300.0)
    for name in ROW_CORE_S:
        assert run.query(name).kept_ratio == pytest.approx(1.0, abs=1e-3)
