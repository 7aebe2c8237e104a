"""Charts of the ACES figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from penstock.research.aces_figures import AcesFigure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.research.aces import Row

_AXES = {
    AcesFigure.LATENCY: ("buffer_rows", "latency_mean_ms", "latency_std_ms"),
    AcesFigure.TRADE_OFF: ("weighted_rows_per_s", "latency_mean_ms", "latency_half_width_95_ms"),
    AcesFigure.BURSTINESS: ("burstiness_rows", "weighted_rows_per_s", "weighted_half_width_95_rows_per_s"),
    AcesFigure.ROBUSTNESS: ("allocation_error", "weighted_rows_per_s", "weighted_half_width_95_rows_per_s"),
}
_WORDS = {
    "buffer_rows": "buffer (rows)",
    "latency_mean_ms": "mean end-to-end latency (ms)",
    "weighted_rows_per_s": "weighted throughput (rows/s)",
    "burstiness_rows": "mean time in a state (mean row times)",
    "allocation_error": "error of CPU targets (standard deviation, share)",
}


def draw_aces(figure: AcesFigure, rows: Sequence[Row], path: Path) -> Path:
    """Draw one figure, a line a policy; bars are one deviation of latency in figure 3, 95 % intervals elsewhere."""
    canvas = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots()
    x_name, y_name, bar_name = _AXES[figure]
    for policy in dict.fromkeys(str(row["policy"]) for row in rows):
        own = sorted((row for row in rows if row["policy"] == policy), key=lambda row: _number(row[x_name]))
        x, y = [_number(row[x_name]) for row in own], [_number(row[y_name]) for row in own]
        bars = [_number(row[bar_name]) for row in own]
        axes.errorbar(x, y, yerr=bars, marker="o", markersize=3, capsize=2, label=policy)
    axes.set(xlabel=_WORDS[x_name], ylabel=_WORDS[y_name])
    if x_name in {"buffer_rows", "burstiness_rows"}:
        axes.set_xscale("log")
    axes.legend(fontsize="small")
    canvas.suptitle(f"ACES, {'robustness' if figure is AcesFigure.ROBUSTNESS else f'figure {figure.value}'}")
    canvas.savefig(path, dpi=120)
    return path


def _number(value: float | str | None) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
