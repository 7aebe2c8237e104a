"""What earlier runs taught of a query and of executors, from the store."""

from __future__ import annotations

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
    # The fastest batch counts: rows per second only ever look too few, when a batch was small or disturbed.
    rows_per_s = max(count / duration_s for count, duration_s in zip(rows, durations, strict=True) if duration_s > 0)
    wanted = int(_SAFE_SHARE * target_s * rows_per_s)
    if wanted <= settings.first_batch_rows:
        return WarmStart()
    return WarmStart(wanted, _costs(store, query, since_s) if len(rows) >= _BATCHES_TO_TRUST else None)


def _costs(store: Store, query: QueryName, since_s: float) -> BatchTimeState | None:
    metrics = (Metric.BATCH_OVERHEAD_S, Metric.READ_COST_PER_ROW_S, Metric.COST_PER_ROW_S)
    found = [store.points(query, metric, since_s=since_s, last=1) for metric in metrics]
    if not all(found):
        return None
    overhead_s, read_cost_s, work_cost_s = (points[-1].value for points in found)
    return BatchTimeModel.recalled(
        overhead_s=overhead_s, read_cost_s=read_cost_s, work_cost_s=work_cost_s, doubt=_DOUBT
    )


def executor_times(store: Store) -> ScalingTierState:
    """How long the last executors took to come and to go, as what the slow tier begins with."""

    def of(metric: Metric) -> ServiceTimeState:
        points = store.points(APPLICATION, metric, last=_EXECUTORS_REMEMBERED)
        return ServiceTimeState(tuple(point.value for point in points))

    starts, releases = of(Metric.EXECUTOR_START_S), of(Metric.EXECUTOR_RELEASE_S)
    return ScalingTierState(outcomes=OutcomeState(starts=starts, releases=releases))
