"""One streaming query under watch: what it is, what it does, and the limits it runs under."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.control.admission import AdmissionController
from penstock.estimate.arrival import ArrivalRate
from penstock.model import Action, ActionKind, Metric, QuerySpec, SeriesPoint
from penstock.spark import internals
from penstock.spark.collector import GUARD_PREFIX, ProgressCollector, parse_progress
from penstock.spark.guard import FLOOR_PROPERTY, KEEP_PROPERTY, LATE_PROPERTY
from penstock.spark.internals import Ability
from penstock.spark.operator_worker import COST_PLACES
from penstock.spark.sources import build_limit, describe_sources

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.control.schedule import KeepSchedule
    from penstock.model import BatchSignal, Goal, PlannedBatch, QueryName
    from penstock.settings import Settings
    from penstock.spark.internals import JavaObject
    from penstock.spark.operator import Operator
    from penstock.spark.recall import Recalled
    from penstock.spark.sources import LiveSource


_ARRIVAL_HALF_LIFE_S = 10.0
_PLANNED_WITHIN_S = 30.0
_LONGEST_LOOK_S, _LOOK_PART = 1.0, 0.25


class WatchedQuery:
    """A query of the session, observed; governed as well once it has a goal."""

    def __init__(
        self, spark: SparkSession, query: StreamingQuery, name: QueryName, missing: Collection[Ability]
    ) -> None:
        self.name = name
        self.query = query
        self.goal: Goal | None = None
        self.controller: AdmissionController | None = None
        self.sources: tuple[LiveSource, ...] = ()
        self.has_guard = False
        self._spark = spark
        self._missing = missing
        self._collector = ProgressCollector(spark, name)
        self._interval_s = 0.0
        self._tells_planned = Ability.PLANNED not in missing
        self._last_job: int | None = None
        self._cost_places: dict[str, tuple[int, int | None]] = {}
        self._arrivals = ArrivalRate(_ARRIVAL_HALF_LIFE_S)

    @property
    def is_governed(self) -> bool:
        """Whether decisions are made about this query."""
        return self.controller is not None

    @property
    def is_micro_batch(self) -> bool:
        """Whether the query runs in batches, without which there is nothing to limit."""
        return internals.is_micro_batch(internals.execution_of(self.query))

    @property
    def left_alone(self) -> list[LiveSource]:
        """Sources that must not be limited."""
        return [source for source in self.sources if not source.spec.is_limitable]

    def govern(
        self, goal: Goal, settings: Settings, *, starting: bool, recorded_shares: KeepSchedule, recalled: Recalled
    ) -> list[Action]:
        """Begin to govern; gives the decisions that must be in place at once.

        A starting query gets its first limits before its first batch is planned. A running one has its past progress
        read first, so that its first limit rests on what it did so far.
        """
        execution = internals.execution_of(self.query)
        if starting:
            internals.plan_now(execution)
        else:
            self._await_plan(execution)
        self._describe(execution)
        _, self._interval_s = internals.trigger_of(execution)
        self.has_guard = internals.is_micro_batch(execution) and internals.plan_mentions(execution, GUARD_PREFIX)
        spec = QuerySpec(self.name, tuple(source.spec for source in self.sources), self._interval_s)
        controller = AdmissionController(
            spec,
            goal,
            settings.admission,
            settings.shedding if self.has_guard and Ability.CHANNEL not in self._missing else None,
            enforced=not settings.observe.only,
            first_rows=recalled.first_rows,
            learned=recalled.batch_time,
        )
        controller.resume_keep(recorded_shares)
        past = [] if starting else [self.signal(report) for report in self._past_progress()]
        actions = _newest_per_target([action for signal in past for action in controller.on_batch(signal)])
        if not any(action.kind is ActionKind.READ_LIMIT for action in actions):
            actions = [*actions, *controller.on_start()]
        self.goal, self.controller = goal, controller
        if self.has_guard and not settings.observe.only:
            internals.send_to_tasks(execution, FLOOR_PROPERTY, repr(controller.smallest_share))
            if goal.latency_s is not None:
                internals.send_to_tasks(execution, LATE_PROPERTY, repr(controller.late_after_s))
            self._send_shares()
        return actions

    def govern_action(self, goal: Goal, cause: str) -> Action:
        """What governing this query means, for the log."""
        expected = {"minimum_accuracy": goal.minimum_accuracy, "priority": float(goal.priority), "weight": goal.weight}
        if goal.latency_s is None:
            reason = "no latency goal, so its read limits stay as they are"
        else:
            assert self.controller is not None
            target_s = self.controller.target_batch_s
            assert target_s is not None
            expected |= {"latency_s": goal.latency_s, "target_batch_s": target_s}
            reason = f"rows may be {goal.latency_s:g} s old, so a batch may take {target_s:.2f} s"
        return Action(ActionKind.GOVERN, self.name, cause, reason, target=f"id {self.query.id}", expected=expected)

    def signal(self, progress: Mapping[str, Any]) -> BatchSignal:
        """What a progress report says."""
        if not self.sources:
            self._describe(internals.execution_of(self.query))
        return self._collector.signal(progress, self.sources)

    def look_s(self, progress: Mapping[str, Any]) -> float:
        """How long a report may wait for the next batch to be planned; nothing where a look at that serves nobody.

        Only shares are bound to batches long before. And a batch that is done before its trigger's interval is over is
        followed by a pause, during which limits must be set.
        """
        controller = self.controller
        if controller is None or not self.has_guard or not self._tells_planned:
            return 0.0
        is_followed = progress["durationMs"].get("triggerExecution", 0) / 1000.0 >= self._interval_s
        return min(_LONGEST_LOOK_S, _LOOK_PART * (controller.target_batch_s or 0.0)) if is_followed else 0.0

    def planned_after(self, batch_id: int) -> PlannedBatch | None:
        """The batch after this one, as soon as it is planned; None before that, and when it is over."""
        execution = internals.execution_of(self.query)
        running = internals.running_batch(execution, batch_id + 1, [source.java_source for source in self.sources])
        if running is None:
            return None
        planned = self._collector.planned(running, self.sources)
        # A source that does not say where it ends will not say so after the next batch either.
        self._tells_planned = planned is not None
        return planned

    def core_seconds(self) -> float | None:
        """Seconds that the query's jobs kept cores busy since the last look; None at the first."""
        is_first = self._last_job is None
        group = str(self.query.runId)
        busy_s, self._last_job = internals.core_seconds(self._spark, group, -1 if is_first else self._last_job or 0)
        return None if is_first else busy_s

    def carry_out(self, action: Action) -> None:
        """Realise a recorded decision."""
        if action.kind is ActionKind.READ_LIMIT and action.value is not None:
            source = self.sources[int(action.target.removeprefix("source "))]
            limit = build_limit(self._spark, source, int(action.value))
            internals.set_read_limit(internals.execution_of(self.query), source.java_source, limit)
        elif action.kind is ActionKind.KEEP_RATIO:
            self._send_shares()

    def cost_messages(self, operator: Operator, from_batch: int) -> list[tuple[str, str]]:
        """Newer costs for an operator's tasks from a batch on; the batches before it keep those that they have."""
        place, newest = self._cost_places.get(operator.costs_property, (0, None))
        if newest is not None and newest != from_batch:
            place = (place + 1) % COST_PLACES
        self._cost_places[operator.costs_property] = place, from_batch
        return operator.messages(place, from_batch)

    def resume_costs(self, messages: Sequence[tuple[str, str]]) -> None:
        """Send what an earlier run sent: its last batch may have to run again, with the costs that it ran with."""
        for name, text in messages:
            costs_property, _, place = name.rpartition(".")
            if text.isdigit() and int(text) >= (self._cost_places.get(costs_property, (0, -1))[1] or -1):
                self._cost_places[costs_property] = int(place), int(text)
        # The name of a batch is shorter than those of the sketch that holds from it on, and must come after them.
        self.send(sorted(messages, key=lambda message: -len(message[0])))

    def send(self, messages: Sequence[tuple[str, str]]) -> None:
        """Give texts to the tasks of the batches to come, in this order."""
        execution = internals.execution_of(self.query)
        for name, value in messages:
            internals.send_to_tasks(execution, name, value)

    def put_back(self) -> None:
        """Give every source the limit that it came with, and stop deciding."""
        was_governed, self.controller, self.goal = self.is_governed, None, None
        if not was_governed or not self.query.isActive:
            return
        execution = internals.execution_of(self.query)
        if self.has_guard:
            internals.send_to_tasks(execution, KEEP_PROPERTY, "")
        for source in self.sources:
            if source.spec.is_limitable:
                internals.set_read_limit(execution, source.java_source, source.own_limit)

    def series(self, signal: BatchSignal) -> list[SeriesPoint]:
        """Time-series points of a batch and of what is learned so far."""
        self._arrivals.update(planned_s=signal.started_s, rows=signal.rows, lag_rows=signal.lag_rows)
        values: dict[Metric, float | None] = {
            Metric.BATCH_ROWS: signal.rows,
            Metric.BATCH_DURATION_S: signal.duration_s,
            Metric.LAG_ROWS: signal.lag_rows,
            Metric.ARRIVAL_ROWS_PER_S: self._arrivals.rate_rows_per_s,
            Metric.PROCESSED_ROWS_PER_S: signal.rows_per_s,
            Metric.STATE_ROWS: signal.state_rows,
            Metric.STATE_BYTES: signal.state_bytes,
        }
        if signal.guard is not None:
            values[Metric.KEEP_RATIO] = min(1.0, signal.guard.keep_fraction)
            values[Metric.MEASURED_ACCURACY] = signal.guard.measured_fraction
            if signal.guard.oldest_arrival_s is not None:
                values[Metric.OLDEST_ROW_AGE_S] = signal.finished_s - signal.guard.oldest_arrival_s
        if self.controller is not None:
            values[Metric.READ_LIMIT_ROWS] = self.controller.budget_rows
            values[Metric.ARRIVAL_ROWS_PER_S] = self.controller.arrival_rows_per_s
            if self.controller.batch_time.batches:
                values[Metric.BATCH_OVERHEAD_S] = self.controller.batch_time.overhead_s
                values[Metric.READ_COST_PER_ROW_S] = self.controller.batch_time.read_cost_s
                values[Metric.COST_PER_ROW_S] = self.controller.batch_time.work_cost_s
        points = [
            SeriesPoint(signal.finished_s, self.name, metric, float(value), signal.batch_id)
            for metric, value in values.items()
            if value is not None
        ]
        points += [
            SeriesPoint(signal.finished_s, self.name, Metric.BATCH_DURATION_S, value, signal.batch_id, phase)
            for phase, value in signal.phases_s
            if phase != "triggerExecution"
        ]
        if len(signal.sources) > 1:
            points += [
                SeriesPoint(
                    signal.finished_s, self.name, Metric.LAG_ROWS, source.lag_rows, signal.batch_id,
                    f"source {source.index}",
                )
                for source in signal.sources
                if source.lag_rows is not None
            ]  # fmt: skip
        return points

    def _await_plan(self, execution: JavaObject) -> None:
        """Wait for the sources of a query that was started a moment ago: it creates them on its own thread."""
        deadline_s = time.monotonic() + _PLANNED_WITHIN_S
        while self.query.isActive and not internals.is_planned(execution) and time.monotonic() < deadline_s:
            time.sleep(0.02)

    def _send_shares(self) -> None:
        assert self.controller is not None
        execution = internals.execution_of(self.query)
        internals.send_to_tasks(execution, KEEP_PROPERTY, self.controller.keep.to_text())

    def _describe(self, execution: JavaObject) -> None:
        if internals.is_micro_batch(execution):
            self.sources = describe_sources(execution, self._missing)

    def _past_progress(self) -> list[dict[str, Any]]:
        return [parse_progress(report.json) for report in self.query.recentProgress if report.numInputRows > 0]


def _newest_per_target(actions: list[Action]) -> list[Action]:
    """The last limit of each source: those in between were never in force."""
    newest = {action.target: action for action in actions if action.kind is ActionKind.READ_LIMIT}
    return list(newest.values())
