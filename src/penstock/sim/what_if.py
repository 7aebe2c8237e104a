"""A recorded load played under two goals: ``python -m penstock.sim.what_if`` reads a question and writes the answer.

Question and answer are JSON. It is a program of its own so that whoever asks does not give up its interpreter; see
:mod:`penstock.serve.what_if`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from penstock.control.application import ApplicationLogic
from penstock.control.events import WarmStart
from penstock.estimate.batch_time import BatchTimeModel
from penstock.loop import Loop
from penstock.model import Application, ExecutorBounds, ExecutorsDeclaration, Goal, Mode, QueryDeclaration, QueryName
from penstock.settings import Settings
from penstock.sim.counting_store import CountingStore
from penstock.sim.engine import SimulatedEngine
from penstock.sim.simulated_executors import SimulatedExecutors
from penstock.sim.simulated_query import BatchOutcome, SimulatedQuery

QUERY = QueryName("load")

_OVERHEAD_S, _START_S = 0.3, 30.0
_SHARE = 0.6
"""Where no cost is on record, one executor is taken to be busy for that part of the time at the mean load."""
_DOUBT, _FIRST_PART = 0.25, 0.3
_LATEST_READ_PART = 0.9
_CURVE_POINTS = 240


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Play the load twice.

    Examples
    --------
    >>> load = {"begin_s": 0.0, "step_s": 10.0, "rates_rows_per_s": [2_000.0] * 60, "executors": 1, "has_guard": True,
    ...         "overhead_s": 0.3, "cost_per_row_s": 1e-3, "read_cost_per_row_s": 1e-5, "executor_start_s": None}
    >>> goals = {"as_is": {"latency_s": 10.0, "minimum_accuracy": 1.0},
    ...          "what_if": {"latency_s": 10.0, "minimum_accuracy": 0.2}}
    >>> played = answer(load | {"goals": goals, "max_executors": None, "policy": None})
    >>> played["as_is"]["late_ratio"] > 0.5, played["what_if"]["late_ratio"] < 0.1
    (True, True)
    >>> played["what_if"]["kept_ratio"] < 0.6
    True
    """
    step_s = float(question["step_s"])
    rates = np.repeat(np.asarray(question["rates_rows_per_s"], dtype=np.float64), int(step_s))
    notes: list[str] = []
    engine = _engine(question, float(rates.mean()), notes)
    goals = {name: Goal(goal["latency_s"], goal["minimum_accuracy"]) for name, goal in question["goals"].items()}
    bounds = ExecutorBounds(engine["executors"], engine["executors"])
    most = question.get("max_executors")
    wanted = bounds if most is None else ExecutorBounds(min(engine["executors"], most), max(engine["executors"], most))
    times_s = np.linspace(0.0, float(rates.size), _CURVE_POINTS, endpoint=False)
    runs = {
        "as_is": _play(rates, engine, goals["as_is"], bounds, "proactive", times_s),
        "what_if": _play(rates, engine, goals["what_if"], wanted, question.get("policy") or "proactive", times_s),
    }
    return {
        "times_s": (times_s + float(question["begin_s"])).tolist(),
        "arrival_rows_per_s": rates[times_s.astype(int)].tolist(),
        "goal_latency_s": goals["as_is"].latency_s,
        "what_if_latency_s": goals["what_if"].latency_s,
        "notes": notes,
        **runs,
    }


def _engine(question: dict[str, Any], mean_rows_per_s: float, notes: list[str]) -> dict[str, Any]:
    """Costs in numbers; what is not on record is taken for typical, and told."""
    executors = int(question["executors"])
    # Costs on record are those of a batch on all executors together.
    cost_s, read_s = question["cost_per_row_s"], question["read_cost_per_row_s"] or 0.0
    if cost_s is None:
        cost_s = _SHARE / max(mean_rows_per_s, 1e-9)
        notes.append("what a row costs is not on record: the mean load is taken to need 60 % of the engine")
    overhead_s = question["overhead_s"]
    if overhead_s is None:
        overhead_s = _OVERHEAD_S
        notes.append(f"the overhead of a batch is not on record: {_OVERHEAD_S:g} s is taken")
    if not question["has_guard"]:
        notes.append("the query has no guard: the what-if has one where its minimum accuracy is below 1")
    total_s = (cost_s + read_s) * executors
    return {
        "executors": executors,
        "core_cost_s": max(total_s, 1e-9),
        "read_part": min(_LATEST_READ_PART, read_s / (cost_s + read_s)) if cost_s + read_s > 0 else 0.0,
        "overhead_s": overhead_s,
        "start_s": question["executor_start_s"] or _START_S,
    }


