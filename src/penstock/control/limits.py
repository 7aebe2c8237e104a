"""Read limits of the sources of one query, and what is learned of each source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.control import wording
from penstock.control.sharing import share_rows
from penstock.control.workload import Arrived
from penstock.estimate.arrival import ArrivalRate, ArrivalState
from penstock.model import LimitUnit
from penstock.model.decision import Decision, ReadLimit, Unmanaged
from penstock.model.evolve import evolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model import BatchSignal, PlannedBatch, QuerySpec, SourceSignal, SourceSpec

ARRIVAL_HALF_LIFE_S = 5.0
"""A rate of now: of what is believed, half is younger than this, two batches of a goal of five seconds. What waits when
a batch is planned is counted and needs no rate."""
_ROWS_PER_UNIT_WEIGHT = 0.3
"""Rows in a file or a byte differ from one to the next: some three batches are averaged."""
_BATCHES_TO_IGNORED = 3
_IGNORED_RATIO = 1.5
"""A source that reads half more than its limit, three times in a row, does not obey it. One batch may have been planned
before the limit came, and the one after that as well."""
_SAME_MOMENT_S = 0.001
"""Spark tells moments in milliseconds: two reports of one planning differ by less."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is learned of one source, and the limit that it was given."""

    arrival: ArrivalState = field(default_factory=lambda: ArrivalState(None, None, None))
    rows_per_unit: float | None = None
    limit_units: int | None = None
    batches_over_limit: int = 0
    ignored: bool = False


