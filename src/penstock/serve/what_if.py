"""What would have been: the last hours of a query played once more, under its goal and under another.

The simulation runs in a process of its own, one at a time: the driver of an application must not give up its
interpreter to it, and nobody can keep the machine busy by asking often.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from statistics import median
from typing import TYPE_CHECKING, Any

from penstock.errors import ServiceError
from penstock.http.problems import CONFLICT, UNAVAILABLE, StatusError
from penstock.model import APPLICATION, Metric

if TYPE_CHECKING:
    from penstock.model import Goal, QueryName
    from penstock.store import Store

_STEP_S = 10.0
_WITHIN_S = 60.0
_SIMULATION = "penstock.sim.what_if"
_FEWEST = 12
_COST_POINTS = 200

_one_at_a_time = threading.Lock()


def describe(store: Store, query: QueryName, *, hours: float, until_s: float) -> dict[str, Any]:
    """What a simulation needs to know of a query: its load of the last hours, and what its batches cost."""
    count = max(_FEWEST, round(3600.0 * hours / _STEP_S))
    edges_s = [until_s - _STEP_S * (count - place) for place in range(count + 1)]
    bins = store.bins(query, Metric.ARRIVAL_ROWS_PER_S, edges_s)
    first = next((place for place, each in enumerate(bins) if each is not None), count)
    if count - first < _FEWEST:
        raise StatusError(
            CONFLICT,
            f"too little of the load of {str(query)!r} is on record to play it again: {_FEWEST * _STEP_S:g} s are "
            "needed; wait, or ask for more hours",
            kind="TooLittleSeen",
        )
    rates, last = [], 0.0
    for each in bins[first:]:
        last = last if each is None else each.mean
        rates.append(last)
    serving = _typical(store, APPLICATION, Metric.EXECUTORS_SERVING)
    return {
        "begin_s": edges_s[first],
        "step_s": _STEP_S,
        "rates_rows_per_s": rates,
        "overhead_s": _typical(store, query, Metric.BATCH_OVERHEAD_S),
        "cost_per_row_s": _typical(store, query, Metric.COST_PER_ROW_S),
        "read_cost_per_row_s": _typical(store, query, Metric.READ_COST_PER_ROW_S),
        "executor_start_s": _typical(store, APPLICATION, Metric.EXECUTOR_START_S),
        "executors": max(1, round(serving)) if serving else 1,
        "has_guard": bool(store.points(query, Metric.MEASURED_ACCURACY, last=1)),
    }


def simulate(described: dict[str, Any], as_is: Goal, what_if: Goal, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - plain data
    """Play the load under both goals."""
    question = described | {
        "goals": {
            name: {"latency_s": goal.latency_s, "minimum_accuracy": goal.minimum_accuracy}
            for name, goal in (("as_is", as_is), ("what_if", what_if))
        },
        **changes,
    }
    if not _one_at_a_time.acquire(blocking=False):
        raise StatusError(UNAVAILABLE, "another what-if is being played: ask again in some seconds", kind="Busy")
    try:
        ended = subprocess.run(
            [sys.executable, "-m", _SIMULATION], input=json.dumps(question), capture_output=True, text=True,
            timeout=_WITHIN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"the what-if took longer than {_WITHIN_S:g} s: ask for fewer hours") from error
    finally:
        _one_at_a_time.release()
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no reason told"])[-1]
        raise ServiceError(f"the what-if failed ({reason}): ask for other hours or another goal")
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def _typical(store: Store, query: QueryName, metric: Metric) -> float | None:
    values = [point.value for point in store.points(query, metric, last=_COST_POINTS) if not point.subject]
    return median(values) if values else None
