"""What the page of a query draws: thinned series, a forecast of the load with its upper bound, and marks of actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import UnknownQueryError
from penstock.estimate.forecast import Combined, Level, LinearTrend
from penstock.model import APPLICATION, Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model import QueryName, RecordedAction, SeriesBin
    from penstock.store import Store

CHARTED = (
    Metric.ARRIVAL_ROWS_PER_S,
    Metric.PROCESSED_ROWS_PER_S,
    Metric.OLDEST_ROW_AGE_S,
    Metric.BATCH_DURATION_S,
    Metric.MEASURED_ACCURACY,
    Metric.KEEP_RATIO,
    Metric.LAG_ROWS,
    Metric.EXECUTORS_SERVING,
    Metric.EXECUTOR_BUSY_FRACTION,
)
"""Metrics of the charts of one query, those of its engine included."""

OF_ENGINE = frozenset({Metric.EXECUTORS_SERVING, Metric.EXECUTOR_BUSY_FRACTION})
_BY_PART = frozenset({Metric.EXECUTOR_BUSY_FRACTION})
_AHEAD_PART = 0.15
_QUANTILE = 0.95
_FEW = 8
_LEVEL_STEPS, _TREND_STEPS = 3.0, 20.0
_EFFECT_S = 60.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """The load to come: expected, and not exceeded in 95 of 100 cases by past errors."""

    times_s: tuple[float, ...]
    mean: tuple[float, ...]
    upper: tuple[float, ...]


def edges(since_s: float, until_s: float, count: int) -> list[float]:
    """Edges of so many stretches of equal length.

    Examples
    --------
    >>> edges(0.0, 60.0, 3)
    [0.0, 20.0, 40.0, 60.0]
    """
    step_s = (until_s - since_s) / count
    return [since_s + step_s * place for place in range(count)] + [until_s]


def read_series(
    store: Store, query: QueryName, metrics: Sequence[Metric], edges_s: Sequence[float]
) -> dict[Metric, list[SeriesBin | None]]:
    """Thinned series; those of the engine are the application's, the CPU is that of all executors together."""
    return {
        metric: store.bins(
            APPLICATION if metric in OF_ENGINE else query, metric, edges_s, subject=None if metric in _BY_PART else ""
        )
        for metric in metrics
    }


def forecast(bins: Sequence[SeriesBin | None], step_s: float) -> Forecast | None:
    """Forecast a load from its means, as far ahead as a seventh of what was seen; None where too little was.

    Examples
    --------
    >>> from penstock.model import SeriesBin
    >>> seen = [SeriesBin(10.0 * place, 1, 100.0, 100.0, 100.0) for place in range(40)]
    >>> [round(value) for value in forecast(seen, 10.0).mean[:2]]
    [100, 100]
    """
    known = [each for each in bins if each is not None]
    if len(known) < _FEW:
        return None
    ahead_s = step_s * max(2, round(_AHEAD_PART * len(bins)))
    # What the members remember goes by the stretches that are charted: minutes of an hour, hours of a week.
    members = (Level(half_life_s=_LEVEL_STEPS * step_s), LinearTrend(window_s=_TREND_STEPS * step_s))
    combined = Combined(members, ahead_s=ahead_s / 2, quantile=_QUANTILE, memory_s=len(bins) * step_s)
    for each in known:
        combined.update(each.time_s, each.mean)
    begin_s = known[-1].time_s
    steps = [step_s * (place + 1) for place in range(round(ahead_s / step_s))]
    means = [combined.predict(later_s) for later_s in steps]
    shown = [(later_s, max(0.0, mean)) for later_s, mean in zip(steps, means, strict=True) if mean is not None]
    return Forecast(
        tuple(begin_s + later_s for later_s, _ in shown),
        tuple(mean for _, mean in shown),
        tuple(combined.bound(mean) for _, mean in shown),
    )


def seen_effect(store: Store, entry: RecordedAction) -> dict[str, float]:
    """What was seen in the minute after a decision, of what it expected."""
    found = {}
    for name in entry.action.expected:
        if name in Metric.__members__.values():
            (after,) = store.bins(entry.action.query, Metric(name), [entry.time_s, entry.time_s + _EFFECT_S])
            if after is not None:
                found[name] = after.mean
    return found


def require_known(store: Store, query: QueryName) -> None:
    """Refuse a query that nothing is recorded of."""
    if store.actions(query=query, last=1):
        return
    known = [str(name) for name in store.queries() if name != APPLICATION]
    if query not in known:
        raise UnknownQueryError(query, known)
