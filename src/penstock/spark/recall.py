"""What earlier runs of a query taught, for the first batch of the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.control.target import target_batch_s
from penstock.model import Metric

if TYPE_CHECKING:
    from penstock.model import Goal, QueryName
    from penstock.settings import AdmissionSettings
    from penstock.store import Store

_SAFE_SHARE = 0.25
_REMEMBERED_S = 7 * 86_400.0
_BATCHES = 20


def recalled_rows(store: Store, query: QueryName, goal: Goal, settings: AdmissionSettings, now_s: float) -> int | None:
    """Rows of a first batch that would have taken a quarter of the target length when the query ran last.

    The quarter is for code that has changed since, and for a cold engine. None where nothing recent is known, or where
    it is no more than an unknown query is given.
    """
    target_s = target_batch_s(goal, 0.0, settings.batch_share_of_goal)
    since_s = now_s - _REMEMBERED_S
    rows = [point.value for point in store.points(query, Metric.BATCH_ROWS, since_s=since_s, last=_BATCHES)]
    lengths = store.points(query, Metric.BATCH_DURATION_S, since_s=since_s, last=_BATCHES * 10)
    durations = [point.value for point in lengths if not point.subject][-_BATCHES:]
    if target_s is None or not rows or len(rows) != len(durations):
        return None
    # The fastest batch counts: rows per second only ever look too few, when a batch was small or disturbed.
    rows_per_s = max(count / duration_s for count, duration_s in zip(rows, durations, strict=True) if duration_s > 0)
    wanted = int(_SAFE_SHARE * target_s * rows_per_s)
    return wanted if wanted > settings.first_batch_rows else None
