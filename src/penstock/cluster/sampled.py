"""The policies of ``penstock replay`` on a live engine: looks of a second become the samples that they decide by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from penstock.cluster.policy import ScalingTarget
from penstock.control.scaling.by_name import ScalerSetup, make_scaler
from penstock.model.scaling import ScaleKind, ScalingSignal

if TYPE_CHECKING:
    from penstock.cluster.plan import Bounds
    from penstock.cluster.policy import ScalingObservation
    from penstock.control.scaling.base import Scaler


class SampledPolicy:
    """Asks a scaler once in a sample, with means over the looks of the sample; its answer stands until the next.

    The scaler sees what it sees in a replay: demand with shed rows, rows worked off, share of busy time, and the queue
    over what arrives within the latency goal. A sample in which one look did not know something does not know it
    either, so that the guards hold what is there.

    Parameters
    ----------
    scaler
        Any of :mod:`penstock.control.scaling`, guards included.
    goal_s
        Latency goal of the engine's queries, the shortest where they differ.
    interval_s
        Length of a sample.
    trigger_s
        How often a batch is to begin, for policies that go by it; None is batch after batch.
    warm_up_s
        Time from the first complete look in which nothing is decided: first batches start workers and connections,
        and what they take says nothing of the load.

    Examples
    --------
    >>> from penstock.cluster.policy import ScalingObservation
    >>> scaler = make_scaler("reactive", ScalerSetup(most=4, interval_s=5.0))
    >>> policy = SampledPolicy(scaler, goal_s=10.0, interval_s=5.0)
    >>> def seen(time_s, executors, **load):
    ...     return ScalingObservation(time_s, executors, executors, 1, 4, **load)
    >>> load = {"arrival_rows_per_s": 900.0, "processed_rows_per_s": 400.0, "busy_share": 1.0, "backlog_rows": 5_000.0}
    >>> [policy.decide(seen(float(second), 1, **load)).executors for second in (100, 101, 105, 106)]
    [1, 1, 2, 2]
    >>> policy.decide(seen(110.0, 2)).reason
    'signals are missing: hold what is there'
    """

    def __init__(
        self,
        scaler: Scaler,
        *,
        goal_s: float,
        interval_s: float,
        trigger_s: float | None = None,
        warm_up_s: float = 0.0,
    ) -> None:
        self.scaler = scaler
        self._goal_s = goal_s
        self._interval_s = interval_s
        self._trigger_s = trigger_s
        self._warm_up_s = warm_up_s
        self._first_s: float | None = None
        self._looks: list[ScalingObservation] = []
        self._began_s: float | None = None
        self._answer: ScalingTarget | None = None

    def decide(self, observation: ScalingObservation) -> ScalingTarget:
        """The scaler's answer at the end of a sample, and again until the next one ends."""
        if self._first_s is None and observation.backlog_rows is not None and observation.busy_share is not None:
            self._first_s = observation.time_s
        if self._first_s is not None and observation.time_s < self._first_s + self._warm_up_s:
            return ScalingTarget(observation.target, "the queries are warming up", self.scaler.name)
        if self._began_s is None:
            self._began_s = observation.time_s
        self._looks.append(observation)
        if observation.time_s - self._began_s >= self._interval_s:
            self._answer = self._ask(self._sample(observation))
            self._looks, self._began_s = [], observation.time_s
        return self._answer or ScalingTarget(observation.target, "the first sample is not over", self.scaler.name)

    def _ask(self, signal: ScalingSignal) -> ScalingTarget:
        decision = self.scaler.decide(signal)
        # What there may not be is left to whoever holds targets to bounds and room: he puts it on record.
        is_refused = decision.kind is ScaleKind.INFEASIBLE and decision.wanted is not None
        wanted = decision.wanted if is_refused and decision.wanted is not None else decision.executors
        return ScalingTarget(wanted, decision.reason, cause=self.scaler.name)

    def _sample(self, last: ScalingObservation) -> ScalingSignal:
        demand = _mean([look.arrival_rows_per_s for look in self._looks])
        queue = _mean([look.backlog_rows for look in self._looks])
        return ScalingSignal(
            time_s=last.time_s,
            executors=last.executors,
            requested=last.target,
            demand_rows_per_s=demand,
            processed_rows_per_s=_mean([look.processed_rows_per_s for look in self._looks]),
            busy_share=_mean([look.busy_share for look in self._looks]),
            backlog_rows=last.backlog_rows,
            queue_share=_queue_share(queue, demand, self._goal_s),
            batch_s=_mean([look.batch_s for look in self._looks]),
            trigger_s=self._trigger_s,
        )


def live_policy(
    name: str, bounds: Bounds, *, goal_s: float, interval_s: float = 15.0, trigger_s: float | None = None,
    start_s: float = 30.0, limit: float = 0.4, down_every_s: float = 60.0, warm_up_s: float = 30.0,
) -> SampledPolicy:  # fmt: skip
    """A policy by name for a live engine.

    ``start_s`` is how long an executor takes to come, as ``penstock calibrate`` measures it; ``limit`` the share of the
    goal's rows that may wait.
    """
    setup = ScalerSetup(
        least=bounds.minimum, most=bounds.maximum, interval_s=interval_s, start_s=start_s, limit=limit,
        down_every_s=down_every_s,
    )  # fmt: skip
    return SampledPolicy(
        make_scaler(name, setup), goal_s=goal_s, interval_s=interval_s, trigger_s=trigger_s, warm_up_s=warm_up_s
    )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _queue_share(queue_rows: float | None, demand_rows_per_s: float | None, goal_s: float) -> float | None:
    if queue_rows is None or demand_rows_per_s is None:
        return None
    # Where nothing arrives but rows wait, the query is as far behind as can be told.
    if demand_rows_per_s <= 0:
        return 1.0 if queue_rows > 0 else 0.0
    return max(0.0, queue_rows) / (demand_rows_per_s * goal_s)
