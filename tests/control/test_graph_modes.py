"""A declared graph is governed by the same loop as everything else: observe-only and failing open hold for it."""

from __future__ import annotations

import pytest

from penstock.model import Application, Goal, Mode, QueryDeclaration, QueryName
from penstock.model.decision import Fault, GraphPlan, ReadLimit
from penstock.testing import SimulatedQuery, SimulatedRun, simulate

ROW_CORE_S = {"parse": 60e-6, "fast": 50e-6, "slow": 330e-6}
SECONDS = 90.0


def run(mode: Mode) -> SimulatedRun:
    """A producer and two readers under three times what fits, in a mode."""
    readers = {"fast": 5.0, "slow": 1.0}
    declared = {QueryName("parse"): QueryDeclaration(Goal(), ("input",), ("parsed",))}
    declared |= {
        QueryName(name): QueryDeclaration(Goal(weight=weight, minimum_accuracy=0.02), ("parsed",))
        for name, weight in readers.items()
    }
    queries = {
        name: SimulatedQuery(
            (lambda _: 10_000.0) if name == "parse" else "parsed",
            cost_per_row_s=row_core_s, task_overhead_core_s=0.1, trigger_interval_s=2.0,
            writes=("parsed",) if name == "parse" else (),
        )
        for name, row_core_s in ROW_CORE_S.items()
    }  # fmt: skip
    return simulate(Application(declared), queries, cores=2.0, mode=mode)


def test_a_graph_is_planned_limited_and_on_record() -> None:
    """Acting, the log has the plan with every query's target, and limits that follow from it."""
    acting = run(Mode.ACT).run_until(SECONDS)
    plans = acting.decisions(GraphPlan)
    assert plans
    assert set(plans[-1].targets_rows_per_s) == set(ROW_CORE_S)
    assert acting.decisions(ReadLimit, "parse")


def test_observe_only_leaves_the_graph_as_it_is() -> None:
    """Plans and limits are in the log as observed; every query reads what plain Spark would read."""
    observed = run(Mode.OBSERVE).run_until(SECONDS)
    plain = simulate(Application(), observed_queries(observed), cores=2.0).run_until(SECONDS)
    assert {record.mode for record in observed.store.actions()} == {Mode.OBSERVE}
    assert observed.decisions(GraphPlan)
    for name in ROW_CORE_S:
        assert [signal.rows for signal in observed.signals(name)] == [signal.rows for signal in plain.signals(name)]


def observed_queries(observed: SimulatedRun) -> dict[str, SimulatedQuery]:
    return {name: own.query for name, own in observed.engine.queries.items()}


def test_a_fault_lets_one_query_of_the_graph_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay governed, and the one that is let go has its own limit again."""
    acting = run(Mode.ACT).run_until(SECONDS)
    acting.loop.fault(QueryName("fast"), "batch 9", RuntimeError("no idea what to do"))
    assert acting.decisions(Fault, "fast")
    assert set(acting.logic.governed) == {"parse", "slow"}
    limits = len(acting.decisions(ReadLimit, "fast"))
    acting.run_until(2 * SECONDS)
    assert len(acting.decisions(ReadLimit, "fast")) == limits
    assert len(acting.signals("slow")) > 0