def _play(
    rates: np.ndarray[Any, np.dtype[np.float64]],
    engine: dict[str, Any],
    goal: Goal,
    bounds: ExecutorBounds,
    policy: str,
    times_s: np.ndarray[Any, np.dtype[np.float64]],
) -> dict[str, Any]:
    """One run through the logic and the loop that decide live."""
    is_fixed = bounds.min_executors == bounds.max_executors
    application = Application(
        {QUERY: QueryDeclaration(goal)}, None if is_fixed else ExecutorsDeclaration(bounds, policy)
    )
    query = SimulatedQuery(
        rates, overhead_s=engine["overhead_s"], cost_per_row_s=engine["core_cost_s"], read_part=engine["read_part"],
        noise=0.05, has_guard=goal.minimum_accuracy < 1.0,
    )  # fmt: skip
    pool = SimulatedExecutors(first=engine["executors"], start_s=engine["start_s"])
    simulated = SimulatedEngine({QUERY: query}, executors=pool, cycle_every_s=5.0)
    settings = Settings().with_values({"scaling.start_s": engine["start_s"]})
    logic = ApplicationLogic(application, settings, cores=float(engine["executors"]))
    loop = Loop(logic, simulated, CountingStore(), mode=Mode.ACT, clock=simulated.clock)
    simulated.connect(loop, {QUERY: goal}, warm_starts={QUERY: _learned(engine, goal)})
    sizes = []
    for time_s in times_s:
        simulated.run_until(float(time_s))
        sizes.append(float(simulated.pool.cores(float(time_s))) if simulated.pool is not None else None)
    simulated.run_until(float(rates.size))
    run = simulated.queries[QUERY]
    ended_s = np.array([batch.signal.finished_s for batch in run.batches])
    curves: dict[str, list[Any]] = {
        "latency_s": [batch.signal.finished_s - run.source.time_of(_oldest_kept(batch)) for batch in run.batches],
        "keep_ratio": [batch.kept_rows / max(1, batch.signal.rows) for batch in run.batches],
        "backlog_rows": [batch.signal.sources[0].lag_rows for batch in run.batches],
    }
    overdue = max(0.0, run.source.total(float(rates.size) - (goal.latency_s or 0.0)) - run.taken_rows)
    return {
        **{name: _sampled(ended_s, values, times_s) for name, values in curves.items()},
        "executors": sizes,
        "late_ratio": (run.late_kept_rows + overdue) / max(1.0, run.kept_rows + overdue),
        "kept_ratio": run.kept_ratio,
        "executor_hours": simulated.executor_s / 3600.0,
    }


def _oldest_kept(batch: BatchOutcome) -> float:
    """The first row of a batch that may be among those kept."""
    return batch.first_row if batch.late_part > 0 else min(batch.cut_row, batch.end_row)


def _sampled(
    ended_s: np.ndarray[Any, np.dtype[np.float64]], values: list[Any], times_s: np.ndarray[Any, np.dtype[np.float64]]
) -> list[float | None]:
    """The value of the newest batch at each moment."""
    places = np.searchsorted(ended_s, times_s, side="right") - 1
    return [None if place < 0 or values[place] is None else float(values[place]) for place in places]


def _learned(engine: dict[str, Any], goal: Goal) -> WarmStart:
    row_s = engine["core_cost_s"] / engine["executors"]
    model = BatchTimeModel.recalled(
        overhead_s=engine["overhead_s"],
        read_cost_s=engine["read_part"] * row_s,
        work_cost_s=(1.0 - engine["read_part"]) * row_s,
        doubt=_DOUBT,
    )
    return WarmStart(first_rows=max(1, round(_FIRST_PART * (goal.latency_s or 1.0) / row_s)), batch_time=model)


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
