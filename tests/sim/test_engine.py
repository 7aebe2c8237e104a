"""The simulated engine: bookkeeping of rows, ages, cores and executors, and what the loop can rely on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from penstock.model import (
    Application,
    ExecutorBounds,
    ExecutorsDeclaration,
    Goal,
    Mode,
    QueryDeclaration,
    QueryName,
)
from penstock.model.decision import Executors, KeepRatio, ReadLimit
from penstock.sim.arrivals import ArrivalCurve
from penstock.testing import SimulatedExecutors, SimulatedQuery, simulate

NAME = QueryName("clicks")


def application(latency_s: float = 5.0, minimum_accuracy: float = 1.0) -> Application:
    return Application.of_goals({NAME: Goal(latency=latency_s, minimum_accuracy=minimum_accuracy)})


def test_every_row_is_taken_once_and_in_order() -> None:
    """Batches are adjoining ranges of what arrived, and what is left waits."""
    query = SimulatedQuery(lambda now: 5_000.0 * (1 + np.sin(now / 9)), backlog_rows=20_000, noise=0.1)
    run = simulate(application(), {NAME: query}).run_until(120.0)
    batches = run.query(NAME).batches
    assert batches[0].first_row == 0.0
    for before, after in pairwise(batches):
        assert after.first_row == before.end_row
        assert after.signal.started_s >= before.signal.finished_s - 1e-9
    last = batches[-1]
    waiting = run.query(NAME).source.total(last.signal.started_s) - last.end_row
    assert last.signal.lag_rows == pytest.approx(waiting)


def test_ages_are_those_of_the_rows_that_were_kept() -> None:
    """Late rows by the sums are late rows by the ages, row by row."""
    query = SimulatedQuery(lambda now: 20_000.0 if now < 60 else 120_000.0, noise=0.2, has_guard=True, read_part=0.1)
    own = simulate(application(2.0, 0.3), {NAME: query}).run_until(120.0).query(NAME)
    ages, rows = own.ages()
    assert rows.sum() == pytest.approx(own.kept_rows)
    assert own.late_kept_rows > 0
    assert rows[ages > 2.01].sum() <= own.late_kept_rows * 1.0001
    assert own.late_kept_rows <= rows[ages > 1.99].sum() * 1.0001


def test_jobs_of_two_queries_wait_for_each_other() -> None:
    """However much is asked for, no more is done than the cores can do, and neither is starved."""
    queries = {name: SimulatedQuery(lambda _: 1e6, cost_per_row_s=20e-6) for name in ("east", "west")}
    goals = Application.of_goals({name: Goal(latency=5) for name in queries})
    run = simulate(goals, queries, cores=2.0).run_until(200.0)
    done = [run.query(name).kept_rows for name in queries]
    assert sum(done) == pytest.approx(200.0 * 2.0 / 20e-6, rel=0.15)
    assert min(done) > 0.3 * sum(done)


def test_a_query_reads_what_another_writes() -> None:
    """Rows of a topic are there when the batch that wrote them is done."""
    queries = {
        "parse": SimulatedQuery(lambda _: 1_000.0, writes=("parsed",), rows_out_per_row=0.5),
        "count": SimulatedQuery("parsed"),
    }
    run = simulate(Application(), queries, cores=2.0).run_until(60.0)
    assert run.query("count").offered_rows == pytest.approx(0.5 * run.query("parse").offered_rows, rel=0.05)


def test_executors_come_late_and_are_paid_from_the_request() -> None:
    """The scaling tier asks for more; they serve after their start, and leave when the load is gone."""
    declared = Application(
        {NAME: QueryDeclaration(Goal(latency=30))}, ExecutorsDeclaration(ExecutorBounds(1, 8), "reactive")
    )
    query = SimulatedQuery(
        lambda now: 3_500.0 if now < 900 else 300.0, cost_per_row_s=1e-3, trigger_interval_s=5.0, noise=0.03
    )
    run = simulate(declared, {NAME: query}, executors=SimulatedExecutors(first=1, start_s=20.0)).run_until(2400.0)
    sizes = [decision.executors for decision in run.decisions(Executors)]
    assert max(sizes) >= 4
    assert sizes[-1] <= 2
    assert run.engine.pool is not None
    assert run.engine.pool.serving(run.engine.now_s) == sizes[-1]
    assert 2400.0 < run.engine.executor_s < 2400.0 * max(sizes)
    assert run.query(NAME).late_share_since(600.0) < 0.01


def test_a_lost_request_for_executors_is_made_again() -> None:
    """What is on record and not in force is applied in the next cycle."""
    declared = Application(
        {NAME: QueryDeclaration(Goal(latency=30))}, ExecutorsDeclaration(ExecutorBounds(2, 8, 4), "static")
    )
    run = simulate(declared, {NAME: SimulatedQuery(lambda _: 100.0)}, executors=SimulatedExecutors(first=2))
    run.run_until(0.5)
    run.engine.drop_next_apply = True
    assert run.engine.pool is not None
    run.engine.pool.ask(2, 0, now_s=0.5, busy_until_s=0.5)
    run.run_until(5.0)
    assert not run.engine.drop_next_apply
    assert run.engine.pool.wanted == (run.decisions(Executors)[-1].executors, 0)


def test_observing_only_records_and_changes_nothing() -> None:
    """Limits and ratios are on record; the query reads and keeps all it likes."""
    query = SimulatedQuery(lambda _: 200_000.0, has_guard=True)
    run = simulate(application(5.0, 0.1), {NAME: query}, mode=Mode.OBSERVE).run_until(60.0)
    assert run.decisions(ReadLimit)
    assert run.decisions(KeepRatio)
    assert run.query(NAME).kept_ratio == 1.0
    assert run.query(NAME).limit_rows == float("inf")


def test_a_released_query_reads_without_limit_again() -> None:
    """The loop gives back what it came with."""
    run = simulate(application(), {NAME: SimulatedQuery(lambda _: 0.0, backlog_rows=1e8)}).run_until(30.0)
    assert run.query(NAME).limit_rows < float("inf")
    run.loop.release(NAME, "stop", "the test is over")
    assert run.query(NAME).limit_rows == float("inf")


@pytest.mark.parametrize("backlog", [0.0, 100.0])
def test_the_inverse_of_the_arrivals_gives_the_moment_back(backlog: float) -> None:
    """A row arrived when the count reached it."""
    curve = ArrivalCurve(np.array([5.0, 0.0, 20.0, 1.0]), backlog_rows=backlog)
    for time_s in (0.3, 0.9, 2.5, 3.2):
        assert curve.time_of(curve.total(time_s)) == pytest.approx(time_s)
    assert sum(count for _, count in curve.between(0.0, curve.total(9.0))) == pytest.approx(26.0 + backlog)
