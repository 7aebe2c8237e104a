"""How much arrives at all queries of an application together, how much of it is worked off, and how much waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.signal import BatchSignal

_QUIET_IN_CYCLES = 3.0
_MIN_QUIET_S = 5.0
"""A query that reports nothing for three of its cycles has nothing to do: one report may be late, and the batch after
it long. Cycles of a second and less say less than a pause of Java does."""
_STALE_S = 120.0
"""What a query needed two minutes ago says nothing of what it needs now: that counts as unknown."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """Rows that have arrived at a query since its first batch, until a moment."""

    rows: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Workload:
    """Sums over the queries of an application; None as soon as one of them does not tell.

    Parameters
    ----------
    arrival_rows_per_s
        Rows that arrive, those that a guard drops and those that admission leaves waiting included.
    lag_rows
        Rows that the last batches left behind.
    batch_s
        The longest of the last batches.
    processed_rows_per_s
        Rows that were worked off; dropped ones do not count.
    busy_share
        Share of the time in which a batch was in work, of the busiest query.
    backlog_rows
        Rows that have arrived by now and are not done: the lag, what is in work, and what came since.
    shed_rows_per_s
        Rows that were dropped.
    measured_from_s
        When the oldest of the batches was planned that rates and busy share are of; None while there are none.
    batch_rows
        Rows that all queries together worked off in a batch of that length.
    partitions
        Most tasks that a stage of a batch has work for; None where a source does not tell its partitions.
    age_s
        Time since the middle of the cycle that the newest batch tells the arrivals of; the longest of all queries.
    arrived
        Rows that have arrived at each query; empty as soon as one of them does not tell.
    """

    arrival_rows_per_s: float | None = None
    lag_rows: float | None = None
    batch_s: float | None = None
    processed_rows_per_s: float | None = None
    busy_share: float | None = None
    backlog_rows: float | None = None
    shed_rows_per_s: float | None = None
    measured_from_s: float | None = None
    batch_rows: float | None = None
    partitions: int | None = None
    age_s: float = 0.0
    arrived: tuple[Arrived, ...] = ()


IDLE = Workload(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, batch_rows=0.0)


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """Snapshot of a :class:`QueryWorkload`: its last batch, and what the one before it was used for."""

    batch_id: int | None = None
    planned_s: float = 0.0
    batch_s: float = 0.0
    lag_rows: float | None = None
    kept_rows: float = 0.0
    shed_rows: float = 0.0
    cycle_s: float | None = None
    processed_rows_per_s: float | None = None
    shed_rows_per_s: float | None = None
    busy_share: float | None = None
    measured_from_s: float | None = None
    partitions: int | None = None


class QueryWorkload:
    """What the batches of one query tell, one after the other.

    From the planning of one batch to that of the next is a cycle; rows and time of its batch are what it was used for.
    How fast rows arrive is not estimated here: whoever admits rows knows it already.

    Examples
    --------
    >>> from penstock.model import BatchSignal, GuardSignal, QueryName, SourceSignal
    >>> seen = QueryWorkload()
    >>> def batch(batch_id, started_s):
    ...     source, guard = SourceSignal(0, 800, 800.0, lag_rows=0.0), GuardSignal(800, 400, 0.5)
    ...     return BatchSignal(QueryName("q"), batch_id, started_s, 1.5, 800, (source,), guard=guard)
    >>> for batch_id in range(3):
    ...     seen.observe_batch(batch(batch_id, 10.0 + 2.0 * batch_id))
    >>> now = seen.at(16.0, arrival_rows_per_s=400.0)
    >>> now.processed_rows_per_s, now.shed_rows_per_s, now.busy_share, now.backlog_rows
    (200.0, 200.0, 0.75, 800.0)
    """

    def __init__(self, state: WorkloadState | None = None) -> None:
        self._state = state or WorkloadState()

    def snapshot(self) -> WorkloadState:
        """The whole state, to build an equal one from."""
        return self._state

    @property
    def quiet_s(self) -> float:
        """How long after its last batch a query may have nothing to do."""
        return max(_MIN_QUIET_S, _QUIET_IN_CYCLES * (self._state.cycle_s or 0.0))

    def observe_batch(self, signal: BatchSignal) -> None:
        """Take in the next finished batch; one that is known already is passed over."""
        old = self._state
        if signal.batch_id == old.batch_id:
            return
        if old.batch_id is not None and signal.batch_id < old.batch_id:
            old = WorkloadState()  # another run, from another checkpoint
        kept_rows = signal.rows * (1.0 if signal.guard is None else signal.guard.processed_ratio)
        state = self._closed(old, signal) if old.batch_id == signal.batch_id - 1 else old
        self._state = evolve(
            state,
            batch_id=signal.batch_id,
            planned_s=signal.started_s,
            batch_s=signal.duration_s,
            lag_rows=signal.lag_rows,
            kept_rows=kept_rows,
            shed_rows=signal.rows - kept_rows,
            partitions=signal.partitions,
        )

    def at(
        self,
        now_s: float,
        *,
        arrival_rows_per_s: float | None,
        arrived: Arrived | None = None,
        idle: bool = False,
    ) -> Workload | None:
        """What is known at a moment; None before the first batch.

        What arrives during a batch waits, too, though no report tells of it yet. No batch for a while is either nothing
        to do or a long batch: ``idle`` says which, as only the query itself can tell. Arrivals were seen last when the
        newest batch was planned: one that asks tells them before its report (``arrived``).
        """
        state = self._state
        if state.batch_id is None:
            return None
        age_s = now_s - state.planned_s
        if idle and age_s > self.quiet_s and not state.lag_rows:
            return IDLE
        if age_s > max(_STALE_S, self.quiet_s):
            return Workload()
        seen_s = state.planned_s if arrived is None else max(state.planned_s, arrived.until_s)
        backlog = None
        if arrival_rows_per_s is not None and state.lag_rows is not None:
            backlog = state.lag_rows + arrival_rows_per_s * max(0.0, age_s)
        return Workload(
            arrival_rows_per_s,
            state.lag_rows,
            state.batch_s,
            state.processed_rows_per_s,
            state.busy_share,
            backlog,
            state.shed_rows_per_s,
            state.measured_from_s,
            state.kept_rows,
            state.partitions,
            max(0.0, now_s - seen_s) + (state.cycle_s or 0.0) / 2.0,
            () if arrived is None else (arrived,),
        )

    @staticmethod
    def _closed(old: WorkloadState, signal: BatchSignal) -> WorkloadState:
        cycle_s = signal.started_s - old.planned_s
        if cycle_s <= 0:
            return old
        return evolve(
            old,
            cycle_s=cycle_s,
            processed_rows_per_s=old.kept_rows / cycle_s,
            shed_rows_per_s=old.shed_rows / cycle_s,
            busy_share=min(1.0, old.batch_s / cycle_s),
            measured_from_s=old.planned_s,
        )


def sum_of(workloads: Iterable[Workload | None]) -> Workload:
    """All queries of an application as one; those that have not had a batch yet are left out.

    Examples
    --------
    >>> total = sum_of([Workload(100.0, 5.0, 1.0, 90.0, 0.5, 20.0), None, Workload(50.0, 0.0, 2.0, 50.0, 0.8, 10.0)])
    >>> total.arrival_rows_per_s, total.processed_rows_per_s, total.busy_share, total.backlog_rows
    (150.0, 140.0, 0.8, 30.0)
    """
    known = [workload for workload in workloads if workload is not None]
    shares = [workload.busy_share for workload in known]
    longest = max(
        (each for each in known if each.batch_s is not None), key=lambda each: each.batch_s or 0.0, default=None
    )
    partitions = [workload.partitions for workload in known]
    return Workload(
        arrival_rows_per_s=_total([workload.arrival_rows_per_s for workload in known]),
        lag_rows=_total([workload.lag_rows for workload in known]),
        batch_s=max((workload.batch_s for workload in known if workload.batch_s is not None), default=None),
        processed_rows_per_s=_total([workload.processed_rows_per_s for workload in known]),
        busy_share=None if None in shares else max((share for share in shares if share is not None), default=None),
        backlog_rows=_total([workload.backlog_rows for workload in known]),
        shed_rows_per_s=_total([workload.shed_rows_per_s for workload in known]),
        measured_from_s=min((w.measured_from_s for w in known if w.measured_from_s is not None), default=None),
        batch_rows=None if longest is None else _rows_in(longest, known),
        # Queries run side by side, so their tasks add up.
        partitions=None if None in partitions or not partitions else sum(count or 0 for count in partitions),
        age_s=max((workload.age_s for workload in known), default=0.0),
        arrived=tuple(each for workload in known for each in workload.arrived) if all(w.arrived for w in known) else (),
    )


def _rows_in(longest: Workload, all_of_them: list[Workload]) -> float | None:
    """Rows of all queries in the time of one batch: what else ran meanwhile took its part of the executors."""
    own = longest.batch_rows
    total = _total([workload.processed_rows_per_s for workload in all_of_them])
    if len(all_of_them) == 1 or own is None or not total or not longest.processed_rows_per_s:
        return own
    return own * total / longest.processed_rows_per_s


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
