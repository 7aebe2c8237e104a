"""Carries out what a policy decides on the number of executors, within bounds, and measures what comes of it.

collect -> decide -> record -> actuate, every second or so. What was decided last is compared with what is there in
every cycle, so that an executor which was lost, or a request which was cut short, heals itself.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from penstock.cluster.ledger import Ledger
from penstock.cluster.plan import clamp, plan_step
from penstock.cluster.policy import ScalingObservation, ScalingTarget
from penstock.estimate.service_time import ServiceTime
from penstock.model import Action, ActionKind, Metric, Mode, QueryName, SeriesPoint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import TracebackType

    from penstock.cluster.ledger import Gone, Joined
    from penstock.cluster.plan import Bounds, Clamped, Step
    from penstock.cluster.policy import ScalingPolicy
    from penstock.cluster.pool import Pool, PoolView
    from penstock.spark.workload import Workload
    from penstock.store import Store

logger = logging.getLogger("penstock")

ENGINE = QueryName("engine")
_LEAST_PATIENCE_S = 60.0
_PATIENCE_IN_STARTS = 3.0
_RECALLED = 32
_JOINED_WITHIN_S = 30.0


@dataclass(slots=True)
class _Growth:
    """A size that was decided on and is not there yet."""

    action_id: int
    decided_s: float
    previous: int
    target: int
    expected_s: float | None
    serving: frozenset[str]
    since: str = "the decision"
    called_s: float | None = None
    is_overdue: bool = False


@dataclass(slots=True)
class _Shrinking:
    """Executors that are on their way out by one action; none yet where it was decided in this cycle."""

    action_id: int
    decided_s: float
    count: int = 0
    longest_s: float = 0.0


class Scaler:
    """Keeps an engine at the size that a policy decides on.

    Parameters
    ----------
    pool
        The executors.
    bounds
        First size, minimum, maximum and standby.
    policy
        Whoever decides.
    store
        Where decisions go before they are carried out, and times once they are measured.
    workload
        What arrives and waits, for the policy; a policy that needs neither does without.
    mode
        In observe mode decisions are recorded and nothing is done.
    every_s
        Pause between two cycles.
    """

    def __init__(
        self,
        pool: Pool,
        bounds: Bounds,
        policy: ScalingPolicy,
        store: Store,
        *,
        workload: Callable[[], Workload] | None = None,
        mode: Mode = Mode.ACT,
        every_s: float = 1.0,
        name: QueryName = ENGINE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.bounds = bounds
        self.target = bounds.first
        self._pool, self._policy, self._store, self._mode = pool, policy, store, mode
        self._workload, self._every_s, self._name, self._clock = workload, every_s, name, clock
        self.starts = self._recalled(Metric.EXECUTOR_START_S)
        self.releases = self._recalled(Metric.EXECUTOR_RELEASE_S)
        self._ledger = Ledger()
        self._total = 0
        self._action_id = 0
        self._growth: _Growth | None = None
        self._shrinking: dict[int, _Shrinking] = {}
        self._served = -1
        self._refused = ""
        self._faulted = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Record the first size and go on in a thread of its own."""
        self.begin()
        self._thread = threading.Thread(target=self._run, name="penstock-scaler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Decide no more; the executors stay as they are."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=_JOINED_WITHIN_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_settled(self) -> bool:
        """Whether all that was decided is there: nobody is waited for, nobody is on the way out."""
        return self._growth is None and not self._shrinking

    def begin(self) -> None:
        """Record the first size; what is there already is neither learned from nor awaited."""
        reason = f"the first size, of {self.bounds.minimum} to {self.bounds.maximum} executors"
        standby = f" with {self.bounds.standby} on standby" if self.bounds.standby else ""
        self._action_id = self._record(
            Action(ActionKind.EXECUTORS, self._name, "start", reason + standby, value=self.target, unit="executors")
        )
        self._total = min(self.target + self.bounds.standby, self.bounds.maximum)

    def step(self) -> None:
        """One cycle."""
        now_s = self._clock()
        view = self._pool.look()
        self._settle(view, now_s)
        self._decide(view, now_s)
        if self._mode is Mode.ACT:
            step = plan_step(view.executors, self.target, self.bounds)
            # What is on its way out is remembered first: it must not be taken for lost, should the call fail half-way.
            self._expect_to_leave(step, now_s)
            self._pool.carry_out(step)
            if step.call and self._growth is not None:
                self._growth.called_s = self._clock()

    # What came of earlier decisions

    def _settle(self, view: PoolView, now_s: float) -> None:
        joined, gone = self._ledger.update(view.added_s, now_s=now_s)
        points = [
            SeriesPoint(now_s, self._name, Metric.EXECUTOR_START_S, one.start_s, subject=one.executor_id)
            for one in joined
            if one.start_s is not None
        ]
        points += [
            SeriesPoint(now_s, self._name, Metric.EXECUTOR_RELEASE_S, one.release_s, subject=one.executor_id)
            for one in gone
            if one.release_s is not None
        ]
        if len(view.serving) != self._served:
            self._served = len(view.serving)
            points.append(SeriesPoint(now_s, self._name, Metric.EXECUTORS_SERVING, self._served))
        if points:
            self._store.append_points(points)
        self._learn(joined, gone)
        self._tell_losses([one.executor_id for one in gone if one.release_s is None], view, now_s)
        self._tell_releases(gone)
        self._tell_shrinking_to_none(view, now_s)
        self._tell_growth(view, now_s)

    def _learn(self, joined: Collection[Joined], gone: Collection[Gone]) -> None:
        for arrival in joined:
            if arrival.start_s is not None:
                self.starts.observe(arrival.start_s)
        for departure in gone:
            if departure.release_s is not None:
                self.releases.observe(departure.release_s)

    def _tell_losses(self, lost: list[str], view: PoolView, now_s: float) -> None:
        if not lost:
            return
        names = ", ".join(lost)
        reason = f"executor {names} was lost; the cluster was asked for {self._total} in all and is to replace it"
        action_id = self._record(Action(ActionKind.FAULT, self._name, f"loss of executor {names}", reason))
        self._ledger.ask(len(lost), now_s=now_s)
        if self._growth is None and len(view.serving) < self.target:
            self._growth = self._awaited(action_id, now_s, len(view.serving), frozenset(view.serving))
            self._growth.since = "the loss was seen"

    def _tell_releases(self, gone: list[Gone]) -> None:
        for one in gone:
            shrinking = None if one.action_id is None else self._shrinking.get(one.action_id)
            if shrinking is None or one.release_s is None:
                continue
            shrinking.longest_s = max(shrinking.longest_s, one.release_s)
            if self._ledger.leaving(shrinking.action_id) == 0:
                del self._shrinking[shrinking.action_id]
                several = "s" if shrinking.count > 1 else ""
                reason = f"{shrinking.count} executor{several} finished all tasks and left, {self._served} left serving"
                self._tell_outcome(shrinking.action_id, reason, shrinking.longest_s, None)

    def _tell_shrinking_to_none(self, view: PoolView, now_s: float) -> None:
        """A smaller size that is there without anybody leaving: they had not come yet, or wait on standby."""
        for shrinking in [one for one in self._shrinking.values() if one.count == 0]:
            if len(view.serving) <= self.target or shrinking.action_id != self._action_id:
                del self._shrinking[shrinking.action_id]
                reason = f"{len(view.serving)} executors serve, none had to leave"
                self._tell_outcome(shrinking.action_id, reason, now_s - shrinking.decided_s, None)

    def _tell_growth(self, view: PoolView, now_s: float) -> None:
        growth = self._growth
        if growth is None:
            return
        if len(view.serving) >= growth.target:
            self._growth = None
            moments = [view.added_s[one] for one in view.serving if one not in growth.serving]
            from_standby = sum(moment < growth.decided_s for moment in moments)
            moments += [] if growth.called_s is None else [growth.called_s]
            took_s = max(0.0, max(moments, default=now_s) - growth.decided_s)
            origin = f", {from_standby} of them from standby" if from_standby else ""
            reason = f"{growth.previous} -> {len(view.serving)} executors serve{origin}"
            self._tell_outcome(growth.action_id, reason, took_s, growth.expected_s, growth.since)
        elif not growth.is_overdue and now_s - growth.decided_s > self._patience_s():
            growth.is_overdue = True
            waited = (
                f"{len(view.serving)} of {growth.target} executors serve {now_s - growth.decided_s:.0f} s after that"
            )
            reason = f"{waited}; the cluster gives no more now, and the request stands"
            self._record(Action(ActionKind.INFEASIBLE, self._name, f"action {growth.action_id}", reason))

    def _tell_outcome(
        self, action_id: int, reason: str, took_s: float, expected_s: float | None, since: str = "the decision"
    ) -> None:
        told = "" if expected_s is None else f" ({expected_s:.1f} s was expected)"
        self._record(
            Action(
                ActionKind.EXECUTORS_DONE,
                self._name,
                f"action {action_id}",
                f"{reason}, {took_s:.1f} s after {since}{told}",
                value=took_s,
                previous=expected_s,
                unit="s",
            )
        )

    # What is to be

    def _decide(self, view: PoolView, now_s: float) -> None:
        available = self._pool.available()
        try:
            wanted = self._policy.decide(self._observation(view, now_s, available))
        except Exception as error:  # noqa: BLE001 - a policy that fails must not take the executors with it
            self._fault("policy", error, "the engine keeps its size")
            return
        held = clamp(wanted.executors, self.bounds, available)
        self._tell_refusal(wanted, held)
        if held.executors != self.target:
            self._change(wanted, held, view, now_s)

    def _tell_refusal(self, wanted: ScalingTarget, held: Clamped) -> None:
        is_short = held.executors < wanted.executors
        if is_short and held.why != self._refused:
            self._record(Action(ActionKind.INFEASIBLE, self._name, wanted.cause, f"{held.why}: {wanted.reason}"))
            logger.warning("%s: %s", self._name, held.why)
        self._refused = held.why if is_short else ""

    def _change(self, wanted: ScalingTarget, held: Clamped, view: PoolView, now_s: float) -> None:
        total = min(held.executors + self.bounds.standby, self.bounds.maximum)
        expected_s = self.starts.quantile_s(0.5) if held.executors > self.target else self.releases.quantile_s(0.5)
        action = Action(
            ActionKind.EXECUTORS,
            self._name,
            wanted.cause,
            f"{wanted.reason}; {held.why}" if held.why else wanted.reason,
            value=held.executors,
            previous=self.target,
            unit="executors",
            expected={} if expected_s is None else {"service_s": expected_s},
        )
        self._action_id = self._record(action)
        previous, self.target = self.target, held.executors
        if self._mode is not Mode.ACT:
            return
        # Executors that leave count with the cluster until they are gone, and come on top of what is asked for.
        self._ledger.ask(total - self._total, now_s=now_s)
        self._total = total
        self._tell_overtaken(view, now_s)
        if held.executors > previous:
            self._growth = self._awaited(self._action_id, now_s, previous, frozenset(view.serving))
        else:
            self._shrinking[self._action_id] = _Shrinking(self._action_id, now_s)

    def _tell_overtaken(self, view: PoolView, now_s: float) -> None:
        """Every decision has its end on record, also one that another took the place of; it has no time of service."""
        growth, self._growth = self._growth, None
        if growth is None:
            return
        how_far = f"{len(view.serving)} of {growth.target} executors served {now_s - growth.decided_s:.1f} s after"
        reason = f"{how_far} {growth.since}, when action {self._action_id} overtook it"
        self._record(Action(ActionKind.EXECUTORS_DONE, self._name, f"action {growth.action_id}", reason))

    def _awaited(self, action_id: int, now_s: float, previous: int, serving: frozenset[str]) -> _Growth:
        return _Growth(action_id, now_s, previous, self.target, self.starts.quantile_s(0.5), serving)

    def _expect_to_leave(self, step: Step, now_s: float) -> None:
        if step.release:
            self._ledger.release(step.release, action_id=self._action_id, now_s=now_s)
            shrinking = self._shrinking.setdefault(self._action_id, _Shrinking(self._action_id, now_s))
            shrinking.count += len(step.release)

    def _observation(self, view: PoolView, now_s: float, available: int | None) -> ScalingObservation:
        workload = self._workload() if self._workload is not None else None
        return ScalingObservation(
            time_s=now_s,
            executors=len(view.serving),
            target=self.target,
            minimum=self.bounds.minimum,
            maximum=self.bounds.maximum,
            standby=len(view.standby),
            leaving=len(view.leaving),
            available=available,
            arrival_rows_per_s=workload.arrival_rows_per_s if workload else None,
            lag_rows=workload.lag_rows if workload else None,
            batch_s=workload.batch_s if workload else None,
            busy_fraction=view.busy_fraction,
            processed_rows_per_s=workload.processed_rows_per_s if workload else None,
            backlog_rows=workload.backlog_rows if workload else None,
            busy_share=workload.busy_share if workload else None,
            start_s_p50=self.starts.quantile_s(0.5),
            start_s_p95=self.starts.quantile_s(0.95),
        )

    # The loop and its faults

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self.step()
                self._faulted = ""
            except Exception as error:  # noqa: BLE001 - the queries must go on without the scaler
                self._fault("cycle", error, "the engine stays as it is")

    def _fault(self, cause: str, error: Exception, consequence: str) -> None:
        """Fail open, and say so once as long as it goes on."""
        what = str(error).splitlines()[0] if str(error) else "no message"
        reason = f"{type(error).__name__}: {what}; {consequence}"
        if reason == self._faulted:
            return
        self._faulted = reason
        logger.warning("%s: %s", self._name, reason)
        try:
            self._record(Action(ActionKind.FAULT, self._name, cause, reason))
        except Exception:
            logger.exception("a fault of %s could not be recorded", self._name)

    def _record(self, action: Action) -> int:
        return self._store.append(action, time_s=self._clock(), mode=self._mode).action_id

    def _patience_s(self) -> float:
        return max(_LEAST_PATIENCE_S, _PATIENCE_IN_STARTS * (self.starts.quantile_s(0.95) or 0.0))

    def _recalled(self, metric: Metric) -> ServiceTime:
        learned = ServiceTime(_RECALLED)
        for point in self._store.points(self._name, metric, last=_RECALLED):
            learned.observe(point.value)
        return learned
