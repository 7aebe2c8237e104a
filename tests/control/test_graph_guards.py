"""Keep ratios in a graph: under overload, rows are dropped at the ingress and at readers instead of growing old."""

from __future__ import annotations

import pytest

from penstock.model import Application, Goal, QueryDeclaration, QueryName
from penstock.model.decision import GraphPlan, KeepRatio, ReadLimit
from penstock.testing import SimulatedQuery, SimulatedRun, simulate

BATCH_S, GOAL_S, CORES = 3.0, 20.0, 2.0
UNTIL_S, COUNTED_S = 600.0, 200.0
ROW_CORE_S = {"parse": 60e-6, "fast": 50e-6, "medium": 130e-6, "slow": 330e-6}
WEIGHTS = {"fast": 5.0, "medium": 2.0, "slow": 1.0}
LOAD_ROWS_PER_S = 8_600.0


def fanout(*, has_guard: bool, weights: dict[str, float], load_rows_per_s: float = LOAD_ROWS_PER_S) -> SimulatedRun:
    """One producer and three readers under three times what all of them can do together."""
    reads = {name: "input" if name == "parse" else "parsed" for name in ROW_CORE_S}
    writes = {name: ("parsed",) if name == "parse" else () for name in ROW_CORE_S}
    goals = {name: Goal(latency=GOAL_S, weight=weights.get(name, 1.0), minimum_accuracy=0.01) for name in ROW_CORE_S}
    declared = {QueryName(name): QueryDeclaration(goals[name], (reads[name],), writes[name]) for name in ROW_CORE_S}
    queries = {
        name: SimulatedQuery(
            (lambda _: load_rows_per_s) if name == "parse" else "parsed",
            overhead_s=0.15, commit_s=0.15, cost_per_row_s=row_core_s, task_overhead_core_s=0.1,
            trigger_interval_s=BATCH_S, writes=writes[name], has_guard=has_guard,
        )
        for name, row_core_s in ROW_CORE_S.items()
    }  # fmt: skip
    return simulate(Application(declared), queries, cores=CORES, limit_delay_batches=0, cycle_every_s=BATCH_S)


def young_rows_per_s(run: SimulatedRun, name: str) -> float:
    """Rows within the goal that were kept, each second of the last minutes."""
    late = [batch for batch in run.query(name).batches if batch.signal.started_s > UNTIL_S - COUNTED_S]
    return sum(batch.kept_rows - batch.late_kept_rows for batch in late) / COUNTED_S


def oldest_s(run: SimulatedRun, name: str) -> float:
    """Age of the oldest row of the last batch when it was done."""
    own = run.query(name)
    return own.batches[-1].signal.finished_s - own.source.time_of(own.batches[-1].first_row)


def test_rows_of_guarded_readers_stay_young() -> None:
    """After ten minutes of overload the rows of every reader with a guard are within its goal, without are not."""
    guarded = fanout(has_guard=True, weights=WEIGHTS).run_until(UNTIL_S)
    for name in ROW_CORE_S:
        assert oldest_s(guarded, name) <= GOAL_S
        assert guarded.query(name).late_share_since(UNTIL_S - COUNTED_S) == 0.0
    limited = fanout(has_guard=False, weights=WEIGHTS).run_until(UNTIL_S)
    assert oldest_s(limited, "slow") > 10 * GOAL_S
    # What nobody reads in time is worth nothing.
    worth = [
        sum(weight * young_rows_per_s(run, name) for name, weight in WEIGHTS.items()) for run in (guarded, limited)
    ]
    assert worth[0] > 1.2 * worth[1]


def test_weights_decide_who_drops() -> None:
    """With the weights the other way round the slow reader keeps its rows, and the fast one drops."""
    usual = fanout(has_guard=True, weights=WEIGHTS).run_until(UNTIL_S)
    turned = fanout(has_guard=True, weights={"fast": 0.1, "medium": 0.1, "slow": 50.0}).run_until(UNTIL_S)
    assert young_rows_per_s(usual, "fast") > 10 * young_rows_per_s(usual, "slow")
    assert young_rows_per_s(turned, "slow") > 5 * young_rows_per_s(usual, "slow")
    assert young_rows_per_s(turned, "slow") > 5 * young_rows_per_s(turned, "fast")


def test_a_pause_of_the_producer_is_no_leave_to_keep_all() -> None:
    """A reader that saw no rows come between two batches of its producer still keeps its part of those that wait."""
    run = fanout(has_guard=True, weights=WEIGHTS).run_until(120.0)
    planned = [batch for batch in run.query("slow").batches if batch.signal.started_s > 5 * BATCH_S]
    assert len(planned) > 10
    assert all(batch.kept_rows <= 0.1 * batch.signal.rows for batch in planned)


def test_the_ingress_drops_what_no_reader_can_use() -> None:
    """With five times the load the producer itself keeps a part only, and its rows stay young."""
    run = fanout(has_guard=True, weights=WEIGHTS, load_rows_per_s=5 * LOAD_ROWS_PER_S).run_until(UNTIL_S)
    assert run.query("parse").kept_ratio_since(UNTIL_S - COUNTED_S) < 0.9
    assert oldest_s(run, "parse") <= GOAL_S
    assert run.decisions(KeepRatio, "parse")[-1].keep_ratio < 1.0


def test_plans_and_keep_ratios_are_on_record() -> None:
    """The log has every plan with its targets, and what each batch of a reader was told to keep."""
    run = fanout(has_guard=True, weights=WEIGHTS).run_until(120.0)
    assert set(run.decisions(GraphPlan)[-1].targets_rows_per_s) == set(ROW_CORE_S)
    told = {each.batch_id for each in run.decisions(KeepRatio, "slow")}
    dropping = {batch.signal.batch_id for batch in run.query("slow").batches if batch.on_time_part < 1.0}
    assert dropping
    assert dropping <= told


def test_a_load_that_fits_is_kept_whole() -> None:
    """A third of what fits: nobody drops a row, and no keep ratio is held down by the plan."""
    run = fanout(has_guard=True, weights=WEIGHTS, load_rows_per_s=900.0).run_until(300.0)
    for name in ROW_CORE_S:
        assert run.query(name).kept_ratio_since(100.0) == pytest.approx(1.0, abs=1e-3)
    assert run.decisions(ReadLimit, "parse")
