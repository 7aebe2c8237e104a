"""What earlier runs of a query taught, for the first batches of the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.schedule import KeepSchedule
from penstock.control.target import target_batch_s
from penstock.estimate.batch_time import BatchTimeModel
from penstock.model import ActionKind, Metric, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.estimate.batch_time import BatchTimeState
    from penstock.model import Goal, QueryName, RecordedAction
    from penstock.settings import AdmissionSettings
    from penstock.store import Store

_SAFE_SHARE = 0.25
_REMEMBERED_S = 7 * 86_400.0
_BATCHES = 20
_BATCHES_TO_TRUST = 8
_DOUBT = 0.25


@dataclass(frozen=True, slots=True)
class Recalled:
    """Rows of a first batch, and what batches cost; None where nothing recent is known."""

    first_rows: int | None = None
    batch_time: BatchTimeState | None = None


def recall(store: Store, query: QueryName, goal: Goal, settings: AdmissionSettings, now_s: float) -> Recalled:
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
        return Recalled()
    # The fastest batch counts: rows per second only ever look too few, when a batch was small or disturbed.
    rows_per_s = max(count / duration_s for count, duration_s in zip(rows, durations, strict=True) if duration_s > 0)
    wanted = int(_SAFE_SHARE * target_s * rows_per_s)
    if wanted <= settings.first_batch_rows:
        return Recalled()
    return Recalled(wanted, _costs(store, query, since_s) if len(rows) >= _BATCHES_TO_TRUST else None)


def _costs(store: Store, query: QueryName, since_s: float) -> BatchTimeState | None:
    metrics = (Metric.BATCH_OVERHEAD_S, Metric.READ_COST_PER_ROW_S, Metric.COST_PER_ROW_S)
    found = [store.points(query, metric, since_s=since_s, last=1) for metric in metrics]
    if not all(found):
        return None
    overhead_s, read_cost_s, work_cost_s = (points[-1].value for points in found)
    return BatchTimeModel.recalled(
        overhead_s=overhead_s, read_cost_s=read_cost_s, work_cost_s=work_cost_s, doubt=_DOUBT
    )


def recorded_shares(log: Sequence[RecordedAction], query_id: str) -> KeepSchedule:
    """The shares that earlier runs of a query recorded for its batches.

    A query keeps its id as long as it keeps its checkpoint. Records under the same name but another id are those of
    another query, whose batch numbers mean other batches.
    """
    schedule, is_same = KeepSchedule(), False
    for record in log:
        action = record.action
        if action.kind is ActionKind.GOVERN:
            is_same = action.target == f"id {query_id}"
        elif is_same and record.mode is Mode.ACT:
            schedule = schedule.with_entry(int(action.expected["from_batch"]), action.expected["told"])
    return schedule
