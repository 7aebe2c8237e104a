"""Whether a query's goal can be met with what there is, told once when it cannot and once when it can again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control import wording
from penstock.control.demand import Demand, demand_of
from penstock.model.decision import Decision, Hold, Infeasible
from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from penstock.estimate.batch_time import BatchTimeModel
    from penstock.model import BatchSignal, QueryName

_BATCHES_TO_REPORT = 3
"""That a goal cannot be met is said when three batches in a row say so: one of them may have met an accident, and a
second what that left behind."""
_BATCHES_TO_SETTLE = 3
_AS_EXPECTED = 0.35
_AS_LARGE = 0.6
"""A capacity is proven by as many batches that took what was expected of them, give or take a third, twice what batches
of a busy machine scatter, and that had most of the rows that fit: of smaller ones overhead says next to nothing of
rows."""
_BATCHES_BEHIND = 10
"""So many batches with more waiting than the goal allows prove it without a model: a cold start has worked it off by
then."""
_PROVEN_PART = 0.75
"""A batch that was a quarter shorter than it might be says nothing against the capacity.

The numbers of this file decide when something is said, and nothing of what is kept.
"""


@dataclass(frozen=True, slots=True)
class FeasibilityState:
    """Snapshot of a :class:`Feasibility`."""

    batches_settled: int = 0
    batches_behind: int = 0
    batches_infeasible: int = 0
    is_reported: bool = False


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a query can do now: rows that fit into a batch of a length, and whether that is known well enough."""

    batch_s: float
    fits_rows: float
    is_known: bool
    arrival_rows_per_s: float


class Feasibility:
    """Compares what must be kept with what fits, batch after batch.

    A capacity counts once some batches in a row were about as large as fits and took about as long as expected; or
    where rows have waited longer than the goal for many batches, whatever the model says. Only a batch of about the
    wanted length proves what fits: a cold start must not cry overload on its way up.
    """

    def __init__(self, query: QueryName, latency_s: float, state: FeasibilityState | None = None) -> None:
        self._query = query
        self._latency_s = latency_s
        self._state = state or FeasibilityState()

    @property
    def is_infeasible(self) -> bool:
        """Whether the newest word was that the goal cannot be met."""
        return self._state.is_reported

    def snapshot(self) -> FeasibilityState:
        """Everything that the next word depends on."""
        return self._state

    def judge(
        self,
        signal: BatchSignal,
        capacity: Capacity,
        model: BatchTimeModel,
        *,
        waiting_rows: float,
        keep_floor: float,
        drain_batches: float,
        interval_s: float,
    ) -> list[Decision]:
        """Judge after a batch; ``keep_floor`` is the least that may be kept, one for a query without a guard."""
        if signal.lag_rows is None or not self._is_proven(signal, capacity, model):
            return []
        arrivals = capacity.arrival_rows_per_s * max(capacity.batch_s, interval_s)
        demand = demand_of(
            model,
            batch_s=capacity.batch_s,
            arrival_rows=arrivals,
            backlog_rows=max(0.0, waiting_rows - arrivals),
            drain_batches=drain_batches,
            keep_floor=keep_floor,
        )
        return self._report(signal, capacity, demand)

    def _is_proven(self, signal: BatchSignal, capacity: Capacity, model: BatchTimeModel) -> bool:
        expected_s = model.predict_s(signal.rows, signal.work_rows)
        # No division: a batch of which nothing was kept may be expected to take no time.
        as_expected = abs(signal.duration_s - expected_s) < _AS_EXPECTED * expected_s
        lag_rows = signal.lag_rows or 0.0
        as_large = signal.work_rows > _AS_LARGE * capacity.fits_rows or lag_rows < capacity.fits_rows
        settled = self._state.batches_settled + 1 if capacity.is_known and as_expected and as_large else 0
        is_behind = lag_rows > capacity.arrival_rows_per_s * self._latency_s > 0
        behind = self._state.batches_behind + 1 if is_behind else 0
        self._state = evolve(self._state, batches_settled=settled, batches_behind=behind)
        return settled >= _BATCHES_TO_SETTLE or behind >= _BATCHES_BEHIND

    def _report(self, signal: BatchSignal, capacity: Capacity, demand: Demand) -> list[Decision]:
        behind = not demand.is_feasible
        proven = signal.duration_s > _PROVEN_PART * capacity.batch_s
        count = self._state.batches_infeasible + (1 if proven else 0) if behind else 0
        self._state = evolve(self._state, batches_infeasible=count)
        cause = f"batch {signal.batch_id}"
        if count >= _BATCHES_TO_REPORT and not self._state.is_reported:
            self._state = evolve(self._state, is_reported=True)
            rate, arrivals = capacity.fits_rows / capacity.batch_s, capacity.arrival_rows_per_s
            expected = {
                "capacity_rows_per_s": rate,
                "arrival_rows_per_s": arrivals,
                "missing_rows_per_s": max(0.0, demand.keep_ratio * arrivals - rate),
            }
            reason = wording.infeasible(signal, demand, capacity)
            return [Infeasible(query=self._query, cause=cause, reason=reason, expected=expected)]
        if not behind and self._state.is_reported:
            self._state = evolve(self._state, is_reported=False)
            reason = f"what arrives and waits, {demand.rows:,.0f} rows a batch, fits again"
            return [Hold(query=self._query, cause=cause, reason=reason)]
        return []
