"""What earlier runs taught of a query and of executors, from the store."""

from __future__ import annotations

from math import isfinite, nan
from typing import TYPE_CHECKING

from penstock.control.events import WarmStart
from penstock.control.executor_outcomes import OutcomeState
from penstock.control.scaling_tier import ScalingTierState
from penstock.control.target import target_batch_s
from penstock.estimate.batch_time import BatchTimeModel
from penstock.estimate.service_time import ServiceTimeState
from penstock.model import APPLICATION, Metric

if TYPE_CHECKING:
    from penstock.estimate.batch_time import BatchTimeState
    from penstock.model import Goal, QueryName
    from penstock.settings import AdmissionSettings
    from penstock.store import Store

_SAFE_SHARE = 0.25
_REMEMBERED_S = 7 * 86_400.0
_BATCHES = 20
_BATCHES_TO_TRUST = 8
_DOUBT = 0.25
_EXECUTORS_REMEMBERED = 32
_MOST_ROWS = 2.0**53
"""No query has read so many rows in one batch: above it, what is on record is not what was."""


def warm_start(store: Store, query: QueryName, goal: Goal, settings: AdmissionSettings, now_s: float) -> WarmStart:
    """What the last runs of a query left in the series.

    The first batch may have the rows that took a quarter of the target length then: the rest is for code that has
    changed since, and for a cold engine. The learned costs are believed to within a quarter, until the first batches
    say more.
    """
    target_s = target_batch_s(goal, 0.0, settings.batch_share_of_goal)
    since_s = now_s - _REMEMBERED_S
    rows = [point.value for point in store.points(query, Metric.BATCH_ROWS, since_s=since_s, last=_BATCHES)]
    lengths = store.points(query, Metric.BATCH_DURATION_S, since_s=since_s, last=_BATCHES * 10)
    durations = [point.value for point in lengths if not point.subject][-_BATCHES:]
    if target_s is None or not rows or len(rows) != len(durations):
        return WarmStart()
    # The fastest batch counts: rows per second only ever look too few, when a batch was small or disturbed. What no
    # batch can have been, such as one without end, tells nothing.
    rows_per_s = max((rate for rate in map(_rate, rows, durations) if isfinite(rate)), default=0.0)
    wanted = _SAFE_SHARE * target_s * rows_per_s
    if not settings.first_batch_rows < wanted < _MOST_ROWS:
        return WarmStart()
    return WarmStart(int(wanted), _costs(store, query, since_s) if len(rows) >= _BATCHES_TO_TRUST else None)


def _rate(rows: float, duration_s: float) -> float:
    """Rows per second of one batch; nan for one that took no time, or a time that there is not."""
    return rows / duration_s if isfinite(duration_s) and duration_s > 0.0 else nan


def _costs(store: Store, query: QueryName, since_s: float) -> BatchTimeState | None:
    metrics = (Metric.BATCH_OVERHEAD_S, Metric.READ_COST_PER_ROW_S, Metric.COST_PER_ROW_S)
    found = [store.points(query, metric, since_s=since_s, last=1) for metric in metrics]
    if not all(found):
        return None
    values = [points[-1].value for points in found]
    if not all(map(_is_time, values)):
        return None
    overhead_s, read_cost_s, work_cost_s = values
    return BatchTimeModel.recalled(
        overhead_s=overhead_s, read_cost_s=read_cost_s, work_cost_s=work_cost_s, doubt=_DOUBT
    )


def _is_time(value: float) -> bool:
    """Whether something can have taken so long; a store that was damaged, or written to by others, says anything."""
    return isfinite(value) and value >= 0.0


def executor_times(store: Store) -> ScalingTierState:
    """How long the last executors took to come and to go, as what the slow tier begins with."""

    def of(metric: Metric) -> ServiceTimeState:
        points = store.points(APPLICATION, metric, last=_EXECUTORS_REMEMBERED)
        return ServiceTimeState(tuple(point.value for point in points if _is_time(point.value)))

    starts, releases = of(Metric.EXECUTOR_START_S), of(Metric.EXECUTOR_RELEASE_S)
    return ScalingTierState(outcomes=OutcomeState(starts=starts, releases=releases))