class SourceLimits:
    """Turns a number of rows for the whole query into a limit for each of its sources.

    Rows are shared by what each source has to give (:func:`~penstock.control.sharing.share_rows`), and become files or
    bytes by the ratio that was seen. A limit is at least one unit, or the query would wait for ever, and at most what
    the source was configured with.

    Parameters
    ----------
    query
        The sources, with the unit of each one's limit.
    dead_band
        A limit that differs from the one in force by less than this share is not set.
    enforced
        Whether the limits are put in force. Observed only, a source cannot be blamed for ignoring them.
    states
        Snapshot to go on from.
    """

    def __init__(
        self, query: QuerySpec, dead_band: float, *, enforced: bool, states: tuple[SourceState, ...] | None = None
    ) -> None:
        self._query = query
        self._dead_band = dead_band
        self._enforced = enforced
        self._states = list(states or (SourceState() for _ in query.sources))

    def set_enforced(self, *, enforced: bool) -> None:
        """Whether limits are applied from now on; a source that nobody held to its limit is not judged by it."""
        self._enforced = enforced

    @property
    def arrival_rows_per_s(self) -> float | None:
        """Arrivals over all sources, None as soon as one of them is unknown."""
        rates = [source.arrival.rate_rows_per_s for source in self._states]
        return None if any(rate is None for rate in rates) else sum(rate for rate in rates if rate is not None)

    @property
    def recent_rows_per_s(self) -> float | None:
        """Arrivals between the last two batches over all sources, None as soon as one of them is unknown."""
        rates = [source.arrival.recent_rows_per_s for source in self._states]
        return None if any(rate is None for rate in rates) else sum(rate for rate in rates if rate is not None)

    @property
    def arrived(self) -> Arrived | None:
        """Rows that have arrived and until when, None as soon as one source does not tell."""
        moments = [source.arrival.planned_s for source in self._states if source.arrival.planned_s is not None]
        if self.arrival_rows_per_s is None or not moments:
            return None
        return Arrived(sum(source.arrival.arrived_rows for source in self._states), min(moments))

    def snapshot(self) -> tuple[SourceState, ...]:
        """Everything that the next limit depends on."""
        return tuple(self._states)

    def learn(self, signal: BatchSignal) -> None:
        """Learn arrivals, and rows in a unit, from a finished batch."""
        for source in signal.sources:
            # A source that is limited in rows has one of them in a unit, whatever it reports.
            if self._query.sources[source.index].unit is not LimitUnit.ROWS:
                ratio = _blend(self._states[source.index].rows_per_unit, _rows_per_unit(source))
                self._set(source.index, rows_per_unit=ratio)
            self._learn_arrivals(source, signal.started_s)

    def learn_planned(self, planned: PlannedBatch) -> None:
        """Learn arrivals from a batch that was just planned, long before its report."""
        for source in planned.sources:
            self._learn_arrivals(source, planned.planned_s)

    def _learn_arrivals(self, source: SourceSignal, planned_s: float) -> None:
        known = self._states[source.index].arrival
        if known.planned_s is not None and abs(planned_s - known.planned_s) < _SAME_MOMENT_S:
            # Learned when it was planned. Not so one that seems older: the clock was set back, and goes on from there.
            return
        arrivals = ArrivalRate(ARRIVAL_HALF_LIFE_S, known)
        arrivals.update(planned_s=planned_s, rows=source.rows, lag_rows=source.lag_rows)
        self._set(source.index, arrival=arrivals.snapshot())

    def first(self, rows: int, size_bytes: int, *, is_warm: bool) -> list[Decision]:
        """Limits of the first batch, before anything is known."""
        limitable = [spec for spec in self._query.sources if spec.is_limitable]
        decisions: list[Decision] = []
        for spec in limitable:
            first = {
                LimitUnit.ROWS: max(1, rows // len(limitable)),
                LimitUnit.FILES: 1,
                LimitUnit.BYTES: size_bytes,
            }[spec.unit or LimitUnit.ROWS]
            units = _bounded_units(first, spec)
            reason = wording.first_limit(units, spec, is_warm=is_warm and spec.unit is LimitUnit.ROWS)
            decisions.append(self._limit(spec, units, "start", reason, {}))
        return decisions

    def drop_ignoring_sources(self, signal: BatchSignal) -> list[Decision]:
        """Stop limiting a source that reads what it likes: its limit would only look as if it did something."""
        decisions: list[Decision] = []
        for source in signal.sources:
            spec, known = self._query.sources[source.index], self._states[source.index]
            if not self._enforced or known.ignored or known.limit_units is None or source.units is None:
                continue
            over = source.units > _IGNORED_RATIO * known.limit_units and spec.unit is LimitUnit.ROWS
            count = known.batches_over_limit + 1 if over else 0
            ignored = count >= _BATCHES_TO_IGNORED
            self._set(source.index, batches_over_limit=count, ignored=ignored)
            if ignored:
                reason = wording.ignored_limit(spec, source.units, known.limit_units)
                cause = f"batch {signal.batch_id}"
                decisions.append(Unmanaged(query=self._query.name, cause=cause, reason=reason, source=spec.index))
        return decisions

    def divide(
        self, signal: BatchSignal, read_rows: float, *, target_s: float, reason: str, expected: Mapping[str, float]
    ) -> list[Decision]:
        """Limits with which the query reads so many rows in its next batch."""
        limited = self._limited(signal)
        unlimited_rows = signal.rows - sum(source.rows for source in limited)
        demands = [self._demand_rows(source, target_s) for source in limited]
        decisions: list[Decision] = []
        for source, share in zip(limited, share_rows(max(1.0, read_rows - unlimited_rows), demands), strict=True):
            spec, known = self._query.sources[source.index], self._states[source.index]
            units = _bounded_units(share / (known.rows_per_unit or 1.0), spec)
            if known.limit_units is None or is_news(known.limit_units, units, self._dead_band):
                decisions.append(self._limit(spec, units, f"batch {signal.batch_id}", reason, expected))
        return decisions

    def rows_in_force(self, signal: BatchSignal) -> float:
        """Rows that the limits in force let into a batch; without bound where a source has none."""
        total_rows = 0.0
        for source in signal.sources:
            known = self._states[source.index]
            if known.limit_units is None or known.ignored:
                return float("inf")
            total_rows += known.limit_units * (known.rows_per_unit or 1.0)
        return total_rows

    def _limited(self, signal: BatchSignal) -> list[SourceSignal]:
        return [
            source
            for source in signal.sources
            if self._query.sources[source.index].is_limitable and not self._states[source.index].ignored
        ]

    def _demand_rows(self, source: SourceSignal, target_s: float) -> float | None:
        rate = self._states[source.index].arrival.rate_rows_per_s
        return None if source.lag_rows is None or rate is None else source.lag_rows + rate * target_s

    def _limit(self, spec: SourceSpec, units: int, cause: str, reason: str, expected: Mapping[str, float]) -> ReadLimit:
        old = self._states[spec.index].limit_units
        self._set(spec.index, limit_units=units)
        return ReadLimit(
            query=self._query.name,
            cause=cause,
            reason=reason,
            source=spec.index,
            units=units,
            limit_unit=spec.unit or LimitUnit.ROWS,
            previous_units=old,
            expected=dict(expected),
        )

    def _set(self, index: int, **changes: object) -> None:
        self._states[index] = evolve(self._states[index], **changes)


def is_news(old: float, new: float, dead_band: float) -> bool:
    """Whether a new value is worth setting."""
    return abs(new - old) > dead_band * old


def _bounded_units(units: float, spec: SourceSpec) -> int:
    """At least one, or the query would wait for ever; at most what the source was configured with."""
    bounded = max(1, int(units))
    return bounded if spec.own_limit_units is None else max(1, min(bounded, spec.own_limit_units))


def _rows_per_unit(source: SourceSignal) -> float | None:
    """Rows in a unit, where whole units were read: a sliver of one would tell anything."""
    return source.rows / source.units if source.units is not None and source.units >= 1 else None


def _blend(old: float | None, new: float | None) -> float | None:
    if new is None or new <= 0:
        return old
    return new if old is None else old + _ROWS_PER_UNIT_WEIGHT * (new - old)
