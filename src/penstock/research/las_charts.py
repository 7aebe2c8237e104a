"""Charts of experiment tables, drawn without a display."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Row = dict[str, float | int | str | None]

LOG_AXIS = frozenset({"epsilon", "largest_cost_ms", "threshold_ms"})
SMALLEST_LATENCY_MS = 0.01


def draw_figure(rows: Sequence[Row], path: Path, *, title: str = "") -> Path:
    """Draw mean latency (left) and dropped share (right) against ``x``, one line an algorithm; gives the PNG's path."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    latency, dropped = figure.subplots(1, 2)
    x_name = str(rows[0]["x_name"])
    for algorithm in dict.fromkeys(str(row["algorithm"]) for row in rows):
        own = [row for row in rows if row["algorithm"] == algorithm]
        x = [_number(row["x"]) for row in own]
        # A latency of exactly zero has no place on a logarithmic axis; it is drawn at the bottom.
        waits = [max(_number(row["latency_mean_ms"]), SMALLEST_LATENCY_MS) for row in own]
        latency.plot(x, waits, marker="o", markersize=3, label=algorithm)
        dropped.plot(x, [_number(row["dropped_fraction"]) for row in own], marker="o", markersize=3, label=algorithm)
    thresholds = sorted({(_number(row["x"]), _number(row["threshold_ms"])) for row in rows})
    latency.plot([x for x, _ in thresholds], [max(t, SMALLEST_LATENCY_MS) for _, t in thresholds], "k--", label="tau")
    latency.set(yscale="log", xlabel=x_name, ylabel="mean queueing latency (ms)")
    dropped.set(xlabel=x_name, ylabel="dropped share of rows")
    if x_name in LOG_AXIS:
        for axes in (latency, dropped):
            axes.set_xscale("symlog", linthresh=0.1) if x_name == "threshold_ms" else axes.set_xscale("log")
    latency.legend(fontsize="small")
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    return path


def _number(value: float | str | None) -> float:
    if value is None or isinstance(value, str):
        raise TypeError(f"a chart needs a number, not {value!r}")
    return float(value)
