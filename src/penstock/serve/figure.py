"""A query in one chart, for notebooks: load, latency against its goal, accuracy, backlog, and actions with reasons."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from penstock.model import ActionKind, Metric
from penstock.report.standing import read_standing
from penstock.serve.charts import edges, read_series, require_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model import QueryName, SeriesBin
    from penstock.store import Store

_BINS = 160
_ROWS = (
    ("rows/s", (Metric.ARRIVAL_ROWS_PER_S, Metric.PROCESSED_ROWS_PER_S)),
    ("latency, s", (Metric.OLDEST_ROW_AGE_S, Metric.BATCH_DURATION_S)),
    ("kept", (Metric.MEASURED_ACCURACY, Metric.KEEP_RATIO)),
    ("backlog, rows", (Metric.LAG_ROWS,)),
)
_MARKED = (ActionKind.GOVERN, ActionKind.RELEASE, ActionKind.EXECUTORS, ActionKind.INFEASIBLE, ActionKind.FAULT)
_MARKS = 50
_HEIGHT = 640


def query_figure(store: Store, query: QueryName, *, hours: float, now_s: float) -> Figure:
    """Draw the last hours of a query."""
    require_known(store, query)
    newest = store.points(query, Metric.BATCH_DURATION_S, last=1)
    until_s = min(now_s, newest[-1].time_s + 1.0) if newest else now_s
    since_s = until_s - 3600.0 * hours
    metrics = [metric for _, listed in _ROWS for metric in listed]
    found = read_series(store, query, metrics, edges(since_s, until_s, _BINS))
    figure = make_subplots(rows=len(_ROWS), cols=1, shared_xaxes=True, vertical_spacing=0.04)
    for place, (title, listed) in enumerate(_ROWS, start=1):
        for metric in listed:
            figure.add_trace(_line(metric, found[metric]), row=place, col=1)
        figure.update_yaxes(title_text=title, rangemode="tozero", row=place, col=1)
    goal_s = read_standing(store, query).latency_s
    if goal_s is not None:
        figure.add_hline(y=goal_s, line_dash="dash", line_width=1, annotation_text=f"goal {goal_s:g} s", row=2, col=1)
    for entry in store.actions(query=query, kinds=_MARKED, since_s=since_s, until_s=until_s, last=_MARKS):
        figure.add_vline(x=_moment(entry.time_s), line_width=1, line_dash="dot", line_color="grey")
    figure.update_layout(
        title=str(query), height=_HEIGHT, margin={"t": 48, "b": 32, "l": 64, "r": 16}, hovermode="x unified"
    )
    return figure


def _line(metric: Metric, bins: Sequence[SeriesBin | None]) -> Scatter:
    known = [each for each in bins if each is not None]
    return Scatter(
        x=[_moment(each.time_s) for each in known], y=[each.mean for each in known], mode="lines",
        name=metric.value.replace("_", " "),
    )  # fmt: skip


def _moment(time_s: float) -> datetime:
    return datetime.fromtimestamp(time_s).astimezone()
